"""How AIPerf or GenAI-Perf loaded a server: open at a rate, or closed at a number in flight.

``input_config`` says it in one of four forms: ``loadgen`` (early AIPerf, such as 0.3), ``phases``
(later AIPerf, such as 0.10 and 0.13), ``concurrency`` and ``request_rate`` at its top (GenAI-Perf),
or ``perf_analyzer.stimulus`` (GenAI-Perf 0.0.16). Options that were not set are left out of it.
"""

import math
from dataclasses import dataclass
from typing import Any

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.reading import Cells, Fields, Reading
from bayes_sd.readers.requests import CONSTANT_VARIATION, POISSON_VARIATION

RATE_ASKED = (
    "request_rate_rps is the rate asked for: a summary has no times of requests, and completed / "
    "duration contains the drain at the end."
)
PATTERNS = ("poisson", "constant", "gamma")
RAMPS = (
    "request_rate_ramp_duration",
    "concurrency_ramp_duration",
    "rate_ramp",
    "concurrency_ramp",
    "rate_series",
    "adaptive_scale",
)
MAX_RAMP_SHARE = 0.1
FELL_BEHIND = 0.8
MIN_REQUESTS = 20  # with fewer, chance alone moves the rate of a Poisson process that far


@dataclass(frozen=True)
class _Asked:
    """What a run was asked to do.

    Attributes
    ----------
    rate_rps, concurrency : float
        NaN where not asked for.
    pattern : str
        ``poisson``, ``constant``, ``gamma``, ``closed``, or another mode of the tool.
    shape : float
        Shape of gamma-distributed gaps: 1 is a Poisson process.
    source : Fields
        Where it stands.
    """

    rate_rps: float
    concurrency: float
    pattern: str
    shape: float
    source: Fields


def profiling_phases(fields: Fields) -> list[Fields]:
    """Return the phases of a run that are measured, not those that warm up."""
    asked = fields.part("input_config")
    phases = [
        Fields(phase, asked.at(f"phases {number}"))
        for number, phase in enumerate(asked.items("phases"), 1)
    ]
    return [p for p in phases if "warmup" not in (p.text("name"), p.text("kind"))]


def load_cells(fields: Fields, run: Cells, phase: str, reading: Reading) -> Cells:
    """Return how a run was loaded; nothing where the file does not tell, with a note.

    Parameters
    ----------
    fields : Fields
        The whole summary.
    run : dict
        Its cells so far: requests, latencies, duration.
    phase : str
        Name of the phase that the summary is of; empty for a whole run.
    reading : Reading
        Takes the notes.

    Raises
    ------
    FormatError
        If the load changed during the run, so that there is no one load.
    """
    asked = _asked(fields, phase)
    if asked is None:
        reading.note(
            "the file does not tell how the run was loaded. Give load_kind='closed' and "
            "concurrency, or load_kind='open' and request_rate_rps."
        )
        return {}
    _refuse_ramps(asked.source, run)
    if asked.pattern == "closed" and asked.concurrency >= 1:
        return _closed(asked, run, reading)
    if asked.pattern in PATTERNS and asked.rate_rps > 0:
        return _open(asked, run, reading)
    reading.note(
        f"requests were sent in the mode {asked.pattern!r}, which is no open load of one rate and "
        "no fixed number in flight. Give load_kind and its figure if one of them is near."
    )
    return {}


def _asked(fields: Fields, phase: str) -> _Asked | None:
    asked = fields.part("input_config")
    if "phases" in asked:
        return _asked_of_phases(fields, phase)
    if "loadgen" in asked:
        return _asked_of_loadgen(asked)
    source = asked.part("perf_analyzer") if "perf_analyzer" in asked else asked
    source = source.part("stimulus") if "stimulus" in source else source
    rate, concurrency = source.number("request_rate"), source.count("concurrency")
    for name in ("session_concurrency", "session_request_rate"):
        if source.number(name) > 0:
            return _Asked(math.nan, math.nan, name, math.nan, source)
    if rate > 0:  # its load generator spaces requests evenly, unless told otherwise
        return _Asked(rate, math.nan, "constant", math.nan, source)
    if concurrency >= 1:
        return _Asked(math.nan, concurrency, "closed", math.nan, source)
    return None


def _asked_of_phases(fields: Fields, name: str) -> _Asked:
    """Return the load of the one measured phase, or of the one that is named."""
    phases = profiling_phases(fields)
    found = [p for p in phases if p.text("name") == name] if name else phases
    if len(found) != 1:
        names = ", ".join(p.text("name") for p in found) or "none"
        raise FormatError(
            f"input_config.phases must have one measured phase. Got {names} instead: figures over "
            "several loads say nothing of one. Read the files in phases/ one by one."
        )
    (phase,) = found
    kind = phase.text("type").lower()
    concurrency = phase.count("concurrency")
    if kind == "concurrency":  # 1 unless told otherwise
        concurrency = 1.0 if math.isnan(concurrency) else concurrency
        return _Asked(math.nan, concurrency, "closed", math.nan, phase)
    return _Asked(
        phase.number("rate"), concurrency, kind or "unknown", phase.number("smoothness"), phase
    )


def _asked_of_loadgen(asked: Fields) -> _Asked | None:
    load = asked.part("loadgen")
    rate, concurrency = load.number("request_rate"), load.count("concurrency")
    pattern = load.text("arrival_pattern", "request_rate_mode").lower() or "poisson"
    shape = load.number("arrival_smoothness")
    if load.number("user_centric_rate") > 0:
        return _Asked(math.nan, math.nan, "user_centric", math.nan, load)
    if asked.part("input").values.get("fixed_schedule") is True:
        return _Asked(math.nan, math.nan, "fixed_schedule", math.nan, load)
    if rate > 0:
        return _Asked(rate, concurrency, pattern, shape, load)
    if concurrency >= 1:
        return _Asked(math.nan, concurrency, "closed", math.nan, load)
    return None


def _refuse_ramps(source: Fields, run: Cells) -> None:
    """Refuse a run whose load changed for more than a small part of it."""
    for name in RAMPS:
        ramp: Any = source.values.get(name)
        if ramp is None or ramp is False:
            continue
        if isinstance(ramp, dict):
            length = source.part(name).number("duration")
        else:
            length = math.nan if ramp is True else source.number(name)
        if not length <= MAX_RAMP_SHARE * run["_duration_s"]:
            raise FormatError(
                f"{source.at(name)} must be absent, or at most {MAX_RAMP_SHARE:.0%} of the run's "
                "time: the load changed during the run, which has no one load. Run each load by "
                "itself."
            )


def _closed(asked: _Asked, run: Cells, reading: Reading) -> Cells:
    burst = run["num_requests"] <= asked.concurrency
    if burst:
        reading.note(
            f"{run['num_requests']:.0f} requests at most {asked.concurrency:.0f} at a time were "
            "all sent at once: a burst, not a steady load (is_throughput_test)."
        )
    return {
        "load_kind": "closed",
        "arrivals": "closed",
        "concurrency": asked.concurrency,
        "is_throughput_test": burst,
    }


def _open(asked: _Asked, run: Cells, reading: Reading) -> Cells:
    reading.note(RATE_ASKED)
    latency = run.get("p99_e2e_s", math.nan)
    latency = latency if math.isfinite(latency) else run.get("mean_e2e_s", math.nan)
    left = run["_duration_s"] - latency
    rate = (run["num_requests"] - 1) / left if left > 0 else math.nan
    if run["num_requests"] >= MIN_REQUESTS and rate < FELL_BEHIND * asked.rate_rps:
        reading.note(
            f"{run['num_requests']:.0f} requests in {run['_duration_s']:.3g} s, of which the last "
            f"one took about {latency:.3g} s, make {rate:.3g} per second, not the "
            f"{asked.rate_rps:.3g} asked for: the client or the server fell behind."
        )
    return {
        "load_kind": "open",
        "arrivals": _arrivals(asked, reading),
        "request_rate_rps": asked.rate_rps,
        "target_rate_rps": asked.rate_rps,
        "client_cap": asked.concurrency,
    }


def _arrivals(asked: _Asked, reading: Reading) -> str:
    """Name arrivals by the variation of their gaps; of the gamma distribution, shape ** -0.5."""
    if asked.pattern != "gamma":
        return asked.pattern
    if not asked.shape > 0:
        return "poisson"
    variation = asked.shape**-0.5
    if variation < CONSTANT_VARIATION:
        return "constant"
    if variation < POISSON_VARIATION[0]:
        reading.note(
            f"gaps between requests vary by {variation:.2f} of their mean (smoothness "
            f"{asked.shape:g}), between constant and poisson: taken for poisson, which queues more."
        )
    return "bursty" if variation > POISSON_VARIATION[1] else "poisson"
