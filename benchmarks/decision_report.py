"""The result of `decision_worlds.py` in words: what was asked of it, and what came out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from benchmarks.decision_tables import (
    OURS,
    chance_error,
    choices_of,
    latencies,
    promise_figures,
    regret_of,
    regret_table,
    reliability,
    shown,
    turn_table,
    verdict_table,
)
from benchmarks.folds import markdown
from benchmarks.world_fits import MAX_R_HAT, MIN_ESS

MAX_REGRET = 0.02  # the bar: mean regret of the choice
MIN_FIXED_REGRET = 0.08  # worlds in which one draft length nearly always does would prove nothing
COVERAGE = (0.85, 0.95)  # of 90 % intervals
VIOLATED = (0.02, 0.08)  # where 5 % are promised


def worlds_report(
    rows: Sequence[Mapping[str, Any]], lengths: Sequence[int], loads: Mapping[str, float]
) -> tuple[str, dict[str, Any]]:
    """Return the result as Markdown and as figures."""
    chosen, true = choices_of(rows, lengths)
    table = regret_table(chosen, true, latencies(rows, "law_s"), loads)
    ours, fixed = table["mean_regret"].iloc[0], table["mean_regret"].iloc[-2]
    verdicts = verdict_table(rows, regret_of(true, chosen[OURS]))
    probability = np.array([[at["probability_best"] for at in row["asked"]] for row in rows])
    alive = np.isfinite(true.min(axis=-1))
    is_best = (true == true.min(axis=-1, keepdims=True)) & alive[..., None]
    bins, error = reliability(probability, is_best)
    by_chance = chance_error(probability)
    turns = turn_table(rows)
    held, with_turn, share = turns.iloc[-1][["held", "with_turn", "share_held"]]
    promises = promise_figures(rows)
    bars = [
        ("mean regret of the choice", f"{ours:.2%}", "at most 2 %", ours <= MAX_REGRET),
        ("of the best fixed k", f"{fixed:.1%}", "at least 8 %", fixed >= MIN_FIXED_REGRET),
        (
            "break-even 90 % intervals that hold the truth",
            f"{held:.0f} of {with_turn:.0f}, {share:.1%}{share_interval(held, with_turn)}",
            "85 to 95 %",
            COVERAGE[0] <= share <= COVERAGE[1],
        ),
        (
            "promised rates (certainty 0.95) that break the objective",
            f"{promises['violated']} of {promises['promises']}, {promises['share']:.1%}"
            + share_interval(promises["violated"], promises["promises"]),
            "2 to 8 %",
            VIOLATED[0] <= promises["share"] <= VIOLATED[1],
        ),
    ]
    summary = pd.DataFrame(
        [(what, got, bar, "yes" if met else "NO") for what, got, bar, met in bars],
        columns=["what", "result", "bar", "met"],
    )
    text = "\n\n".join(
        [
            f"# Decisions in {len(rows)} worlds whose truth is known",
            "A world is a truth from the prior and 24 simulated runs. The model is fitted to the "
            "runs and chooses among k = " + ", ".join(map(str, lengths)) + " at three rates. "
            "Regret is 1 - latency of the best / latency of the choice, by the true latencies. "
            "They hold a misfit of each draft length that is drawn anew, also where runs were "
            "measured: no rule can know it.",
            markdown(summary),
            "## Regret",
            markdown(shown(table, percent=True)),
            f"{int((~alive).sum())} of {alive.size} questions are left out: every draft length is "
            "past capacity there. A choice past capacity where another one is not has a regret of "
            "1. The last two rows know the truth of all worlds. Without misfit: by the law's own "
            "latencies, so by what the runs could tell. More than ours: the mean difference to the "
            "first row, world by world.",
            "What the decision said, the regret it expected, and the true one:",
            markdown(shown(verdicts, percent=True)),
            "## P(best)",
            markdown(shown(bins)),
            f"Expected calibration error {error:.3f}; probabilities that are exactly right would "
            f"have {by_chance:.3f} by chance (questions taken as independent; the three of one "
            "world are not quite).",
            "## Break-even rates",
            markdown(shown(turns)),
            "Turn: the rate at which speculation stops paying. Intervals are given that there is "
            "one, and judged in the worlds that have one.",
            "## Promised rates",
            f"Highest rate at which k = 3 keeps its mean latency within twice what was measured "
            f"with one request in flight, with certainty 0.95. Verdicts: {promises['verdicts']}; "
            f"{promises['extrapolated']} promises lie outside the measured range. The objective is "
            f"first broken, at the median, at {promises['median_room']:.2f} times the promise.",
            "## Sampling",
            sampling_note(pd.DataFrame(rows)),
        ]
    )
    figures = {
        "bars": summary.to_dict(orient="records"),
        "regret": table.to_dict(orient="records"),
        "verdicts": verdicts.to_dict(orient="records"),
        "reliability": bins.to_dict(orient="records"),
        "expected_calibration_error": error,
        "calibration_error_by_chance": by_chance,
        "break_even": turns.to_dict(orient="records"),
        "max_rate": promises,
        "sampling_s_per_world": float(np.median([row["sampling_s"] for row in rows])),
    }
    return text, figures


def share_interval(count: float, total: float) -> str:
    """Return the 95 % interval of a share, for a sentence."""
    if not total:
        return ""
    low, high = binomtest(int(count), int(total)).proportion_ci(0.95)
    return f" (95 % interval {low:.1%} to {high:.1%})"


def sampling_note(how: pd.DataFrame) -> str:
    """Return in words how the sampling of all worlds went."""
    seconds = how["sampling_s"].sum() + how["deciding_s"].sum()
    lacking = (how["max_r_hat"] > MAX_R_HAT) | (how["min_ess"] < MIN_ESS)
    tried = int(how["prior_draws"].max())
    return (
        f"{how['sampling_s'].median():.1f} s of sampling and {how['deciding_s'].median():.1f} s of "
        f"deciding per world at the median, {seconds / 60:.0f} min in all. R-hat above "
        f"{MAX_R_HAT:g} or ESS below {MIN_ESS:g} in the end: {lacking.sum()} worlds, which count "
        f"like the others; largest R-hat {how['max_r_hat'].max():.3f}, smallest ESS "
        f"{how['min_ess'].min():.0f}, of what is watched. {how['divergences'].sum()} divergences "
        f"in {how['draws'].sum()} draws; {(how['draws'] > how['draws'].min()).sum()} fits were "
        f"repeated. {tried - len(how)} of {tried} draws of the prior were past capacity at the "
        "measured rates, and drawn again."
    )
