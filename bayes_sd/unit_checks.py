"""Signs that a column of a table of runs is in the wrong unit or under the wrong name.

Three identities hold whatever the engine: a request's end-to-end time contains its time to first
token; e2e = ttft + (tokens - 1) tpot; and Little's law, mean number in the system = arrival rate x
mean time in it [1]_. A factor near 1000 in one of them is milliseconds.

References
----------
.. [1] J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9
   (1961), 383-387.
"""

import warnings

import numpy as np
import pandas as pd

from bayes_sd.exceptions import LittlesLawWarning, UnitError, UnitWarning
from bayes_sd.schema import LATENCIES, STATISTICS
from bayes_sd.validate import Problem, name_rows, raise_problems

MILLI = (100.0, 10_000.0)  # a ratio in here is a factor of 1000 with a large error
PARTS_TOLERANCE = 0.25
LITTLE_TOLERANCE = 1.5
SLOW_TPOT_S = 1.0


def _repair(frame: pd.DataFrame, latencies: tuple[str, ...], rows: list, number: int) -> str:
    """Return the line that divides the columns of some latencies by 1000."""
    names = [f"{statistic}_{latency}_s" for latency in latencies for statistic in STATISTICS]
    present = [name for name in names if name in frame and frame[name].notna().any()]
    columns = ", ".join(f'"{name}"' for name in present)
    if len(rows) == len(frame):
        return f"frame[[{columns}]] /= 1000"
    where = f"{rows!r}" if len(rows) <= 10 else f"error.problems[{number}].rows"
    return f"frame.loc[{where}, [{columns}]] /= 1000"


def _number_in_system_ratio(frame: pd.DataFrame) -> pd.Series:
    """Rate x latency over the number in the system; NaN where it cannot be told."""
    is_closed = frame["load_kind"] == "closed"
    rate = frame["completed_rate_rps"].where(is_closed, frame["request_rate_rps"])
    number = frame["concurrency"].where(is_closed, frame["mean_in_system_requests"])
    ratio = rate * frame["mean_e2e_s"] / number.where(number > 0)
    return ratio.mask(frame["is_throughput_test"])


def _unit_problems(frame: pd.DataFrame) -> list[Problem]:
    e2e, ttft, tpot = (frame[f"mean_{name}_s"] for name in ("e2e", "ttft", "tpot"))
    decode = (frame["output_len_tokens"] - 1) * tpot
    ratio = _number_in_system_ratio(frame)
    in_system = frame["request_rate_rps"] * e2e
    crowded = in_system.gt(10 * frame["num_requests"]) & (frame["load_kind"] == "open")
    ttft_high = ttft > e2e * (1 + 1e-6)
    tpot_high = decode > 50 * e2e
    e2e_high = (ttft + decode) < e2e / 50
    all_high = (ratio.between(*MILLI) | crowded) & ~(e2e_high | ttft_high | tpot_high)
    checks = [
        (
            ttft_high,
            ("ttft",),
            "mean_e2e_s is below mean_ttft_s, but the end-to-end time contains the time to first "
            "token. If the time to first token is in milliseconds",
        ),
        (
            tpot_high,
            ("tpot",),
            "mean_tpot_s x (output_len_tokens - 1) is more than 50 times mean_e2e_s. Time per "
            "output token seems to be in milliseconds; if so",
        ),
        (
            e2e_high,
            ("e2e",),
            "mean_e2e_s is more than 50 times mean_ttft_s + (output_len_tokens - 1) x "
            "mean_tpot_s. The end-to-end time seems to be in milliseconds; if so",
        ),
        (
            all_high,
            LATENCIES,
            "rate x mean_e2e_s is about 1000 times the number of requests that can be in the "
            "system. The latencies seem to be in milliseconds; if so",
        ),
    ]
    for latency in LATENCIES:
        mean, p50 = frame[f"mean_{latency}_s"], frame[f"p50_{latency}_s"]
        checks.append(
            (
                p50 > 100 * mean,
                (latency,),
                f"p50_{latency}_s is more than 100 times mean_{latency}_s: one of them is in "
                "milliseconds. Divide the one that is, such as",
            )
        )
    problems: list[Problem] = []
    for found, latencies, message in checks:
        rows = list(frame.index[found.fillna(False)])
        if rows:
            line = _repair(frame, latencies, rows, len(problems))
            text = f"{message} ({name_rows(rows)}): {line}"
            problems.append(Problem(text, rows))
    small = ratio.between(1 / MILLI[1], 1 / MILLI[0])
    if small.any():
        rows = list(frame.index[small])
        text = (
            f"rate x mean_e2e_s is about 1/1000 of the number in the system ({name_rows(rows)}). "
            "Rates must be per second and latencies in seconds; a rate per millisecond is "
            'repaired by: frame["request_rate_rps"] *= 1000'
        )
        problems.append(Problem(text, rows))
    return problems


def check_units(frame: pd.DataFrame) -> None:
    """Raise or warn where columns of a cleaned table contradict each other.

    Parameters
    ----------
    frame : pandas.DataFrame
        Table with all columns of the schema, numbers already parsed.

    Raises
    ------
    UnitError
        If a factor near 1000 shows milliseconds, with the line that repairs it.

    Warns
    -----
    UnitWarning
        If e2e and ttft + (tokens - 1) tpot differ by more than a quarter, or tokens take more
        than a second each.
    LittlesLawWarning
        If rate x latency and the number in the system differ by more than half.
    """
    raise_problems(_unit_problems(frame), UnitError, "the table of runs")
    decode = (frame["output_len_tokens"] - 1) * frame["mean_tpot_s"]
    parts = (frame["mean_ttft_s"] + decode) / frame["mean_e2e_s"]
    odd = (parts - 1).abs() > PARTS_TOLERANCE
    if odd.any():
        rows = list(frame.index[odd])
        warnings.warn(
            "mean_ttft_s + (output_len_tokens - 1) x mean_tpot_s differs from mean_e2e_s by more "
            f"than {PARTS_TOLERANCE:.0%} ({name_rows(rows)}; the ratio is "
            f"{parts[odd].min():.3g} to {parts[odd].max():.3g}). Check that mean_tpot_s is per "
            "token (with speculation the time between deliveries, itl, is per step) and that "
            "output_len_tokens is the measured mean, not the asked one.",
            UnitWarning,
            stacklevel=3,
        )
    slow = frame["mean_tpot_s"] > SLOW_TPOT_S
    if slow.any():
        rows = list(frame.index[slow])
        warnings.warn(
            f"mean_tpot_s is above {SLOW_TPOT_S:g} s per token ({name_rows(rows)}). If the "
            "latencies are in milliseconds: " + _repair(frame, LATENCIES, rows, 0),
            UnitWarning,
            stacklevel=3,
        )
    ratio = _number_in_system_ratio(frame)
    unlike = np.abs(np.log(ratio)) > np.log(LITTLE_TOLERANCE)
    if unlike.any():
        rows = list(frame.index[unlike])
        warnings.warn(
            "Little's law: rate x mean_e2e_s differs from the number in the system by more than a "
            f"factor of {LITTLE_TOLERANCE:g} ({name_rows(rows)}; the ratio is "
            f"{ratio[unlike].min():.3g} to {ratio[unlike].max():.3g}). The rate must be arrivals "
            "per second of the measured window; a load that still grows when the run ends also "
            "looks like this.",
            LittlesLawWarning,
            stacklevel=3,
        )
