"""Coordinates for costs that the data tell only as a sum: the sum, and shares of it.

Sampling happens in these coordinates; the prior on the costs is untouched, for each change of
coordinates has a unit Jacobian.
"""

from typing import Any

import pytensor.tensor as pt
from pymc.logprob.transforms import Transform


class SumAndShare(Transform):
    """Sample two positive costs, given by their logs, as log of their sum and logit of a share.

    With t = log(a + b) and l = log a - log b, the Jacobian of (log a, log b) in (t, l) has
    determinant -1: log a = t + log sigmoid(l) and log b = t + log sigmoid(-l) give
    (1)(-sigmoid(l)) - (sigmoid(-l))(1) = -1. So the prior on (log a, log b) is untouched.
    """

    name = "sum_and_share"
    ndim_supp = 1

    def forward(self, value: Any, *inputs: Any) -> Any:
        """Return (log of the sum, logit of the first's share); last axis of size 2."""
        first, second = value[..., 0], value[..., 1]
        return pt.stack([pt.logaddexp(first, second), first - second], axis=-1)

    def backward(self, value: Any, *inputs: Any) -> Any:
        """Return the logs of both costs; last axis of size 2."""
        total, logit = value[..., 0], value[..., 1]
        return pt.stack([total - pt.softplus(-logit), total - pt.softplus(logit)], axis=-1)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        """Return 0, for each pair of costs."""
        return pt.zeros(value.shape[:-1])


class LoadShares(Transform):
    """`SumAndShare` thrice: (stall + verification) + (verification + drafting of one more draft).

    Four logs of costs become the log of their sum, the logit of the first two against the last
    two, and the logit inside each two. Each step has a unit Jacobian, so the whole has.
    """

    name = "load_shares"
    ndim_supp = 1

    def forward(self, value: Any, *inputs: Any) -> Any:
        """Return (log sum, logit between the twos, logit in the first, logit in the second)."""
        a, b, c, d = (value[..., i] for i in range(4))
        first, second = pt.logaddexp(a, b), pt.logaddexp(c, d)
        return pt.stack([pt.logaddexp(first, second), first - second, a - b, c - d], axis=-1)

    def backward(self, value: Any, *inputs: Any) -> Any:
        """Return the logs of the four costs; last axis of size 4."""
        total, between, in_first, in_second = (value[..., i] for i in range(4))
        first, second = total - pt.softplus(-between), total - pt.softplus(between)
        parts = [
            first - pt.softplus(-in_first),
            first - pt.softplus(in_first),
            second - pt.softplus(-in_second),
            second - pt.softplus(in_second),
        ]
        return pt.stack(parts, axis=-1)

    def log_jac_det(self, value: Any, *inputs: Any) -> Any:
        """Return 0, for each four costs."""
        return pt.zeros(value.shape[:-1])
