"""How each kind of observation meets the model: one function per kind.

A run has one control and one response. In an open loop the control is the arrival rate and the
response is latency; both fix the effective batch by Little's law, so the product is not scored
again. A relative error that acts on the step time, inside B = rate x L(B), moves the latency by
1 / (1 - elasticity) times as much, and the density of log latency carries the factor
(1 - elasticity).
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

# Where the elasticity passes 1 no open loop holds its operating point, and no prediction finds it:
# the density fades there over this width of the elasticity, with a gradient that leads back.
UNSTABLE_WIDTH = 0.02
SMALLEST_EXPONENT = -30.0
LOG_ROOT_TWO_PI = 0.5 * float(np.log(2 * np.pi))


def latency_scale(
    discrepancy_sd: Any,
    load_discrepancy_sd: Any,
    request_cv: Any,
    num_requests: Any,
    elasticity: Any,
    one_minus_elasticity: Any,
    arrival_noise: Any,
) -> Any:
    """Return the scale of log latency at a given batch, all error layers but the boot's.

    Arithmetic only: for the graph, and for NumPy.

    To first order, log L - log f(rate x L) = d + e d' + (1 - e) s - e u for a discrepancy d of the
    whole latency, one d' of the part that load adds, a sampling error s of the mean latency, and
    an error u of the batch that the requests met, with e the elasticity d log f / d log B: the
    share that load has in the latency where the law is linear.

    Parameters
    ----------
    discrepancy_sd : tensor, (run,)
        Standard deviation of d.
    load_discrepancy_sd : tensor, (run,)
        Standard deviation of d'.
    request_cv : tensor, (run,)
        Spread of one request's latency; s has standard deviation ``request_cv / sqrt(n)``.
    num_requests : tensor, (run,)
        n.
    elasticity : tensor, (run,)
        e.
    one_minus_elasticity : tensor, (run,)
        1 - e; 1 in a closed loop, whose batch does not answer to latency.
    arrival_noise : tensor, (run,)
        Standard deviation of u times sqrt(n): 1 for Poisson arrivals, 0 where the load is even
        or closed. (The mean of an M/G/inf system over a window that serves n requests has
        variance 2/n; half of it is the rate, which was measured.)

    Returns
    -------
    tensor, (run,)
        Scale of the residual, on the log scale.
    """
    sampling = (one_minus_elasticity * request_cv) ** 2
    batch = ((1 - one_minus_elasticity) * arrival_noise) ** 2
    of_load = (elasticity * load_discrepancy_sd) ** 2
    return (discrepancy_sd**2 + of_load + (sampling + batch) / num_requests) ** 0.5


def log_stable(one_minus_elasticity: Any) -> Any:
    """Return the log of the factor of the change of variables, in the graph.

    log(1 - e) where the elasticity e is well below 1, as at every stable operating point, and
    (1 - e) / UNSTABLE_WIDTH, up to a constant, well above it.
    """
    ratio = one_minus_elasticity / UNSTABLE_WIDTH
    near = pt.maximum(ratio, SMALLEST_EXPONENT)  # below, the logarithm of a sum is the exponent
    return np.log(UNSTABLE_WIDTH) + pt.log(pt.softplus(near)) + ratio - near


def sums_of_sweeps(values: Any, sweep_of_run: np.ndarray, num_sweeps: int) -> Any:
    """Return the sums of (run,) values over the runs of each sweep, (sweep,), in the graph."""
    return pt.inc_subtensor(pt.zeros(num_sweeps)[sweep_of_run], values)


def boot_given_runs(
    residual: Any, scale: Any, boot_sd: Any, weight: Any, sweep_of_run: np.ndarray
) -> tuple[Any, Any]:
    """Return mean and standard deviation of the boot effects given their runs, (sweep,).

    With normal errors the boot b of a sweep has the posterior of a normal mean: precision
    ``1 / boot_sd**2 + sum(1 / scale**2)``.

    Parameters
    ----------
    residual : tensor, (run,)
        Log latency less the law's, dimensionless.
    scale : tensor, (run,)
        Result of `latency_scale`.
    boot_sd : tensor, (sweep,)
        Standard deviation of boots where the sweep was run.
    weight : tensor, (run,)
        1 to learn from a run, 0 to hold it out.
    sweep_of_run : array of int, (run,)
        Number of each run's sweep.
    """
    precision, weighted = _sums(residual, scale, boot_sd, weight, sweep_of_run)
    shrunk = 1 + boot_sd**2 * precision
    return boot_sd**2 * weighted / shrunk, boot_sd / pt.sqrt(shrunk)


def _sums(
    residual: Any, scale: Any, boot_sd: Any, weight: Any, sweep_of_run: np.ndarray
) -> tuple[Any, Any]:
    """Return the sums of precisions, and of precision times residual, of each sweep."""
    precision = weight / scale**2
    size = boot_sd.shape[0]
    return (
        sums_of_sweeps(precision, sweep_of_run, size),
        sums_of_sweeps(precision * residual, sweep_of_run, size),
    )


def latency_logp(
    residual: Any,
    scale: Any,
    boot_sd: Any,
    one_minus_elasticity: Any,
    weight: Any,
    sweep_of_run: np.ndarray,
) -> Any:
    """Return the log density of the log latencies of each sweep given their controls, (sweep,).

    The runs of a sweep share its boot, a normal effect that is integrated out: their covariance is
    ``diag(scale**2) + boot_sd**2``, whose determinant and inverse have a closed form [1]_. Weights
    are powers of a run's density given the boot: 0 takes it out.

    Parameters
    ----------
    residual, scale, boot_sd, weight, sweep_of_run
        As in `boot_given_runs`.
    one_minus_elasticity : tensor, (run,)
        Factor of the change of variables; 1 in a closed loop and at the cap.

    References
    ----------
    .. [1] Sherman & Morrison (1950). Adjustment of an inverse matrix corresponding to a change in
       one element of a given matrix. Annals of Mathematical Statistics 21.
    """
    precision, weighted = _sums(residual, scale, boot_sd, weight, sweep_of_run)
    alone = (
        log_stable(one_minus_elasticity)
        - 0.5 * (residual / scale) ** 2
        - pt.log(scale)
        - LOG_ROOT_TWO_PI
    )
    shrunk = 1 + boot_sd**2 * precision
    shared = 0.5 * (boot_sd * weighted) ** 2 / shrunk - 0.5 * pt.log(shrunk)
    return sums_of_sweeps(weight * alone, sweep_of_run, boot_sd.shape[0]) + shared


def observe_latency(
    name: str,
    log_latency: Any,
    *,
    location: Any,
    scale: Any,
    boot_sd: Any,
    one_minus_elasticity: Any,
    weight: Any,
    sweep_of_run: np.ndarray,
) -> Any:
    """Score the mean latency of runs, given their control.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    log_latency : tensor, (run,)
        Logarithm of the mean latency, log seconds.
    location : tensor, (run,)
        Of the law, at the batch that the run had, log seconds.
    scale, boot_sd, one_minus_elasticity, weight, sweep_of_run
        As in `latency_logp`.

    Returns
    -------
    pymc random variable, dims (run,)
        One density for all of it: runs of a sweep are not independent.
    """

    def logp(value: Any, mean: Any, sd: Any, boots: Any, factor: Any, counted: Any) -> Any:
        return latency_logp(value - mean, sd, boots, factor, counted, sweep_of_run).sum()

    return pm.CustomDist(
        name,
        location,
        scale,
        boot_sd,
        one_minus_elasticity,
        weight,
        logp=logp,
        signature="(r),(r),(s),(r),(r)->(r)",
        observed=log_latency,
        dims="run",
    )
