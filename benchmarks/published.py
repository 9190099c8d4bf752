"""The published figures, reproduced where the data allow, with the paper's number beside ours.

    python -m benchmarks.published             # writes the section *published* of docs/results.md
    python -m benchmarks.published --no-page   # prints it

Kong et al. (2026), arXiv:2605.15051. R² is its only statistic of fit; it is in-sample there and
here, unless said. The paper measured Llama, Qwen3 and gpt-oss on A100s without repeats; the data
here are others' or of a processor core, so agreement is of the form, not of the coefficients.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import xarray as xr

from benchmarks.accuracy_data import load_case
from benchmarks.accuracy_page import write_section
from benchmarks.folds import markdown, short_name, stamp, write_results
from benchmarks.published_fits import (
    best_draft_lengths,
    collapse,
    coverage_gain,
    leave_lengths_out,
    pooled_r_squared,
    sweep_fits,
)


def _span(values: pd.Series) -> str:
    low, middle, high = values.quantile([0.1, 0.5, 0.9])
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def comparison() -> pd.DataFrame:
    """Return a line for each published figure: the paper's, ours, and what differs."""
    study = load_case("scaling-study").data
    fits = sweep_fits(study)
    lines = [
        (
            "collapse on 1/(1 - x), R²",
            "about 0.99",
            f"{collapse(fits):.3f}",
            f"{len(fits)} sweeps, each scaled by its own C1 and C2",
        ),
        (
            "R² of a sweep, Qwen3-32B",
            "0.99 to 1.00",
            _of(fits, "Qwen3-32B"),
            "drafted; hardware is not recorded",
        ),
    ]
    for base in fits["base"].unique():
        if base != "Qwen3-32B":
            lines.append((f"R² of a sweep, {base}", "above 0.96", _of(fits, base), "drafted"))
    for number, base in enumerate(study["base"].values):
        value = f"{pooled_r_squared(study, number):.3f}"
        where = "six coefficients over 8 draft lengths and 6 rates, at the measured batch"
        lines.append((f"R² of the pooled law, {short_name(str(base))}", "about 0.99", value, where))
    p95, p99 = (_quantile_fits(study, level) for level in (0.95, 0.99))
    lines += [
        ("R² of a refit to p95", "0.85 to 0.95", _span(p95["r_squared"]), "e2e, all sweeps"),
        ("R² of a refit to p99, Qwen3-32B", "0.989", _of(p99, "Qwen3-32B"), "e2e"),
    ]
    best = best_draft_lengths(fits)
    for part, paper in (("C1", "7 to 10"), ("C2", "1 to 3")):
        low, middle, high = best[f"of {part}"].quantile([0.1, 0.5, 0.9])
        text = f"{middle:.0f} ({low:.0f} to {high:.0f})"
        lines.append((f"draft length of least {part}", paper, text, "8 lengths, 30 cases"))
    lines += _capacity_ratio() + _experts()
    for number, score in leave_lengths_out().items():
        where = "no public data with 16 pairs: simulated server, C2 as one, no speculation"
        lines.append((f"leave {number} of 16 lengths out, R²", "≥ 0.97", f"{score:.3f}", where))
    return pd.DataFrame(lines, columns=["figure", "paper", "here", "what differs"])


def _of(fits: pd.DataFrame, base: str) -> str:
    return _span(fits["r_squared"][fits["base"] == base])


def _quantile_fits(data: xr.Dataset, level: float) -> pd.DataFrame:
    at = int(np.argmin(abs(data["quantile"].values - level)))
    return sweep_fits(data.assign(chosen=data["e2e_quantile_s"].isel(quantile=at)), "chosen")


def _capacity_ratio() -> list[tuple[str, str, str, str]]:
    """Return the range of C2 with drafts over C2 without, vLLM on a CPU."""
    fits = sweep_fits(load_case("vllm-cpu").data)
    off = fits[fits["k"] == 0]["c2"].median()
    ratio = (
        fits[fits["k"] > 0].assign(ratio=lambda f: f["c2"] / off).groupby(["pair", "k"])["ratio"]
    )
    text = "; ".join(
        f"a{('60', '85')[int(p)]} k{k:.0f}: {v:.2f}" for (p, k), v in ratio.median().items()
    )
    where = "a core of a processor, mean over boots that differ by 10 %; acceptance 0.60 and 0.85"
    return [("C2 with drafts over C2 without", "above 1 below acceptance 0.9", text, where)]


def _experts() -> list[tuple[str, str, str, str]]:
    papers = {"half": "0.83 to 0.91 before, 0.976 to 0.997 after", "whole": "0.96 before"}
    lines = []
    for name in ("vllm-cpu-moe", "atom"):
        gain = coverage_gain(load_case(name).data)
        for part, paper in papers.items():
            before, after = (gain[f"{part}_{when}"].median() for when in ("before", "after"))
            label = "lower half of loads" if part == "half" else "all loads"
            where = f"median of {len(gain)} sweeps; two more coefficients on few loads"
            text = f"{before:.3f} before, {after:.3f} after"
            lines.append((f"MoE and expert coverage, R², {label}, {name}", paper, text, where))
    return lines


def main() -> None:
    """Print the comparison, and write it to the page and to ``results/``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--no-page", action="store_true", help="print only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    table = comparison()
    text = "\n\n".join(
        [
            "## The published figures",
            "`python -m benchmarks.published`. Kong et al. (2026), arXiv:2605.15051, as its "
            "reviews report it. In brackets the 10 and 90 % quantiles over sweeps. R² is ruled by "
            "the highest loads and is in-sample; it says little on a prediction.",
            markdown(table),
            f"{time.perf_counter() - begun:.0f} s in all. {stamp()}",
        ]
    )
    print(text)
    if not options.no_page:
        write_section("published", text)
        write_results("published", text, {"stamp": stamp(), "figures": table.to_dict("records")})


if __name__ == "__main__":
    main()
