"""Times between the chunks of streamed answers: their mean and percentiles in little memory.

A file of records has a list of them for each request, and more of them than anything else: two
gigabytes hold a hundred million. They are kept as they are while they are few, and counted in
logarithmic bins after that.
"""

from array import array

import numpy as np

from bayes_sd.run_variables import QUANTILES

MAX_KEPT = 1 << 20
# The leading bits of a float64, its exponent and the next 13, number logarithmic bins: each is
# 1/8192 of its octave, so a percentile is good to 1e-4 of itself.
SHIFT = 52 - 13
OCTAVES = (-30, 24)  # 2^-30 s is a nanosecond, 2^24 s half a year
LOWEST = (1023 + OCTAVES[0]) << 13
NUM_BINS = (OCTAVES[1] - OCTAVES[0]) << 13


class ChunkGaps:
    """Gaps between chunks, s, added list by list.

    Examples
    --------
    >>> gaps = ChunkGaps()
    >>> gaps.add([20.0, 30.0, 40.0], 1e-3)
    True
    >>> gaps.cells()["mean_itl_s"], gaps.cells()["p50_itl_s"]
    (0.03, 0.03)
    """

    def __init__(self) -> None:
        self.kept = array("d")
        self.scale = 1.0
        self.counts: np.ndarray | None = None
        self.total_s = 0.0
        self.number = 0

    def add(self, values: list, scale: float) -> bool:
        """Add the gaps of one request, in a unit of so many seconds.

        Returns
        -------
        bool
            False if the list holds anything but numbers; then none of it is added.
        """
        if len(self.kept) > MAX_KEPT or (len(self.kept) and scale != self.scale):
            self._count()
        self.scale = scale
        try:
            self.kept.fromlist(values)
        except (TypeError, OverflowError):
            return False
        return True

    def cells(self) -> dict[str, float]:
        """Return mean and percentiles as cells of a run; empty if there are no gaps."""
        if self.counts is None:
            values = self._values()
            if not len(values) or not values.sum() > 0:
                return {}
            found = np.quantile(values, list(QUANTILES.values()))
            mean = float(values.mean())
        else:
            self._count()
            ends = np.cumsum(self.counts)
            ranks = np.array(list(QUANTILES.values())) * (self.number - 1) + 1
            bins = np.searchsorted(ends, ranks) + LOWEST
            found = ((bins << SHIFT) + (1 << (SHIFT - 1))).view(np.float64)
            mean = self.total_s / self.number
        cells = {"mean_itl_s": mean}
        cells |= {f"{p}_itl_s": float(q) for p, q in zip(QUANTILES, found, strict=True) if q > 0}
        return cells

    def _values(self) -> np.ndarray:
        """Return the gaps that are kept, s, without what cannot be a time."""
        values = np.array(self.kept) * self.scale
        return values[np.isfinite(values) & (values >= 0)]

    def _count(self) -> None:
        """Move the gaps that are kept into bins."""
        values = self._values()
        self.kept = array("d")
        if self.counts is None:
            self.counts = np.zeros(NUM_BINS, dtype=np.int64)
        bins = np.clip((values.view(np.int64) >> SHIFT) - LOWEST, 0, NUM_BINS - 1)
        self.counts += np.bincount(bins, minlength=NUM_BINS)
        self.total_s += float(values.sum())
        self.number += len(values)
