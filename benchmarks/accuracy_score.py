"""Scores of one method on one fold: a row for each run asked for, and for each sign."""

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from benchmarks.accuracy_task import Floats, Ints
from benchmarks.folds import ceiling_of_runs
from benchmarks.scores import absolute_percentage_error, covered, crps, interval_width, log_score
from benchmarks.speedup_sign import questions

PINBALL_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
PIT_STEPS = 1000


def pinball(quantiles: Floats, levels: tuple[float, ...], observed: Floats) -> Floats:
    r"""Return the pinball loss of each case, mean over levels.

    :math:`\tau (y - q)` where the observation is above the quantile, else
    :math:`(1 - \tau)(q - y)` (Koenker and Bassett 1978, Econometrica 46(1)).

    Parameters
    ----------
    quantiles : array, (level, case)
        Of the prediction.
    levels : tuple of float
        Their levels.
    observed : array, (case,)
        What was measured.

    Examples
    --------
    >>> pinball(np.array([[2.0], [2.0]]), (0.1, 0.9), np.array([3.0])).tolist()
    [0.5]
    """
    missed = observed - quantiles
    at = np.asarray(levels)[:, None]
    return np.asarray(np.maximum(at * missed, (at - 1) * missed).mean(axis=0))


def score_rows(data: xr.Dataset, runs: Ints, log_draws: Floats, has_density: bool) -> pd.DataFrame:
    """Return a row per run that the method has a word on, of draws of log latency (draw, run).

    Draws are cut at the run's ceiling, cap / rate: past capacity the client holds requests back.
    """
    told = ~np.isnan(log_draws).any(axis=0)
    runs, held = runs[told], data.isel(run=runs[told])
    top = np.log(ceiling_of_runs(held))
    logs = np.minimum(log_draws[:, told], top)
    measured = held["mean_e2e_s"].values
    seen, draws = np.log(measured), np.exp(logs)
    quantiles = np.quantile(logs, PINBALL_LEVELS, axis=0)
    below, ties = (logs < seen).mean(axis=0), (logs == seen).mean(axis=0)
    return pd.DataFrame(
        {
            "run": runs,
            "base": held["base_of_run"].values,
            "sweep": held["sweep_of_run"].values,
            "batch": held["effective_batch_observed"].values,
            "measured_s": measured,
            "predicted_s": np.median(draws, axis=0),
            "error": absolute_percentage_error(np.median(draws, axis=0), measured),
            "log_score": log_score(draws, measured) if has_density else np.full(len(runs), np.nan),
            "crps_log": 100 * crps(logs, seen),
            "pinball": 100 * pinball(quantiles, PINBALL_LEVELS, seen),
            "in_50": covered(logs, seen, 0.5).astype(float),
            "in_90": covered(logs, seen, 0.9).astype(float),
            "width_90": 100 * interval_width(draws, 0.9),
            "pit": below + ties / 2,
        }
    )


def sign_questions(data: xr.Dataset, tested: Ints) -> pd.DataFrame:
    """Return runs asked for that draft, each with a run without speculation at the same load.

    One partner for each, the first; `benchmarks.speedup_sign` says what the same load is.
    """
    if not (data["num_speculative_tokens"].values == 0).any():
        return pd.DataFrame(columns=["run", "partner", "faster"])
    asked = questions(data)
    if asked.empty:
        return asked
    asked = asked[asked["run"].isin(tested)].drop_duplicates("run")
    return asked[["run", "partner", "faster"]].reset_index(drop=True)


def sign_rows(asked: pd.DataFrame, runs: Ints, log_draws: Floats) -> pd.DataFrame:
    """Return for each question the probability that the run with drafts is the faster."""
    place = {int(run): i for i, run in enumerate(runs)}
    rows: list[dict[str, Any]] = []
    for run, partner, faster in asked.itertuples(index=False):
        one, other = log_draws[:, place[run]], log_draws[:, place[partner]]
        if np.isnan(one).any() or np.isnan(other).any():
            continue
        p = float((one < other).mean() + (one == other).mean() / 2)
        rows.append({"run": run, "partner": partner, "faster": bool(faster), "p": p})
    return pd.DataFrame(rows, columns=["run", "partner", "faster", "p"])
