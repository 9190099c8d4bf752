r"""The acceptance part of the model: a hierarchy of logits, what is observed of it, steps.

A group is a drafter (of a verifier) x workload x sampling setting. With g for the group and j for
the position,

.. math::

    \operatorname{logit} a_{gj} = \theta_g - \delta_g (j - 1), \qquad
    \theta_g \sim N(\mu + D_{drafter} + W_{workload} + S_{sampling}, \sigma), \qquad
    \delta_g \sim N(\bar\delta, \sigma_\delta).

The margins D, W and S are there only where groups share their levels (`group_margins`).
Decay has either sign: later drafts are harder, but the requests that reach them are easier.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayes_sd.acceptance_levels import accepted_moments, group_margins, information, step_shift
from bayes_sd.acceptance_likelihoods import (
    conditional_logits,
    deviation_variance,
    observe_accepted,
    observe_mean_accepted,
    squared_slope,
)
from bayes_sd.physics.acceptance import (
    expected_steps,
    expected_steps_renewal,
    positional_acceptance,
)
from bayes_sd.population import draw
from bayes_sd.priors import Prior


def _partially_centered(
    name: str, center: Any, spread: Any, is_centered: np.ndarray, dim: str
) -> Any:
    """Add a normal variable, centred where the data say more of an element than the prior.

    The variable `name` holds the value of centred elements, and for the others how many spreads
    they lie from their centre; the same distribution in better coordinates.
    """
    value = pm.Normal(
        name,
        pt.switch(is_centered, center, 0.0),
        pt.switch(is_centered, spread, 1.0),
        dims=dim,
    )
    return value if is_centered.all() else pt.switch(is_centered, value, center + spread * value)


def _centers(data: xr.Dataset, priors: dict[str, Prior]) -> Any:
    """Add population and margins; return what is expected of each group's first logit."""
    center = draw("acceptance_logit", priors["acceptance_logit"])
    for margin, (labels, level) in group_margins(data).items():
        dim = f"acceptance_{margin}"
        pm.modelcontext(None).add_coord(dim, labels)
        spread = draw(f"{dim}_sd", priors[f"{dim}_sd"])
        groups = np.bincount(level, minlength=len(labels))
        ratio = priors[f"{dim}_sd"].center / priors["acceptance_group_sd"].center
        value = _partially_centered(f"{dim}_coordinate", 0.0, spread, groups * ratio**2 > 1, dim)
        effect = pm.Deterministic(f"{dim}_effect", value, dims=dim)
        center = center + effect[level]
    return center


def _low(prior: Prior) -> float:
    """Return the lower end of what a group scale may be: one standard deviation down."""
    return float(prior.center * np.exp(-prior.spread))


def _logits(data: xr.Dataset, request_sd: Any, priors: dict[str, Prior]) -> tuple[Any, Any]:
    """Add the hierarchy; return first logit and decay of each group, (group,).

    A centred group is sampled by the logit that its runs know best, that of their steps at their
    mean position: level, decay and spread of the requests are then nearly independent. The prior
    is untouched, for the level moves by what does not depend on it (unit Jacobian).
    """
    known = information(
        data,
        deviation_variance(
            priors["acceptance_request_sd"].center,
            priors["acceptance_run_sd"].center,
            data["num_requests"].values,
        ),
    )
    center = _centers(data, priors)
    spread_prior = priors["acceptance_group_sd"]
    spread = draw("acceptance_group_sd", spread_prior)
    is_centered = known.of_level * _low(spread_prior) ** 2 > 1
    decay: Any = np.zeros(data.sizes["acceptance_group"])
    if data.sizes["position"] > 1:
        decay_prior = priors["acceptance_decay_sd"]
        decay = _partially_centered(
            "acceptance_decay_coordinate",
            draw("acceptance_decay", priors["acceptance_decay"]),
            draw("acceptance_decay_sd", decay_prior),
            known.of_decay * _low(decay_prior) ** 2 > 1,
            "acceptance_group",
        )
    offset = known.place * decay + known.lift * request_sd**2
    offset = pt.switch(is_centered, offset, 0.0)
    level = _partially_centered(
        "acceptance_coordinate", center - offset, spread, is_centered, "acceptance_group"
    )
    return level + offset, pt.as_tensor(decay)


def _settings(data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return group and draft length of each setting, (setting, 2), and the setting of each run.

    A run without a group belongs to none: -1.
    """
    group, drafts = data["group_of_run"].values, data["num_speculative_tokens"].values
    at = np.flatnonzero(group >= 0)
    keys, inverse = np.unique(np.stack([group[at], drafts[at]], -1), axis=0, return_inverse=True)
    setting = np.full(len(group), -1)
    setting[at] = inverse
    return keys, setting


def _observe_counts(
    data: xr.Dataset, logits: Any, setting: np.ndarray, variance: Any, *, replaceable: bool
) -> None:
    """Add ``accepted``, the counts by position of all runs that have them."""
    counted = np.flatnonzero(data["trials_at_position"].values.any(axis=1))
    if not len(counted):
        return
    longest = int(data["num_speculative_tokens"].values[counted].max())
    accepted = data["accepted_at_position"].values[counted, :longest]
    trials = data["trials_at_position"].values[counted, :longest]
    used = trials > 0
    if replaceable:  # all positions that a run drafts: the same whatever is accepted
        used = np.arange(longest) < data["num_speculative_tokens"].values[counted][:, None]
        accepted = pm.Data("accepted_counts", accepted)
        trials = pt.specify_shape(pm.Data("trials_counts", trials), used.shape)
    mean, spread = conditional_logits(
        logits[setting[counted], :longest], accepted, trials, variance[counted]
    )
    cell = np.flatnonzero(used)
    run, position = np.nonzero(used)
    names = data["run"].values[counted]
    labels = [f"{names[r]} position {j + 1}" for r, j in zip(run, position, strict=True)]
    pm.modelcontext(None).add_coord("count", labels)
    observe_accepted(
        "accepted",
        accepted.ravel()[cell],
        trials.ravel()[cell],
        logit=mean.ravel()[cell],
        variance=spread.ravel()[cell],
        dims="count",
    )


def _observe_means(
    data: xr.Dataset, rates: list[Any], drafts: np.ndarray, setting: np.ndarray, variance: Any
) -> None:
    """Add ``accepted_per_step``, the means of all runs of which only that is known."""
    at = np.flatnonzero(data["steps_of_mean"].values > 0)
    if not len(at):
        return
    mean, step_variance, slopes = accepted_moments(rates, drafts)
    moments = pt.stack([mean, step_variance, squared_slope(slopes)], axis=-1)[setting[at]]
    pm.modelcontext(None).add_coord("mean", data["run"].values[at])
    observe_mean_accepted(
        "accepted_per_step",
        data["accepted_per_step"].values[at],
        data["steps_of_mean"].values[at],
        moments=(moments[:, 0], moments[:, 1], moments[:, 2]),
        variance=variance[at],
        dims="mean",
    )


def add_acceptance(
    data: xr.Dataset, priors: dict[str, Prior], *, replaceable: bool = False
) -> tuple[list[Any], np.ndarray]:
    """Add the acceptance of all groups, and what was observed of it, to the model in context.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`; the model must have its dims ``acceptance_group`` and
        ``position`` as coordinates.
    priors : dict of str to Prior
        Table of priors.

    Returns
    -------
    rates : list of tensors, (setting,)
        Conditional acceptance rate of the steps at each position, one element for each group
        and draft length in use.
    setting : array of int, (run,)
        Setting of each run, -1 where acceptance is forced or not needed.

    Notes
    -----
    Stores ``conditional_acceptance_rate`` (acceptance_group, position), in which all requests of
    the workload weigh alike; `rates_of_steps` makes those of a draft length's steps of it.

    Observes ``accepted`` (count) and ``accepted_per_step`` (mean), each if any run has it. The
    density of ``accepted`` is written position by position, each given the earlier ones of its
    run, so draws of it are one-step-ahead predictions and not whole new runs.
    """
    request_sd = draw("acceptance_request_sd", priors["acceptance_request_sd"])
    intercept, decay = _logits(data, request_sd, priors)
    by_request = positional_acceptance(intercept, decay, data.sizes["position"])
    pm.Deterministic(
        "conditional_acceptance_rate",
        pt.stack(by_request, axis=-1),
        dims=("acceptance_group", "position"),
    )
    variance = deviation_variance(
        request_sd,
        draw("acceptance_run_sd", priors["acceptance_run_sd"]),
        data["num_requests"].values.astype(float),
    )
    keys, setting = _settings(data)
    group, drafts = keys.T
    longest = int(drafts.max())
    shift = step_shift([rate[group] for rate in by_request[:longest]], request_sd, drafts)
    first = intercept[group] - shift
    rates = positional_acceptance(first, decay[group], longest)
    logits = first[:, None] - decay[group][:, None] * np.arange(longest)
    _observe_counts(data, logits, setting, variance, replaceable=replaceable)
    _observe_means(data, rates, drafts, setting, variance)
    return rates, setting


def steps_of_runs(data: xr.Dataset) -> np.ndarray:
    """Return the expected steps of each run whose acceptance is known or not needed.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    array of float, (run,)
        Steps to emit the answer after its first token; NaN where acceptance is to be estimated.
    """
    drafts = data["num_speculative_tokens"].values
    emitted = np.maximum(np.rint(data["output_len_tokens"].values).astype(int) - 1, 0)
    told = data["known_acceptance_rate"].values
    known = (drafts == 0) | ~np.isnan(told)
    rate = np.where(drafts == 0, 0.0, np.nan_to_num(told))
    keys, inverse = np.unique(
        np.stack([emitted, drafts, rate], axis=-1), axis=0, return_inverse=True
    )
    steps = [
        float(expected_steps(int(m), [float(a)] * int(k), int(k))) if k else m for m, k, a in keys
    ]
    return np.where(known, np.array(steps)[inverse], np.nan)


def add_steps(data: xr.Dataset, priors: dict[str, Prior], *, replaceable: bool = False) -> Any:
    """Return the expected steps of each run, (run,); adds acceptance where it is estimated.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors.

    Returns
    -------
    tensor, (run,)
        Steps to emit the answer after its first token.
    """
    known = steps_of_runs(data)
    estimated = np.flatnonzero(np.isnan(known))
    if not len(estimated):
        return pt.as_tensor(known)
    rates, setting = add_acceptance(data, priors, replaceable=replaceable)
    # One element per setting and answer length, not per run.
    drafts = data["num_speculative_tokens"].values[estimated]
    emitted = data["output_len_tokens"].values[estimated] - 1
    keys, first, inverse = np.unique(
        np.stack([setting[estimated], emitted], axis=-1),
        axis=0,
        return_index=True,
        return_inverse=True,
    )
    number = keys[:, 0].astype(int)
    longest = int(drafts.max())
    steps = expected_steps_renewal(
        keys[:, 1], [rate[number] for rate in rates[:longest]], drafts[first]
    )
    return pt.as_tensor(np.nan_to_num(known))[estimated].set(steps[inverse])
