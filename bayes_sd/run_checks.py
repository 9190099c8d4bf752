"""Checks across the columns of a table of runs: load, acceptance, percentiles, identities."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bayes_sd.schema import LATENCIES
from bayes_sd.validate import Problem, name_rows

DEPLOYMENT = ("engine", "engine_version", "hardware", "tensor_parallel_size", "dtype")
TOLERANCE = 1e-6
RATE_TOLERANCE = 1e-3  # rates are printed with few digits


def _problem(frame: pd.DataFrame, found: pd.Series, message: str) -> list[Problem]:
    """Return one problem with its rows put in place of ``{rows}``, or none."""
    rows = list(frame.index[found.to_numpy(dtype=bool)])
    return [Problem(message.replace("{rows}", name_rows(rows)), rows)] if rows else []


def parse_positions(cells: pd.Series) -> list[np.ndarray]:
    """Split numbers joined by ``;``; an empty array where blank.

    Raises
    ------
    ValueError
        If a part is not a number.

    Examples
    --------
    >>> parse_positions(pd.Series(["8;5", ""]))
    [array([8., 5.]), array([], dtype=float64)]
    """
    return [np.array([float(part) for part in cell.split(";") if part.strip()]) for cell in cells]


def load_problems(frame: pd.DataFrame) -> list[Problem]:
    """Find runs whose load is not stated in a way that the model can condition on."""
    measured = ~frame["is_throughput_test"]
    is_open = frame["load_kind"] == "open"
    no_rate = measured & is_open & frame["request_rate_rps"].isna()
    only_other = no_rate & (frame["target_rate_rps"].notna() | frame["completed_rate_rps"].notna())
    no_concurrency = measured & (frame["load_kind"] == "closed") & frame["concurrency"].isna()
    return [
        *_problem(
            frame,
            only_other,
            "open-loop runs lack request_rate_rps and have only target_rate_rps or "
            "completed_rate_rps ({rows}). The model needs arrivals per second of the measured "
            "window. completed_rate_rps must never stand in for it: it contains the drain, so near "
            "saturation it falls as latency rises and hides the load. Take "
            "(requests - 1) / (last start - first start) from the file; if the load tool kept to "
            'its rate: frame["request_rate_rps"] = '
            'frame["request_rate_rps"].fillna(frame["target_rate_rps"])',
        ),
        *_problem(
            frame,
            no_rate & ~only_other,
            "open-loop runs lack request_rate_rps ({rows}). It must be arrivals per second in the "
            "measured window. Fill it, or set load_kind to 'closed' with a concurrency.",
        ),
        *_problem(
            frame,
            no_concurrency,
            "closed-loop runs lack concurrency ({rows}). It must be the number of requests kept in "
            "flight. Fill it, or set load_kind to 'open' with a request_rate_rps.",
        ),
        *_problem(
            frame,
            is_open & (frame["arrivals"] == "closed"),
            "open-loop runs have arrivals 'closed' ({rows}). arrivals must be poisson, constant "
            "or bursty for them; set load_kind to 'closed' if requests were kept in flight.",
        ),
    ]


def method_problems(frame: pd.DataFrame) -> list[Problem]:
    """Find runs whose method, draft length and acceptance contradict each other."""
    drafts = frame["num_speculative_tokens"]
    longest = drafts.where(frame["num_draft_steps"].isna(), frame["num_draft_steps"])
    too_long = frame["mean_acceptance_length"] > np.minimum(drafts, longest) + 1 + TOLERANCE
    passes = frame["num_draft_steps"].fillna(0)
    return [
        *_problem(
            frame,
            (frame["method"] == "none") & (drafts > 0),
            "method 'none' has num_speculative_tokens above 0 ({rows}). It must be 0 without "
            "speculation; name the method, or set num_speculative_tokens to 0.",
        ),
        *_problem(
            frame,
            too_long,
            "mean_acceptance_length must be from 1 to num_speculative_tokens + 1 ({rows} are "
            "above), or num_draft_steps + 1 where given. Its 1 is the verifier's own token; check "
            "which convention the source uses, and that num_speculative_tokens is the draft "
            "length of the run.",
        ),
        *_problem(
            frame,
            (drafts == 0) & ((passes > 0) | (frame["num_verified_tokens"] > 1)),
            "num_draft_steps or num_verified_tokens say that runs draft, and their "
            "num_speculative_tokens is 0 ({rows}). Write the drafted tokens per step there.",
        ),
        *_problem(
            frame,
            passes > drafts + TOLERANCE,
            "num_draft_steps must not be above num_speculative_tokens ({rows} are): a draft pass "
            "drafts one token at least.",
        ),
        *_problem(
            frame,
            frame["num_accepted_tokens"] > frame["num_draft_tokens"],
            "num_accepted_tokens is above num_draft_tokens ({rows}). Accepted drafts do not "
            "contain the verifier's own tokens.",
        ),
    ]


def position_problems(frame: pd.DataFrame) -> list[Problem]:
    """Find per-position acceptance of the wrong length, rising, or unlike its totals."""
    problems: list[Problem] = []
    depth = np.ceil(frame["num_draft_steps"])
    for name, slack in (
        ("accepted_per_position", 0.0),
        ("acceptance_per_position", RATE_TOLERANCE),
    ):
        values = parse_positions(frame[name])
        size = pd.Series([len(v) for v in values], frame.index)
        rises = pd.Series([bool((np.diff(v) > slack).any()) for v in values], frame.index)
        problems += _problem(
            frame,
            (size > 0) & (size != frame["num_speculative_tokens"]) & (size != depth),
            f"{name} must have as many numbers as num_speculative_tokens, or as a tree has levels "
            "(num_draft_steps); {rows} have not. Write a 0 for a position where nothing was "
            "accepted.",
        )
        problems += _problem(
            frame,
            rises,
            f"{name} must not rise from one position to the next ({{rows}} do): a draft counts "
            "only if all before it were accepted. Conditional rates do not belong here.",
        )
        if name == "accepted_per_position":
            total = pd.Series([v.sum() for v in values], frame.index).where(size > 0)
            first = pd.Series([v[0] if len(v) else np.nan for v in values], frame.index)
            known = total.notna() & frame["num_accepted_tokens"].notna()
            problems += _problem(
                frame,
                known & (total != frame["num_accepted_tokens"]),
                "accepted_per_position does not add up to num_accepted_tokens ({rows}). Both "
                "must count the same run; take the difference of the counters before and after.",
            )
            problems += _problem(
                frame,
                first > frame["num_drafts"],
                "accepted_per_position starts above num_drafts ({rows}). num_drafts must count "
                "the steps that drafted, not the tokens they drafted.",
            )
    return problems


def percentile_problems(frame: pd.DataFrame) -> list[Problem]:
    """Find percentiles that fall from p50 to p99."""
    problems: list[Problem] = []
    for latency in LATENCIES:
        names = [f"{p}_{latency}_s" for p in ("p50", "p90", "p95", "p99")]
        values = frame[names].to_numpy(dtype=float)
        running = np.fmax.accumulate(values, axis=1)
        falls = pd.Series((values < running * (1 - TOLERANCE)).any(axis=1), frame.index)
        problems += _problem(
            frame,
            falls,
            f"percentiles of {latency} are out of order ({{rows}}): p50 <= p90 <= p95 <= p99 must "
            "hold. Check that the columns are not swapped.",
        )
    return problems


def _conflicts(frame: pd.DataFrame, keys: Sequence[str], name: str) -> pd.Series:
    """Mark rows of groups that hold more than one known value of a column."""
    return frame[name].groupby([frame[k] for k in keys]).transform("nunique") > 1


def identity_problems(frame: pd.DataFrame) -> list[Problem]:
    """Find duplicate runs, sweeps of more than one server, and models of two sizes."""
    key = ["source_id", "run_id"]
    problems = _problem(
        frame,
        frame.duplicated(key, keep=False),
        "run_id must be unique within its source_id ({rows} repeat one). Two files of the same "
        "runs were read, or the names need the file: drop_duplicates, or set source_id.",
    )
    for name in ("verifier", *DEPLOYMENT):
        groups = frame[name].groupby([frame["source_id"], frame["sweep_id"]])
        mixed = groups.transform(lambda cells: cells.nunique(dropna=False)).astype(int) > 1
        problems += _problem(
            frame,
            mixed,
            f"sweep_id joins runs with different {name} ({{rows}}). A sweep must be one server "
            "start: give each its own sweep_id.",
        )
    sizes = {
        ("verifier",): (
            "verifier_params_b",
            "verifier_active_params_b",
            "num_experts",
            "experts_per_token",
        ),
        ("verifier", "method", "drafter"): ("drafter_params_b",),
    }
    for keys, names in sizes.items():
        for name in names:
            problems += _problem(
                frame,
                _conflicts(frame, keys, name),
                f"{name} differs between rows of the same {' + '.join(keys)} ({{rows}}). One "
                "model must have one size; correct it, or give the models different names.",
            )
    return problems
