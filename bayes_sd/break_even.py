"""From which load on speculation stops paying."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.configuration import Configuration, misfit_of, resolve
from bayes_sd.decide import warn_first
from bayes_sd.exceptions import ArgumentError
from bayes_sd.scenario import Scenario
from bayes_sd.support import support
from bayes_sd.validate import whole_number

NUM_GRID = 80
MIN_BATCH = 1e-3
MIN_CROSSING = 0.05  # below this probability a turn is not worth a number


@dataclass(frozen=True)
class BreakEven:
    """Posterior of the load at which speculation stops paying.

    Attributes
    ----------
    rate : array[draw]
        Request rate (1/s; requests in flight in a closed loop) where speculation turns from
        faster to slower; NaN in draws without such a turn.
    p_crosses : float
        Probability that there is such a turn below capacity.
    p_never : float
        Probability that speculation is slower at every load.
    p_always : float
        Probability that it is faster at every load up to capacity.
    p_reversed : float
        Probability that it is slower when idle and faster under load.
    unit : str
        ``requests/s`` or ``requests in flight``.
    status, outside : str
        Measured, interpolated or extrapolated, and in what, over both arms.
    pair, num_speculative_tokens
        What was compared with speculation off.
    convergence : str
        Empty if the fit passed `diagnose`, else what to say first.
    """

    rate: np.ndarray
    p_crosses: float
    p_never: float
    p_always: float
    p_reversed: float
    unit: str
    status: str
    outside: str
    pair: str
    num_speculative_tokens: int
    convergence: str

    def interval(self, level: float = 0.9) -> tuple[float, float, float]:
        """Return low end, median and high end of the turn, given that there is one."""
        found = self.rate[np.isfinite(self.rate)]
        if not len(found):
            return (np.nan, np.nan, np.nan)
        tail = (1 - level) / 2
        low, middle, high = np.quantile(found, [tail, 0.5, 1 - tail])
        return float(low), float(middle), float(high)

    def statement(self) -> str:
        """Return the answer in words."""
        low, middle, high = self.interval()
        subject = f"{self.pair}, k = {self.num_speculative_tokens}"
        parts = [self.convergence] if self.convergence else []
        if self.p_crosses >= MIN_CROSSING:
            parts.append(
                f"{subject}: speculation stops paying at {middle:.3g} {self.unit} "
                f"(90 % interval {low:.3g} to {high:.3g}), if it does (P = {self.p_crosses:.2f})."
            )
        else:
            parts.append(f"{subject}: no load at which speculation turns from gain to loss.")
        parts.append(
            f"P(always pays up to capacity) {self.p_always:.2f}, P(never pays) {self.p_never:.2f}"
            + (f", P(pays only under load) {self.p_reversed:.2f}." if self.p_reversed else ".")
        )
        parts.append(f"[{self.status}{': ' + self.outside if self.outside else ''}]")
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        low, middle, high = self.interval()
        numbers = {"low": low, "median": middle, "high": high}
        return {
            "pair": self.pair,
            "num_speculative_tokens": self.num_speculative_tokens,
            "unit": self.unit,
            **{name: None if np.isnan(value) else value for name, value in numbers.items()},
            "p_crosses": self.p_crosses,
            "p_never": self.p_never,
            "p_always": self.p_always,
            "p_reversed": self.p_reversed,
            "status": self.status,
            "outside": self.outside,
            "convergence": self.convergence,
        }


def break_even_rate(
    tree: xr.DataTree,
    pair: str,
    *,
    num_speculative_tokens: int,
    scenario: Scenario | None = None,
    acceptance: float | None = None,
    random_seed: int = 0,
) -> BreakEven:
    """Return the posterior of the request rate at which speculation stops paying.

    Two configurations have the same latency at the same rate exactly where they have the same
    latency at the same batch, for B = rate x L. So the turn is looked for over the batch, with
    no fixed point to solve, and the rate there is B / L(B).

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    pair : str
        Label of a fitted pair, or a part of it that fits only one.
    num_speculative_tokens : int
        Draft length to compare with speculation off.
    scenario : Scenario, optional
        Lengths, arrivals (or a closed loop), acceptance and max_num_seqs; its pair, draft length
        and load are not used. By default Poisson arrivals and the measured lengths.
    acceptance : float, optional
        As in `Scenario`, where no scenario is given.
    random_seed : int
        Seed of the misfit.

    Returns
    -------
    BreakEven
        Draws of the rate, requests per second, and the probabilities of "never" and "always".

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency`; or if the draft length is 0.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.

    Examples
    --------
    >>> answer = break_even_rate(tree, "Qwen3-8B", num_speculative_tokens=3)  # doctest: +SKIP
    >>> print(answer.statement())  # doctest: +SKIP
    """
    whole_number(num_speculative_tokens, "num_speculative_tokens", minimum=1)
    if scenario is not None and acceptance is not None:
        raise ArgumentError(
            "acceptance must be given in the scenario or alone. Got both: drop one of them."
        )
    note = warn_first(tree)
    if scenario is None:
        scenario = Scenario(pair, request_rate_rps=1.0, acceptance=acceptance)
    on = resolve(tree, scenario.with_(pair=pair, num_speculative_tokens=num_speculative_tokens))
    off = resolve(tree, scenario.with_(pair=pair, num_speculative_tokens=0))
    closed = scenario.concurrency is not None
    first = 1.0 if closed else MIN_BATCH
    batch = np.geomspace(first, scenario.max_num_seqs, NUM_GRID)[:, None]
    arms = [_curve(tree, arm, batch, random_seed) for arm in (on, off)]
    turn = _find_turn(arms[0], arms[1], batch, closed=closed)
    # Without a turn the answer is about every load, so about the highest.
    typical = float(
        np.median(turn.batch[turn.crosses] if turn.crosses.mean() >= MIN_CROSSING else turn.last)
    )
    lies = [_support(tree, arm, typical) for arm in (on, off)]
    outside = {f"{part} (off)" if i else part for i, s in enumerate(lies) for part in s.outside}
    if any("draft length" in s.outside for s in lies[1:]):
        outside = (outside - {"draft length (off)"}) | {"k = 0"}
    return BreakEven(
        turn.rate,
        float(turn.crosses.mean()),
        float((~turn.gains).mean()),
        float((~turn.loses).mean()),
        float((~turn.crosses & turn.gains & turn.loses).mean()),
        "requests in flight" if closed else "requests/s",
        "extrapolated" if outside else "interpolated",
        ", ".join(sorted(outside)),
        on.cell.label,
        num_speculative_tokens,
        note,
    )


@dataclass(frozen=True)
class _Turn:
    """Where speculation turns from gain to loss; arrays over draws."""

    rate: np.ndarray  # NaN without a turn
    batch: np.ndarray
    last: np.ndarray  # the largest batch that both arms hold
    crosses: np.ndarray
    gains: np.ndarray  # whether it pays at some load
    loses: np.ndarray


def _find_turn(on: np.ndarray, off: np.ndarray, batch: np.ndarray, *, closed: bool) -> _Turn:
    """Compare two curves of latency over the batch, both array[batch, draw]; batch is a column."""
    gap = on - off  # seconds, negative where speculation pays
    draw = np.arange(gap.shape[1])
    rates = [batch / on, batch / off]
    stable = np.ones_like(gap, dtype=bool)
    if not closed:  # up to where the rate B / L(B) stops rising in one arm
        for sustained in rates:
            rising = np.diff(sustained, axis=0) > 0
            stable[1:] &= np.logical_and.accumulate(rising, axis=0)
    gain = (gap < 0) & stable
    loss = (gap >= 0) & stable
    turn = gain[:-1] & loss[1:]
    crosses = turn.any(axis=0)
    at = np.argmax(turn, axis=0)
    before, after = gap[at, draw], gap[at + 1, draw]
    share = np.where(crosses, before / np.where(crosses, before - after, 1.0), 0.0)
    log_batch = np.log(batch[:, 0])
    where = np.exp(log_batch[at] + share * (log_batch[at + 1] - log_batch[at]))
    latency = off[at, draw] ** (1 - share) * off[at + 1, draw] ** share
    rate = where if closed else where / latency
    end = stable.sum(axis=0) - 1
    overtaken = relieved = np.zeros(len(draw), dtype=bool)
    if not closed:
        # The faster arm may reach its capacity first: above it only the other one serves.
        capacity = [sustained.max(axis=0) for sustained in rates]
        overtaken = (gap[end, draw] < 0) & (capacity[0] < capacity[1])
        relieved = (gap[end, draw] >= 0) & (capacity[0] > capacity[1])
        only = overtaken & ~crosses
        rate = np.where(only, capacity[0], rate)
        where = np.where(only, batch[np.argmax(rates[0], axis=0), 0], where)
        crosses = crosses | overtaken
    return _Turn(
        np.where(crosses, rate, np.nan),
        where,
        batch[end, 0],
        crosses,
        gain.any(axis=0) | relieved,
        loss.any(axis=0) | overtaken,
    )


def _curve(
    tree: xr.DataTree, arm: Configuration, batch: np.ndarray, random_seed: int
) -> np.ndarray:
    """Return the latency of an arm over the batch, array[batch, draw], misfit included."""
    latency = arm.latency(batch)
    held = np.broadcast_to(batch, latency.shape)
    factor = misfit_of(arm, _support(tree, arm, 1.0).doublings, random_seed, held)
    return np.asarray(factor * latency)


def _support(tree: xr.DataTree, arm: Configuration, batch: float) -> Any:
    lengths = (arm.input_len, arm.output_len)
    return support(
        tree, arm.scenario, base=arm.cell.base, pair=arm.cell.pair, batch=batch, lengths=lengths
    )
