"""What a report works a typed objective out of: draws of the latency of requests, and the rules.

The page does not know beforehand which objective its reader types. It holds, per load and draft
length, draws of the mean of each latency and of the spread of requests about it; a percentile and
the share of requests within a limit follow from them (`bayes_sd.physics.request_quantiles`).
"""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.decide import MAX_REGRET, NEAR_TIE
from bayes_sd.packing import thin_for_queries
from bayes_sd.report_grid import Setting
from bayes_sd.request_latency import spread_of, steady
from bayes_sd.slo import LATENCIES, Slo, as_slo
from bayes_sd.slo_draws import slo_draws
from bayes_sd.utilities import SHARE_DIGITS

MAX_NUMBERS = 500_000  # of all settings: about 2 MB of the page
FEWEST_DRAWS = 100
RULES = {"max_regret": MAX_REGRET, "near_tie": NEAR_TIE, "share_digits": SHARE_DIGITS}
ANY = Slo("e2e_mean <= 1")  # what is drawn does not hang on it

Floats = npt.NDArray[np.float64]


def page_draws(tree: xr.DataTree, settings: Sequence[Setting]) -> xr.DataTree:
    """Return the fit with as many draws as the page has room for, at even distances.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    settings : sequence of Setting
        What the page shows.

    Returns
    -------
    xarray.DataTree
        The fit itself if there is room for all, else that of `thin_for_queries`.
    """
    sizes = tree["posterior"].sizes
    chains, total = sizes["chain"], sizes["chain"] * sizes["draw"]
    arms = sum(len(s.draft_lengths) * len(s.loads) for s in settings)
    room = MAX_NUMBERS // (2 * len(LATENCIES) * arms)
    draws = max(room, FEWEST_DRAWS, chains) // chains * chains
    return tree if draws >= total else thin_for_queries(tree, draws=draws)


def requests_of(tree: xr.DataTree, setting: Setting, *, random_seed: int = 0) -> dict[str, Any]:
    """Return draws of the latency of requests, at every load and draft length of a setting.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `page_draws`.
    setting : Setting
        Pair, lengths, acceptance, draft lengths and loads.
    random_seed : int
        Seed of the predictions.

    Returns
    -------
    dict
        ``num_draws``; ``latencies``: of each that the fit knows ``mean_s`` and ``spread``,
        (draft length, load, draw), and ``skew``, (draw,): 32-bit floats in base64. Spread and
        skew are None where no run had percentiles of it. Means past capacity are infinite.
    """
    arms = [setting.scenario(k, load) for k in setting.draft_lengths for load in setting.loads]
    drawn = slo_draws(tree, arms, ANY, random_seed=random_seed)
    latencies = {}
    for name, means in drawn.means_s.items():
        about = [
            spread_of(where, drawn.batch[:, i], means[:, i], name)
            for i, where in enumerate(drawn.found)
        ]
        known = [steady(each) for each in about if each is not None]
        shape = means.shape[:1]
        latencies[name] = {
            "mean_s": _packed(means.T),
            "spread": _packed(np.stack([np.broadcast_to(each.spread, shape) for each in known]))
            if known
            else None,
            "skew": _packed(np.broadcast_to(known[0].skew, shape)) if known else None,
        }
    return {"num_draws": drawn.batch.shape[0], "latencies": latencies}


def objective_of(
    tree: xr.DataTree, settings: Sequence[Setting], numbers: Sequence[dict[str, Any]], slo: Any
) -> str:
    """Return the text of the objective that the page begins with.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    settings : sequence of Setting
        What the page shows.
    numbers : sequence of dict
        Results of `bayes_sd.report_numbers.numbers_of`.
    slo : Slo, str or None
        The objective asked for. By default p95 of the first setting, or its mean where that is
        not known, with a limit in the middle of its latencies.

    Raises
    ------
    ArgumentError
        If the objective cannot be read.
    DataError
        If the fit does not hold what a term is about.
    """
    if slo is not None:
        asked = as_slo(slo)
        first = settings[0]
        slo_draws(tree, [first.scenario(first.draft_lengths[0], first.loads[0])], asked)
        return str(asked)
    statistics = numbers[0]["statistics"]
    name = "e2e_p95" if "e2e_p95" in statistics else "e2e_mean"
    limits = statistics[name]["limits_s"]
    return f"{name} <= {limits[len(limits) // 2]:g}"


def _packed(values: Floats) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode("ascii")
