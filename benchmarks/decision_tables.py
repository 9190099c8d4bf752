"""Tables of `decision_worlds.py`: regret, reliability of P(best), break-even rates, promises."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int_]

NUM_BINS = 10
LARGE = 0.05
OURS = "decision from the posterior"


def regret_of(true_s: Floats, chosen: Ints) -> Floats:
    """Return 1 - lowest latency / that of the choice; NaN where all are past capacity.

    Parameters
    ----------
    true_s : array[..., candidate]
        True latency, s; infinite past capacity.
    chosen : array[...] of int
        Place of the choice among the candidates.

    Examples
    --------
    >>> regret_of(np.array([[1.0, 2.0], [np.inf, 2.0]]), np.array([1, 0])).tolist()
    [0.5, 1.0]
    """
    lowest = true_s.min(axis=-1)
    of_choice = np.take_along_axis(true_s, chosen[..., None], axis=-1)[..., 0]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isfinite(lowest), 1 - lowest / of_choice, np.nan))


def latencies(rows: Sequence[Mapping[str, Any]], name: str) -> Floats:
    """Return latencies of one kind, array[world, load, candidate], s."""
    return np.array([[at[name] for at in row["asked"]] for row in rows])


def choices_of(
    rows: Sequence[Mapping[str, Any]], lengths: Sequence[int]
) -> tuple[dict[str, Ints], Floats]:
    """Return by rule the place of its choices, (world, load), and the true latencies.

    The fixed draft lengths are the best ones in hindsight, over all worlds and loads, and load by
    load.
    """
    true = latencies(rows, "true_s")
    place = {k: i for i, k in enumerate(lengths)}
    chosen = {OURS: np.array([[place[at["choice"]] for at in row["asked"]] for row in rows])}
    for name in rows[0]["rules"]:
        chosen[name] = np.array([[place[k] for k in row["rules"][name]] for row in rows])
    shape = true.shape[:2]
    fixed = np.stack([regret_of(true, np.full(shape, i)) for i in range(len(lengths))])
    by_load = np.nanmean(fixed, axis=1).argmin(axis=0)
    overall = int(np.nanmean(fixed, axis=(1, 2)).argmin())
    chosen[f"always k = {lengths[overall]}, the best in hindsight"] = np.full(shape, overall)
    names = ", ".join(str(lengths[i]) for i in by_load)
    chosen[f"the best k of each load in hindsight ({names})"] = np.tile(by_load, (len(rows), 1))
    return chosen, true


def regret_table(
    chosen: Mapping[str, Ints], true: Floats, law: Floats, loads: Mapping[str, float]
) -> pd.DataFrame:
    """Return one row per rule: mean regret, over all and by load, and how often it is right.

    Also by the law alone, without what the truth misses it by: what a rule could know.
    """
    rows = []
    ours = regret_of(true, chosen[OURS])
    for name, places in chosen.items():
        regret = regret_of(true, places)
        counted = np.isfinite(regret)
        rows.append(
            {
                "rule": name,
                "mean_regret": np.nanmean(regret),
                "standard_error": _error_of_mean(regret),
                **{
                    f"{load} ({rate:g} rps)": np.nanmean(regret[:, i])
                    for i, (load, rate) in enumerate(loads.items())
                },
                "more_than_ours": np.nanmean(regret - ours),
                "its_standard_error": _error_of_mean(regret - ours),
                "without_misfit": np.nanmean(regret_of(law, places)),
                "best_chosen": (regret[counted] == 0).mean(),
                "regret_above_5_%": (regret[counted] > LARGE).mean(),
            }
        )
    return pd.DataFrame(rows)


def _error_of_mean(values: Floats) -> float:
    """Return the standard error of a mean; the loads of one world are not independent."""
    of_world = np.nanmean(values, axis=1)
    return float(np.nanstd(of_world) / np.sqrt(len(of_world)))


def verdict_table(rows: Sequence[Mapping[str, Any]], regret: Floats) -> pd.DataFrame:
    """Return by verdict how often it was given, the regret expected then, and the true one."""
    cells = [
        {"verdict": at["verdict"], "expected": min(at["expected_regret"]), "true": regret[w, i]}
        for w, row in enumerate(rows)
        for i, at in enumerate(row["asked"])
    ]
    groups = pd.DataFrame(cells).groupby("verdict")
    table = groups.mean().assign(questions=groups.size())
    return table.reset_index()[["verdict", "questions", "expected", "true"]]


def reliability(
    probability: Floats, is_best: NDArray[np.bool_], num_bins: int = NUM_BINS
) -> tuple[pd.DataFrame, float]:
    """Return P(best) against how often it was, bin by bin, and the expected calibration error.

    Parameters
    ----------
    probability : array of float
        P(best), 0 to 1.
    is_best : array of bool
        Of the same shape.
    num_bins : int
        Bins of equal width.

    Returns
    -------
    table : pandas.DataFrame
        Columns ``from``, ``to``, ``statements``, ``predicted`` and ``observed``.
    error : float
        Mean of abs(predicted - observed) over statements.
    """
    flat, truth = np.ravel(probability), np.ravel(is_best)
    number = np.minimum((flat * num_bins).astype(int), num_bins - 1)
    count = np.bincount(number, minlength=num_bins)
    sums = [np.bincount(number, values, minlength=num_bins) for values in (flat, truth)]
    predicted, observed = (x / np.where(count > 0, count, np.nan) for x in sums)
    edges = np.arange(num_bins + 1) / num_bins
    table = pd.DataFrame(
        {
            "from": edges[:-1],
            "to": edges[1:],
            "statements": count,
            "predicted": predicted,
            "observed": observed,
        }
    )
    return table, float(np.nansum(abs(predicted - observed) * count) / count.sum())


def chance_error(probability: Floats, *, repeats: int = 400, random_seed: int = 0) -> float:
    """Return the mean calibration error of probabilities that are exactly right.

    A best candidate is drawn for each question from its probabilities; what is left of 1 is that
    none is.
    """
    rng = np.random.default_rng(random_seed)
    ends = np.cumsum(probability, axis=-1)
    errors = []
    for _ in range(repeats):
        at = (rng.random((*ends.shape[:-1], 1)) > ends).sum(axis=-1)
        drawn = at[..., None] == np.arange(ends.shape[-1])
        errors.append(reliability(probability, drawn)[1])
    return float(np.mean(errors))


def turn_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return by draft length, and over all, how often break-even intervals hold the truth.

    Intervals are those given that there is a turn, so worlds that have one are counted.
    """
    parts = {k: [row["turns"][k] for row in rows] for k in rows[0]["turns"]}
    parts["all"] = [turn for turns in parts.values() for turn in turns]
    table = []
    for k, turns in parts.items():
        true, low, high, said = (
            np.array([t[name] for t in turns]) for name in ("true", "low", "high", "p_crosses")
        )
        has = np.isfinite(true)
        with np.errstate(invalid="ignore"):
            held = (true >= low) & (true <= high)
            width = np.log(high / low)[has]
        table.append(
            {
                "k": k,
                "statements": len(turns),
                "said_to_turn": said.mean(),
                "turn": has.mean(),
                "with_turn": int(has.sum()),
                "held": int(held[has].sum()),
                "share_held": held[has].mean() if has.any() else np.nan,
                "median_high_over_low": float(np.exp(np.nanmedian(width))) if has.any() else np.nan,
            }
        )
    return pd.DataFrame(table)


def promise_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how often the true latency at the promised highest rate breaks the objective."""
    promises = [row["max_rate"] for row in rows]
    found = [p for p in promises if p["verdict"] == "found"]
    broken = sum(p["true_s"] > p["limit_s"] for p in found)
    verdicts = pd.Series([p["verdict"] for p in promises]).value_counts()
    return {
        "promises": len(found),
        "violated": broken,
        "share": broken / len(found) if found else np.nan,
        "extrapolated": sum(p["status"] == "extrapolated" for p in found),
        "median_room": float(np.median([p["room"] for p in found])) if found else np.nan,
        "verdicts": {str(name): int(n) for name, n in verdicts.items()},
    }


def shown(table: pd.DataFrame, *, percent: bool = False) -> pd.DataFrame:
    """Return a table as text: fractions as per cent or with three places, names with blanks."""

    def text(value: Any) -> str:
        if not isinstance(value, float):
            return str(value)
        return "" if np.isnan(value) else f"{value:.2%}" if percent else f"{value:.3g}"

    return table.map(text).rename(columns=lambda name: str(name).replace("_", " "))
