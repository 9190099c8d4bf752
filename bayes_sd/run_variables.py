"""The variables of the data set that follow from single columns of the table of runs."""

import warnings

import numpy as np
import pandas as pd

from bayes_sd.exceptions import AssumptionWarning
from bayes_sd.run_checks import parse_positions
from bayes_sd.schema import LATENCIES, STATISTICS, column
from bayes_sd.validate import name_rows

CAP_SHARE = 0.9
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
RUN_NUMBERS = (
    "request_rate_rps",
    "concurrency",
    "completed_rate_rps",
    "num_draft_steps",
    "num_verified_tokens",
    "input_len_tokens",
    "output_len_tokens",
    "mean_e2e_s",
    "mean_ttft_s",
    "mean_tpot_s",
    "mean_in_system_requests",
    "other_load_cores",
    "forced_acceptance_rate",
    "mean_acceptance_length",
    "num_drafts",
    "num_accepted_tokens",
)

Variable = tuple[tuple[str, ...] | str, object, dict[str, str]]


def load_variables(frame: pd.DataFrame) -> dict[str, Variable]:
    """Say what controls each run, and how many requests it held."""
    cap = frame[["client_cap", "max_num_seqs"]].min(axis=1).to_numpy(dtype=float)
    is_open = (frame["load_kind"] == "open").to_numpy(dtype=bool)
    in_system = (frame["request_rate_rps"] * frame["mean_e2e_s"]).to_numpy(dtype=float)
    is_capped = is_open & (in_system > CAP_SHARE * cap)
    control = np.where(is_capped, "cap", np.where(is_open, "open", "closed"))
    concurrency = frame["concurrency"].to_numpy(dtype=float)
    queued = ~is_open & (concurrency > frame["max_num_seqs"].to_numpy(dtype=float))
    if queued.any():
        warnings.warn(
            "closed-loop runs keep more requests in flight than max_num_seqs "
            f"({name_rows(list(frame.index[queued]))}). They are taken as if all were in the "
            "batch, though some wait in the engine's queue: leave them out, or correct "
            "max_num_seqs.",
            AssumptionWarning,
            stacklevel=4,
        )
    name = "open, closed, or cap: an open loop within a tenth of its limit on requests in flight"
    batch = "Mean requests in the system: rate x latency, or the concurrency of a closed loop"
    return {
        "control": ("run", control, {"units": "", "long_name": name}),
        "cap_requests": (
            "run",
            cap,
            {"units": "requests", "long_name": "The lower of client_cap and max_num_seqs"},
        ),
        "effective_batch_observed": (
            "run",
            np.where(is_open, in_system, concurrency),
            {"units": "requests", "long_name": batch},
        ),
    }


def with_derived_latency(frame: pd.DataFrame) -> pd.DataFrame:
    """Fill blank ``mean_e2e_s`` with ttft + (output_len - 1) tpot where both are known.

    By the definition of tpot as (e2e - ttft) / (tokens - 1): exact for runs of one answer length,
    and a mean of products taken for a product of means else. At most two of the three times are
    data, so nothing is counted twice.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cleaned table of runs.

    Returns
    -------
    pandas.DataFrame
        A copy.
    """
    decoding = (frame["output_len_tokens"] - 1) * frame["mean_tpot_s"]
    return frame.assign(mean_e2e_s=frame["mean_e2e_s"].fillna(frame["mean_ttft_s"] + decoding))


def column_variables(frame: pd.DataFrame) -> dict[str, Variable]:
    """Take over the columns that need no computation."""
    variables: dict[str, Variable] = {}
    for name in RUN_NUMBERS:
        variables[name] = ("run", frame[name].to_numpy(dtype=float), describe(name))
    is_closed = frame["load_kind"] == "closed"
    for name, hidden in (("request_rate_rps", is_closed), ("concurrency", ~is_closed)):
        values = frame[name].mask(hidden).to_numpy(dtype=float)
        variables[name] = ("run", values, describe(name))
    for name in ("num_speculative_tokens", "num_requests"):
        variables[name] = ("run", frame[name].to_numpy(dtype=np.int64), describe(name))
    about_rate = "Conditional rate of every position, where it is forced, or that of a mean length"
    variables["known_acceptance_rate"] = (
        "run",
        frame["known_acceptance_rate"].to_numpy(dtype=float),
        {"units": "1", "long_name": about_rate},
    )
    for name in ("arrivals", "source_id"):
        variables[name] = ("run", np.array(frame[name].tolist(), dtype=str), describe(name))
    loaded = (frame["method"] != "none").to_numpy(dtype=bool)
    about = {
        "units": "",
        "long_name": "Whether the server was started with speculation, even if k = 0",
    }
    variables["is_speculation_loaded"] = ("run", loaded, about)
    for latency in LATENCIES:
        names = [f"{p}_{latency}_s" for p in STATISTICS if p in QUANTILES]
        table = frame[names].to_numpy(dtype=float)
        if not np.isnan(table).all():
            text = {"units": "s", "long_name": f"Quantiles over requests of {latency}"}
            variables[f"{latency}_quantile_s"] = (("run", "quantile"), table, text)
    return variables


def routing_variables(frame: pd.DataFrame) -> dict[str, Variable]:
    """Return the imbalance of the tokens that each expert got, where a run counted them.

    The coefficient of variation of the counts over experts, less what counting alone makes of
    balanced ones: the variance of a count is about its mean.
    """
    counts = parse_positions(frame["expert_token_counts"])
    if not any(len(row) for row in counts):
        return {}
    spread = np.full(len(frame), np.nan)
    for i, row in enumerate(counts):
        if len(row) > 1 and row.mean() > 0:
            excess = row.var(ddof=1) - row.mean()
            spread[i] = np.sqrt(max(excess, 0.0)) / row.mean()
    about = "Coefficient of variation of tokens per expert, sampling noise taken off"
    return {"routed_load_cv": ("run", spread, {"units": "1", "long_name": about})}


def describe(name: str) -> dict[str, str]:
    """Return unit and meaning of a column, as attributes of a variable."""
    entry = column(name)
    return {"units": entry.unit, "long_name": entry.meaning}


def _first(frame: pd.DataFrame, name: str, number: np.ndarray, size: int) -> np.ndarray:
    """Return the first known number of each group: array[group], NaN if none."""
    values = np.full(size, np.nan)
    cells = frame[name].to_numpy(dtype=float)
    for i in np.flatnonzero((number >= 0) & ~np.isnan(cells))[::-1]:
        values[number[i]] = cells[i]
    return values


def size_variables(
    frame: pd.DataFrame, base: np.ndarray, pair: np.ndarray, sizes: tuple[int, int]
) -> dict[str, Variable]:
    """Return sizes of verifiers and drafters."""
    total = _first(frame, "verifier_params_b", base, sizes[0])
    active = _first(frame, "verifier_active_params_b", base, sizes[0])
    variables: dict[str, Variable] = {
        "verifier_params_b": ("base", total, describe("verifier_params_b")),
        "verifier_active_params_b": (
            "base",
            np.where(np.isnan(active), total, active),
            {"units": "1e9", "long_name": "Parameters used per token; all of them if dense"},
        ),
    }
    for name in ("num_experts", "experts_per_token"):
        counts = np.nan_to_num(_first(frame, name, base, sizes[0])).astype(np.int64)
        variables[name] = ("base", counts, {**describe(name), "long_name": "0 for a dense model"})
    size = _first(frame, "drafter_params_b", pair, sizes[1])
    variables["drafter_params_b"] = ("pair", size, describe("drafter_params_b"))
    return variables
