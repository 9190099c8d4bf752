"""How many more runs it takes until a choice between draft lengths is sure."""

import numpy as np
import xarray as xr

from bayes_sd.decide import draft_lengths, warn_first
from bayes_sd.run_value import features_of, regret_after_result, regrets_of, results_of
from bayes_sd.scenario import Scenario
from bayes_sd.validate import probability

MAX_RUNS = 64


def runs_until_sure(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    candidates: list[int] | None = None,
    certainty: float = 0.95,
    random_seed: int = 0,
) -> int | None:
    """Return how many runs of each of the two best draft lengths make the choice sure.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair and load of the choice, and ``num_requests`` of each further run.
    candidates : list of int, optional
        Draft lengths to choose from; by default 0 and those measured with the pair.
    certainty : float
        P(best) of the choice that is asked for, above 0 and below 1.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    int or None
        Runs of each of the two, every one with a boot of its own, after which the expected P(best)
        of the choice is at least ``certainty``. 0 if it is already; None if 64 are not enough, as
        where two draft lengths are equally good: then either will do.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Notes
    -----
    Boots and requests of n runs average out: the noise of their mean log latency has a variance
    smaller by n. The expected P(best) after them is found as in `next_run`.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=4.0)
    >>> runs_until_sure(tree, scenario)  # doctest: +SKIP
    3
    """
    probability(certainty, "certainty", ends=False)
    lengths = draft_lengths(tree, scenario, candidates)
    warn_first(tree)
    regret = regrets_of(tree, [scenario], lengths, random_seed)[0]
    is_best = regret == regret.min(axis=1, keepdims=True)
    lost = 1.0 - is_best / is_best.sum(axis=1, keepdims=True)
    if len(lengths) < 2 or 1 - lost.mean(axis=0).min() >= certainty:
        return 0
    rivals = np.argsort(lost.mean(axis=0), kind="stable")[:2]
    arms = [scenario.with_(num_speculative_tokens=lengths[at]) for at in rivals]
    (first, noise), (second, other) = results_of(tree, arms, random_seed)
    shuffled = np.random.default_rng([random_seed, 1]).permutation(len(first))
    halves = np.random.default_rng(random_seed).permutation(len(first)) % 2 == 0
    for number in range(1, MAX_RUNS + 1):
        one = first + noise / np.sqrt(number)
        # Boots of the two arms are drawn alike by configuration or not: here they are others.
        two = second + other[shuffled] / np.sqrt(number)
        with np.errstate(invalid="ignore"):
            gap = np.where(np.isfinite(one) & np.isfinite(two), one - two, np.inf)
        features = np.column_stack([features_of(gap), features_of(one)[:, 1:2]])
        if 1 - regret_after_result([lost], features, halves).mean() >= certainty:
            return number
    return None
