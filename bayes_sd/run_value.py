"""What to measure next: the run whose result is expected to make a decision better.

Expected value of sample information by regression [1]_. Each posterior draw gives the result y
that a candidate run would have, and the regret of each draft length at the loads to decide. The
regret expected after seeing y is a regression of regret on y; the choice after y is the draft
length with the least of it. The regression is fitted on one half of the draws and the choice is
judged on the other, so that what it learns by chance counts for nothing.

A result is worth what a fit can learn of it. A fit takes the law's misfit in a run for noise, so
the misfit of a result is drawn apart from that of the predictions that decisions are made on.

References
----------
.. [1] Strong, Oakley, Brennan and Breeze (2015). Estimating the expected value of sample
   information using the probabilistic sensitivity analysis sample. Medical Decision Making 35(5).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.decide import draft_lengths, warn_first
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.validate import whole_number

Floats = npt.NDArray[np.float64]
DEGREE = 3
# A refit takes the misfit of each run for noise: a result tells of the law, and the misfit that
# predictions draw for a configuration is none the smaller for it. So it has a seed of its own.
RESULT_SEED = 10


@dataclass(frozen=True)
class NextRun:
    """Candidate runs, and what each is expected to be worth.

    Attributes
    ----------
    choice : int or None
        Position of the best candidate; None where no run is expected to change a decision.
    candidates : tuple of Scenario
        The runs that could be made.
    decisions : tuple of Scenario
        What is to be decided: a draft length at each.
    regret_now : float
        Expected regret of the present choices, a share of latency, mean over the decisions.
    regret_after : tuple of float
        The same after one run of each candidate.
    reduction_error : tuple of float
        Standard error of regret_now - regret_after, from the finite number of draws.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    choice: int | None
    candidates: tuple[Scenario, ...]
    decisions: tuple[Scenario, ...]
    regret_now: float
    regret_after: tuple[float, ...]
    reduction_error: tuple[float, ...]
    convergence: str

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate, the most useful first."""
        frame = pd.DataFrame(
            {
                "candidate": [s.label for s in self.candidates],
                "num_requests": [s.num_requests for s in self.candidates],
                "regret_after": self.regret_after,
                "regret_reduction": self.regret_now - np.asarray(self.regret_after),
                "reduction_error": self.reduction_error,
            }
        )
        return frame.sort_values("regret_reduction", ascending=False, kind="stable")

    def statement(self) -> str:
        """Return the answer in words."""
        parts = [self.convergence] if self.convergence else []
        if self.choice is None:
            parts.append(
                f"No candidate is expected to change a decision: the expected regret is "
                f"{self.regret_now:.2%} of latency now, and no run lowers it by more than its "
                "sampling error."
            )
        else:
            best = self.candidates[self.choice]
            parts.append(
                f"Measure {best.label} next ({best.num_requests} requests): the expected regret "
                f"falls from {self.regret_now:.2%} to {self.regret_after[self.choice]:.2%} of "
                "latency."
            )
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "choice": None if self.choice is None else self.candidates[self.choice].label,
            "regret_now": self.regret_now,
            "convergence": self.convergence,
            "candidates": [
                {str(k): v for k, v in row.items()}
                for row in self.to_frame().to_dict(orient="records")
            ],
        }


def next_run(
    tree: xr.DataTree,
    candidates: Sequence[Scenario],
    *,
    decisions: Scenario | Sequence[Scenario] | None = None,
    draft_length_candidates: Sequence[int] | None = None,
    random_seed: int = 0,
) -> NextRun:
    """Say which benchmark run to make next, by the regret that it is expected to save.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    candidates : sequence of Scenario
        Runs that could be made: pair, load, draft length, ``num_requests``.
    decisions : Scenario or sequence of Scenario, optional
        Pairs and loads at which a draft length is to be chosen; by default each pair and load
        among the candidates.
    draft_length_candidates : sequence of int, optional
        Draft lengths to choose from; by default 0 and those measured with each pair.
    random_seed : int
        Seed of the predictions and of the halves.

    Returns
    -------
    NextRun
        The best candidate, and the expected regret before and after a run of each.

    Raises
    ------
    ArgumentError
        If there is no candidate, or one is no Scenario.
    UnknownPairError, DataError
        As `predict_latency`.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Examples
    --------
    >>> runs = [Scenario("Qwen3-8B", request_rate_rps=r) for r in (2, 4, 8)]
    >>> next_run(tree, runs).statement()  # doctest: +SKIP
    """
    listed, asked = _checked(candidates, decisions)
    note = warn_first(tree)
    regret = regrets_of(tree, asked, draft_length_candidates, random_seed)
    results = results_of(tree, listed, random_seed + RESULT_SEED)
    rng = np.random.default_rng(random_seed)
    halves = rng.permutation(len(results[0][0])) % 2 == 0
    now = regret_after_result(regret, None, halves)
    features = [features_of(mean + noise) for mean, noise in results]
    after = [regret_after_result(regret, values, halves) for values in features]
    saved = [now - one for one in after]
    error = [float(s.std() / np.sqrt(len(s))) for s in saved]
    means = [float(s.mean()) for s in saved]
    best = int(np.argmax(means))
    return NextRun(
        best if means[best] > 2 * error[best] else None,
        tuple(listed),
        tuple(asked),
        float(now.mean()),
        tuple(float(one.mean()) for one in after),
        tuple(error),
        note,
    )


def _checked(
    candidates: Sequence[Scenario], decisions: Scenario | Sequence[Scenario] | None
) -> tuple[list[Scenario], list[Scenario]]:
    listed: list[Scenario] = [candidates] if isinstance(candidates, Scenario) else [*candidates]
    if not listed or not all(isinstance(s, Scenario) for s in listed):
        raise ArgumentError(
            f"candidates must hold at least one Scenario, the runs that could be made. Got "
            f"{listed!r} instead."
        )
    if decisions is None:
        plain = [s.with_(num_speculative_tokens=0, **_NO_SHAPE) for s in listed]
        return listed, list(dict.fromkeys(plain))
    asked = [decisions] if isinstance(decisions, Scenario) else list(decisions)
    if not asked:
        raise ArgumentError("decisions must hold at least one Scenario. Got none instead.")
    return listed, asked


_NO_SHAPE: dict[str, Any] = {
    "num_requests": 200,
    "num_draft_steps": None,
    "num_verified_tokens": None,
    "mean_acceptance_length": None,
    "drafter_loaded": False,
}


def regrets_of(
    tree: xr.DataTree, asked: Sequence[Scenario], lengths: Sequence[int] | None, random_seed: int
) -> list[Floats]:
    """Return per decision the regret of each draft length in each draw, (draw, candidate)."""
    found = []
    for scenario in asked:
        arms = [
            scenario.with_(num_speculative_tokens=whole_number(k, "draft length", minimum=0))
            for k in draft_lengths(tree, scenario, lengths)
        ]
        latency = predict_latency(tree, arms, random_seed=random_seed)["e2e_s"].values
        lowest = latency.min(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            found.append(np.where(np.isfinite(lowest), 1 - lowest / latency, 0.0))
    return found


def results_of(
    tree: xr.DataTree, listed: Sequence[Scenario], random_seed: int
) -> list[tuple[Floats, Floats]]:
    """Return per candidate the log latency of the configuration, and what one run adds to it."""
    mean, run = (
        np.log(predict_latency(tree, listed, kind, random_seed=random_seed)["e2e_s"].values)
        for kind in ("mean", "run")
    )
    with np.errstate(invalid="ignore"):
        noise = np.where(np.isfinite(mean), run - mean, 0.0)
    return [(mean[:, i], noise[:, i]) for i in range(len(listed))]


def features_of(result: Floats) -> Floats:
    """Return powers of a run's standardised log latency, and a mark where it is past capacity."""
    finite = np.isfinite(result)
    if not finite.any():
        return np.ones((len(result), 1))
    values = np.where(finite, result, result[finite].max())
    spread = values.std()
    scaled = np.clip((values - values.mean()) / (spread or 1.0), -4, 4)
    powers = scaled[:, None] ** np.arange(DEGREE + 1)
    return np.column_stack([powers, ~finite]) if not finite.all() else powers


def regret_after_result(regret: Sequence[Floats], features: Floats | None, halves: Any) -> Floats:
    """Return per draw the regret of what would be chosen after the result, mean over decisions."""
    total = np.zeros(len(halves))
    for values in regret:
        for learn in (halves, ~halves):
            if features is None:
                expected = np.broadcast_to(values[learn].mean(axis=0), values[~learn].shape)
            else:
                weights, *_ = np.linalg.lstsq(features[learn], values[learn], rcond=None)
                expected = features[~learn] @ weights
            chosen = expected.argmin(axis=1)
            total[~learn] += np.take_along_axis(values[~learn], chosen[:, None], axis=1)[:, 0]
    return total / len(regret)
