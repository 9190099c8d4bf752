"""What a decision says: the choice, how sure it is, and what being wrong costs."""

from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class Decision:
    """A choice among candidates, how sure it is, and what being wrong costs.

    Attributes
    ----------
    choice : int or None
        The candidate with the least expected regret; None where no candidate is worth naming.
    verdict : str
        ``choose``, ``near tie``, ``not enough data``, ``past capacity`` or ``objective not met``.
    reason : str
        Why, in one sentence.
    candidates : tuple of int
        Draft lengths compared; 0 is speculation off.
    probability_best : tuple of float
        Per candidate: the share of draws in which its loss is the lowest.
    expected_regret : tuple of float
        Per candidate: mean of 1 - lowest loss / its loss, 0 to 1; 1 in draws where it is past
        capacity, or misses the objective, and another does not. The loss is the mean latency
        unless ``utility`` says otherwise.
    near_ties : tuple of int
        Candidates whose expected regret is within 0.01 of the choice's, the choice left out.
    median_e2e_s, low_e2e_s, high_e2e_s : tuple of float
        Median and central 90 % interval of the mean latency, s.
    status : tuple of str
        Measured, interpolated, extrapolated or past capacity, per candidate.
    outside : tuple of str
        What lies outside the measured range, per candidate.
    kind : str
        Kind of prediction that was compared.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    utility : str
        What was compared; ``mean`` is the mean latency. See `choose_draft_length`.
    """

    choice: int | None
    verdict: str
    reason: str
    candidates: tuple[int, ...]
    probability_best: tuple[float, ...]
    expected_regret: tuple[float, ...]
    near_ties: tuple[int, ...]
    median_e2e_s: tuple[float, ...]
    low_e2e_s: tuple[float, ...]
    high_e2e_s: tuple[float, ...]
    status: tuple[str, ...]
    outside: tuple[str, ...]
    kind: str
    convergence: str
    utility: str = "mean"

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate."""
        columns = (
            "median_e2e_s",
            "low_e2e_s",
            "high_e2e_s",
            "probability_best",
            "expected_regret",
            "status",
            "outside",
        )
        index = pd.Index(self.candidates, name="num_speculative_tokens")
        return pd.DataFrame({name: getattr(self, name) for name in columns}, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        table = self.to_frame().reset_index()
        return {
            "choice": self.choice,
            "verdict": self.verdict,
            "reason": self.reason,
            "near_ties": list(self.near_ties),
            "kind": self.kind,
            "utility": self.utility,
            "convergence": self.convergence,
            "candidates": [
                {str(name): value for name, value in row.items()}
                for row in table.to_dict(orient="records")
            ],
        }
