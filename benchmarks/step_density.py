"""Which terms the model needs, by held-out density: the same model with terms pinned to nothing.

    python benchmarks/step_density.py                  # held-out sweeps, then unseen highest loads
    python benchmarks/step_density.py --quick          # smoke test; writes no file

A form is `build_model` with priors that leave no room for a term: a knee without slope, jumps
without height, mixed steps without cost, run errors without heavy tails, boots that are all alike.
Fitted on four folds over the sweeps, the mean latency alone. Scores are those of one fresh run;
a difference is to the model as it stands, on the same runs, with the standard error of its mean
over sweeps, for the runs of one sweep miss together.
"""

import argparse
import time
import warnings
from dataclasses import replace
from typing import Any

import pandas as pd
import xarray as xr

from bayes_sd.prior import Prior
from bayes_sd.priors import default_priors
from bayes_sd.sampling import compile_blocks
from benchmarks.folds import load_data, markdown, stamp, write_results
from benchmarks.heldout import run_folds

FULL = "the model"
NO_KNEE = {"knee_ratio": (1e-6, 0.05)}
NO_JUMPS = {"jump_share": (-14.0, 0.05)}
NO_MIXED = {"mixed_step_s": (1e-8, 0.05), "mixed_step_s.group_sd": (0.01, 0.05)}
FORMS: dict[str, dict[str, tuple[float, float]]] = {
    FULL: {},
    "no jumps": NO_JUMPS,
    "knee only": NO_JUMPS | NO_MIXED,
    "linear": NO_JUMPS | NO_MIXED | NO_KNEE,
    "no boot effect": {"boot_sd": (1e-5, 0.05)},
}
SPLITS = {False: "Sweeps held out", True: "The two highest loads of every sweep unseen"}


def priors_of(form: dict[str, tuple[float, float]], data: xr.Dataset) -> dict[str, Prior]:
    """Return the table of priors with some pinned to a centre and a narrow spread."""
    priors = default_priors(data)
    pinned = {
        name: replace(priors[name], center=center, spread=spread)
        for name, (center, spread) in form.items()
    }
    return priors | pinned


def compare(rows: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row a form: scores over open runs, and differences to the model by sweep.

    Parameters
    ----------
    rows : dict of str to pandas.DataFrame
        By form, a row per run in one order, as `heldout.run_folds` makes them.
    """
    lines = []
    full = rows[FULL]
    for form, of in rows.items():
        better = (of["log_score"] - full["log_score"]).groupby(of["sweep"]).mean()
        closer = (of["crps_log"] - full["crps_log"]).groupby(of["sweep"]).mean()
        lines.append(
            {
                "form": form,
                "log score": f"{of['log_score'].mean():.3f}",
                "difference": f"{better.mean():+.3f} ({better.sem():.3f})",
                "CRPS of log, x 100": f"{100 * of['crps_log'].mean():.2f}",
                "its difference": f"{100 * closer.mean():+.2f} ({100 * closer.sem():.2f})",
                "error %": f"{of['error'].median():.2f}",
                "two highest, error %": f"{of['error'][of['highest']].median():.2f}",
                "in 90 %": f"{100 * of['in_90'].mean():.0f}",
            }
        )
    return pd.DataFrame(lines)


def judged(data: xr.Dataset, form: str, options: argparse.Namespace) -> Any:
    """Fit and judge one form; return its rows by split, and the verdicts of its folds."""
    compiled = compile_blocks(data, priors_of(FORMS[form], data), responses=())
    rows, verdicts = {}, {}
    for split in SPLITS:
        options.unseen_high = split
        found, verdicts[split] = run_folds(data, compiled, options)
        found = found[(found["method"] == "model") & (found["control"] != "cap")]
        sweep = pd.Series(data["sweep"].values[data["sweep_of_run"].values], data["run"].values)
        rows[split] = found.assign(sweep=sweep[found["run"]].values).reset_index(drop=True)
    return rows, verdicts


def main() -> None:
    """Fit every form, print the tables and write them."""
    parser = argparse.ArgumentParser(description="Forms of the step by held-out density.")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--tune", type=int, default=300)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.quick:
        options.draws, options.tune = 30, 60
    warnings.simplefilter("ignore")
    verifiers = ("Qwen/Qwen3-32B",) if options.quick else ()
    data = load_data("scaling-study", verifiers)
    begun = time.perf_counter()
    found, verdicts = {}, {}
    for form in list(FORMS)[: 2 if options.quick else None]:
        found[form], verdicts[form] = judged(data, form, options)
        print(f"{form}: {(time.perf_counter() - begun) / 60:.0f} min", flush=True)
    parts = ["# Forms of the step time and of the errors, by held-out density"]
    for split, title in SPLITS.items():
        table = compare({form: rows[split] for form, rows in found.items()})
        failed = {form: sum(not v["passed"] for v in of[split]) for form, of in verdicts.items()}
        parts += [
            f"## {title}",
            markdown(table),
            "Fits short of the rule (R-hat 1.01, ESS 400, no divergences): "
            + "; ".join(f"{form} {n} of {len(verdicts[form][split])}" for form, n in failed.items())
            + ".",
        ]
    parts += [
        "Differences are to the model, with the standard error over sweeps in brackets: above 0 is "
        "a better log score, and a worse CRPS. A form is the model with priors that leave a "
        "term no room; run errors are Student-t of estimated degrees of freedom otherwise.",
        f"{options.draws} draws after {options.tune} in each of {options.chains} chains, "
        f"{(time.perf_counter() - begun) / 60:.0f} min in all. {stamp()}",
    ]
    text = "\n\n".join(parts)
    print(text)
    if not options.quick:
        figures = {
            title: compare({form: rows[split] for form, rows in found.items()}).to_dict("records")
            for split, title in SPLITS.items()
        }
        write_results("step_density", text, {"stamp": stamp(), "figures": figures})


if __name__ == "__main__":
    main()
