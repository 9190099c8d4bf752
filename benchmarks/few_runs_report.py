"""The result of `few_runs.py` in words: how many runs each way of choosing them took."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.decision_tables import regret_of, shown
from benchmarks.few_runs_grid import MAX_R_HAT, MIN_ESS
from benchmarks.folds import markdown

type Floats = NDArray[np.float64]

MAX_REGRET = 0.02
SHARE_OF_GRID = 1 / 5
SHARE_OF_RANDOM = 0.7
BOOTSTRAPS = 4000
ARMS = {"next_run": "next_run", "random": "at random", "spread": "filling the space"}
MEASURES = {
    "true": "true regret, by the law",
    "worst": "the same of the worst choice",
    "with_misfit": "true regret, with misfit",
    "expected": "regret that the decision expects",
    "expected_of_law": "the same, without misfit",
}


def with_worst(row: Mapping[str, Any], lengths: Sequence[int]) -> dict[str, Any]:
    """Return a world's row with the largest true regret of the choices at each checkpoint.

    Parameters
    ----------
    row : mapping
        One world, with the ``choice`` of each decision and the true latencies, ``true_s``, s.
    lengths : sequence of int
        Draft lengths.
    """
    place = {k: i for i, k in enumerate(lengths)}
    true_s = np.array(row["true_s"])

    def worst(at: Mapping[str, Any]) -> float:
        chosen = np.array([place[k] for k in at["choice"]])
        return float(np.nanmax(regret_of(true_s, chosen), initial=0.0))

    arms = {
        name: arm | {"course": [at | {"worst": worst(at)} for at in arm["course"]]}
        for name, arm in row["arms"].items()
    }
    return dict(row) | {"arms": arms}


def runs_needed(regret: Floats, numbers: Sequence[int], *, stays: bool) -> NDArray[np.int_]:
    """Return by world the number of runs after which the regret is at most 2 %.

    Parameters
    ----------
    regret : array[world, checkpoint]
        Mean over the rates.
    numbers : sequence of int
        Runs at each checkpoint; the last is the whole grid.
    stays : bool
        Whether it must be so at all later checkpoints, too.

    Returns
    -------
    array[world] of int
        The whole grid where it is never so.

    Examples
    --------
    >>> regret = np.array([[0.1, 0.01, 0.03, 0.0]])
    >>> [int(runs_needed(regret, (4, 5, 6, 60), stays=s)[0]) for s in (False, True)]
    [5, 60]
    """
    low = regret <= MAX_REGRET
    if stays:
        low = np.logical_and.accumulate(low[:, ::-1], axis=1)[:, ::-1]
    at = np.where(low.any(axis=1), low.argmax(axis=1), len(numbers) - 1)
    return np.asarray(numbers)[at]


def interval(values: Floats) -> str:
    """Return a 95 % interval of bootstrap values, for a table."""
    low, high = np.quantile(values, [0.025, 0.975])
    return f"{low:.3g} to {high:.3g}"


def ratio_of(means: Mapping[str, float], start: int) -> float:
    """Return the runs after the start that `next_run` takes over those of random order."""
    further = means["random"] - start
    return (means["next_run"] - start) / further if further else np.nan


def needed_table(
    courses: Mapping[str, Mapping[str, Floats]], numbers: Sequence[int], *, stays: bool
) -> pd.DataFrame:
    """Return the median number of runs of each arm by each measure, with bootstrap intervals."""
    rows = []
    for measure, meaning in MEASURES.items():
        needed = {arm: runs_needed(courses[measure][arm], numbers, stays=stays) for arm in ARMS}
        num_worlds = len(needed["random"])
        drawn = np.random.default_rng(0).integers(num_worlds, size=(BOOTSTRAPS, num_worlds))
        medians = {arm: np.median(n[drawn], axis=1) for arm, n in needed.items()}
        ratio = float(np.median(needed["next_run"]) / np.median(needed["random"]))
        means = {arm: n.mean() for arm, n in needed.items()}
        row: dict[str, Any] = {"measure": meaning}
        for arm, name in ARMS.items():
            row[name] = float(np.median(needed[arm]))
            row[f"95 % ({name})"] = interval(medians[arm])
        row |= {
            "next_run / random": ratio,
            "95 % (ratio)": interval(medians["next_run"] / medians["random"]),
            "further runs, ratio of means": ratio_of(means, numbers[0]),
            "whole grid too few": int((courses[measure]["random"][:, -1] > MAX_REGRET).sum()),
            "start is enough": int((needed["random"] == numbers[0]).sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def curve_table(courses: Mapping[str, Floats], numbers: Sequence[int]) -> pd.DataFrame:
    """Return the mean regret over worlds after each number of runs, with standard errors."""
    rows = []
    for at, number in enumerate(numbers):
        row: dict[str, Any] = {"runs": number}
        for arm, name in ARMS.items():
            values = courses[arm][:, at]
            row[name] = f"{values.mean():.2%} ± {values.std() / np.sqrt(len(values)):.2%}"
        rows.append(row)
    return pd.DataFrame(rows)


def courses_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Floats]]:
    """Return by measure and arm the regret in each world at each checkpoint."""
    return {
        measure: {
            arm: np.array([[at[measure] for at in row["arms"][arm]["course"]] for row in rows])
            for arm in ARMS
        }
        for measure in MEASURES
    }


def bar_table(stays: pd.DataFrame, converged: pd.DataFrame, grid: int) -> pd.DataFrame:
    """Return which bars are met, and the ratio in worlds whose fits all converged."""
    rows = []
    for (_, row), (_, only) in zip(stays.iterrows(), converged.iterrows(), strict=True):
        within = row["next_run"] <= SHARE_OF_GRID * grid
        better = row["next_run / random"] <= SHARE_OF_RANDOM
        rows.append(
            {
                "regret": row["measure"],
                "median runs of next_run": f"{row['next_run']:g} of {grid}",
                "at most 1/5": "yes" if within else "NO",
                "over random's": f"{row['next_run / random']:.2f}",
                f"at most {SHARE_OF_RANDOM:g}": "yes" if better else "NO",
                "over random's, all fits converged": f"{only['next_run / random']:.2f}",
            }
        )
    return pd.DataFrame(rows)


def is_converged(row: Mapping[str, Any]) -> bool:
    """Tell whether all judged fits of a world converged."""
    fits = (at for arm in row["arms"].values() for at in arm["course"])
    return all(at["max_r_hat"] <= MAX_R_HAT and at["min_ess"] >= MIN_ESS for at in fits)


def few_runs_report(
    rows: Sequence[Mapping[str, Any]], numbers: Sequence[int]
) -> tuple[str, dict[str, Any]]:
    """Return the result as Markdown and as figures."""
    courses = courses_of(rows)
    stays, first = (needed_table(courses, numbers, stays=s) for s in (True, False))
    good = [row for row in rows if is_converged(row)] or list(rows)
    grid = numbers[-1]
    bars = bar_table(stays, needed_table(courses_of(good), numbers, stays=True), grid)
    curves = {measure: curve_table(courses[measure], numbers) for measure in MEASURES}
    stopped = [next((n for n, stop in row["stops"] if stop), grid) for row in rows]
    fits = [at for row in rows for arm in row["arms"].values() for at in arm["course"]]
    fixed = np.array([row["fixed"] for row in rows]).mean(axis=0).min()
    text = "\n\n".join(
        [
            f"# Few runs, in {len(rows)} worlds whose truth is known",
            f"A world is a truth from the prior and a grid of {grid} simulated runs, one server "
            "start each: five drafters and none, draft lengths, rates. All ways start from the "
            "same four runs, drawn at random. After the numbers of runs below the model is fitted "
            "and chooses a draft length for each drafter at three rates (the best fixed one would "
            f"lose {fixed:.1%}). A run that was not made has weight 0, its counts too; a drafter "
            "without a run is predicted from the others. At each of the numbers `next_run` is "
            "asked for all runs up to the next one at once, the best-ranked ones of different "
            "drafters, to save fits. Filling the space: the run farthest from those made, with a "
            "coordinate for each drafter, draft length and rate.",
            markdown(bars),
            "The bar is on the first row. There four runs are mostly enough, for random order as "
            "for the others, so a ratio of medians cannot tell them apart: see the mean regrets. "
            "The row of the worst choice was added when the first worlds showed this.",
            "Regret is 1 - latency of the best / latency of the choice, the mean over drafters and "
            "rates. By the law: the true latencies without misfit, so what runs could tell. With "
            "misfit: with an error of each draft length that is drawn anew, which no rule can "
            "know. Expected: what the fit itself says, so what whoever measures can see. The "
            "number of runs is the first from which the regret stays at or below 2 % at all later "
            "checkpoints and with the whole grid; the whole grid where it never does.",
            "## Median number of runs, from which the regret stays at 2 % or less",
            markdown(shown(stays)),
            "Intervals: bootstrap over worlds. Further runs: mean number after the start, over "
            "random's. Whole grid too few: worlds in which even all runs leave more than 2 %; they "
            "count as the whole grid, for every way. Start is enough: worlds in which the four "
            "runs of the start leave 2 % or less, and random order stays there: where these are "
            "more than half, the medians tell nothing about the order.",
            "## Median number of runs, after which it is 2 % or less for the first time",
            markdown(shown(first)),
            *(
                part
                for measure, meaning in MEASURES.items()
                for part in (f"## Mean {meaning}, ± standard error", markdown(curves[measure]))
            ),
            f"`next_run` first said that no candidate changes a decision after "
            f"{np.median(stopped):g} runs at the median; the study went on with its best-ranked.",
            "## Sampling",
            f"{np.median([at['sampling_s'] for at in fits]):.1f} s per fit and "
            f"{np.median([row['seconds'] for row in rows]):.0f} s per world at the median; largest "
            f"R-hat {max(at['max_r_hat'] for at in fits):.3f}, smallest ESS "
            f"{min(at['min_ess'] for at in fits):.0f} of what is watched; "
            f"{sum(at['divergences'] for at in fits)} divergences; "
            f"{sum(at['repeats'] > 0 for at in fits)} of {len(fits)} judged fits were repeated. "
            f"In {len(rows) - sum(map(is_converged, rows))} worlds a judged fit ended with R-hat "
            f"above {MAX_R_HAT:g} or ESS below {MIN_ESS:g}; they count like the others.",
        ]
    )
    return text, {
        "worlds": len(rows),
        "bars": bars.to_dict(orient="records"),
        "stays": stays.to_dict(orient="records"),
        "first": first.to_dict(orient="records"),
        "curves": {m: table.to_dict(orient="records") for m, table in curves.items()},
        "stopped": stopped,
    }
