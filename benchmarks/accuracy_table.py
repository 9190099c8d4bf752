"""From rows per run to the figures of the table, and the differences to bayes_sd."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy_models import OURS

PAIRED = ("crps_log", "log_score", "pinball")
CELL = ["data", "split"]


def r_squared(rows: pd.DataFrame) -> float:
    """Return 1 - residual / total sum of squares of latency, mean over verifiers.

    For comparison with the paper only: the runs of highest load rule it.
    """
    found = []
    for _, part in rows.groupby("base"):
        total = ((part["measured_s"] - part["measured_s"].mean()) ** 2).sum()
        if len(part) > 2 and total > 0:
            found.append(1 - ((part["measured_s"] - part["predicted_s"]) ** 2).sum() / total)
    return float(np.mean(found)) if found else float("nan")


def figures(rows: pd.DataFrame, signs: pd.DataFrame) -> pd.DataFrame:
    """Return a line per data set, split and method.

    Parameters
    ----------
    rows : pandas.DataFrame
        Rows of `accuracy_score.score_rows`, with ``data``, ``split``, ``fold`` and ``method``.
    signs : pandas.DataFrame
        Rows of `accuracy_score.sign_rows`, with the same.
    """
    lines = []
    for (data, split, method), part in rows.groupby([*CELL, "method"], sort=False):
        mine = rows[(rows["data"] == data) & (rows["split"] == split) & (rows["method"] == OURS)]
        asked = signs[
            (signs["data"] == data) & (signs["split"] == split) & (signs["method"] == method)
        ]
        said = asked["p"].to_numpy(dtype=float)
        true = asked["faster"].to_numpy(dtype=float)
        line: dict[str, Any] = {
            "data": data,
            "split": split,
            "method": method,
            "runs": len(part),
            "sweeps": part["sweep"].nunique(),
            "error": part["error"].median(),
            "r_squared": r_squared(part),
            "log_score": part["log_score"].mean(),
            "crps_log": part["crps_log"].mean(),
            "pinball": part["pinball"].mean(),
            "in_50": 100 * part["in_50"].mean(),
            "in_90": 100 * part["in_90"].mean(),
            "width_90": part["width_90"].median(),
            "signs": len(asked),
            "right_sign": 100 * ((said > 0.5) == true).mean() if len(asked) else np.nan,
            "brier": ((said - true) ** 2).mean() if len(asked) else np.nan,
        }
        for score in PAIRED:
            mean, error = paired(part, mine, score)
            line |= {f"{score}_worse": mean, f"{score}_se": error}
        lines.append(line)
    return pd.DataFrame(lines)


def paired(other: pd.DataFrame, ours: pd.DataFrame, score: str) -> tuple[float, float]:
    """Return how much worse the other is on runs that both tell of, and its standard error.

    The mean over runs of the differences within sweeps, its error over sweeps: runs of one server
    start are not independent. Positive is in favour of bayes_sd, for every score.
    """
    both = other.merge(ours, on=["fold", "run"], suffixes=("", "_ours"))
    both = both[both[score].notna() & both[f"{score}_ours"].notna()]
    if both.empty:
        return float("nan"), float("nan")
    apart = both[score] - both[f"{score}_ours"]
    apart = -apart if score == "log_score" else apart
    groups = apart.groupby([both["base"], both["sweep"]])
    total, size = groups.sum(), groups.size()
    mean = float(total.sum() / size.sum())
    if len(size) < 2:
        return mean, float("nan")
    spread = ((total - mean * size) ** 2).sum() * len(size) / (len(size) - 1)
    return mean, float(np.sqrt(spread) / size.sum())


def standing(table: pd.DataFrame, extrapolating: tuple[str, ...]) -> pd.DataFrame:
    """Return where bayes_sd stands in each cell, against the best of the others.

    On extrapolating splits it must be first in CRPS and log density; elsewhere no other may be
    better by more than two paired standard errors. A method that tells of fewer than half of the
    runs does not count as a competitor of the cell.
    """
    lines = []
    for (data, split), part in table.groupby(CELL, sort=False):
        ours = part[part["method"] == OURS]
        if ours.empty:
            continue
        most = int(ours["runs"].iloc[0])
        others = part[(part["method"] != OURS) & (part["runs"] * 2 >= most)]
        line: dict[str, Any] = {
            "data": data,
            "split": split,
            "extrapolates": split in extrapolating,
        }
        for score in ("crps_log", "log_score"):
            told = others[others[f"{score}_worse"].notna()]
            if told.empty:
                continue
            best = told.loc[told[f"{score}_worse"].idxmin()]
            ahead, error = float(best[f"{score}_worse"]), float(best[f"{score}_se"])
            line |= {
                f"{score}_rival": best["method"],
                f"{score}_ahead": ahead,
                f"{score}_se": error,
            }
            held = ahead > 0 if split in extrapolating else not ahead < -2 * error
            line[f"{score}_holds"] = bool(held)
        lines.append(line)
    return pd.DataFrame(lines)
