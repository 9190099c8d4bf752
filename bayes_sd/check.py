"""Checks of the model against what was known before any run: the prior in seconds of latency."""

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.data import to_dataset
from bayes_sd.expert_graph import has_idle_drafter
from bayes_sd.labels import experts_fraction
from bayes_sd.model import build_model
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import request_latency
from bayes_sd.posterior import BASE_FIELDS, OPTIONAL_FIELDS, PAIR_FIELDS
from bayes_sd.priors import Prior
from bayes_sd.run_load import load_of_runs
from bayes_sd.validate import whole_number


def prior_predictive_latency(
    data: Any,
    priors: dict[str, Prior] | None = None,
    *,
    draws: int = 200,
    random_seed: int = 0,
) -> xr.DataArray:
    """Return the latency that the prior alone expects of each measured run.

    Costs and acceptance are drawn from the prior, and the law is evaluated at the batch that the
    run had. A prior is worth using if this stays within what a server can do: a request of about
    500 tokens in and 128 out, on one data-centre GPU that serves a model of 0.6 to 32 billion
    parameters, decodes for a tenth of a second at the fastest and waits for minutes at the
    slowest. So at least 80 % of the draws should lie within 0.05 and 300 s, and 99 % within 1 ms
    and an hour. A cost given in milliseconds fails that at once.

    Parameters
    ----------
    data : xarray.Dataset or pandas.DataFrame
        Result of `to_dataset`, or a table that it takes.
    priors : dict of str to Prior, optional
        By default `default_priors(data)`.
    draws : int
        Draws from the prior.
    random_seed : int
        Seed.

    Returns
    -------
    xarray.DataArray
        Mean end-to-end latency, s, dims (sample, run); without boot effect, misfit and noise.

    Raises
    ------
    ArgumentError
        If draws or the seed are out of range, or the priors as in `build_model`.
    SchemaError, UnitError, DataError
        As `to_dataset`.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> frame = load_vllm_cpu("dense", quiet_only=True)
    >>> runs = to_dataset(frame[~frame["is_throughput_test"]])
    >>> prior_predictive_latency(runs, draws=5).sizes["sample"]
    5
    """
    whole_number(draws, "draws")
    whole_number(random_seed, "random_seed", minimum=0)
    if not isinstance(data, xr.Dataset):
        data = to_dataset(data)
    model = build_model(data, priors)
    known_steps = steps_of_runs(data)
    names = [*BASE_FIELDS, *(f for f in OPTIONAL_FIELDS if f in model.named_vars)]
    of_bases = tuple(names)
    if data.sizes["pair"]:
        names += PAIR_FIELDS
    if np.isnan(known_steps).any():
        names += ["conditional_acceptance_rate", "acceptance_request_sd"]
    prior = pm.sample_prior_predictive(
        draws,
        model=model,
        var_names=names,
        random_seed=random_seed,
        compile_kwargs={"mode": "FAST_COMPILE"},  # a few hundred draws: compiling is the cost
    )["prior"]
    drawn = {name: prior[name].isel(chain=0).values for name in names}
    base, pair = data["base_of_run"].values, np.maximum(data["pair_of_run"].values, 0)
    fields: dict[str, Any] = {name: drawn[name][:, base] for name in of_bases}
    if "expert_share" in fields:
        fields["experts_fraction"] = experts_fraction(data)[base]
    fields["idle_drafter_s"] = fields["idle_drafter_s"] * has_idle_drafter(data)
    for name in PAIR_FIELDS:  # a run without a drafter has k = 0: its drafting costs do not count
        fields[name] = drawn[name][:, pair] if name in drawn else 0.0
    load = load_of_runs(data)
    latency = request_latency(
        CostCoefficients(**fields),
        requests_per_step=load.requests_per_step,
        others=load.others,
        requests_variance=load.requests_variance,
        num_speculative_tokens=data["num_speculative_tokens"].values,
        input_len_tokens=data["input_len_tokens"].values,
        output_len_tokens=data["output_len_tokens"].values,
        num_steps=_steps(
            data,
            known_steps,
            drawn.get("conditional_acceptance_rate"),
            drawn.get("acceptance_request_sd"),
        ),
    )
    return xr.DataArray(
        latency,
        dims=("sample", "run"),
        coords={"run": data["run"]},
        name="e2e_s",
        attrs={"units": "s"},
    )


def _steps(
    data: xr.Dataset, known: np.ndarray, rates: np.ndarray | None, request_sd: np.ndarray | None
) -> np.ndarray:
    """Return the steps of each run, (run,) or (sample, run), with drawn rates where needed."""
    if rates is None or request_sd is None:
        return known
    estimated = np.flatnonzero(np.isnan(known))
    group = data["group_of_run"].values[estimated]
    steps = np.broadcast_to(known, (len(rates), len(known))).copy()
    drafts = data["num_speculative_tokens"].values[estimated]
    by_request = [rates[:, group, position] for position in range(data.sizes["position"])]
    steps[:, estimated] = expected_steps_renewal(
        data["output_len_tokens"].values[estimated] - 1,
        rates_of_steps(by_request, request_sd[:, None], drafts),
        drafts,
    )
    return steps
