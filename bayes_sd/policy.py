"""The draft length at each load: a table of decisions that hang together."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr

from bayes_sd.decide import MAX_REGRET, NEAR_TIE, compare_at_loads, draft_lengths, warn_first
from bayes_sd.exceptions import ArgumentError, AssumptionWarning
from bayes_sd.load_draws import LoadDraws, predict_over_loads
from bayes_sd.policy_path import PAST_CAPACITY, falling_path
from bayes_sd.scenario import Scenario
from bayes_sd.validate import not_negative, positive

Floats = npt.NDArray[np.float64]

SWITCH_REGRET = 0.005  # half of a near tie
BATCH_LEVELS = (0.05, 0.5, 0.95)
LENGTH_AXIS = "input_len_tokens"


def draft_length_policy(
    tree: xr.DataTree,
    scenario: Scenario,
    rates: Sequence[float] | None = None,
    *,
    concurrencies: Sequence[float] | None = None,
    input_lens: Sequence[float] | None = None,
    candidates: Sequence[int] | None = None,
    max_regret: float = MAX_REGRET,
    switch_regret: float = SWITCH_REGRET,
    monotone: bool = True,
    random_seed: int = 0,
) -> pd.DataFrame:
    """Return a draft length for each load that does not rise with it, with probabilities.

    Taken alone, neighbouring loads choose this or that k where two are nearly as good, and a
    server would go to and fro. So the path over all loads is chosen at once: the sequence of k
    that never rises, has the least total expected regret, and leaves a k only where that k's
    expected regret exceeds the best one's by more than ``switch_regret`` (the hysteresis). It is
    found exactly by dynamic programming, `bayes_sd.policy_path.falling_path`: a rule that walks
    up the loads and switches when it must, instead, cannot undo a start that costs later. Draft
    lengths should fall because drafts compete with requests for the same step; a mixture of
    experts can gain from speculation under load only, and what not rising costs is then warned
    about: ``monotone=False`` decides each load alone.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, lengths, acceptance and arrivals; its own load and draft length are not used. With
        ``concurrency`` in place of a rate, ``rates`` are numbers of requests in flight.
    rates : sequence of float, optional
        Loads, increasing: requests per second (or in flight). This or ``concurrencies``.
    concurrencies : sequence of float, optional
        Requests kept in flight, increasing: a closed loop.
    input_lens : sequence of float, optional
        Prompt lengths, increasing, tokens: one policy for each, below each other. By default one
        policy at the scenario's own.
    candidates, max_regret, random_seed
        As `choose_draft_length`.
    switch_regret : float
        Regret, as a share of latency, up to which the k before is kept.
    monotone : bool
        Whether k must not rise with load. False: each load is decided alone, without hysteresis.

    Returns
    -------
    pandas.DataFrame
        Index ``request_rate_rps`` (or ``concurrency``), with ``input_lens`` below
        ``input_len_tokens``. Columns:

        - ``num_speculative_tokens``: k; blank where every candidate is past capacity,
        - ``probability_best``, ``expected_regret`` of that k, as in `Decision`, and ``verdict``,
        - ``near_ties``: others within a hundredth of the least regret,
        - ``median_e2e_s``, s; ``effective_batch``, ``low_effective_batch``,
          ``high_effective_batch``: median and central 90 % of the requests in the system at k,
        - ``status``, ``outside``: as in `predict_latency`,
        - ``best_alone``: the k with the least expected regret at this load by itself,
        - ``p_best_k<k>``, ``regret_k<k>``: of every candidate. What a fixed k costs over all loads:
          `bayes_sd.fixed_draft_length.best_fixed_draft_length`.

        ``attrs`` say what was asked: ``pair``, ``load``, ``arrivals``, ``max_num_seqs``,
        ``candidates``, ``switch_regret``, ``monotone``, ``convergence``.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `choose_draft_length`; or if the loads or lengths are not positive and increasing, or
        not exactly one kind of load is given.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`.
    AssumptionWarning
        If at some load a k that may not rise costs more than ``max_regret`` and ``switch_regret``.

    Examples
    --------
    >>> scenario = Scenario("Qwen3-8B", request_rate_rps=1.0, acceptance=0.7)
    >>> policy = draft_length_policy(tree, scenario, [1.0, 4.0, 8.0])  # doctest: +SKIP
    """
    scenario, name, loads = _loads(scenario, rates, concurrencies)
    lens = [None] if input_lens is None else _increasing(input_lens, "input_lens")
    positive(max_regret, "max_regret")
    not_negative(switch_regret, "switch_regret")
    note = warn_first(tree)
    lengths = draft_lengths(tree, scenario, candidates)
    rule = _Rule(max_regret, switch_regret, monotone)
    tables = []
    for tokens in lens:
        at = scenario if tokens is None else scenario.with_(input_len_tokens=tokens)
        arms = [at.with_(num_speculative_tokens=k) for k in lengths]
        draws = predict_over_loads(tree, arms, loads, random_seed=random_seed)
        table = _table(draws, lengths, rule)
        table.index = pd.Index(loads, name=name)
        tables.append(table)
    policy = tables[0]
    if input_lens is not None:
        policy = pd.concat(tables, keys=pd.Index(lens, name=LENGTH_AXIS))
    _warn_of_cost(policy, max(max_regret, switch_regret))
    policy.attrs = {
        "pair": draws[-1].label,
        "load": name,
        "arrivals": scenario.arrivals if scenario.concurrency is None else "closed",
        "max_num_seqs": scenario.max_num_seqs,
        "candidates": lengths,
        "switch_regret": switch_regret,
        "monotone": monotone,
        "convergence": note,
    }
    return policy


@dataclass(frozen=True)
class _Rule:
    """How a path is chosen from regrets."""

    max_regret: float
    switch_regret: float
    monotone: bool


def _loads(
    scenario: Scenario, rates: Sequence[float] | None, concurrencies: Sequence[float] | None
) -> tuple[Scenario, str, list[float]]:
    """Return the scenario with the kind of load that is asked for, its name, and the loads."""
    if (rates is None) == (concurrencies is None):
        raise ArgumentError(
            "a policy must have rates (open loop) or concurrencies (closed loop), one of them. "
            f"Got rates={rates!r} and concurrencies={concurrencies!r} instead."
        )
    if rates is not None:
        loads = _increasing(rates, "rates")
        name = "request_rate_rps" if scenario.concurrency is None else "concurrency"
    else:
        loads = _increasing(concurrencies or [], "concurrencies")
        name = "concurrency"
    return scenario.with_(**{name: loads[0]}), name, loads


def _increasing(values: Sequence[float], name: str) -> list[float]:
    listed = [positive(value, name) for value in values]
    if not listed or any(a >= b for a, b in pairwise(listed)):
        raise ArgumentError(f"{name} must be positive and increasing. Got {listed!r} instead.")
    return listed


def _table(draws: Sequence[LoadDraws], lengths: Sequence[int], rule: _Rule) -> pd.DataFrame:
    """Choose a path through draws of the candidates, and describe each load of it."""
    loads = draws[0].e2e_s.shape[0]
    past = np.stack([np.isinf(arm.e2e_s).mean(axis=1) for arm in draws], axis=1)
    best, regret = compare_at_loads([arm.e2e_s for arm in draws])
    cost = np.where(past > 0.5, PAST_CAPACITY, regret)
    served = np.flatnonzero(past.min(axis=1) <= 0.5)
    alone = cost.argmin(axis=1)
    chosen = alone.copy()
    if rule.monotone and len(served):
        chosen[served] = falling_path(cost[served], rule.switch_regret)
    rows = []
    for i in range(loads):
        blank = i not in served
        rows.append(
            _blank()
            if blank
            else _row(draws[chosen[i]], i, lengths, regret[i], best[i], (chosen[i], alone[i]), rule)
        )
        rows[-1]["best_alone"] = pd.NA if blank else lengths[alone[i]]
        rows[-1] |= {f"p_best_k{k}": p for k, p in zip(lengths, best[i].tolist(), strict=True)}
        rows[-1] |= {f"regret_k{k}": r for k, r in zip(lengths, regret[i].tolist(), strict=True)}
    table = pd.DataFrame(rows)
    for column in ("num_speculative_tokens", "best_alone"):
        table[column] = table[column].astype("Int64")
    return table


def _blank() -> dict[str, object]:
    numbers = ("median_e2e_s", "effective_batch", "low_effective_batch", "high_effective_batch")
    return {
        "num_speculative_tokens": pd.NA,
        "probability_best": float("nan"),
        "expected_regret": float("nan"),
        "verdict": "past capacity",
        "near_ties": "",
        **dict.fromkeys(numbers, float("nan")),
        "status": "past capacity",
        "outside": "",
    }


def _row(
    arm: LoadDraws,
    load: int,
    lengths: Sequence[int],
    regret: Floats,
    best: Floats,
    choices: tuple[int, int],
    rule: _Rule,
) -> dict[str, object]:
    """Describe the choice at one load (and the best there alone) in the words of `Decision`."""
    at, alone = choices
    least = regret[alone]
    close = [k for i, k in enumerate(lengths) if i != at and regret[i] - least <= NEAR_TIE]
    rival = bool(close) and regret[at] - least <= NEAR_TIE
    verdict = "not enough data" if least > rule.max_regret else "near tie" if rival else "choose"
    median = np.quantile(arm.e2e_s[load], 0.5, method="inverted_cdf")
    low, middle, high = np.quantile(arm.batch[load], BATCH_LEVELS, method="inverted_cdf")
    return {
        "num_speculative_tokens": lengths[at],
        "probability_best": float(best[at]),
        "expected_regret": float(regret[at]),
        "verdict": verdict,
        "near_ties": " ".join(str(k) for k in close),
        "median_e2e_s": float(median),
        "effective_batch": float(middle),
        "low_effective_batch": float(low),
        "high_effective_batch": float(high),
        "status": arm.status[load],
        "outside": arm.outside[load],
    }


def _warn_of_cost(policy: pd.DataFrame, accepted: float) -> None:
    """Warn where a k that may not rise costs more than was accepted."""
    served = policy[policy["num_speculative_tokens"].notna()]
    lost = [
        row["expected_regret"] - row[f"regret_k{row['best_alone']}"] for _, row in served.iterrows()
    ]
    if lost and max(lost) > accepted:
        where = served.index[int(np.argmax(lost))]
        warnings.warn(
            f"a draft length that does not rise with load costs {max(lost):.1%} of latency at "
            f"load {where}: there k = {served.loc[where, 'best_alone']} is best. "
            "monotone=False decides each load alone.",
            AssumptionWarning,
            stacklevel=3,
        )
