"""From a fit to numbers: coefficients, acceptance and error scales of a pair, draw by draw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.equivalent_rate import equivalent_acceptance_rate
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.labels import experts_fraction
from bayes_sd.nearest import unknown_label
from bayes_sd.physics.acceptance import expected_steps, expected_steps_renewal
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.scenario import Scenario
from bayes_sd.spread_priors import PREFIX

BASE_FIELDS = (
    "prefill_fixed_s",
    "prefill_per_token_s",
    "prefill_stall_per_token_s",
    "verify_fixed_s",
    "verify_per_request_s",
    "context_per_token_s",
    "mixed_step_s",
    "knee_s_per_token",
    "knee_tokens",
    "knee_width_tokens",
)
# Only in fits whose verifiers or servers have them.
OPTIONAL_FIELDS = (
    "jump_64_s",
    "jump_128_s",
    "jump_256_s",
    "idle_drafter_s",
    "expert_share",
    "expert_load_cv",
    "hot_expert_growth",
)
TTFT_FIELDS = ("first_wait_steps", "ttft_fixed_s", "ttft_per_token_s", "ttft_discrepancy_sd")
SPREAD_FIELDS = ("spread_heterogeneity", "spread_skew", "backlog_s", "percentile_misfit_sd")
SPREAD_SCALARS = ("load_factor", "excess_misfit", "percentile_dof", "percentile_top_dof")
PAIR_FIELDS = ("draft_fixed_s", "draft_per_request_s", "verify_growth_per_draft")


type SpreadDraws = Callable[[str], dict[str, np.ndarray] | None]


def _no_spread(latency: str) -> None:
    """Tell that no run had percentiles of a latency."""


@dataclass(frozen=True)
class Cell:
    """Draws of one base, or of one pair on it; every array has shape (draw,).

    ``request_spread`` takes a latency and returns the draws that the spread of its requests is
    made of, by their names without prefix; None if no fitted run had percentiles of it.
    """

    base: int
    pair: int | None
    label: str
    costs: CostCoefficients
    boot_sd: np.ndarray
    discrepancy_sd: np.ndarray
    load_discrepancy_sd: np.ndarray
    request_cv: np.ndarray
    extrapolation_sd: np.ndarray
    first_wait_steps: np.ndarray | None = None
    ttft_fixed_s: np.ndarray | None = None
    ttft_per_token_s: np.ndarray | None = None
    ttft_discrepancy_sd: np.ndarray | None = None
    request_spread: SpreadDraws = _no_spread


def flat_draws(values: xr.DataArray) -> np.ndarray:
    """Put chains and draws in one axis, in front."""
    array = values.transpose("chain", "draw", ...).values  # stack() costs 3 ms, this none
    return array.reshape(-1, *array.shape[2:])


def drawn(variables: Mapping[Any, xr.Variable], name: str, **at: int) -> np.ndarray:
    """Return one variable's draws, chains and draws in one axis in front.

    Parameters
    ----------
    variables : mapping of str to xarray.Variable
        ``tree["posterior"].variables``: a DataArray costs a hundred times as long to index.
    name : str
        Which one.
    **at : int
        Number along each dim to take, such as ``base=0``.

    Returns
    -------
    array, (draw, ...) without the dims taken
    """
    variable = variables[name]
    dims = [d for d in variable.dims if d not in at]
    array = variable.values[tuple(at.get(str(d), slice(None)) for d in variable.dims)]
    if dims[:2] != ["chain", "draw"]:
        array = np.moveaxis(array, [dims.index("chain"), dims.index("draw")], [0, 1])
    return np.ascontiguousarray(array).reshape(-1, *array.shape[2:])


def fitted_pairs(tree: xr.DataTree) -> list[str]:
    """Return the labels of the pairs that a fit knows.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.

    Returns
    -------
    list of str
        What `Scenario` takes as its pair.

    Examples
    --------
    >>> known = xr.Dataset(coords={"pair": ["Qwen3-8B + eagle (drafter)"]})
    >>> fitted_pairs(xr.DataTree.from_dict({"constant_data": known}))
    ['Qwen3-8B + eagle (drafter)']
    """
    return [str(p) for p in tree["constant_data"].variables["pair"].values]


def fitted_bases(tree: xr.DataTree) -> list[str]:
    """Return the labels of the bases (a verifier on a deployment) that a fit knows."""
    return [str(b) for b in tree["constant_data"].variables["base"].values]


def find_label(name: str, labels: list[str]) -> int | None:
    """Return the number of the label that is ``name``, or the only one that contains it."""
    if name in labels:
        return labels.index(name)
    containing = [i for i, label in enumerate(labels) if name.lower() in label.lower()]
    return containing[0] if len(containing) == 1 else None


def find_cell(tree: xr.DataTree, name: str, *, drafts: bool) -> tuple[int, int | None]:
    """Return the numbers of the base and of the pair (None without speculation).

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    name : str
        Label of a pair or, without drafts, of a base; or a part of it that fits only one.
    drafts : bool
        Whether the scenario drafts, and so needs a pair.

    Raises
    ------
    UnknownPairError
        If no label fits or several do; the message names the nearest, then all.
    """
    pairs, bases = fitted_pairs(tree), fitted_bases(tree)
    pair = find_label(name, pairs)
    if pair is not None:
        return int(tree["constant_data"].variables["base_of_pair"].values[pair]), pair
    base = find_label(name, bases)
    if base is not None and not drafts:
        return base, None
    allowed = pairs if drafts else pairs + bases
    known = f"the fitted pairs{'' if drafts else ' or, without speculation, bases'}"
    raise UnknownPairError(unknown_label("pair", name, allowed, known))


def cell(tree: xr.DataTree, name: str, *, drafts: bool) -> Cell:
    """Return the draws of a cell; see `find_cell` for the name and the errors."""
    base, pair = find_cell(tree, name, drafts=drafts)
    posterior, constant = tree["posterior"].variables, tree["constant_data"].variables
    fields: dict[str, Any] = {f: drawn(posterior, f, base=base) for f in BASE_FIELDS}
    present = [f for f in OPTIONAL_FIELDS if f in posterior]
    fields |= {f: drawn(posterior, f, base=base) for f in present}
    if "expert_share" in fields:
        fields["experts_fraction"] = float(experts_fraction(tree["constant_data"].dataset)[base])
    if pair is None:
        fields |= dict.fromkeys(PAIR_FIELDS, np.zeros(1))
    else:
        fields |= {f: drawn(posterior, f, pair=pair) for f in PAIR_FIELDS}
    deployment = int(constant["deployment_of_base"].values[base])
    label = constant["base" if pair is None else "pair"].values[base if pair is None else pair]
    errors = ("discrepancy_sd", "load_discrepancy_sd", "request_cv", *TTFT_FIELDS)
    return Cell(
        base,
        pair,
        str(label),
        CostCoefficients(**fields),
        boot_sd=drawn(posterior, "boot_sd", deployment=deployment),
        extrapolation_sd=drawn(posterior, "extrapolation_sd"),
        request_spread=partial(_request_spread, posterior, base),
        **{f: drawn(posterior, f, base=base) for f in errors if f in posterior},
    )


def _request_spread(
    posterior: Mapping[Any, xr.Variable], base: int, latency: str
) -> dict[str, np.ndarray] | None:
    """Return the draws that the spread of requests is made of, None if no run had percentiles."""
    prefix = PREFIX[latency]
    if f"{prefix}spread_heterogeneity" not in posterior:
        return None
    found = {f: drawn(posterior, prefix + f, base=base) for f in SPREAD_FIELDS}
    return found | {f: drawn(posterior, prefix + f) for f in SPREAD_SCALARS}


def group_of_pair(tree: xr.DataTree, pair: int) -> int | None:
    """Return the acceptance group of a pair's runs; None if acceptance was not counted."""
    constant = tree["constant_data"].variables
    groups = constant["group_of_run"].values[constant["pair_of_run"].values == pair]
    found = np.unique(groups[groups >= 0])
    if len(found) > 1:
        names = [str(constant["acceptance_group"].values[g]) for g in found]
        raise ArgumentError(
            f"the pair's runs have {len(found)} acceptance groups ({', '.join(names)}). "
            "Say which acceptance to predict for: Scenario(..., acceptance=...)."
        )
    return int(found[0]) if len(found) else None


def steps_and_rates(
    tree: xr.DataTree, scenario: Scenario, where: Cell, output_len: float
) -> tuple[np.ndarray, list[Any]]:
    """Return the expected steps of a request, (draw,) or (1,), and the rates they follow from.

    Raises
    ------
    DataError
        If the scenario drafts and acceptance is neither given nor counted, or was not counted at
        so late a position.
    """
    drafts = scenario.num_speculative_tokens
    emitted = max(output_len - 1.0, 0.0)
    if drafts == 0:
        return np.array([emitted]), []
    given: Any = scenario.acceptance
    if scenario.mean_acceptance_length is not None:
        given = equivalent_acceptance_rate(scenario.mean_acceptance_length, drafts)
    if given is None and not scenario.is_chain:
        raise DataError(
            "mean_acceptance_length must be given for a tree or adaptive drafting: rates by "
            "position are those of a chain. Give Scenario(..., mean_acceptance_length=3.1)."
        )
    if given is not None:
        rates = (list(given) if isinstance(given, tuple) else [given] * drafts)[:drafts]
        low, rest = int(emitted), emitted - int(emitted)
        steps = expected_steps(np.array([low, low + 1]), rates, drafts)
        return np.array([(1 - rest) * steps[0] + rest * steps[1]]), rates
    group = None if where.pair is None else group_of_pair(tree, where.pair)
    if group is None:
        raise DataError(
            f"acceptance of {where.label!r} was not counted in the fitted runs. "
            "Give it: Scenario(..., acceptance=0.7), or one rate per position."
        )
    posterior = tree["posterior"].variables
    by_position = drawn(posterior, "conditional_acceptance_rate", acceptance_group=group)
    if drafts > by_position.shape[1]:
        raise DataError(
            f"num_speculative_tokens must be at most {by_position.shape[1]}, the longest draft "
            f"measured, unless acceptance is given. Got {drafts} instead."
        )
    counted: list[np.ndarray] = [by_position[:, j] for j in range(drafts)]
    if "acceptance_request_sd" in posterior:
        spread = drawn(posterior, "acceptance_request_sd")
        counted = rates_of_steps(counted, spread, drafts)
    return expected_steps_renewal(emitted, counted, drafts), list(counted)
