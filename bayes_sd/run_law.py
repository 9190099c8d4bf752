"""The law of each run of a design, for many draws of its parameters: NumPy, apart from the graph.

What the model scores is written here a second time, so that the two can be compared: location
and scale of the log latency at a given batch, and its density given the control.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.exceptions import ArgumentError
from bayes_sd.expert_graph import has_idle_drafter
from bayes_sd.labels import experts_fraction
from bayes_sd.likelihoods import SMALLEST_EXPONENT, UNSTABLE_WIDTH, latency_scale
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.arrivals import met_by_arrivals, met_slopes, met_variance
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.latency import latency_slope, request_latency
from bayes_sd.posterior import PAIR_FIELDS
from bayes_sd.run_load import REQUEST

COSTS = tuple(f.name for f in fields(CostCoefficients))
ERRORS = ("log_boot", "discrepancy_sd", "load_discrepancy_sd", "request_cv")
FIRST_TOKEN = ("first_wait_steps", "ttft_fixed_s", "ttft_per_token_s", "ttft_discrepancy_sd")
COUNTS = (
    "conditional_acceptance_rate",
    "acceptance_request_sd",
    "acceptance_run_sd",
)


@dataclass(frozen=True)
class RunLaw:
    """Location and scale of the log latency of each run, given its batch; (sample, run)."""

    costs: CostCoefficients
    lengths: dict[str, Any]
    arrivals: np.ndarray
    log_boot: np.ndarray
    discrepancy_sd: np.ndarray
    load_discrepancy_sd: np.ndarray
    request_cv: np.ndarray
    num_requests: np.ndarray

    def latency(self, batch: np.ndarray) -> np.ndarray:
        """Return the law's latency at a batch, s, without boot and noise."""
        return np.asarray(request_latency(self.costs, **self._terms(batch)))

    def elasticity(self, batch: np.ndarray) -> np.ndarray:
        """Return d log L / d log B of the law, whether or not the batch answers to latency."""
        terms = self._terms(batch)
        slopes = np.zeros((2, *batch.shape))
        for kind in set(self.arrivals):
            at = self.arrivals == kind
            slopes[0][..., at], slopes[1][..., at] = met_slopes(batch[..., at], str(kind))
        slope = latency_slope(self.costs, requests_slope=slopes[0], others_slope=slopes[1], **terms)
        return np.asarray(batch * slope / request_latency(self.costs, **terms))

    def one_minus_elasticity(self, elasticity: np.ndarray) -> np.ndarray:
        """Return 1 - e, and 1 where the control sets the batch (closed loop, cap)."""
        return 1 - (self.arrivals != "closed") * elasticity

    def scale(self, elasticity: np.ndarray) -> np.ndarray:
        """Return the scale of the log latency: `bayes_sd.likelihoods.latency_scale`."""
        return np.asarray(
            latency_scale(
                self.discrepancy_sd,
                self.load_discrepancy_sd,
                self.request_cv,
                self.num_requests,
                elasticity,
                self.one_minus_elasticity(elasticity),
                np.isin(self.arrivals, ("poisson", "bursty")),
            )
        )

    def _terms(self, batch: np.ndarray) -> dict[str, Any]:
        """Return what the requests meet at a batch, and their lengths: arguments of the law."""
        met = np.zeros((3, *batch.shape))
        for kind in set(self.arrivals):
            at = self.arrivals == kind
            here = batch[..., at]
            met[0][..., at], met[1][..., at] = met_by_arrivals(here, str(kind))
            met[2][..., at] = met_variance(here, str(kind))
        names = ("requests_per_step", "others", "requests_variance")
        return dict(zip(names, met, strict=True)) | self.lengths


def run_law(data: xr.Dataset, draws: xr.Dataset, num_steps: np.ndarray | None = None) -> RunLaw:
    """Look up, for each draw, what the latency of each run follows from.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    draws : xarray.Dataset
        Parameters with a dim ``sample``: fields of `CostCoefficients` (base or pair), ``log_boot``
        (sweep), ``discrepancy_sd``, ``load_discrepancy_sd``, ``request_cv`` (base),
        and where acceptance was counted ``conditional_acceptance_rate`` (acceptance_group,
        position) and ``acceptance_request_sd``.
    num_steps : array of float, (sample, run), optional
        Steps of a request; by default `steps_of_draws`.

    Returns
    -------
    RunLaw

    Raises
    ------
    ArgumentError
        If a parameter is missing.
    """
    costs: dict[str, Any] = {}
    for field in fields(CostCoefficients):
        if field.name in draws:
            costs[field.name] = draws_of_runs(draws, field.name, data)
        elif field.name in PAIR_FIELDS and not data.sizes["pair"]:
            costs[field.name] = 0.0
        elif field.default is MISSING:
            draws_of_runs(draws, field.name, data)  # raises
    if "idle_drafter_s" in costs:
        costs["idle_drafter_s"] = costs["idle_drafter_s"] * has_idle_drafter(data)
    if "expert_share" in costs:
        costs["experts_fraction"] = experts_fraction(data)[data["base_of_run"].values]
    is_open = data["control"].values == "open"
    errors = {name: draws_of_runs(draws, name, data) for name in ERRORS}
    lengths = {name: data[name].values for name in REQUEST}
    steps = steps_of_draws(data, draws) if num_steps is None else num_steps
    return RunLaw(
        costs=CostCoefficients(**costs),
        lengths={**lengths, "num_steps": steps},
        arrivals=np.where(is_open, data["arrivals"].values, "closed"),
        num_requests=data["num_requests"].values,
        **errors,
    )


def steps_of_draws(data: xr.Dataset, draws: xr.Dataset) -> np.ndarray:
    """Return the expected steps of a request of each run, (sample, run).

    Parameters
    ----------
    data, draws : xarray.Dataset
        As in `run_law`.

    Raises
    ------
    ArgumentError
        If acceptance has to be estimated and is not among the draws.
    """
    known = steps_of_runs(data)
    steps = np.broadcast_to(known, (draws.sizes["sample"], len(known))).copy()
    estimated = np.flatnonzero(np.isnan(known))
    if len(estimated):
        steps[:, estimated] = expected_steps_renewal(
            data["output_len_tokens"].values[estimated] - 1,
            acceptance_of_runs(data, draws, estimated),
            data["num_speculative_tokens"].values[estimated],
        )
    return steps


def acceptance_of_runs(data: xr.Dataset, draws: xr.Dataset, runs: np.ndarray) -> list[np.ndarray]:
    """Return the conditional acceptance rates of the steps of some runs.

    Parameters
    ----------
    data, draws : xarray.Dataset
        As in `run_law`.
    runs : array of int
        Numbers of runs whose acceptance was counted.

    Returns
    -------
    list of array of float, (sample, len(runs))
        One per position; those above a run's draft length do not count.

    Raises
    ------
    ArgumentError
        If acceptance is not among the draws.
    """
    rates = draws_of(draws, "conditional_acceptance_rate")
    group = data["group_of_run"].values[runs]
    by_position = [rates[:, group, position] for position in range(rates.shape[-1])]
    request_sd = draws_of(draws, "acceptance_request_sd")[:, None]
    drafts = data["num_speculative_tokens"].values[runs]
    return rates_of_steps(by_position, request_sd, drafts)


def latency_log_density(data: xr.Dataset, draws: xr.Dataset) -> np.ndarray:
    """Return the log density of each run's log latency given control and boot, (sample, run).

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    draws : xarray.Dataset
        As in `run_law`.

    Notes
    -----
    The graph scores a sweep with its boot integrated out: `bayes_sd.likelihoods.latency_logp`.
    """
    law = run_law(data, draws)
    shape = (draws.sizes["sample"], data.sizes["run"])
    batch = np.broadcast_to(data["effective_batch_observed"].values, shape)
    residual = np.log(data["mean_e2e_s"].values) - np.log(law.latency(batch)) - law.log_boot
    elasticity = law.elasticity(batch)
    ratio = law.one_minus_elasticity(elasticity) / UNSTABLE_WIDTH
    near = np.maximum(ratio, SMALLEST_EXPONENT)
    factor = np.log(UNSTABLE_WIDTH * np.logaddexp(0, near)) + ratio - near
    return stats.norm.logpdf(residual, scale=law.scale(elasticity)) + factor


def flat_draws(posterior: xr.Dataset, num_samples: int) -> xr.Dataset:
    """Return evenly spaced draws of all that generates data, with one dim ``sample`` in front.

    Parameters
    ----------
    posterior : xarray.Dataset
        Dims chain and draw.
    num_samples : int
        How many; all of them if there are fewer.
    """
    names = [n for n in (*COSTS, *ERRORS, *FIRST_TOKEN, *COUNTS) if n in posterior]
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    kept = np.unique(np.linspace(0, total - 1, min(num_samples, total)).astype(int))
    variables = {}
    for name in names:
        array = posterior[name].transpose("chain", "draw", ...)
        flat = array.values.reshape(total, *array.shape[2:])[kept]
        variables[name] = (("sample", *array.dims[2:]), flat)
    return xr.Dataset(variables)


def draws_of(draws: xr.Dataset, name: str) -> np.ndarray:
    """Return the draws of a parameter, ``sample`` in front; say so if they are missing."""
    if name not in draws:
        raise ArgumentError(
            f"draws must hold {name!r}. Got {sorted(map(str, draws.data_vars))} instead: "
            "take them from the model of the same data."
        )
    return np.asarray(draws[name].transpose("sample", ...).values)


def draws_of_runs(draws: xr.Dataset, name: str, data: xr.Dataset) -> np.ndarray:
    """Return a parameter of each run, (sample, run) or (sample, 1), whatever its dim."""
    values = draws_of(draws, name)
    if values.ndim == 1:
        return values[:, None]
    base = data["base_of_run"].values
    number = {
        "run": np.arange(len(base)),
        "base": base,
        "pair": np.maximum(data["pair_of_run"].values, 0),
        "sweep": data["sweep_of_run"].values,
        "deployment": data["deployment_of_base"].values[base],
    }
    (dim,) = (d for d in draws[name].dims if d != "sample")
    return values[:, number[str(dim)]]
