"""The table of `heldout.py`: from a row per run and method to figures per verifier."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.folds import markdown, short_name

# Key -> head of the column, and how to show a number.
COLUMNS = {
    "runs": ("runs", "{:.0f}"),
    "error": ("error %", "{:.1f}"),
    "error_p99": ("P99 error %", "{:.1f}"),
    "error_highest": ("error, 2 highest loads %", "{:.1f}"),
    "rate_error_highest": ("their rate at equal latency, error %", "{:.1f}"),
    "in_90": ("in 90 % interval", "{:.0f} %"),
    "in_50": ("in 50 % interval", "{:.0f} %"),
    "in_90_highest": ("2 highest in 90 %", "{:.0f} %"),
    "width_90": ("width of 90 %", "{:.1f} %"),
    "crps_log": ("CRPS of log, x 100", "{:.2f}"),
    "crps_s": ("CRPS, s", "{:.4f}"),
    "log_score": ("log score", "{:.2f}"),
    "capped": ("runs at cap", "{:.0f}"),
    "rate_error_completed": ("rate at cap: error to completed %", "{:.1f}"),
    "rate_error_admitted": ("to completed + in flight %", "{:.1f}"),
}
EXTRA = {"p95": "p95 of e2e", "p99": "p99 of e2e", "ttft": "mean ttft", "tpot": "mean tpot"} | {
    f"{latency}_{level}": f"{level} of {latency}"
    for latency in ("ttft", "tpot")
    for level in ("p95", "p99")
}
POOLED = "all"
NOTES = """\
Errors are medians of |predicted / measured - 1| over runs, of the mean end-to-end latency, and
their 99th percentile. Intervals, CRPS and log score are those of one fresh benchmark run (new
boot) and of the law's residual bootstrap. The width is relative to the median. Predictions past
capacity are set to cap / rate, for both. The rate at equal latency is the one at which law and
model have the measured latency. Runs at the client's cap count in the last three columns only:
cap / L(cap) against completed requests / time, which misses those in flight at the end, and
against all admitted / time."""


def _figures(rows: pd.DataFrame) -> dict[str, float]:
    """Return the figures of some runs of one method; NaN where there are none."""
    capped = rows[rows["control"] == "cap"]
    rows = rows[rows["control"] != "cap"]
    high = rows[rows["highest"]]
    at_latency = 100 * abs(high["rate_at_latency"] / high["request_rate_rps"] - 1)
    at_cap = {
        name: float((100 * abs(capped["rate_at_cap"] / capped[f"{rate}_rate_rps"] - 1)).median())
        for name, rate in (("completed", "completed"), ("admitted", "request"))
    }
    return {
        "runs": len(rows),
        "error": float(rows["error"].median()),
        "error_p99": float(rows["error"].quantile(0.99)),
        "error_highest": float(high["error"].median()),
        "rate_error_highest": float(at_latency.median()),
        "in_90": 100 * float(rows["in_90"].mean()),
        "in_50": 100 * float(rows["in_50"].mean()),
        "in_90_highest": 100 * float(high["in_90"].mean()),
        "width_90": 100 * float(rows["width_90"].median()),
        "crps_log": 100 * float(rows["crps_log"].mean()),
        "crps_s": float(rows["crps_s"].mean()),
        "log_score": float(rows["log_score"].mean()),
        **_extra_figures(rows),
        "capped": len(capped),
        "rate_error_completed": at_cap["completed"],
        "rate_error_admitted": at_cap["admitted"],
    }


def _extra_figures(rows: pd.DataFrame) -> dict[str, float]:
    """Return error and cover of the other responses that the rows have, %."""
    found = {}
    for name in EXTRA:
        if f"{name}_error" in rows and rows[f"{name}_error"].notna().any():
            found[f"{name}_error"] = float(rows[f"{name}_error"].median())
            found[f"{name}_in_90"] = 100 * float(rows[f"{name}_in_90"].mean())
    return found


def extra_table(figures: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the model's figures for percentiles, ttft and tpot as Markdown, one row a verifier."""
    lines = []
    for verifier, methods in figures.items():
        line = {"verifier": verifier}
        for name, head in EXTRA.items():
            if f"{name}_error" in methods["model"]:
                error, cover = (methods["model"][f"{name}_{part}"] for part in ("error", "in_90"))
                line |= {f"{head}: error %": f"{error:.1f}", "in 90 % " + head: f"{cover:.0f} %"}
        lines.append(line)
    return markdown(pd.DataFrame(lines).fillna(""))


def figures_by_verifier(rows: pd.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Return verifier -> method -> figures, with all verifiers pooled at the end.

    Parameters
    ----------
    rows : pandas.DataFrame
        A row per held-out run and method, as `heldout.run_folds` makes it.
    """
    groups = {short_name(base): part for base, part in rows.groupby("base")}
    if len(groups) > 1:
        groups[POOLED] = rows
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for verifier, part in groups.items():
        found[verifier] = {m: _figures(of) for m, of in part.groupby("method")}
        of_model = part[(part["method"] == "model") & (part["control"] != "cap")]
        found[verifier]["model"]["by_status"] = {
            str(status): {
                "runs": len(of),
                "error": float(of["error"].median()),
                "in_90": 100 * float(of["in_90"].mean()),
                "in_50": 100 * float(of["in_50"].mean()),
            }
            for status, of in of_model.groupby("status")
        }
    return found


def heldout_text(
    figures: dict[str, dict[str, dict[str, Any]]],
    verdicts: list[dict[str, Any]],
    *,
    title: str,
    footer: str,
) -> str:
    """Return the table with its notes, the labels of the runs and the verdicts of the folds."""
    lines = []
    for verifier, methods in figures.items():
        for method in ("law", "model"):
            shown = {
                head: pattern.format(value) if np.isfinite(value) else ""
                for key, (head, pattern) in COLUMNS.items()
                for value in (methods[method][key],)
            }
            lines.append({"verifier": verifier, "method": method} | shown)
    last = list(figures.values())[-1]["model"]["by_status"]
    labels = "; ".join(
        f"{of['runs']} {status} (error {of['error']:.1f} %, {of['in_90']:.0f} % in the 90 % "
        f"interval, {of['in_50']:.0f} % in the 50 % one)"
        for status, of in last.items()
    )
    folds = [
        f"- Fold {v['fold']}: {v['verdict']} Sampled in {v['sampling_s']} s, judged in "
        f"{v['judging_s']} s."
        for v in verdicts
    ]
    parts = [
        f"# {title}",
        markdown(pd.DataFrame(lines)),
        NOTES,
        "Other responses, model only, predicted from the control as well:",
        extra_table(figures),
        f"The model's labels, judged against the training runs: {labels}.",
    ]
    return "\n\n".join([*parts, "\n".join(folds), footer])
