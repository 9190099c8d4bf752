"""`docs/results.md`: sections that commands write, each between its own two marks.

A command writes its section anew and leaves the others as they are, so that several scripts share
one page.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.accuracy_data import TITLES
from benchmarks.accuracy_models import COMPETITORS, OURS
from benchmarks.folds import markdown, stamp

PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"
HEAD = """# Results

Every section is written by the command that it names; nothing here is typed by hand.
"""
COLUMNS = {
    "method": ("method", "{}"),
    "runs": ("runs", "{:.0f}"),
    "error": ("error %", "{:.1f}"),
    "r_squared": ("R²", "{:.3f}"),
    "log_score": ("log density", "{:.2f}"),
    "crps_log": ("CRPS of log x 100", "{:.2f}"),
    "pinball": ("pinball x 100", "{:.2f}"),
    "in_50": ("in 50 %", "{:.0f}"),
    "in_90": ("in 90 %", "{:.0f}"),
    "width_90": ("width of 90 %", "{:.0f}"),
    "right_sign": ("right sign %", "{:.0f}"),
    "brier": ("Brier of sign", "{:.3f}"),
}
WORST_LOG = -100.0
NOTES = f"""\
Each figure is over all folds of a split. A run that is asked for is known by its configuration,
its control (rate or requests in flight) and its acceptance; latency and batch of all runs
outside training are blanked before a competitor sees them. Errors are medians of |predicted /
measured - 1| of the mean end-to-end latency. R² is of latency in seconds, mean over verifiers,
for comparison with the paper only: the highest loads rule it. Log density, CRPS and pinball
loss (levels 5, 25, 50, 75, 95 %) are of the log of latency, means over runs; width is that of
the 90 % interval over the median. The last columns are {OURS}'s lead in CRPS and in log
density: mean difference over the runs that both tell of, and in brackets its standard error
over sweeps; positive is in favour of {OURS}. Predictions past capacity are set to cap / rate,
of every method. {OURS} is fitted to the mean latency alone and predicts a fresh boot also where
the sweep was seen ("highest loads"), which the law per sweep does not have to."""


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Put a section into the page, in place of the one of that name; new ones at the end.

    Parameters
    ----------
    name : str
        Of the section's marks; not shown.
    text : str
        Markdown.
    page : Path
        Made with its head if it is not there.
    """
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    whole = page.read_text(encoding="utf-8") if page.is_file() else HEAD
    section = f"{start}\n\n{text.strip()}\n\n{end}"
    if start in whole:
        pattern = re.escape(start) + ".*?" + re.escape(end)
        whole = re.sub(pattern, lambda _: section, whole, count=1, flags=re.DOTALL)
    else:
        whole = whole.rstrip() + "\n\n" + section + "\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(whole, encoding="utf-8")


def shown(value: float, pattern: str) -> str:
    """Return a figure as text, blank where there is none."""
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return ""
    return f"< {WORST_LOG:.0f}" if value < WORST_LOG else pattern.format(value)


def cell_table(part: pd.DataFrame) -> str:
    """Return one cell of the table, data set x split, as Markdown: a row a method."""
    lines = []
    for _, line in part.iterrows():
        row = {head: shown(line[key], pattern) for key, (head, pattern) in COLUMNS.items()}
        for score, head in (("crps_log", "lead in CRPS"), ("log_score", "lead in log density")):
            lead, error = line[f"{score}_worse"], line[f"{score}_se"]
            told = line["method"] != OURS and np.isfinite(lead)
            large = "> 100" if lead > -WORST_LOG else f"{lead:+.2f} ({error:.2f})"
            row[head] = large if told else ""
        lines.append(row)
    table = pd.DataFrame(lines)
    return markdown(table.loc[:, (table != "").any()])


def standing_table(standing: pd.DataFrame) -> str:
    """Return where bayes_sd stands, cell by cell."""
    lines = []
    for _, line in standing.iterrows():
        row = {"data": line["data"], "split": line["split"]}
        for score, head in (("crps_log", "CRPS"), ("log_score", "log density")):
            if f"{score}_ahead" not in line or not np.isfinite(line[f"{score}_ahead"]):
                row |= {f"best other by {head}": "", f"lead in {head}": "", f"{head}: holds": ""}
                continue
            row[f"best other by {head}"] = line[f"{score}_rival"]
            row[f"lead in {head}"] = f"{line[f'{score}_ahead']:+.2f} ({line[f'{score}_se']:.2f})"
            row[f"{head}: holds"] = "yes" if line[f"{score}_holds"] else "NO"
        lines.append(row)
    return markdown(pd.DataFrame(lines))


def accuracy_section(
    table: pd.DataFrame,
    standing: pd.DataFrame,
    folds: pd.DataFrame,
    files: dict[str, str],
    settings: str,
) -> str:
    """Return the section of the accuracy table."""
    parts = ["## Accuracy against every baseline", "`python -m benchmarks.accuracy`", NOTES]
    parts += ["Methods: " + "; ".join(f"**{n}**: {c.note}" for n, c in COMPETITORS.items()) + "."]
    if len(standing):
        parts += [
            "### Where bayes_sd stands",
            "On extrapolating splits it holds where bayes_sd leads the best of the others; on "
            "*sweeps* and *boot* where none is better by more than two paired standard errors.",
            standing_table(standing),
        ]
    parts += [f"![{title}](results/{name})" for title, name in files.items()]
    for data, part in table.groupby("data", sort=False):
        parts.append(f"### {data}: {TITLES.get(str(data), data)}")
        for split, cell in part.groupby("split", sort=False):
            parts += [f"**{split}**", cell_table(cell)]
    if "passed" in folds:
        ours = folds[folds["method"] == OURS]
        failed = ours[ours["passed"] == 0]
        lines = [f"- {d}, {s}, {f}: {v}" for d, s, f, v in _verdicts(failed)]
        parts.append(f"{len(ours) - len(failed)} of {len(ours)} fits converged. The others:")
        parts.append("\n".join(lines) if lines else "none.")
    parts.append(f"{settings}. {stamp()}")
    return "\n\n".join(parts)


def _verdicts(failed: pd.DataFrame) -> list[tuple[str, ...]]:
    short = failed["verdict"].str.replace(r"^.*?parameters: ", "", regex=True).str.slice(0, 150)
    columns = (failed["data"], failed["split"], failed["fold"], short)
    return list(zip(*columns, strict=True))
