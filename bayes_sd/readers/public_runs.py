"""A table of runs with the column names of the collected public measurements.

One row per run, as in a table of the library, with other names: lengths are ``isl`` and ``osl``,
rates have other meanings, and some figures stand in the text of ``note``. What happens to each
column is said once, in `FATE`.
"""

import re
from collections.abc import Collection

from bayes_sd.readers.reading import Cells, Reading, is_blank
from bayes_sd.schema import LATENCIES, STATISTICS

_SAME = (
    *("source_id", "run_id", "sweep_id", "family_id", "engine", "engine_version", "hardware"),
    *("verifier", "verifier_params_b", "experts_per_token", "dtype", "drafter"),
    *("drafter_params_b", "method", "load_kind", "concurrency", "client_cap", "workload"),
    *("date", "note"),
    *(f"{s}_{latency}_s" for latency in LATENCIES if latency != "itl" for s in STATISTICS),
)
# What each column becomes. None of them is left out; three are changed on the way, in `complete`.
FATE = {name: name for name in _SAME} | {
    "tp": "tensor_parallel_size",
    "verifier_active_b": "verifier_active_params_b",
    "n_experts": "num_experts",
    "k": "num_speculative_tokens",
    "isl": "input_len_tokens",
    "osl": "output_len_tokens",
    "n_requests": "num_requests",
    # There, request_rate_rps is what the load tool was asked for, and what came is another column.
    "request_rate_rps": "target_rate_rps",
    "arrival_rate_rps": "request_rate_rps",
    "achieved_rps": "completed_rate_rps",
    "output_tok_s": "output_tokens_per_s",
    "acceptance_rate": "draft_acceptance_rate",
    "mean_accept_len": "mean_acceptance_length",
    "per_position_acceptance": "acceptance_per_position",
    "forced_alpha": "forced_acceptance_rate",
    "mean_running": "mean_in_system_requests",
}
MARKS = ("source_id", "load_kind", "isl", "osl", "n_requests", "k", "achieved_rps")
ATOM = "rocm-atom-dashboard"
ATOM_REQUESTS_PER_CLIENT = 10
MAX_SEQS = re.compile(r"max[-_ ](?:num[-_ ])?seqs (\d{1,9})\b")


def is_public_runs(names: Collection[str]) -> bool:
    """Tell whether a table has these names of columns."""
    return all(name in names for name in MARKS)


def complete(run: Cells, reading: Reading) -> Cells:
    """Settle what the names alone do not: rates, arrivals, and figures that the note holds.

    Parameters
    ----------
    run : dict
        Cells of one run, already by the names of `FATE`.
    reading : Reading
        Gets a note for everything that is assumed.

    Returns
    -------
    dict
        Cells by the schema.
    """
    run = dict(run)
    note = str(run.get("note", ""))
    if found := MAX_SEQS.search(note):
        run["max_num_seqs"] = int(found[1])
    if "throughput test" in note:
        run["is_throughput_test"] = True
        reading.note(
            "runs whose note says 'throughput test' are marked is_throughput_test: requests still "
            "waiting at its end are not in their figures."
        )
    if run.get("load_kind") == "closed":
        _closed(run, reading)
    elif run.get("load_kind") == "open":
        _open(run, note, reading)
    if "mean_in_system_requests" in run:
        _in_system(run, note, reading)
    if run.get("source_id") == ATOM:
        _atom(run, reading)
    return run


def _closed(run: Cells, reading: Reading) -> None:
    run["arrivals"] = "closed"
    if run.pop("request_rate_rps", None) is not None:
        reading.note(
            "arrival_rate_rps of closed-loop runs is not used: the rate is a result there, not a "
            "setting."
        )


def _open(run: Cells, note: str, reading: Reading) -> None:
    lowered = note.lower()
    if "poisson" in lowered:
        run["arrivals"] = "poisson"
    elif "constant rate" in lowered:
        run["arrivals"] = "constant"
    if "request_rate_rps" in run or "target_rate_rps" not in run:
        return
    if "vllm bench serve" in lowered:
        run["request_rate_rps"] = run["target_rate_rps"]
        reading.note(
            "request_rate_rps of runs of vllm bench serve is the rate asked for: the tool scales "
            "its gaps so that they add up to requests / rate, and achieved_rps contains the drain "
            "at the end."
        )
    else:
        reading.note(
            "open-loop runs without arrival_rate_rps, of a tool that is not named, have no "
            "request_rate_rps: their request_rate_rps is the rate asked for (target_rate_rps). If "
            "the tool kept to it, give request_rate_rps as side information."
        )


def _in_system(run: Cells, note: str, reading: Reading) -> None:
    if "p50 of the running gauge" in note:
        del run["mean_in_system_requests"]
        reading.note(
            "mean_running is not used where the note says that it holds the median of a gauge: a "
            "median is no mean."
        )
    elif "GuideLLM" in str(run.get("workload", "")):
        reading.note(
            "mean_in_system_requests of GuideLLM runs is rate x latency as the tool computed it, "
            "not a second measurement."
        )


def _atom(run: Cells, reading: Reading) -> None:
    """Name the version once, and the number of requests by the project's published commands."""
    image, commit = run.get("engine_version"), str(run.get("run_id", "")).partition("|")[0]
    if image and commit:
        run["engine_version"] = f"commit {commit}"
        run["note"] = f"{run['note']}; image {image}" if run.get("note") else f"image {image}"
        reading.note(
            "engine_version of ATOM runs is the commit in run_id: one image has several names "
            "within a night. The image is added to note."
        )
    if is_blank(run.get("num_requests")) and not is_blank(run.get("concurrency")):
        run["num_requests"] = ATOM_REQUESTS_PER_CLIENT * run["concurrency"]
        reading.note(
            f"num_requests of ATOM runs is {ATOM_REQUESTS_PER_CLIENT} x concurrency, as the "
            "project's published commands ask for; the dashboard does not record it."
        )
