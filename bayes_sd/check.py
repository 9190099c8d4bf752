"""Checks of the model against what was known before any run: the prior in seconds of latency."""

from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.model import build_model
from bayes_sd.prior import Prior
from bayes_sd.prior_draws import prior_draws
from bayes_sd.run_law import COSTS, COUNTS, ERRORS, flat_draws, run_law
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
    model = build_model(data, priors, responses=())
    names = [name for name in (*COSTS, *ERRORS, *COUNTS) if name in model.named_vars]
    prior = prior_draws(model, names, draws, random_seed)
    none = np.zeros((*(prior.sizes[d] for d in ("chain", "draw")), data.sizes["sweep"]))
    prior = prior.assign(log_boot=(("chain", "draw", "sweep"), none))
    law = run_law(data, flat_draws(prior, draws))
    batch = data["effective_batch_observed"].values
    latency = law.latency(np.broadcast_to(batch, (draws, len(batch))))
    return xr.DataArray(
        latency,
        dims=("sample", "run"),
        coords={"run": data["run"]},
        name="e2e_s",
        attrs={"units": "s"},
    )
