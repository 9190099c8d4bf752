"""One acceptance rate in place of a mean acceptance length."""

from scipy.optimize import brentq

from bayes_sd.physics.acceptance import mean_acceptance_length


def equivalent_acceptance_rate(mean_length: float, num_positions: int) -> float:
    """Return the conditional rate, the same at all positions, that gives a mean length.

    Parameters
    ----------
    mean_length : float
        Tokens per step, the verifier's own counted, from 1 to num_positions + 1.
    num_positions : int
        Drafts that can be accepted one after another.

    Returns
    -------
    float
        From 0 to 1; the ends for lengths out of range.

    Examples
    --------
    >>> round(equivalent_acceptance_rate(1.875, 3), 9)
    0.5
    """
    if num_positions < 1 or mean_length <= 1:
        return 0.0
    if mean_length >= num_positions + 1:
        return 1.0

    def excess(rate: float) -> float:
        rates = [rate] * num_positions
        return float(mean_acceptance_length(rates, num_positions)) - mean_length

    return float(brentq(excess, 0.0, 1.0, xtol=1e-12))
