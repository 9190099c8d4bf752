r"""New accept counts folded into a fit: its draws weighed anew, without sampling.

A draw of the posterior is weighed by how likely it finds the new counts, with the likelihood that
the fit itself used (`bayes_sd.acceptance_likelihoods`): a window of live traffic is one more run.
Draws are then taken in proportion to their weights, whole, so what acceptance and costs say of
each other stays. How many draws the answer rests on is Kish's effective sample size [1]_,

.. math:: \mathrm{ESS} = \Bigl(\sum_s w_s\Bigr)^2 \Big/ \sum_s w_s^2 ,

of the weights alone: draws that depended on each other in the fit make it smaller still. Where
the counts lie far from what the fit expects, few draws are left, and only a refit can tell.

References
----------
.. [1] Kish (1965). Survey Sampling. Wiley, section 8.2; Kong, Liu and Wong (1994). Sequential
   imputations and Bayesian missing data problems. JASA 89, 278-288.
"""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy import special, stats

from bayes_sd.acceptance_levels import accepted_moments, rates_of_steps
from bayes_sd.acceptance_likelihoods import SHARED, deviation_variance, squared_slope
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.live_counts import AcceptCounts
from bayes_sd.nearest import unknown_label
from bayes_sd.posterior import drawn, find_label
from bayes_sd.validate import positive, whole_number

MIN_ESS = 200.0


def update_acceptance(
    tree: xr.DataTree,
    counts: AcceptCounts | Sequence[AcceptCounts],
    pair_or_group: str | None = None,
    *,
    min_ess: float = MIN_ESS,
    random_seed: int = 0,
) -> xr.DataTree:
    """Return a fit whose draws also know new accept counts of one acceptance group.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, of runs whose acceptance was counted.
    counts : AcceptCounts or sequence of AcceptCounts
        New windows, each one more run of the group.
    pair_or_group : str, optional
        Label of an acceptance group, or of a pair with one group; a part of it will do. Not
        needed where the fit has one group.
    min_ess : float
        Least effective number of draws to go on with.
    random_seed : int
        Seed of the draws taken.

    Returns
    -------
    xarray.DataTree
        With the groups and sizes of the fit, for every function that takes one. Draws repeat.
        Its attributes ``update_ess`` and ``update_group`` say what it rests on; counts that the
        fit or an earlier update has seen must not be given again.

    Raises
    ------
    ArgumentError, UnknownPairError
        If an argument is out of range, or the group is not named and the fit has several.
    DataError
        If acceptance was not counted in the fit (see `conjugate_acceptance`), the drafts are
        longer than any fitted, or too few draws are left: refit then.

    Examples
    --------
    >>> counts = AcceptCounts((700, 480, 310), num_drafts=1000, num_requests=40)
    >>> updated = update_acceptance(tree, counts)  # doctest: +SKIP
    """
    listed = [counts] if isinstance(counts, AcceptCounts) else list(counts)
    if not listed or not all(isinstance(each, AcceptCounts) for each in listed):
        raise ArgumentError("counts must be AcceptCounts, one or several. Got something else.")
    positive(min_ess, "min_ess")
    whole_number(random_seed, "random_seed", minimum=0)
    group, label = _group_of(tree, pair_or_group)
    weight = _log_weights(tree, listed, group)
    weight = np.exp(weight - special.logsumexp(weight))
    ess = float(1 / (weight**2).sum())
    if not ess >= min_ess:
        raise DataError(
            f"the new counts must leave at least {min_ess:g} effective draws of {label!r}. Got "
            f"{ess:.1f} of {len(weight)} instead: they lie where the fit has hardly any, so "
            "acceptance moved, or they say far more than its runs. Refit with them as a run."
        )
    rng = np.random.default_rng(random_seed)
    # systematic resampling: Kitagawa (1996), J. Comput. Graph. Stat. 5, 1-25
    places = (rng.random() + np.arange(len(weight))) / len(weight)
    at = np.minimum(np.searchsorted(np.cumsum(weight), places), len(weight) - 1)
    shape = tree["posterior"].sizes["chain"], tree["posterior"].sizes["draw"]
    updated = tree.copy()  # shallow: variables of its own, which share their arrays
    for node in updated.children.values():
        for variable in node.variables.values():
            if variable.dims[:2] == ("chain", "draw") and variable.shape[:2] == shape:
                rows = variable.values.reshape(-1, *variable.shape[2:])
                variable.values = rows.take(at, axis=0).reshape(variable.shape)
    updated.attrs = dict(tree.attrs) | {"update_ess": ess, "update_group": label}
    return updated


def _group_of(tree: xr.DataTree, name: str | None) -> tuple[int, str]:
    """Return number and label of the group meant."""
    constant = tree["constant_data"].variables
    labels = [str(label) for label in constant["acceptance_group"].values]
    if "acceptance_run_sd" not in tree["posterior"].variables or not labels:
        raise DataError(
            "the fit must have an acceptance group that was counted. Got none, for its rates were "
            "forced: conjugate_acceptance(counts) updates a prior that you state, and "
            "Scenario(acceptance=...) takes its means."
        )
    if name is None and len(labels) == 1:
        return 0, labels[0]
    found = None if name is None else find_label(name, labels)
    pairs = [str(label) for label in constant["pair"].values]
    pair = None if name is None or found is not None else find_label(name, pairs)
    if pair is not None:
        groups = np.unique(constant["group_of_run"].values[constant["pair_of_run"].values == pair])
        groups = groups[groups >= 0]
        if not len(groups):
            raise DataError(
                f"acceptance of {pairs[pair]!r} must have been counted. It was forced or not "
                "given: conjugate_acceptance(counts) updates a prior that you state."
            )
        found = int(groups[0]) if len(groups) == 1 else None
    if found is None and (name is None or pair is not None):
        raise UnknownPairError(
            f"pair_or_group must name one acceptance group: {'; '.join(map(repr, labels))}. "
            f"Got {name!r} instead."
        )
    if found is None:
        known = "the acceptance groups that were counted, or their pairs"
        raise UnknownPairError(unknown_label("pair or group", str(name), labels + pairs, known))
    return found, labels[found]


def _log_weights(tree: xr.DataTree, counts: Sequence[AcceptCounts], group: int) -> np.ndarray:
    """Return the log likelihood of the counts in each draw, (draw,)."""
    variables = tree["posterior"].variables
    table = drawn(variables, "conditional_acceptance_rate", acceptance_group=group)
    request_sd = drawn(variables, "acceptance_request_sd")
    run_sd = drawn(variables, "acceptance_run_sd")
    total = np.zeros(len(table))
    of_length: dict[int, list[np.ndarray]] = {}
    for each in counts:
        if each.length > table.shape[1]:
            raise DataError(
                f"drafts must have at most {table.shape[1]} tokens, the longest fitted. Got "
                f"{each.length} instead: measure and refit."
            )
        if each.length not in of_length:
            rates = rates_of_steps(list(table[:, : each.length].T), request_sd, each.length)
            of_length[each.length] = rates
        variance = deviation_variance(request_sd, run_sd, each.num_requests)
        total += (_log_mean if each.is_total else _log_counts)(
            each, of_length[each.length], variance
        )
    return total


def _log_counts(each: AcceptCounts, rates: list[np.ndarray], variance: np.ndarray) -> np.ndarray:
    """Return the log density of counts by position: `conditional_logits`, `observe_accepted`.

    What does not depend on the draw, the binomial coefficient, is left out.
    """
    alone, shared = (1 - SHARED) * variance, SHARED * variance
    score, known = np.zeros_like(variance), np.zeros_like(variance)
    total = np.zeros_like(variance)
    trials = each.num_drafts
    for rate, accepted in zip(rates, each.accepted, strict=True):
        rate = np.clip(rate, 1e-12, 1 - 1e-12)
        left = shared / (1 + shared * known)
        odds = rate / (1 - rate) * np.exp(left * score)
        alpha, beta = (1 + odds) / (left + alone), (1 + 1 / odds) / (left + alone)
        # three times as fast as the difference of two special.betaln, and as exact
        total += _log_rising(alpha, accepted) + _log_rising(beta, trials - accepted)
        total -= _log_rising(alpha + beta, trials)
        bits = trials * rate * (1 - rate)
        weight = 1 / (1 + bits * alone)
        score, known = score + weight * (accepted - trials * rate), known + weight * bits
        trials = accepted
    return total


def _log_rising(start: np.ndarray, steps: int) -> np.ndarray:
    """Return the log of start (start + 1) ... (start + steps - 1)."""
    return special.gammaln(start + steps) - special.gammaln(start)


def _log_mean(each: AcceptCounts, rates: list[np.ndarray], variance: np.ndarray) -> np.ndarray:
    """Return the log density of a mean per step: `observe_mean_accepted`."""
    mean, of_step, slopes = accepted_moments(rates, each.length)
    steps = each.num_drafts
    spread = of_step / steps + variance * squared_slope(slopes) + 1 / steps**2
    return np.asarray(stats.norm.logpdf(sum(each.accepted) / steps, mean, np.sqrt(spread)))
