"""What the runs can tell of each acceptance group: margins it shares, rates, information."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.physics.acceptance import unconditional_acceptance

UNKNOWN_RATE = 0.7  # a starting value where nothing was counted, about the prior's middle
MARGINS = ("drafter", "workload", "sampling")


def margin_labels(data: xr.Dataset, margin: str) -> np.ndarray:
    """Return the label of each acceptance group along one margin, (acceptance_group,).

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    margin : {"drafter", "workload", "sampling"}
        A drafter is meant with its verifier and method: acceptance belongs to all three.
    """
    if margin != "drafter":
        return np.asarray(data[f"{margin}_of_group"].values, dtype=str)
    names = [data[f"{n}_of_group"].values for n in ("verifier", "method", "drafter")]
    return np.array([f"{v} + {m} ({d})" for v, m, d in zip(*names, strict=True)], dtype=str)


def group_margins(data: xr.Dataset) -> dict[str, tuple[list[str], np.ndarray]]:
    """Return the margins that groups share: labels of their levels, and the level of each group.

    A margin is there only if it has several levels and groups share some of them. With one
    workload, or with as many drafters as groups, it would say nothing that the groups do not.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    dict of str to (list of str, array of int)
        By name of the margin, in the order of ``MARGINS``.
    """
    found = {}
    for margin in MARGINS:
        labels, level = np.unique(margin_labels(data, margin), return_inverse=True)
        if 1 < len(labels) < data.sizes["acceptance_group"]:
            found[margin] = ([str(label) for label in labels], level)
    return found


def pooled_rates(data: xr.Dataset) -> np.ndarray:
    """Return rough conditional rates of each group: (acceptance_group, position).

    Counts are added over runs. Positions without counts take the one rate that gives the group's
    mean of accepted drafts per step, or its rate over all positions. For coordinates and starting
    values only.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    """
    shape = (data.sizes["acceptance_group"], data.sizes["position"])
    drafts = data["num_speculative_tokens"].values
    rates = np.empty(shape)
    for group in range(shape[0]):
        at = data["group_of_run"].values == group
        accepted = data["accepted_at_position"].values[at].sum(axis=0)
        trials = data["trials_at_position"].values[at].sum(axis=0)
        overall = (accepted.sum() + 1) / (trials.sum() + 2) if trials.any() else UNKNOWN_RATE
        steps = data["steps_of_mean"].values[at]
        if steps.sum() > 0 and not trials.any():
            mean = np.nan_to_num(data["accepted_per_step"].values[at])
            overall = _constant_rate(float(steps @ mean), steps, drafts[at])
        rates[group] = np.where(trials > 0, (accepted + 1) / (trials + 2), overall)
    return np.clip(rates, 0.01, 0.99)


def _constant_rate(total: float, steps: np.ndarray, drafts: np.ndarray) -> float:
    """Return the rate, the same at every position, that gives a total of accepted drafts."""
    powers = np.arange(1, int(drafts.max()) + 1)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        survival = middle**powers * (powers <= drafts[:, None])
        low, high = (middle, high) if steps @ survival.sum(axis=1) < total else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Information:
    """How much the runs tell of each group; arrays (acceptance_group,).

    Attributes
    ----------
    place : array of float
        Mean of position - 1, weighted by information: there the logit is known best.
    lift : array of float
        Weighted mean of the `step_shift` of the runs, for requests that differ by 1.
    of_level : array of float
        Fisher information on the logit at that place, 1/logit^2.
    of_decay : array of float
        Fisher information on the decay.
    """

    place: np.ndarray
    lift: np.ndarray
    of_level: np.ndarray
    of_decay: np.ndarray


def information(data: xr.Dataset, deviation_variance: np.ndarray) -> Information:
    """Return how much the runs tell of each group's logit and decay.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    deviation_variance : array, (run,)
        Rough variance of a run's logit about its group's: no run tells more than that.

    Returns
    -------
    Information
    """
    rates = pooled_rates(data)[np.maximum(data["group_of_run"].values, 0)]
    variance = deviation_variance[:, None]
    # One row per run: its counts at each position, then its mean over all of them.
    bits = data["trials_at_position"].values * rates * (1 - rates)
    bits = bits / (1 + bits * variance)
    place = np.broadcast_to(np.arange(data.sizes["position"], dtype=float), bits.shape)
    mean_bits, mean_place = _of_mean(data, rates)
    mean_bits = mean_bits / (1 + mean_bits * deviation_variance)
    bits = np.column_stack([bits, mean_bits])
    place = np.column_stack([place, mean_place])
    group = data["group_of_run"].values
    shift = step_shift(list(rates.T), 1.0, data["num_speculative_tokens"].values)
    of_level, of_decay, center, lift = np.zeros((4, data.sizes["acceptance_group"]))
    for g in range(len(of_level)):
        at = group == g
        of_level[g] = bits[at].sum()
        if of_level[g] > 0:
            center[g] = (bits[at] * place[at]).sum() / of_level[g]
            lift[g] = bits[at].sum(axis=1) @ shift[at] / of_level[g]
        of_decay[g] = (bits[at] * (place[at] - center[g]) ** 2).sum()
    return Information(center, lift, of_level, of_decay)


def _of_mean(data: xr.Dataset, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return information of a mean per step on a common shift of the logits, and its place."""
    drafts = data["num_speculative_tokens"].values
    columns = list(rates.T)
    _, variance, slopes = accepted_moments(columns, drafts)
    total = sum(slopes) + 1e-12
    place = sum(j * slope for j, slope in enumerate(slopes)) / total
    return data["steps_of_mean"].values * total**2 / (variance + 1e-12), place


def accepted_moments(
    rates: Sequence[Any], num_speculative_tokens: Any
) -> tuple[Any, Any, list[Any]]:
    r"""Return mean and variance of the accepted drafts of a step, and slopes in the logits.

    With :math:`q_j = \prod_{i \le j} a_i` for j up to k, and A the accepted drafts of a step,
    :math:`P(A \ge j) = q_j`, so

    .. math::

        E[A] = \sum_j q_j, \quad E[A^2] = \sum_j (2j - 1) q_j, \quad
        \frac{\partial E[A]}{\partial \operatorname{logit} a_j} = (1 - a_j) \sum_{i \ge j} q_i .

    Parameters
    ----------
    rates : list of arrays or tensors
        Conditional acceptance rate at each position.
    num_speculative_tokens : array of int
        Draft length k, in the shape of a rate.

    Returns
    -------
    mean, variance : array or tensor
        Of the accepted drafts of one step, tokens and tokens^2.
    slopes : list of arrays or tensors
        By position, tokens per unit of logit.

    Examples
    --------
    >>> mean, variance, slopes = accepted_moments([np.array(0.5), np.array(0.5)], np.array(2))
    >>> float(mean), float(variance), [float(s) for s in slopes]
    (0.75, 0.6875, [0.375, 0.125])
    """
    products = unconditional_acceptance(rates)
    survival = [(num_speculative_tokens >= j) * q for j, q in enumerate(products, start=1)]
    mean = sum(survival)
    square = sum((2 * j - 1) * q for j, q in enumerate(survival, start=1))
    slopes = []
    behind = 0.0 * mean
    for rate, q in zip(reversed(rates), reversed(survival), strict=True):
        behind = behind + q
        slopes.append((1 - rate) * behind)
    return mean, square - mean**2, slopes[::-1]


def step_shift(rates: Sequence[Any], request_sd: Any, num_speculative_tokens: Any) -> Any:
    r"""Return by how much the logits of the steps lie below those of the requests.

    Harder requests take more steps, 1 / E of theirs, and the more so the longer the drafts. To
    first order in the spread of requests, the mean logit of the steps is lower by
    :math:`\sigma_{request}^2 \, \partial \log E / \partial \theta`, with :math:`\theta` a shift of
    all logits. It is why the rate at position 1 falls as k rises.

    Parameters
    ----------
    rates : list of arrays or tensors
        Conditional acceptance rate at each position, requests weighing alike.
    request_sd : array or tensor
        Standard deviation of the logit between requests.
    num_speculative_tokens : int or array of int
        Draft length k.

    Examples
    --------
    >>> round(step_shift([0.5, 0.5], 0.4, 2), 4)
    0.0457
    """
    mean, _, slopes = accepted_moments(rates, num_speculative_tokens)
    return request_sd**2 * sum(slopes) / (1 + mean)


def rates_of_steps(rates: Sequence[Any], request_sd: Any, num_speculative_tokens: Any) -> list[Any]:
    """Return the conditional rates of a draft length's steps from those of the requests.

    These are the rates that engines count, and that steps and tokens per step follow from: within
    0.3 % of tokens per step if requests differ by 0.5 in the logit, 1.7 % at 0.8 (k from 1 to 5
    together; without it 1.1 % and 2.3 %).

    Parameters
    ----------
    rates : list of arrays or tensors
        ``conditional_acceptance_rate`` at each position.
    request_sd : array or tensor
        ``acceptance_request_sd``.
    num_speculative_tokens : int or array of int
        Draft length k.

    Examples
    --------
    >>> [round(rate, 4) for rate in rates_of_steps([0.5, 0.5], 0.4, 2)]
    [0.4886, 0.4886]
    """
    factor = math.e ** -step_shift(rates, request_sd, num_speculative_tokens)
    return [rate * factor / (rate * factor + 1 - rate) for rate in rates]
