"""Where a scenario lies against the measured runs: measured, interpolated or extrapolated."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_sd.physics.step_time import draft_shape
from bayes_sd.scenario import Scenario

STATUSES = ("measured", "interpolated", "extrapolated", "past capacity")
SAME = 0.02  # relative difference up to which two loads or lengths count as the same
SAME_ACCEPTANCE = 0.01


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


def _beyond(value: float, measured: np.ndarray) -> float:
    """Return how many doublings a value lies outside a range; 0 inside it, with the tolerance."""
    low, high = measured.min() * (1 - SAME), measured.max() * (1 + SAME)
    if value > high:
        return float(np.log2(value / high))
    return float(np.log2(low / value)) if value < low else 0.0


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
    if base < 0 or (
        pair is None and scenario.num_speculative_tokens
    ):  # drawn from the population: how far it is, its own spread tells
        return Support("extrapolated", ("pair",), 0.0)
    runs = tree["constant_data"].to_dataset()
    drafts = scenario.num_speculative_tokens
    of_base = runs["base_of_run"].values == base
    of_pair = runs["pair_of_run"].values
    same_arm = of_base & (
        (of_pair == -1) if pair is None else ((of_pair == pair) | (of_pair == -1))
    )
    if not same_arm.any():
        same_arm = of_base
    lengths_in, lengths_out = runs["input_len_tokens"].values, runs["output_len_tokens"].values
    in_flight = runs["effective_batch_observed"].values[of_base]
    verified = runs["num_verified_tokens"].values
    _, width = draft_shape(drafts, scenario.num_draft_steps, scenario.num_verified_tokens)
    finite = min(batch, float(scenario.max_num_seqs))
    distances = {
        # A step never holds less than one request: below that, less load is nothing new.
        "load": _beyond(max(finite, 1.0), np.maximum(in_flight, 1.0)),
        "tokens per step": _beyond(
            max(finite, 1.0) * width, np.maximum(in_flight, 1) * verified[of_base]
        ),
        "draft length": _beyond(width, verified[same_arm if drafts else of_base]),
        "input length": _beyond(lengths[0], lengths_in[of_base]),
        "output length": _beyond(lengths[1], lengths_out[of_base]),
    }
    outside = [name for name, distance in distances.items() if distance > 0]
    if _forced_range(runs["forced_acceptance_rate"].values[of_base & (of_pair == pair)], scenario):
        outside.append("acceptance")
    doublings = float(np.sqrt(sum(d**2 for d in distances.values())))
    if outside:
        return Support("extrapolated", tuple(outside), doublings)
    same = (
        (of_pair == (-1 if drafts == 0 else pair if pair is not None else -1))
        & of_base
        & (runs["num_speculative_tokens"].values == drafts)
        & (abs(verified / width - 1) <= SAME)
        & (abs(lengths_in / lengths[0] - 1) <= SAME)
        & (abs(lengths_out / lengths[1] - 1) <= SAME)
    )
    if scenario.concurrency is None:
        load = runs["request_rate_rps"].values
    else:
        load = runs["concurrency"].values
    same &= abs(load / scenario.load - 1) <= SAME
    forced = runs["forced_acceptance_rate"].values
    if scenario.acceptance is not None and drafts:
        given = np.atleast_1d(scenario.acceptance)
        same &= (abs(forced - given[0]) <= SAME_ACCEPTANCE) & bool((given == given[0]).all())
    return Support("measured" if same.any() else "interpolated", (), 0.0)
