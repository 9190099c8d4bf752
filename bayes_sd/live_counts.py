"""Accept counts of live traffic, and the simplest thing that can be done with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayes_sd.exceptions import ArgumentError
from bayes_sd.validate import positive, whole_number


@dataclass(frozen=True)
class AcceptCounts:
    """Accepted drafts of one window, as one more run of an acceptance group.

    Parameters
    ----------
    accepted : sequence of int
        Drafts accepted at each position; with ``num_speculative_tokens``, one number: the total.
    num_drafts : int
        Steps that drafted: the trials at the first position. Those at each later one are what was
        accepted before it.
    num_requests : int
        Requests that they are of: few requests are a poor sample of the workload.
    num_speculative_tokens : int, optional
        Draft length k; by default the number of positions.

    Raises
    ------
    ArgumentError
        If counts are negative, rise, or do not fit the draft length.

    Examples
    --------
    >>> AcceptCounts((700, 480, 310), num_drafts=1000, num_requests=40).length
    3
    """

    accepted: tuple[int, ...]
    num_drafts: int
    num_requests: int
    num_speculative_tokens: int | None = None

    def __post_init__(self) -> None:
        """Check the counts."""
        given = self.accepted if isinstance(self.accepted, Sequence) else (self.accepted,)
        counts = tuple(whole_number(count, "accepted", minimum=0) for count in given)
        object.__setattr__(self, "accepted", counts)
        drafts = whole_number(self.num_drafts, "num_drafts")
        whole_number(self.num_requests, "num_requests")
        if self.num_speculative_tokens is not None:
            whole_number(self.num_speculative_tokens, "num_speculative_tokens")
        if not counts or len(counts) not in (1, self.length):
            raise ArgumentError(
                f"accepted must be one count for each of {self.length} positions, or their total. "
                f"Got {len(counts)} counts instead."
            )
        limits = [drafts * self.length] if self.is_total else [drafts, *counts]
        if any(count > limit for count, limit in zip(counts, limits, strict=False)):
            raise ArgumentError(
                "accepted must not exceed the trials: num_drafts at the first position, then what "
                f"was accepted before. Got {counts} of {drafts} drafts instead."
            )

    @property
    def length(self) -> int:
        """Draft length k."""
        return self.num_speculative_tokens or len(self.accepted)

    @property
    def is_total(self) -> bool:
        """Whether only the total over several positions is known."""
        return len(self.accepted) < self.length


def conjugate_acceptance(
    counts: AcceptCounts, prior: tuple[float, float] = (1.0, 1.0)
) -> list[tuple[float, float]]:
    """Update a beta prior of each position's acceptance rate with counts.

    For fits without counted acceptance. It knows nothing of how runs and requests differ, so it
    is too sure of itself where they do.

    Parameters
    ----------
    counts : AcceptCounts
        By position.
    prior : tuple of float
        Accepted and refused drafts that the prior is worth, at every position; above 0.

    Returns
    -------
    list of (float, float)
        Parameters of the beta distribution of each position; its mean is a / (a + b).

    Raises
    ------
    ArgumentError
        If the prior is not positive, or the counts are a total.

    Notes
    -----
    Beta and binomial are conjugate: Gelman et al. (2013). Bayesian Data Analysis, section 2.4.

    Examples
    --------
    >>> conjugate_acceptance(AcceptCounts((700, 480), num_drafts=1000, num_requests=40))
    [(701.0, 301.0), (481.0, 221.0)]
    """
    if len(prior) != 2:
        raise ArgumentError(f"prior must be two numbers. Got {prior!r} instead.")
    accepted, refused = (positive(value, "prior") for value in prior)
    if counts.is_total:
        raise ArgumentError("counts must be by position. Got their total instead.")
    trials = (counts.num_drafts, *counts.accepted)
    found = [
        (accepted + good, refused + of - good)
        for good, of in zip(counts.accepted, trials, strict=False)
    ]
    return found
