"""One draft length per load that does not rise with load and is not switched for nothing."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PAST_CAPACITY = 2.0  # above any regret: a candidate that is mostly past capacity is the last choice


def falling_path(cost: Floats, switch_regret: float) -> list[int]:
    r"""Return one candidate per load: the cheapest path that never rises, with hysteresis.

    Of all sequences :math:`k_1 \ge k_2 \ge \dots` it is the one with the least
    :math:`\sum_i r_i(k_i)`, where a switch at load i is allowed only if the draft length before it
    has become too costly there: :math:`r_i(k_{i-1}) - \min_k r_i(k) > h`. Found by dynamic
    programming over loads and candidates [1]_: the cheapest path to (i, k) is :math:`r_i(k)` and
    the cheaper of staying, from (i - 1, k), and of an allowed switch, from (i - 1, k') with
    k' > k. Time: loads times candidates squared.

    Parameters
    ----------
    cost : array[load, candidate]
        Expected regret :math:`r_i(k)`, 0 to 1 (or `PAST_CAPACITY`); candidates ascending.
    switch_regret : float
        The hysteresis h, of the same unit; 0 switches as soon as another is better.

    Returns
    -------
    list of int
        Number of the candidate at each load.

    References
    ----------
    .. [1] Bellman (1957). Dynamic Programming. Princeton University Press.

    Examples
    --------
    The second candidate is a little better at the second load only: not worth two switches.

    >>> falling_path(np.array([[0.3, 0.0], [0.0, 0.004], [0.3, 0.0], [0.0, 0.1]]), 0.01)
    [1, 1, 1, 0]
    """
    loads, candidates = cost.shape
    total = cost[0].copy()
    came_from = np.zeros((loads, candidates), dtype=int)
    here = np.arange(candidates)
    for i in range(1, loads):
        may_leave = cost[i] - cost[i].min() > switch_regret
        leaving = np.where(may_leave, total, np.inf)
        best, source = total.copy(), here.copy()
        for k in range(candidates - 1):
            at = k + 1 + int(np.argmin(leaving[k + 1 :]))
            if leaving[at] < best[k]:
                best[k], source[k] = leaving[at], at
        total, came_from[i] = cost[i] + best, source
    path = [int(np.argmin(total))]
    for i in range(loads - 1, 0, -1):
        path.append(int(came_from[i, path[-1]]))
    return path[::-1]
