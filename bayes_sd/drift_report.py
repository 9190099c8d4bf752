"""What `bayes_sd.drift` found, in words and as tables."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

ADVICE = {
    "acceptance": "update_acceptance, or refit if it refuses",
    "cost": "measure again and refit: the server is not the one that was fitted",
    "load": "ask recommend_live for the draft length at this load",
    "boot": "nothing: boots differ by as much",
}


@dataclass(frozen=True)
class StreamState:
    """Where one part stands after the last window.

    Attributes
    ----------
    part : str
        ``acceptance``, ``cost`` or ``load``.
    score : float
        Log of the statistic over that of the threshold: an alarm at 1.
    detects_10_percent_s : float
        In about how many seconds a lasting change of 10 % is told; NaN where not known.
    """

    part: str
    score: float
    detects_10_percent_s: float


@dataclass(frozen=True)
class DriftReport:
    """Whether anything moved, and which part.

    Attributes
    ----------
    moved : tuple of str
        Parts that moved, the first to be told in front: ``acceptance``, ``cost``, ``load``,
        ``boot``. A boot is told at a restart, and is no alarm.
    told_at : dict of str to int
        By part: the number of the window that told it.
    streams : tuple of StreamState
        Where each part stands.
    boot_ratio : float
        Latency of the last boot over that of the boot before; NaN without a restart.
    rows : tuple of dict
        One per window: ``end_s``, ``is_new_boot``, and of each part ``_ratio``, measured over
        expected from all windows before, ``_score``, and of acceptance and cost ``_z``, the log of
        that ratio in standard deviations: standard normal while nothing moves.
    false_alarm : float
        Probability of any false alarm within a day, at most.
    label : str
        What was watched.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    moved: tuple[str, ...]
    told_at: dict[str, int]
    streams: tuple[StreamState, ...]
    boot_ratio: float
    rows: tuple[dict[str, float], ...]
    false_alarm: float
    label: str
    convergence: str

    @property
    def is_alarm(self) -> bool:
        """Whether something moved that is not a boot."""
        return any(part != "boot" for part in self.moved)

    def statement(self) -> str:
        """Return the answer in words."""
        first = f"{self.convergence} " if self.convergence else ""
        count = f"{len(self.rows)} window{'' if len(self.rows) == 1 else 's'}"
        if not self.moved:
            return f"{first}Nothing moved in {count}."
        parts = [
            f"{part} moved (told at window {self.told_at[part] + 1} of {count}; do: {ADVICE[part]})"
            for part in self.moved
        ]
        text = "; ".join(parts)
        return f"{first}{text[0].upper()}{text[1:]}."

    def to_frame(self) -> pd.DataFrame:
        """Return one row per window."""
        return pd.DataFrame(list(self.rows)).rename_axis(index="window")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; what is not known is None."""
        return {
            "moved": list(self.moved),
            "is_alarm": self.is_alarm,
            "told_at": dict(self.told_at),
            "boot_ratio": _known(self.boot_ratio),
            "false_alarm": self.false_alarm,
            "label": self.label,
            "convergence": self.convergence,
            "num_windows": len(self.rows),
            "streams": [
                {
                    "part": s.part,
                    "score": _known(s.score),
                    "detects_10_percent_s": _known(s.detects_10_percent_s),
                }
                for s in self.streams
            ],
            "last": {name: _known(value) for name, value in self.rows[-1].items()},
        }


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
