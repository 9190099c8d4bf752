r"""How accepted drafts meet the model: counts by position, and means per step.

The requests of a run differ in how easy they are, so a run's logits deviate from those of its
group by a draw of its own, with variance

.. math:: \tau_r^2 = \sigma_{run}^2 + \sigma_{request}^2 / n_r

for n_r requests: a long run of many requests is a better sample of the workload than a short one
with as many steps. The deviations of a run's positions are alike but not the same: the share
``SHARED`` of their variance is common. (Correlations of 0.6 to 1.0 in simulated runs whose
requests differ by 0.6 in the logit, neighbours most.)

Rates are of steps, not of requests: harder requests take more steps and weigh more. For the mean
time of a request these are the right ones, for tokens / steps of all requests together is what
the mean number of steps follows from.
"""

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

SHARED = 0.8


def deviation_variance(request_sd: Any, run_sd: Any, num_requests: Any) -> Any:
    """Return the variance of a run's logits about those of its group.

    Parameters
    ----------
    request_sd, run_sd : number or tensor
        Standard deviation, logit, of single requests and of whole runs.
    num_requests : array or tensor, (run,)
        Requests of each run. Requests of unequal length count as fewer; ``request_sd`` holds that.

    Examples
    --------
    >>> round(deviation_variance(0.5, 0.03, 100) ** 0.5, 3)
    0.058
    """
    return run_sd**2 + request_sd**2 / num_requests


def conditional_logits(
    logits: Any, accepted: np.ndarray, trials: np.ndarray, variance: Any
) -> tuple[Any, Any]:
    r"""Return mean and variance of each position's logit, given the run's earlier positions.

    The deviation e of a run is normal with mean 0 and the shared variance; each position seen
    tells of it, and shifts and narrows what is expected of the next one (a Kalman update, with
    the counts taken as normal for the update only). The product of the densities of all positions,
    each given the earlier ones, is a proper joint density of a run's counts.

    Parameters
    ----------
    logits : tensor, (run, position)
        Logits of the conditional rates of the run's group.
    accepted, trials : array, (run, position)
        Counts; a position without trials tells nothing.
    variance : tensor, (run,)
        Of the run's deviation, see `deviation_variance`.

    Returns
    -------
    mean, variance : tensors, (run, position)
        Of the logit at which the run's drafts were accepted.
    """
    rates = pm.math.sigmoid(logits)
    alone = (1 - SHARED) * variance[:, None]
    shared = SHARED * variance[:, None]
    expected = trials * rates
    bits = expected * (1 - rates)
    weight = 1 / (1 + bits * alone)
    size = trials.type.shape[1] if isinstance(trials, pt.TensorVariable) else trials.shape[1]
    earlier = np.triu(np.ones((size, size)), 1)  # sums over the positions before
    score = pt.dot(weight * (accepted - expected), earlier)
    left = shared / (1 + shared * pt.dot(weight * bits, earlier))
    return logits + left * score, left + alone


def observe_accepted(
    name: str, accepted: Any, trials: Any, *, logit: Any, variance: Any, dims: str
) -> Any:
    r"""Score counts of accepted drafts per run and position: beta-binomial.

    The rate p of mean logit :math:`\ell` is a beta variable whose logit has variance s^2:

    .. math:: \alpha = \frac{1}{(1 - p) s^2}, \quad \beta = \frac{1}{p s^2}, \quad
              \operatorname{Var}(\operatorname{logit}) = \psi'(\alpha) + \psi'(\beta)
              \approx 1/\alpha + 1/\beta = s^2 .

    Parameters
    ----------
    name : str
        Name of the observed variable.
    accepted, trials : array of int, (count,)
        Drafts accepted at a position, and those whose predecessors were all accepted.
    logit, variance : tensor, (count,)
        Of the rate, see `conditional_logits`.
    dims : str
        Name of the dim.

    Returns
    -------
    pymc random variable
    """
    # 1 / (1 - p) and 1 / p, without forming a p that rounds to 0 or 1
    return pm.BetaBinomial(
        name,
        alpha=(1 + pt.exp(logit)) / variance,
        beta=(1 + pt.exp(-logit)) / variance,
        n=trials,
        observed=accepted,
        dims=dims,
    )


def observe_mean_accepted(
    name: str,
    per_step: Any,
    steps: Any,
    *,
    moments: tuple[Any, Any, Any],
    variance: Any,
    dims: str,
) -> Any:
    r"""Score the mean of accepted drafts per step of runs: normal.

    The mean of s steps has variance Var(A) / s from the steps, and from the run's deviation
    (c the shared share, :math:`d_j` the slope of E[A] in the logit of position j)

    .. math:: \tau_r^2 \left[ c \, (\textstyle\sum_j d_j)^2 + (1 - c) \sum_j d_j^2 \right] .

    It is never taken as finer than one token in the run's total: near rates of 0 and 1 the other
    two vanish.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    per_step : array, (run,)
        Observed mean, tokens/step.
    steps : array, (run,)
        Steps that it is over.
    moments : tuple of tensors, each (run,)
        Mean and variance of the accepted drafts A of one step; combined squared slope, the
        bracket above.
    variance : tensor, (run,)
        Of the run's deviation, see `deviation_variance`.
    dims : str
        Name of the dim.

    Returns
    -------
    pymc random variable
    """
    mean, step_variance, squared_slope = moments
    total = step_variance / steps + variance * squared_slope + 1 / steps**2
    return pm.Normal(name, mean, pt.sqrt(total), observed=per_step, dims=dims)


def squared_slope(slopes: list[Any]) -> Any:
    """Return the factor of a run's deviation in the variance of its mean, see above.

    Examples
    --------
    >>> round(squared_slope([0.3, 0.1]), 3)
    0.148
    """
    return SHARED * sum(slopes) ** 2 + (1 - SHARED) * sum(s**2 for s in slopes)
