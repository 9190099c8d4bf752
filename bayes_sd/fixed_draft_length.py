"""The best draft length that is the same at all loads, and what it costs against a policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bayes_sd.exceptions import ArgumentError
from bayes_sd.validate import not_negative

PREFIX = "regret_k"


@dataclass(frozen=True)
class FixedDraftLength:
    """Fixed draft lengths over the loads of a policy.

    Attributes
    ----------
    choice : int
        The draft length with the least mean expected regret.
    candidates : tuple of int
        Draft lengths compared.
    mean_regret, worst_regret : tuple of float
        Per candidate: expected regret over the loads, its weighted mean and its largest value. A
        share of latency, 0 to 1.
    worst_load : tuple of float
        Per candidate: the load of the largest.
    policy_regret : float
        Mean expected regret of the policy at the same loads.
    unit : str
        ``requests/s`` or ``requests in flight``.
    num_loads : int
        Loads that were counted: those at which some draft length is below capacity.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    choice: int
    candidates: tuple[int, ...]
    mean_regret: tuple[float, ...]
    worst_regret: tuple[float, ...]
    worst_load: tuple[float, ...]
    policy_regret: float
    unit: str
    num_loads: int
    convergence: str

    @property
    def cost(self) -> float:
        """What the best fixed draft length costs more than the policy, a share of latency."""
        return self.mean_regret[self.candidates.index(self.choice)] - self.policy_regret

    def statement(self) -> str:
        """Return the answer in words."""
        at = self.candidates.index(self.choice)
        first = f"{self.convergence} " if self.convergence else ""
        return (
            f"{first}The best fixed draft length over {self.num_loads} loads is k = {self.choice}: "
            f"it costs {self.mean_regret[at]:.1%} of latency on average, the policy "
            f"{self.policy_regret:.1%}; at worst {self.worst_regret[at]:.1%}, at "
            f"{self.worst_load[at]:g} {self.unit}."
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row per draft length."""
        names = ("mean_regret", "worst_regret", "worst_load")
        index = pd.Index(self.candidates, name="num_speculative_tokens")
        return pd.DataFrame({name: getattr(self, name) for name in names}, index=index)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        rows = self.to_frame().reset_index().to_dict(orient="records")
        return {
            "choice": self.choice,
            "cost": self.cost,
            "policy_regret": self.policy_regret,
            "unit": self.unit,
            "num_loads": self.num_loads,
            "convergence": self.convergence,
            "candidates": [{str(name): value for name, value in row.items()} for row in rows],
        }


def best_fixed_draft_length(
    policy: pd.DataFrame, weights: Sequence[float] | None = None
) -> FixedDraftLength:
    """Return the draft length to keep at all loads of a policy, if it must be one.

    Parameters
    ----------
    policy : pandas.DataFrame
        Result of `draft_length_policy`, over one prompt length.
    weights : sequence of float, optional
        How often each load occurs, one per row; by default each as often as the others.

    Returns
    -------
    FixedDraftLength
        The choice, and what it costs against the best k at each load.

    Raises
    ------
    ArgumentError
        If the policy has two axes, no load below capacity, or the weights do not fit its rows.

    Notes
    -----
    Expected regret is a share of the latency at its own load, so its mean over loads is fair to
    each load, and says nothing about the sum of seconds. Loads at which every draft length is past
    capacity do not count.

    Examples
    --------
    >>> policy = pd.DataFrame(
    ...     {
    ...         "num_speculative_tokens": [3, 0],
    ...         "expected_regret": [0.0, 0.0],
    ...         "regret_k0": [0.3, 0.0],
    ...         "regret_k3": [0.0, 0.2],
    ...     },
    ...     index=pd.Index([1.0, 8.0], name="request_rate_rps"),
    ... )
    >>> found = best_fixed_draft_length(policy)
    >>> found.choice, found.cost
    (3, 0.1)
    """
    columns = [str(name) for name in policy.columns if str(name).startswith(PREFIX)]
    if policy.index.nlevels > 1 or not columns:
        raise ArgumentError(
            "policy must be the result of draft_length_policy over one prompt length. Take one: "
            "policy.loc[length]."
        )
    often = np.ones(len(policy)) if weights is None else _checked(weights, len(policy))
    served = policy["num_speculative_tokens"].notna().to_numpy()
    often = np.where(served, often, 0.0)
    if not often.sum():
        raise ArgumentError(
            "the policy must have a load that is served, with a weight above 0. Got none: every "
            "draft length is past capacity."
        )
    share = often / often.sum()
    regret = policy[columns].to_numpy(dtype=float)
    mean = share @ regret
    counted = np.where((often > 0)[:, None], regret, -1.0)
    lengths = tuple(int(name.removeprefix(PREFIX)) for name in columns)
    own = policy["expected_regret"].to_numpy(dtype=float)
    return FixedDraftLength(
        lengths[int(mean.argmin())],
        lengths,
        tuple(mean.tolist()),
        tuple(counted.max(axis=0).tolist()),
        tuple(float(policy.index[i]) for i in counted.argmax(axis=0)),
        float(share[often > 0] @ own[often > 0]),
        "requests in flight" if policy.index.name == "concurrency" else "requests/s",
        int((often > 0).sum()),
        str(policy.attrs.get("convergence", "")),
    )


def _checked(weights: Sequence[float], rows: int) -> np.ndarray:
    listed = [not_negative(weight, "weights") for weight in weights]
    if len(listed) != rows:
        raise ArgumentError(
            f"weights must be one per load of the policy, {rows}. Got {len(listed)} instead."
        )
    return np.array(listed)
