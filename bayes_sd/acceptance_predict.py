"""How many tokens a step will emit: for groups that were measured, and for new combinations."""

from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.acceptance_levels import MARGINS, margin_labels, rates_of_steps
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.nearest import did_you_mean, nearest_first, unknown_label
from bayes_sd.physics.acceptance import mean_acceptance_length, positional_acceptance
from bayes_sd.posterior import find_label, flat_draws
from bayes_sd.validate import whole_number

MEASURED, CROSSED, NEW = "measured", "new combination", "new level"


def predict_acceptance_length(
    tree: xr.DataTree,
    pair_or_group: str,
    num_speculative_tokens: int,
    workload: str | None = None,
    sampling: str | None = None,
    *,
    allow_new: bool = False,
    random_seed: int = 0,
) -> xr.DataArray:
    r"""Return draws of the mean acceptance length, tokens per step.

    :math:`E = 1 + \sum_{j \le k} \prod_{i \le j} a_i`, the verifier's own token counted
    (`bayes_sd.physics.acceptance`). It is that of the workload, over infinitely many requests:
    what one run reports spreads about it by its requests.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    pair_or_group : str
        Label of an acceptance group or of a pair, or a part of it that fits only one.
    num_speculative_tokens : int
        Draft length k, from 0 to the longest measured.
    workload, sampling : str, optional
        As in the table of runs. By default those of the group; a pair's own, if it has one only.
        A known drafter on a workload and sampling setting that only others were measured at is
        predicted from what drafters, workloads and settings have in common.
    allow_new : bool
        Whether a workload or sampling setting may be new to the whole fit; it is then drawn from
        the population.
    random_seed : int
        Seed of what is drawn anew.

    Returns
    -------
    xarray.DataArray
        Tokens per step, dims (sample,). The attribute ``status`` is ``measured``,
        ``new combination`` or ``new level``; ``group`` names what was predicted.

    Raises
    ------
    ArgumentError
        If k is out of range, or the pair was measured at several workloads or settings and it is
        not said which.
    DataError
        If acceptance was not counted, or k is longer than any measured.
    UnknownPairError
        If no label fits or several do, or a workload or sampling setting is unknown.

    Examples
    --------
    >>> predict_acceptance_length(tree, "quick", 3).mean()  # doctest: +SKIP
    """
    whole_number(num_speculative_tokens, "num_speculative_tokens", minimum=0)
    constant = tree["constant_data"].to_dataset()
    posterior = tree["posterior"].to_dataset()
    groups = _groups_of(constant, pair_or_group)
    wanted = {
        "drafter": str(margin_labels(constant, "drafter")[groups[0]]),
        "workload": _wanted(constant, groups, "workload", workload, allow_new),
        "sampling": _wanted(constant, groups, "sampling", sampling, allow_new),
    }
    longest = posterior.sizes["position"]
    if num_speculative_tokens > longest:
        raise DataError(
            f"num_speculative_tokens must be at most {longest}, the longest draft measured. Got "
            f"{num_speculative_tokens} instead: measure it, or ask for a shorter one."
        )
    labels = {margin: margin_labels(constant, margin) for margin in MARGINS}
    at = np.flatnonzero(np.all([labels[m] == wanted[m] for m in MARGINS], axis=0))
    if len(at):
        table = flat_draws(
            posterior["conditional_acceptance_rate"].isel(acceptance_group=int(at[0]))
        )
        rates = list(table.T)
        status = MEASURED
    else:
        rates = _new_rates(posterior, wanted, random_seed)
        status = CROSSED if all(wanted[m] in labels[m] for m in MARGINS) else NEW
    count = int(num_speculative_tokens)
    rates = rates_of_steps(rates, flat_draws(posterior["acceptance_request_sd"]), count)
    length = np.broadcast_to(mean_acceptance_length(rates, count), np.shape(rates[0]))
    return xr.DataArray(
        length.astype(float),
        dims="sample",
        name="mean_acceptance_length",
        attrs={
            "units": "tokens/step",
            "num_speculative_tokens": count,
            "status": status,
            "group": ", ".join(wanted.values()),
        },
    )


def _groups_of(constant: xr.Dataset, name: str) -> np.ndarray:
    """Return the acceptance groups that a label means: one, or those of a pair."""
    groups = [str(g) for g in constant["acceptance_group"].values]
    pairs = [str(p) for p in constant["pair"].values]
    if name in groups:
        return np.array([groups.index(name)])
    pair = find_label(name, pairs)
    if pair is not None:
        found = constant["group_of_run"].values[constant["pair_of_run"].values == pair]
        found = np.unique(found[found >= 0])
        if not len(found):
            raise DataError(
                f"acceptance of {pairs[pair]!r} was not counted in the fitted runs. Its rate was "
                "forced: bayes_sd.physics.mean_acceptance_length([rate] * k, k) is its length."
            )
        return found
    group = find_label(name, groups)
    if group is not None:
        return np.array([group])
    known = "the fitted pairs or acceptance groups"
    raise UnknownPairError(unknown_label("pair or group", name, pairs + groups, known))


def _wanted(
    constant: xr.Dataset, groups: np.ndarray, margin: str, given: str | None, allow_new: bool
) -> str:
    """Return the level asked for: as given, else the only one of the groups."""
    labels = margin_labels(constant, margin)
    if given is None:
        own = sorted({str(label) for label in labels[groups]})
        if len(own) > 1:
            raise ArgumentError(
                f"the pair was measured at {len(own)} levels of {margin} ({', '.join(own)}). "
                f"Say which: {margin}={own[0]!r}."
            )
        return own[0]
    known = sorted({str(label) for label in labels})
    if given not in known and not allow_new:
        listed = "; ".join(map(repr, nearest_first(given, known)))
        asked = f" {did_you_mean(given, known)}".rstrip()
        raise UnknownPairError(
            f"{margin} {given!r} is unknown.{asked} It must be one of those fitted: {listed}. For "
            "one that was never measured, drawn from the population: allow_new=True."
        )
    return given


def _new_rates(posterior: xr.Dataset, wanted: dict[str, str], random_seed: int) -> list[Any]:
    """Return rates by position of a combination that was not measured, each (sample,)."""
    rng = np.random.default_rng(random_seed)
    center = flat_draws(posterior["acceptance_logit"])

    def spread(name: str) -> np.ndarray:
        return flat_draws(posterior[name]) * rng.standard_normal(len(center))

    intercept = center + spread("acceptance_group_sd")
    for margin in MARGINS:
        dim = f"acceptance_{margin}"
        if dim not in posterior.dims:
            continue
        if wanted[margin] in posterior[dim].values:
            intercept = intercept + flat_draws(
                posterior[f"{dim}_effect"].sel({dim: wanted[margin]})
            )
        else:
            intercept = intercept + spread(f"{dim}_sd")
    decay: Any = 0.0
    if "acceptance_decay" in posterior:
        decay = flat_draws(posterior["acceptance_decay"]) + spread("acceptance_decay_sd")
    return positional_acceptance(intercept, decay, posterior.sizes["position"])
