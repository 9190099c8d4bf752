"""Which size of drafter pays for a verifier, by load: from the size laws of the population."""

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr

from bayes_sd.configuration import resolve
from bayes_sd.exceptions import ArgumentError
from bayes_sd.pair_comparison import PairComparison, compare_pairs
from bayes_sd.scenario import Scenario
from bayes_sd.validate import positive, whole_number

DRAFT_LENGTHS = (1, 3, 5)


def compare_drafter_sizes(
    tree: xr.DataTree,
    verifier: str,
    acceptance_by_size: Mapping[float, float | Sequence[float]],
    loads: Sequence[float],
    *,
    draft_lengths: Sequence[int] = DRAFT_LENGTHS,
    closed_loop: bool = False,
    scenario: Mapping[str, Any] | None = None,
    random_seed: int = 0,
) -> PairComparison:
    """Compare drafters of several sizes, none of them fitted, and speculation off, over load.

    A drafter's passes cost what the population's size law says, with the scatter of the fitted
    drafters about it; verification costs what the fitted runs of the verifier say. A larger drafter
    is accepted more often, which is not in the size law: acceptance is yours to give.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, of runs with at least one drafter; the law of sizes is as sure as the
        number of drafters in it.
    verifier : str
        Label of a fitted base, or a part of it that fits only one.
    acceptance_by_size : mapping of float to float or sequence of float
        By the drafter's parameters in 1e9: its conditional acceptance rate, one or by position.
    loads : sequence of float
        Requests per second; requests in flight with ``closed_loop``.
    draft_lengths : sequence of int
        Draft lengths to compare each size with.
    closed_loop : bool
        Whether loads are requests kept in flight.
    scenario : mapping, optional
        Other fields of `Scenario`, such as lengths and ``arrivals``.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    PairComparison
        Candidates ``off`` and ``0.6B, k = 3`` and so on.

    Raises
    ------
    ArgumentError
        If there is no size, draft length or load, or one is out of range.
    UnknownPairError
        If the verifier was not fitted.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Notes
    -----
    Every size is another drafter, with a scatter of its own: where few drafters were fitted the
    probabilities are near even, and that is the answer.

    Examples
    --------
    >>> sizes = {0.5: 0.6, 1.5: 0.72}
    >>> compare_drafter_sizes(tree, "Qwen3-8B", sizes, [1, 4, 8]).statement()  # doctest: +SKIP
    """
    if not acceptance_by_size or not len(draft_lengths):
        raise ArgumentError(
            "acceptance_by_size must hold at least one size, and draft_lengths one length. Got "
            f"{dict(acceptance_by_size)!r} and {list(draft_lengths)!r} instead."
        )
    if not len(loads):
        raise ArgumentError("loads must hold at least one load. Got none instead.")
    load = {"concurrency" if closed_loop else "request_rate_rps": positive(loads[0], "loads")}
    shared = {**load, **(scenario or {})}
    candidates = {"off": Scenario(verifier, **shared)}
    resolve(tree, candidates["off"])  # refuses a verifier that was not fitted
    for size, acceptance in acceptance_by_size.items():
        params_b = positive(size, "acceptance_by_size", unit="1e9 parameters")
        rates = acceptance if isinstance(acceptance, int | float) else tuple(acceptance)
        for k in draft_lengths:
            candidates[f"{params_b:g}B, k = {k}"] = Scenario(
                f"a drafter of {params_b:g}B",
                verifier=verifier,
                drafter_params_b=params_b,
                num_speculative_tokens=whole_number(k, "draft_lengths"),
                acceptance=rates,
                **shared,
            )
    return compare_pairs(tree, candidates, loads=loads, allow_new=True, random_seed=random_seed)
