"""How each kind of observation meets the model: one function per kind.

A run has one control and one response. In an open loop the control is the arrival rate and the
response is latency; both fix the effective batch by Little's law, so the product is not scored
again. A relative error that acts on the step time, inside B = rate x L(B), moves the latency by
1 / (1 - elasticity) times as much, and the density of log latency carries the factor
(1 - elasticity).
"""

from typing import Any

import pymc as pm
import pytensor.tensor as pt

# Keeps the logarithm finite where the elasticity passes 1: an operating point that no open loop
# holds. There the density is about 1e-2 of its usual size, so the sampler leaves, with a gradient.
ELASTICITY_FLOOR = 1e-2


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


def latency_logp(
    value: Any, location: Any, scale: Any, tail_dof: Any, one_minus_elasticity: Any, weight: Any
) -> Any:
    """Return the log density of log latency given the control; arguments as `observe_latency`."""
    density = pm.logp(pm.StudentT.dist(nu=tail_dof, mu=location, sigma=scale), value)
    amplified = 0.5 * pt.log(one_minus_elasticity**2 + ELASTICITY_FLOOR**2)
    return weight * (density + amplified)


def observe_latency(
    name: str,
    log_latency: Any,
    *,
    location: Any,
    scale: Any,
    tail_dof: Any,
    one_minus_elasticity: Any,
    weight: Any,
) -> Any:
    """Score the mean latency of runs, given their control.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    log_latency : tensor, (run,)
        Logarithm of the mean latency, log seconds.
    location, scale : tensor, (run,)
        Of the Student-t residual on the log scale, at the batch that the run had.
    tail_dof : tensor, scalar
        Degrees of freedom.
    one_minus_elasticity : tensor, (run,)
        Factor of the change of variables; 1 in a closed loop and at the cap.
    weight : tensor, (run,)
        1 to score a run, 0 to hold it out.

    Returns
    -------
    pymc random variable, dims (run,)
    """
    return pm.CustomDist(
        name,
        location,
        scale,
        tail_dof,
        one_minus_elasticity,
        weight,
        logp=latency_logp,
        observed=log_latency,
        dims="run",
    )
