"""Where a scenario lies against the measured runs: measured, interpolated or extrapolated."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_sd.physics.step_time import draft_shape
from bayes_sd.scenario import Scenario

STATUSES = ("measured", "interpolated", "extrapolated", "past capacity")
SAME = 0.02  # relative difference up to which two loads or lengths count as the same
SAME_ACCEPTANCE = 0.01
COLUMNS = (
    "base_of_run",
    "pair_of_run",
    "effective_batch_observed",
    "request_rate_rps",
    "concurrency",
    "num_speculative_tokens",
    "num_verified_tokens",
    "input_len_tokens",
    "output_len_tokens",
    "forced_acceptance_rate",
)


@dataclass(frozen=True)
class Support:
    """How far a scenario is from the runs that taught the model.

    Attributes
    ----------
    status : str
        ``measured``, ``interpolated`` or ``extrapolated``.
    outside : tuple of str
        What lies outside the measured range.
    doublings : float
        Root of the summed squared distances outside the range, in doublings; 0 inside.
    """

    status: str
    outside: tuple[str, ...]
    doublings: float


def _beyond(value: np.ndarray | float, measured: np.ndarray) -> np.ndarray:
    """Return how many doublings a value lies outside a range; 0 inside it, with the tolerance."""
    low, high = measured.min() * (1 - SAME), measured.max() * (1 + SAME)
    return np.maximum(np.log2(np.maximum(value / high, low / value)), 0.0)


def _forced_range(measured: np.ndarray, scenario: Scenario) -> bool:
    """Tell whether a given acceptance lies outside the forced rates of the pair's runs."""
    if (
        scenario.acceptance is None
        or not scenario.num_speculative_tokens
        or np.isnan(measured).all()
    ):
        return False
    given = np.atleast_1d(scenario.acceptance)[: max(scenario.num_speculative_tokens, 1)]
    low, high = np.nanmin(measured) - SAME_ACCEPTANCE, np.nanmax(measured) + SAME_ACCEPTANCE
    return bool((given < low).any() or (given > high).any())


def support(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    base: int,
    pair: int | None,
    batch: float,
    lengths: tuple[float, float],
) -> Support:
    """Compare a scenario with the measured runs of its cell.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        What is asked.
    base, pair : int or None
        Numbers of its cell.
    batch : float
        Median predicted number in the system, requests; infinite past capacity.
    lengths : tuple of float
        Prompt and answer tokens.

    Returns
    -------
    Support

    Notes
    -----
    Load is compared in requests in flight and in tokens per step, over all runs of the base: the
    verifier is the same. Draft lengths are compared over the pair's runs and the base's runs
    without speculation, in tokens verified per request, k + 1. A draft length that lies between
    measured ones is interpolated; between 0 and the smallest measured k > 0, too, if k = 0 was
    measured.
    """
    return support_at_loads(
        tree,
        scenario,
        base=base,
        pair=pair,
        loads=np.array([scenario.load]),
        batches=np.array([batch]),
        lengths=lengths,
    )[0]


def support_at_loads(
    tree: xr.DataTree,
    scenario: Scenario,
    *,
    base: int,
    pair: int | None,
    loads: np.ndarray,
    batches: np.ndarray,
    lengths: tuple[float, float],
) -> list[Support]:
    """Compare a scenario at several loads with the measured runs of its cell.

    Parameters
    ----------
    tree, scenario, base, pair, lengths
        As `support`; the scenario's own load is not used, but its kind is.
    loads : array, (load,)
        Requests per second, or in flight.
    batches : array, (load,)
        Median predicted number in the system at each, requests; infinite past capacity.

    Returns
    -------
    list of Support
    """
    if base < 0 or (
        pair is None and scenario.num_speculative_tokens
    ):  # drawn from the population: how far it is, its own spread tells
        return [Support("extrapolated", ("pair",), 0.0)] * len(loads)
    variables = tree["constant_data"].variables
    runs = {name: variables[name].values for name in COLUMNS}
    drafts = scenario.num_speculative_tokens
    of_base = runs["base_of_run"] == base
    of_pair = runs["pair_of_run"]
    same_arm = of_base & (
        (of_pair == -1) if pair is None else ((of_pair == pair) | (of_pair == -1))
    )
    if not same_arm.any():
        same_arm = of_base
    lengths_in, lengths_out = runs["input_len_tokens"], runs["output_len_tokens"]
    in_flight = np.maximum(runs["effective_batch_observed"][of_base], 1.0)
    verified = runs["num_verified_tokens"]
    _, width = draft_shape(drafts, scenario.num_draft_steps, scenario.num_verified_tokens)
    # A step never holds less than one request: below that, less load is nothing new.
    held = np.maximum(np.minimum(batches, float(scenario.max_num_seqs)), 1.0)
    distances = {
        "load": _beyond(held, in_flight),
        "tokens per step": _beyond(held * width, in_flight * verified[of_base]),
        "draft length": _beyond(width, verified[same_arm if drafts else of_base]),
        "input length": _beyond(lengths[0], lengths_in[of_base]),
        "output length": _beyond(lengths[1], lengths_out[of_base]),
    }
    forced = runs["forced_acceptance_rate"]
    if _forced_range(forced[of_base & (of_pair == pair)], scenario):
        distances["acceptance"] = np.array(0.0)
    names, each = list(distances), np.stack([d + 0 * held for d in distances.values()])
    doublings = np.sqrt((each**2).sum(axis=0))
    outside = (each > 0) | np.array([[name == "acceptance"] for name in names])
    same = (
        (of_pair == (-1 if drafts == 0 else pair if pair is not None else -1))
        & of_base
        & (runs["num_speculative_tokens"] == drafts)
        & (abs(verified / width - 1) <= SAME)
        & (abs(lengths_in / lengths[0] - 1) <= SAME)
        & (abs(lengths_out / lengths[1] - 1) <= SAME)
    )
    if scenario.acceptance is not None and drafts:
        given = np.atleast_1d(scenario.acceptance)
        same &= (abs(forced - given[0]) <= SAME_ACCEPTANCE) & bool((given == given[0]).all())
    there = runs["request_rate_rps" if scenario.concurrency is None else "concurrency"][same]
    found = []
    for i, load in enumerate(loads):
        beyond = tuple(name for name, is_out in zip(names, outside[:, i], strict=True) if is_out)
        if beyond:
            found.append(Support("extrapolated", beyond, float(doublings[i])))
        else:
            met = bool((abs(there / load - 1) <= SAME).any())
            found.append(Support("measured" if met else "interpolated", (), 0.0))
    return found
