"""The draft length at each load: a table of decisions."""

from collections.abc import Sequence
from itertools import pairwise

import pandas as pd
import xarray as xr

from bayes_sd.decide import (
    MAX_REGRET,
    decide_from_draws,
    draft_lengths,
    warn_first,
)
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.validate import positive


def draft_length_policy(
    tree: xr.DataTree,
    scenario: Scenario,
    rates: Sequence[float],
    *,
    candidates: Sequence[int] | None = None,
    max_regret: float = MAX_REGRET,
    random_seed: int = 0,
) -> pd.DataFrame:
    """Return the best draft length at each request rate, with probabilities.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenario : Scenario
        Pair, lengths, acceptance and arrivals; its own rate and draft length are not used. With
        ``concurrency`` in place of a rate, ``rates`` are numbers of requests in flight.
    rates : sequence of float
        Loads, increasing: requests per second (or in flight).
    candidates, max_regret, random_seed
        As `choose_draft_length`.

    Returns
    -------
    pandas.DataFrame
        Index ``request_rate_rps`` (or ``concurrency``); columns ``num_speculative_tokens`` (blank
        past capacity), ``probability_best``, ``expected_regret``, ``verdict``, ``near_ties``,
        ``median_e2e_s``, ``effective_batch``, ``status``, ``outside``, and ``p_best_k<k>`` for
        each candidate. Each row is decided alone: neighbouring rows may differ by noise where
        ``verdict`` is a near tie.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `choose_draft_length`; or if the rates are not positive and increasing.
    """
    rates = [positive(rate, "rates") for rate in rates]
    if not rates or any(a >= b for a, b in pairwise(rates)):
        raise ArgumentError(f"rates must be positive and increasing. Got {rates!r} instead.")
    note = warn_first(tree)
    lengths = draft_lengths(tree, scenario, candidates)
    load = "request_rate_rps" if scenario.concurrency is None else "concurrency"
    arms = [
        scenario.with_(num_speculative_tokens=k, **{load: rate}) for rate in rates for k in lengths
    ]
    draws = predict_latency(tree, arms, random_seed=random_seed)
    rows = []
    for i in range(len(rates)):
        here = draws.isel(scenario=slice(i * len(lengths), (i + 1) * len(lengths)))
        decision = decide_from_draws(here, lengths, max_regret=max_regret, note=note)
        row: dict[str, object] = {
            "num_speculative_tokens": pd.NA,
            "probability_best": float("nan"),
            "expected_regret": float("nan"),
            "verdict": decision.verdict,
            "near_ties": " ".join(str(k) for k in decision.near_ties),
            "median_e2e_s": float("nan"),
            "effective_batch": float("nan"),
            "status": "past capacity",
            "outside": "",
        }
        if decision.choice is not None:
            at = lengths.index(decision.choice)
            row |= {
                "num_speculative_tokens": decision.choice,
                "probability_best": decision.probability_best[at],
                "expected_regret": decision.expected_regret[at],
                "median_e2e_s": decision.median_e2e_s[at],
                "effective_batch": float(here["effective_batch"].isel(scenario=at).median()),
                "status": decision.status[at],
                "outside": decision.outside[at],
            }
        row |= {f"p_best_k{k}": p for k, p in zip(lengths, decision.probability_best, strict=True)}
        rows.append(row)
    table = pd.DataFrame(rows, index=pd.Index(rates, name=load))
    table["num_speculative_tokens"] = table["num_speculative_tokens"].astype("Int64")
    return table
