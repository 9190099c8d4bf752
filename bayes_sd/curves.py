"""Latency against load, per draft length: the numbers behind `bayes_sd.plot_latency`."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import xarray as xr

from bayes_sd.configuration import resolve
from bayes_sd.decide import draft_lengths as lengths_to_compare
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.support import SAME, SAME_ACCEPTANCE
from bayes_sd.validate import probability


def latency_curves(
    tree: xr.DataTree,
    scenario: Scenario,
    rates: Sequence[float],
    draft_lengths: Sequence[int] | None = None,
    *,
    kind: str = "run",
    level: float = 0.9,
    random_seed: int = 0,
) -> xr.Dataset:
    """Predict the latency of draft lengths over load, and find the measured runs that match.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, lengths, acceptance and arrivals; its own load and draft length are not used. With
        ``concurrency`` in place of a rate, ``rates`` are numbers of requests in flight.
    rates : sequence of float
        Loads, increasing: requests per second (or in flight).
    draft_lengths : sequence of int, optional
        By default 0 (off) and those measured with the pair.
    kind : {"run", "mean"}
        What is predicted. Measured runs are to be compared with ``run``.
    level : float
        Probability of the central interval.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    xarray.Dataset
        Dims ``num_speculative_tokens``, ``rate`` and ``run`` (the matching runs):

        - ``low_e2e_s``, ``median_e2e_s``, ``high_e2e_s`` (num_speculative_tokens, rate): quantiles
          of the end-to-end latency, s; infinite past capacity.
        - ``p_past_capacity`` (num_speculative_tokens, rate): share of draws past capacity.
        - ``measured_e2e_s``, ``measured_load``, ``measured_draft_length``, ``measured_at_cap``
          (run): runs of the same verifier, pair, lengths, acceptance and arrivals; the last says
          whether the run was within a tenth of its limit on requests in flight.

        Coordinate ``rate`` has the unit of the load. Attributes ``kind``, ``level``, ``pair``,
        ``about`` (lengths, arrivals, acceptance in words), ``load_name``.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`; or if the loads are not positive and increasing.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=1.0, acceptance=0.7)
    >>> curves = latency_curves(tree, scenario, [1.0, 5.0, 9.0], [1, 3])  # doctest: +SKIP
    """
    probability(level, "level", ends=False)
    loads = [float(rate) for rate in rates]
    if not loads or min(loads) <= 0 or any(a >= b for a, b in pairwise(loads)):
        raise ArgumentError(f"rates must be positive and increasing. Got {loads!r} instead.")
    lengths = lengths_to_compare(tree, scenario, draft_lengths)
    name = "request_rate_rps" if scenario.concurrency is None else "concurrency"
    arms = [
        scenario.with_(num_speculative_tokens=k, **{name: load}) for k in lengths for load in loads
    ]
    draws = predict_latency(tree, arms, kind=kind, random_seed=random_seed)["e2e_s"].values
    tail = (1 - level) / 2
    quantiles = np.quantile(draws, [tail, 0.5, 1 - tail], axis=0, method="inverted_cdf")
    shape = (len(lengths), len(loads))
    dims = ("num_speculative_tokens", "rate")
    seconds = {"units": "s"}
    unit = "requests/s" if name == "request_rate_rps" else "requests in flight"
    found = resolve(tree, arms[-1])
    return xr.Dataset(
        {
            **{
                f"{part}_e2e_s": (dims, values.reshape(shape), seconds)
                for part, values in zip(("low", "median", "high"), quantiles, strict=True)
            },
            "p_past_capacity": (dims, np.isinf(draws).mean(axis=0).reshape(shape), {"units": "1"}),
        },
        coords={
            "num_speculative_tokens": lengths,
            "rate": ("rate", loads, {"units": unit}),
        },
        attrs={
            "kind": kind,
            "level": level,
            "pair": found.cell.label,
            "about": _about(scenario, found.input_len, found.output_len),
            "load_name": name,
        },
    ).merge(_matching_runs(tree, scenario, lengths, name))


def _about(scenario: Scenario, input_len: float, output_len: float) -> str:
    """Say what a scenario fixes besides its load and draft length."""
    arrivals = scenario.arrivals.replace("poisson", "Poisson")
    loop = "closed loop" if scenario.request_rate_rps is None else f"{arrivals} arrivals"
    given = scenario.acceptance
    rates = given if isinstance(given, tuple) else (given,)
    acceptance = "counted" if given is None else "/".join(f"{a:g}" for a in rates)
    lengths = f"{input_len:.0f} tokens in, {output_len:.0f} out"
    return f"{lengths}; {loop}; acceptance {acceptance}"


def _matching_runs(
    tree: xr.DataTree, scenario: Scenario, lengths: Sequence[int], name: str
) -> xr.Dataset:
    """Return the measured runs of a scenario's configuration, at any load."""
    runs = tree["constant_data"].to_dataset()
    drafts = runs["num_speculative_tokens"].values
    found = resolve(tree, scenario.with_(num_speculative_tokens=max(lengths)))
    match = (runs["base_of_run"].values == found.cell.base) & np.isin(drafts, lengths)
    pair = -1 if found.cell.pair is None else found.cell.pair
    match &= runs["pair_of_run"].values == np.where(drafts > 0, pair, -1)
    for column, here in (
        ("input_len_tokens", found.input_len),
        ("output_len_tokens", found.output_len),
    ):
        match &= abs(runs[column].values / here - 1) <= SAME
    match &= runs["num_draft_steps"].values == drafts  # a chain, not a mean over draft lengths
    match &= runs["num_verified_tokens"].values == drafts + 1
    match &= (drafts == 0) | _same_acceptance(runs["forced_acceptance_rate"].values, scenario)
    if name == "request_rate_rps":
        match &= runs["arrivals"].values == scenario.arrivals
    match &= np.isfinite(runs[name].values)
    chosen = runs.isel(run=np.flatnonzero(match))
    return xr.Dataset(
        {
            "measured_e2e_s": ("run", chosen["mean_e2e_s"].values, {"units": "s"}),
            "measured_load": ("run", chosen[name].values),
            "measured_draft_length": ("run", chosen["num_speculative_tokens"].values),
            "measured_at_cap": ("run", chosen["control"].values == "cap"),
        },
        coords={"run": chosen["run"].values},
    )


def _same_acceptance(forced: np.ndarray, scenario: Scenario) -> np.ndarray:
    """Mark runs whose acceptance is the scenario's: forced to it, or counted if none is given."""
    if scenario.acceptance is None:
        return np.isnan(forced)
    given = np.atleast_1d(scenario.acceptance)
    alike = np.ptp(given) == 0
    return alike & (abs(forced - given[0]) <= SAME_ACCEPTANCE)
