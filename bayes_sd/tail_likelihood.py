"""How percentiles of request latency meet the model: the density of whitened ratios to the mean.

`bayes_sd.percentile_ratios` says what the ratios are and why they are whitened. Sampling and misfit
share the shape of their covariance: the sampling variance s^2 / n falls with the requests of a run,
the misfit does not, and it is what is left at thousands of requests.

The bulk (up to p95) is one multivariate Student-t. p99 given the others has a term of its own,
with heavier tails and a scale that rises with the backlog's excess: a few stalled requests move
p99 and nothing else.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from bayes_sd.percentile_ratios import RatioData
from bayes_sd.physics.request_quantiles import log_mean_offset


def ratio_logp(
    value: Any,
    spread: Any,
    skew: Any,
    excess: Any,
    misfit_sd: Any,
    excess_misfit: Any,
    dof: Any,
    top_dof: Any,
    weight: Any,
    *,
    data: RatioData,
) -> Any:
    """Return the log density of each run's ratios, (run,); arguments as `observe_ratios`.

    The density is that of the ratios themselves: ``value`` is whitened, and ``data.log_det`` holds
    the change of variables.
    """
    # residual = value - sum of coefficient x column. Its square is a polynomial of the coefficients
    # whose factors are constants, one per run: sums over levels never reach the sampler.
    columns = data.columns[1:]
    in_bulk, at_top = columns[..., :-1], columns[..., -1]
    coefficients = (spread, spread * skew, -log_mean_offset(spread, skew, pt.log), excess)
    squared = (value[:, :-1] ** 2).sum(axis=1)
    of_p99 = value[:, -1]
    for j, first in enumerate(coefficients):
        inner = -2 * (value[:, :-1] * in_bulk[j]).sum(axis=1) + first * (in_bulk[j] ** 2).sum(1)
        for other, column in zip(coefficients[:j], in_bulk[:j], strict=True):
            inner = inner + 2 * other * (column * in_bulk[j]).sum(axis=1)
        squared = squared + first * inner
        of_p99 = of_p99 - first * at_top[j]
    bulk = spread**2 / data.num_requests + misfit_sd**2
    top = bulk + (excess_misfit * excess) ** 2
    k, has_top = data.num_bulk, data.has_top
    constants = {float(size): _student_constant(dof, float(size)) for size in np.unique(k)}
    normal = sum((k == size) * constant for size, constant in constants.items())
    of_bulk = normal - k / 2 * pt.log(bulk)
    of_bulk = of_bulk - (dof + k) / 2 * pt.log1p(squared / (dof * bulk))
    of_top = _student_constant(top_dof, 1.0) - pt.log(top) / 2
    of_top = of_top - (top_dof + 1) / 2 * pt.log1p(of_p99**2 / (top_dof * top))
    # Runs without any level add a constant 0: k, has_top and log_det are 0 there.
    return weight * (of_bulk + has_top * of_top - data.log_det)


def _student_constant(dof: Any, size: float) -> Any:
    """Return the log normalising constant of a Student-t of unit scale in some dimensions."""
    if size == 0:
        return 0.0
    return pt.gammaln((dof + size) / 2) - pt.gammaln(dof / 2) - size / 2 * pt.log(np.pi * dof)


def observe_ratios(
    name: str,
    data: RatioData,
    *,
    spread: Any,
    skew: Any,
    excess: Any,
    misfit_sd: Any,
    excess_misfit: Any,
    dof: Any,
    top_dof: Any,
    weight: Any,
    level_dim: str | None = None,
) -> Any:
    """Score the ratios of percentiles to the mean of runs.

    Parameters
    ----------
    name : str
        Name of the observed variable: the whitened ratios, (run, level).
    data : RatioData
        Result of `ratio_data`.
    spread : tensor, (run,)
        Scale s of one request's log latency, see `bayes_sd.physics.request_spread`.
    skew : tensor, (run,)
        Skewness gamma.
    excess : tensor, (run,)
        Backlog excess delta; 0 for none.
    misfit_sd : tensor, (run,)
        Misfit of the ratios, on the log scale: sd 0.8 of it at p50, 1.4 at p90, 1.9 at p95.
    excess_misfit : tensor, scalar
        Misfit of p99 that grows with the excess, as a share of it.
    dof, top_dof : tensor, scalar
        Degrees of freedom of bulk and top.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.
    level_dim : str, optional
        Name of the level's dim.

    Returns
    -------
    pymc random variable

    Notes
    -----
    Only ``spread``, ``skew`` and ``excess`` of the run enter, not its mean: the ratios add nothing
    to the score of the mean latency.
    """

    def logp(value: Any, *parameters: Any) -> Any:
        return ratio_logp(value, *parameters, data=data)

    zeros = pt.zeros(len(data.num_requests))
    per_run = [zeros + x for x in (spread, skew, excess, misfit_sd)]
    return pm.CustomDist(
        name,
        *per_run,
        excess_misfit,
        dof,
        top_dof,
        zeros + weight,
        logp=logp,
        signature=f"(r),(r),(r),(r),(),(),(),(r)->(r,{data.columns.shape[2]})",
        observed=data.columns[0],
        dims=None if level_dim is None else ("run", level_dim),
    )
