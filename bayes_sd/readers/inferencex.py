"""Aggregates of InferenceX (InferenceMAX): ``agg_*.json``, lists of them, rows of its web API.

Times are **seconds**, rates tokens per second and GPU. Each run is a closed loop at ``conc``. The
aggregate lacks the number of requests and their real lengths; what its other figures tell of them
is worked out and noted. Field names and meanings: InferenceX [1]_, Apache-2.0.

References
----------
.. [1] https://github.com/SemiAnalysisAI/InferenceX/blob/main/utils/process_result.py
"""

import math
from typing import Any

import pandas as pd

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Fields, Reading, is_blank, short
from bayes_sd.schema import METHODS

KINDS = {"e2e": "e2el", "ttft": "ttft", "tpot": "tpot", "itl": "itl"}
STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}
RATES = ("tput_per_gpu", "output_tput_per_gpu")
TOKEN_POSITION = ("good_completed", "median_tpot", "p99_tpot", "completed", "duration")
LIKELY_LENGTHS = (0.3, 1.2)  # real over nominal, beyond which one of them is something else
WHOLE_TOLERANCE = 0.05  # of requests, from energies printed to 6 decimals


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object is an aggregate, a row of the API, or of token positions."""
    if isinstance(sample, list) and sample:
        sample = sample[0]
    if not isinstance(sample, dict):
        return False
    if all(name in sample for name in TOKEN_POSITION):
        return True
    is_row = "hardware" in sample and isinstance(sample.get("metrics"), dict)
    is_aggregate = "hw" in sample and (
        any(name in sample for name in RATES) or "request_metrics" in sample
    )
    return (is_row or is_aggregate) and "conc" in sample and "framework" in sample


def read(content: Content) -> Reading:
    """Read one aggregate, a list of them, or one a line."""
    reading = Reading()
    reading.each(content.entries(), lambda fields: _run(fields, reading))
    return reading


def _run(fields: Fields, reading: Reading) -> tuple[Cells, pd.DataFrame | None]:
    if "good_completed" in fields.values and "hw" not in fields.values:
        return _token_position(fields, reading), None
    kind = fields.text("scenario_type", "benchmark_type").lower()
    if "request_metrics" in fields or "agentic" in kind:
        raise FormatError(
            f"{fields.at('scenario_type')} must be of single requests. Got a replay of agents' "
            "sessions instead: their prompts grow and hit the cache, and conc counts sessions, not "
            "requests in flight. Read AIPerf's files of the run if they are at hand."
        )
    metrics = fields.part("metrics") if "metrics" in fields else fields
    run = _latencies(metrics)
    if all(is_blank(value) for value in run.values()):
        raise FormatError(f"{fields.at('mean_e2el')} is missing, as are all latencies.")
    concurrency = fields.count("conc")
    if not concurrency > 0:
        raise fields.wrong("conc", "at least 1")
    run |= {
        "engine": fields.text("framework"),
        "engine_version": fields.text("image"),
        "hardware": fields.text("hw", "hardware"),
        "dtype": fields.text("precision"),
        "verifier": fields.text("model"),
        "tensor_parallel_size": fields.count("tp", "decode_tp") or math.nan,
        "load_kind": "closed",
        "arrivals": "closed",
        "concurrency": concurrency,
        "date": fields.text("date")[:10],
        "note": _note(fields),
    }
    run |= _drafting(fields, reading)
    run |= _totals(fields, metrics, run, reading)
    if _is(fields, "disagg"):
        reading.note(
            "prompts and answers were computed by separate GPUs (disagg); a fit takes them for one "
            "pool."
        )
    if "metrics" in fields:
        reading.note("verifier is the short name of the web API. Give verifier=... for the model.")
    return run, None


def _latencies(metrics: Fields) -> Cells:
    return {
        f"{statistic}_{kind}_s": metrics.number(f"{word}_{name}") or math.nan
        for kind, name in KINDS.items()
        for statistic, word in STATISTICS.items()
    }


def _is(fields: Fields, name: str) -> bool:
    """Tell whether a flag is set, as true or as the text that some of them are."""
    return fields.values.get(name) is True or fields.text(name).lower() in ("true", "on")


def _note(fields: Fields) -> str:
    """Say what of the deployment has no column."""
    parts = [f"{name} {fields.count(name):.0f}" for name in ("ep", "pp") if fields.count(name) > 1]
    flags = ("dp_attention", "decode_dp_attention", "disagg", "is_multinode")
    parts += [name for name in flags if _is(fields, name)]
    return ", ".join([*parts, fields.text("run_url")]).strip(", ")


def _drafting(fields: Fields, reading: Reading) -> Cells:
    """Return the method; the files tell no draft length and no acceptance."""
    name = fields.text("spec_decoding", "spec_method", "mtp").lower()
    if name in ("none", "off", "false"):
        return {"method": "none", "num_speculative_tokens": 0}
    if not name:
        return {}
    reading.note(
        f"the server drafted ({short(name)}); draft length and acceptance stand in the launch "
        "script of the configuration only. Give num_speculative_tokens and "
        "mean_acceptance_length; acceptance is forced to a set length from mid 2026."
    )
    if name in METHODS and name != "mtp":
        return {"method": name}
    reading.note(f"{short(name)} stands for EAGLE-3 and DSpark heads too. Give method and drafter.")
    return {}


def _totals(fields: Fields, metrics: Fields, run: Cells, reading: Reading) -> Cells:
    """Return requests, lengths and rates, from energy or from latencies where they tell them."""
    cells = _of_energy(metrics)
    if cells:
        reading.note(
            "num_requests, lengths and rates are the run's energy over its energy per request and "
            "per token."
        )
        return cells
    reading.note(
        "num_requests is not in the aggregate: read the result file beside it instead, or give "
        "num_requests. Most of the project's scripts send 10 requests for each kept in flight, "
        "some 20 or 50."
    )
    nominal = {"input_len_tokens": fields.number("isl"), "output_len_tokens": fields.number("osl")}
    tpot = run["mean_tpot_s"]
    output = 1 + (run["mean_e2e_s"] - run["mean_ttft_s"]) / tpot
    ratio = metrics.number("input_tput_per_gpu") / (
        metrics.number("output_tput_per_gpu") or math.nan
    )
    single_pool = not _is(fields, "disagg")
    found = {"input_len_tokens": output * ratio if single_pool else math.nan}
    found["output_len_tokens"] = output
    low, high = LIKELY_LENGTHS
    likely = all(low < found[n] / nominal[n] < high for n in nominal if nominal[n] > 0)
    if likely and 1 <= output < math.inf and found["input_len_tokens"] > 0:
        reading.note(
            "lengths are worked out: answers 1 + (e2e - ttft) / tpot, prompts by input over output "
            "tokens per second. isl and osl are the largest, of which requests have about 0.9."
        )
        rate = metrics.number("output_tput_per_gpu") * _gpus(fields)
        return found | {"output_tokens_per_s": rate, "completed_rate_rps": rate / output}
    reading.note(
        "lengths are the nominal isl and osl; real ones are about 0.9 of them. The result file "
        "beside the aggregate has them."
    )
    return {name: value or math.nan for name, value in nominal.items()}


def _of_energy(metrics: Fields) -> Cells:
    """Return what follows from energy per request and per token, where power was measured."""
    energy, power = metrics.number("total_gpu_energy_j"), metrics.number("avg_total_gpu_power_w")
    per = [
        metrics.number(f"joules_per_{n}")
        for n in ("successful_query", "input_token", "output_token")
    ]
    if metrics.number("power_valid") != 1 or not all(x > 0 for x in (energy, power, *per)):
        return {}
    requests, inputs, outputs = (energy / joules for joules in per)
    whole = round(requests) if requests < 1e9 else 0
    if whole < 1 or abs(requests - whole) > WHOLE_TOLERANCE or outputs < whole:
        return {}
    return {
        "num_requests": float(whole),
        "input_len_tokens": inputs / whole,
        "output_len_tokens": outputs / whole,
        "completed_rate_rps": whole * power / energy,
        "output_tokens_per_s": outputs * power / energy,
        "_duration_s": energy / power,
    }


def _gpus(fields: Fields) -> float:
    """Return the GPUs of a single pool; NaN where the file does not tell."""
    if "num_gpus" in fields:
        return fields.count("num_gpus")
    if "tp" not in fields or _is(fields, "is_multinode"):
        return math.nan
    sizes = [fields.count(name) for name in ("tp", "pp", "pcp_size")]
    return math.prod(1.0 if math.isnan(size) else size for size in sizes) or math.nan


def _token_position(fields: Fields, reading: Reading) -> Cells:
    """Return a run of the token-position study: medians and p99 without means."""
    completed = fields.completed()
    asked, cap = fields.any_number("request_rate"), fields.count("max_concurrency") or math.nan
    reading.note("the file has medians and p99 only, no means.")
    run = _latencies(fields) | {
        "verifier": fields.text("model_id"),
        "num_requests": completed,
        "input_len_tokens": fields.number("total_input_tokens") / completed or math.nan,
        "output_len_tokens": fields.number("total_output_tokens") / completed or math.nan,
        "completed_rate_rps": fields.number("request_throughput"),
        "output_tokens_per_s": fields.number("output_throughput"),
        "_duration_s": fields.number("duration"),
        "client_cap": cap,
    }
    if asked <= 0:
        raise fields.wrong("request_rate", "above 0")
    if math.isnan(asked):
        reading.note("request_rate is missing, so the load is not known. Give load_kind=... .")
        return run
    if math.isfinite(asked):
        reading.note("request_rate_rps is the rate asked for: the file lists no send times.")
        return run | {"load_kind": "open", "request_rate_rps": asked, "target_rate_rps": asked}
    return run | {
        "load_kind": "closed",
        "arrivals": "closed",
        "concurrency": completed if math.isnan(cap) else cap,
        "is_throughput_test": not completed > cap,
        "client_cap": math.nan,
    }
