"""The numbers of a report: each setting's predictions and decisions, at every load of its grid."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.break_even import break_even_rate
from bayes_sd.capacity_draws import capacity_draws_rps
from bayes_sd.configuration import resolve
from bayes_sd.curves import latency_curves
from bayes_sd.decide import decide_from_draws
from bayes_sd.exceptions import BayesSdWarning, DataError
from bayes_sd.predict import LATENCIES, predict_latency, predict_quantiles
from bayes_sd.report_grid import Setting
from bayes_sd.scenario import Scenario
from bayes_sd.shares import SHARES, latency_shares

KINDS = ("mean", "run")
PERCENTILES = (0.5, 0.95, 0.99)
NUM_LIMITS = 24
ENDS = (0.05, 0.5, 0.95)  # of a central 90 % interval

Floats = npt.NDArray[np.float64]


def numbers_of(tree: xr.DataTree, setting: Setting, *, random_seed: int = 0) -> dict[str, Any]:
    """Return everything that the page shows of one setting.

    Every number is that of the function of the library for the same scenario and seed: quantiles
    of the draws of `predict_latency` and `predict_quantiles`, shares of the same draws within a
    limit (`slo_attainment`), `decide_from_draws`, `break_even_rate` and `latency_shares` (mean
    over the draws below capacity).

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    setting : Setting
        Pair, lengths, acceptance, draft lengths and loads.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    dict
        Arrays are (draft length, load); ``within`` of a statistic holds numbers of draws,
        (draft length, load, limit). Seconds; what is past capacity is infinite.
    """
    lengths, loads = setting.draft_lengths, setting.loads
    arms = [setting.scenario(k, load) for k in lengths for load in loads]
    shape = (len(lengths), len(loads))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)  # the page tells them, per scenario
        drawn = {
            kind: predict_latency(tree, arms, kind=kind, random_seed=random_seed) for kind in KINDS
        }
        statistics = {
            kind: _statistics(tree, arms, drawn[kind], kind, random_seed) for kind in KINDS
        }
        turns = [
            break_even_rate(
                tree,
                setting.pair,
                num_speculative_tokens=k,
                scenario=setting.template,
                random_seed=random_seed,
            )
            for k in lengths
            if k
        ]
    mean = drawn["mean"]
    batch = np.quantile(mean["effective_batch"].values, 0.5, axis=0, method="inverted_cdf")
    shares = latency_shares(tree, arms, random_seed=random_seed).values
    held = np.isfinite(shares).any(axis=1)
    counts = np.maximum(np.isfinite(shares).sum(axis=1), 1)
    average = np.where(held, np.nansum(shares, axis=1) / counts, np.nan)
    limits = {name: _limits(statistics, name) for name in statistics["mean"]}
    at_loads = range(len(loads))
    return {
        "pair": setting.pair,
        "label": setting.label,
        "about": _about(setting),
        "load_name": setting.load_name,
        "draft_lengths": list(lengths),
        "loads": list(loads),
        "num_draws": mean.sizes["sample"],
        "status": np.reshape(mean["status"].values, shape),
        "outside": np.reshape(mean["outside"].values, shape),
        "effective_batch": batch.reshape(shape),
        "p_past_capacity": np.isinf(mean["e2e_s"].values).mean(axis=0).reshape(shape),
        "statistics": {
            name: {
                "limits_s": limits[name],
                **{kind: _summary(statistics[kind][name], limits[name], shape) for kind in KINDS},
            }
            for name in limits
        },
        "decisions": {
            utility: [_decision(mean, losses, utility, lengths, len(loads), i) for i in at_loads]
            for utility, losses in _utilities(statistics["mean"]).items()
        },
        "shares": dict(zip(SHARES, average.reshape(len(SHARES), *shape), strict=True)),
        "capacity": _capacities(tree, setting, random_seed),
        "break_even": [  # what is wrong with the fit stands at the top of the page already
            turn.to_dict() | {"statement": turn.statement().removeprefix(f"{turn.convergence} ")}
            for turn in turns
        ],
        "measured": _measured(tree, setting, random_seed),
    }


def _about(setting: Setting) -> dict[str, Any]:
    """Return what the call of `Scenario` for this setting holds besides draft length and load."""
    template = setting.template
    given = template.acceptance
    return {
        "pair": setting.pair,
        "arrivals": template.arrivals,
        "input_len_tokens": setting.input_len_tokens,
        "output_len_tokens": setting.output_len_tokens,
        "acceptance": list(given) if isinstance(given, tuple) else given,
        "max_num_seqs": template.max_num_seqs,
    }


def _statistics(
    tree: xr.DataTree, arms: list[Scenario], drawn: xr.Dataset, kind: str, random_seed: int
) -> dict[str, Floats]:
    """Return draws of each statistic that the fit knows, array[draw, scenario], s."""
    found: dict[str, Floats] = {}
    for latency in LATENCIES:
        if f"{latency}_s" not in drawn:
            continue
        found[f"{latency}_mean"] = drawn[f"{latency}_s"].values
        for level in PERCENTILES:  # each by itself: a run's percentiles are drawn together
            try:
                draws = predict_quantiles(
                    tree, arms, [level], kind, latency=latency, random_seed=random_seed
                )
            except DataError:  # its runs had no percentiles of this latency
                break
            found[f"{latency}_p{level * 100:g}"] = draws.values[..., 0]
    return found


def _limits(statistics: dict[str, dict[str, Floats]], name: str) -> list[float]:
    """Return the limits that the page offers for a statistic, s: evenly spaced in log."""
    values = np.concatenate([statistics[kind][name].ravel() for kind in KINDS])
    finite = values[np.isfinite(values) & (values > 0)]
    if not len(finite):
        return [1.0]
    low, high = np.quantile(finite, [0.005, 0.995])
    grid = np.geomspace(0.8 * low, 1.25 * high, NUM_LIMITS)
    return sorted({float(f"{limit:.2g}") for limit in grid})


def _summary(draws: Floats, limits_s: list[float], shape: tuple[int, int]) -> dict[str, Any]:
    """Return quantiles of a statistic over the draws, and the draws within each limit."""
    low, median, high = np.quantile(draws, ENDS, axis=0, method="inverted_cdf")
    within = (draws[..., None] <= np.asarray(limits_s)).sum(axis=0)
    return {
        "low": low.reshape(shape),
        "median": median.reshape(shape),
        "high": high.reshape(shape),
        "within": within.reshape(*shape, len(limits_s)),
    }


def _utilities(statistics: dict[str, Floats]) -> dict[str, Floats]:
    """Return what a draft length may be chosen for: losses by utility, array[draw, scenario]."""
    mean = statistics["e2e_mean"]
    percentiles = {name: draws for name, draws in statistics.items() if name.startswith("e2e_p")}
    return {"mean": mean, "cvar": mean} | {n.split("_")[1]: d for n, d in percentiles.items()}


def _decision(
    drawn: xr.Dataset,
    losses: Floats,
    utility: str,
    lengths: tuple[int, ...],
    num_loads: int,
    at: int,
) -> dict[str, Any]:
    """Return the choice of draft length at one load, as `choose_draft_length` makes it."""
    here = slice(at, None, num_loads)
    decision = decide_from_draws(
        drawn.isel(scenario=here), lengths, losses=losses[:, here], utility=utility
    )
    return {
        "choice": decision.choice,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "probability_best": list(decision.probability_best),
        "expected_regret": list(decision.expected_regret),
    }


def _capacities(tree: xr.DataTree, setting: Setting, random_seed: int) -> list[Any]:
    """Return the capacity of each draft length, 1/s: low, median, high; None in a closed loop."""
    if setting.load_name == "concurrency":
        return [None] * len(setting.draft_lengths)
    rows = []
    for k in setting.draft_lengths:
        found = resolve(tree, setting.scenario(k, setting.loads[0]))
        draws = capacity_draws_rps(tree, found, random_seed)
        rows.append(np.quantile(draws, ENDS, method="inverted_cdf"))
    return rows


def _measured(tree: xr.DataTree, setting: Setting, random_seed: int) -> list[dict[str, Any]]:
    """Return the measured runs of the setting, at any load."""
    runs = latency_curves(
        tree,
        setting.template,
        setting.loads[:1],
        setting.draft_lengths,
        random_seed=random_seed,
    )
    return [
        {"k": int(k), "load": float(load), "e2e_s": float(value)}
        for k, load, value in zip(
            runs["measured_draft_length"].values,
            runs["measured_load"].values,
            runs["measured_e2e_s"].values,
            strict=True,
        )
    ]
