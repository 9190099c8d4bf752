"""Against every baseline, on the same data, in one command.

    python -m benchmarks.accuracy                 # the whole table; goes on where it was
    python -m benchmarks.accuracy --competitors   # without bayes_sd: minutes
    python -m benchmarks.accuracy --short         # two small data sets; fails below its floors
    python -m benchmarks.accuracy --data vllm-cpu --splits sweeps "highest loads"

Data sets, splits and competitors are functions of their own (`accuracy_data`, `accuracy_splits`,
`accuracy_models`); each result is kept by data set, split, fold and method, and computed again
only if the code, the settings or the versions that it hangs on have changed (`accuracy_cache`).
Writes the section *accuracy* of ``docs/results.md``, its plots, and ``results/accuracy.json``.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

from benchmarks.accuracy_bayes import Sampler
from benchmarks.accuracy_cache import Cache
from benchmarks.accuracy_data import TITLES, Case, load_case
from benchmarks.accuracy_floors import FLOORS, missed
from benchmarks.accuracy_models import COMPETITORS, OURS
from benchmarks.accuracy_page import PAGE, accuracy_section, cell_table, write_section
from benchmarks.accuracy_plots import save_plots
from benchmarks.accuracy_run import run_table
from benchmarks.accuracy_splits import EXTRAPOLATING, SPLITS
from benchmarks.accuracy_table import figures, standing
from benchmarks.folds import stamp, write_results

SHORT_VERIFIER = "Qwen/Qwen3-8B"
SHORT_SPLITS = ("sweeps", "highest loads, new sweep")
SHORT_METHODS = ("pooled law", "linear law", "division by E", "goodput", OURS)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=TITLES, default=list(TITLES))
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS))
    parser.add_argument("--methods", nargs="+", choices=[*COMPETITORS, OURS])
    parser.add_argument("--competitors", action="store_true", help="all but bayes_sd")
    parser.add_argument("--short", action="store_true", help="for CI: fails below the floors")
    parser.add_argument("--cache", type=Path, help="folder of results that are kept")
    parser.add_argument("--no-page", action="store_true", help="print only; write no page")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=500)
    parser.add_argument("--chains", type=int, default=2)
    return parser.parse_args()


def cache_folder(given: Path | None, *, short: bool) -> Path:
    """Return the folder given, or one that stays; a short run begins anew each time."""
    if given is not None:
        return given
    if short:
        return Path(tempfile.mkdtemp(prefix="bayes_sd-accuracy-"))
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "bayes_sd" / "accuracy"


def main() -> None:
    """Compute the table, print it, write it, and in the short mode judge it."""
    options = read_options()
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    methods = options.methods or [*COMPETITORS, *([] if options.competitors else [OURS])]
    sampler = Sampler(options.draws, options.tune, options.chains)
    splits, limit, names = options.splits, None, options.data
    if options.short:
        methods, splits, limit = list(SHORT_METHODS), list(SHORT_SPLITS), 1
        names = list(dict.fromkeys(floor.data for floor in FLOORS))
        sampler = Sampler(draws=400, tune=400, chains=2)
    folder = cache_folder(options.cache, short=options.short)
    print(f"results are kept in {folder}")
    cases = [load_case(name) for name in names]
    if options.short:
        cases = [_short(case) for case in cases]
    found = run_table(
        cases, Cache(folder), sampler, methods=methods, splits=splits, fold_limit=limit
    )
    table = figures(found.rows, found.signs)
    for (data, split), cell in table.groupby(["data", "split"], sort=False):
        print(f"\n{data}, {split}\n\n{cell_table(cell)}")
    seconds = found.folds.groupby("method")["seconds"].sum()
    print("\n" + "; ".join(f"{name} {total / 60:.1f} min" for name, total in seconds.items()))
    print(f"{(time.perf_counter() - begun) / 60:.1f} min in all")
    if options.short:
        faults = missed(table)
        print("\n".join(["below the floors:", *faults] if faults else ["above all floors"]))
        sys.exit(1 if faults else 0)
    if options.no_page:
        return
    stands = standing(table, EXTRAPOLATING)
    files = save_plots(found.rows, found.signs, EXTRAPOLATING, PAGE.parent / "results")
    settings = (
        f"{sampler.draws} draws after {sampler.tune} in each of {sampler.chains} chains; "
        f"computed in {seconds.sum() / 60:.0f} min in all"
    )
    text = accuracy_section(table, stands, found.folds, files, settings)
    write_section("accuracy", text)
    figures_of = {"table": table.to_dict("records"), "standing": stands.to_dict("records")}
    write_results("accuracy", text, {"stamp": stamp(), **figures_of})


def _short(case: Case) -> Case:
    return case.first((SHORT_VERIFIER,)) if case.name == "scaling-study" else case


if __name__ == "__main__":
    main()
