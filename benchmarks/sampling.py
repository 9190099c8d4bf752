"""How fast the model samples: against its textbook form, against a minute, and as data grow.

    python benchmarks/sampling.py                  # all parts; alone on two cores
    python benchmarks/sampling.py --part textbook  # or default, or growth: one part of the results
    python benchmarks/sampling.py --quick          # smoke test; writes no file

It starts with an empty cache of compiled code, so compilation is that of a first fit.
Times are of this machine, with nothing else running; gradients and effective sample sizes are not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import nutpie
import xarray as xr

from bayes_sd.convergence import Verdict, diagnose
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study
from bayes_sd.exceptions import ConvergenceWarning
from bayes_sd.fitting import complete_tree
from bayes_sd.model import RESPONSES, build_model
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.priors import default_priors
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.start import starting_point
from benchmarks.folds import RESULTS, load_data, stamp, write_results
from benchmarks.sampling_growth import growth_part, growth_text, seconds_per_gradient
from benchmarks.sampling_table import default_text, textbook_text
from benchmarks.textbook_model import build_textbook_model

VERIFIERS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")
EVERY_SWEEP = 3  # of these verifiers; with all of them the textbook form takes a quarter of an hour
CORES = min(4, os.cpu_count() or 1)  # what `sample` uses for four chains
SEED = 0
COSTS = tuple(CostCoefficients.__dataclass_fields__)


@contextmanager
def warmup_kept() -> Iterator[None]:
    """Let `sample` keep its warm-up: the gradients evaluated there cost as much as the others."""
    original = nutpie.sample
    with patch("nutpie.sample", lambda *a, **kw: original(*a, **kw | {"save_warmup": True})):
        yield


def num_gradients(tree: xr.DataTree) -> int:
    """Return the gradients evaluated, warm-up included: one per leapfrog step."""
    groups = ("sample_stats", "warmup_sample_stats")
    return sum(int(tree[group]["n_steps"].sum()) for group in groups)


def comparable(tree: xr.DataTree, names: list[str]) -> xr.DataTree:
    """Return a tree of some of the quantities only."""
    stats = tree["sample_stats"].to_dataset()
    posterior = tree["posterior"].to_dataset()[names]
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


def fit_library(
    data: xr.Dataset, responses: tuple[str, ...], lengths: dict[str, Any]
) -> tuple[xr.DataTree, CompiledModel, dict[str, float]]:
    """Fit as `bayes_sd.fit` does; return draws, compiled model, and the seconds of each part."""
    begun = time.perf_counter()
    priors = default_priors(data)
    compiled = compile_model(
        build_model(data, priors, responses=responses), starting_point(data, priors)
    )
    ready = time.perf_counter()
    with warmup_kept():
        tree = sample(compiled, random_seed=SEED, progressbar=False, **lengths)
    done = time.perf_counter()
    return tree, compiled, {"compile_s": ready - begun, "sampling_s": done - ready}


def fit_textbook(
    data: xr.Dataset, lengths: dict[str, Any]
) -> tuple[xr.DataTree, CompiledModel, dict[str, float]]:
    """Fit the textbook form at nutpie's defaults; return what `fit_library` does."""
    begun = time.perf_counter()
    model = build_textbook_model(data, default_priors(data))
    compiled = CompiledModel(model, nutpie.compile_pymc_model(model))
    ready = time.perf_counter()
    defaults = sample.__kwdefaults__ or {}
    tree = nutpie.sample(
        compiled.compiled,
        **{name: defaults[name] for name in ("draws", "tune", "chains")} | lengths,
        cores=CORES,
        seed=SEED,
        progress_bar=False,
    )
    done = time.perf_counter()
    return tree, compiled, {"compile_s": ready - begun, "sampling_s": done - ready}


def judged(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values, with its effective sample size at worst."""
    return verdict.to_dict() | {"smallest_ess": min(verdict.ess_bulk, verdict.ess_tail)}


def some_sweeps(verifiers: tuple[str, ...], every: int) -> xr.Dataset:
    """Return one sweep in so many, by name: all acceptance rates and draft lengths take part."""
    frame = load_scaling_study(verifiers)
    frame = frame[~frame["is_throughput_test"]]
    kept = sorted(set(frame["sweep_id"]))[::every]
    return to_dataset(frame[frame["sweep_id"].isin(kept)].reset_index(drop=True))


def textbook_part(lengths: dict[str, Any], every: int) -> dict[str, Any]:
    """Fit both forms of the mean-latency model to the same runs; return all figures."""
    data = some_sweeps(VERIFIERS, every)
    fits = {
        "library": fit_library(data, (), lengths),
        "textbook": fit_textbook(data, lengths),
    }
    posteriors = [tree["posterior"].to_dataset() for tree, _, _ in fits.values()]
    shared = sorted(str(name) for name in set(posteriors[0]) & set(posteriors[1]))
    costs = [name for name in shared if name in COSTS]
    found: dict[str, Any] = {"verifiers": list(VERIFIERS), "num_runs": data.sizes["run"]}
    found |= {"num_sweeps": data.sizes["sweep"]}
    found |= {"num_costs": len(costs), "num_shared": len(shared)}
    for name, (tree, compiled, seconds) in fits.items():
        found[name] = seconds | {
            "num_parameters": int(compiled.compiled.n_dim),
            "gradients": num_gradients(tree),
            "gradient_s": seconds_per_gradient(compiled),
            "costs": judged(diagnose(comparable(tree, costs), warn=False)),
            "shared": judged(diagnose(comparable(tree, shared), warn=False)),
        }
    gaps = {}
    for name in costs:
        first, second = (xr.ufuncs.log(p[name]) for p in posteriors)
        gap = first.mean(("chain", "draw")) - second.mean(("chain", "draw"))
        gaps[name] = float(abs(gap / first.std(("chain", "draw"))).max())
    found["largest_gap"] = max(gaps.values())
    found["cost_of_largest_gap"] = max(gaps, key=lambda name: gaps[name])
    return found


def compile_again_s(data: xr.Dataset) -> float:
    """Return the seconds of one more compilation of the same model, for its cache."""
    begun, priors = time.perf_counter(), default_priors(data)
    compile_model(build_model(data, priors), starting_point(data, priors))
    return time.perf_counter() - begun


def default_part(verifiers: tuple[str, ...], lengths: dict[str, Any]) -> dict[str, Any]:
    """Fit the whole model with defaults; return the seconds of each part and the verdict."""
    data = load_data("scaling-study", verifiers)
    tree, compiled, seconds = fit_library(data, RESPONSES, lengths)
    done = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the verdict is in the result
        verdict = diagnose(complete_tree(tree, data, SEED), warn=False)
    judging = time.perf_counter() - done
    gradients, alone = num_gradients(tree), seconds_per_gradient(compiled)
    together = seconds_per_gradient(compiled, threads=CORES)
    worked = seconds["sampling_s"] * CORES
    return seconds | {
        "num_runs": data.sizes["run"],
        "num_parameters": int(compiled.compiled.n_dim),
        "cores": CORES,
        "judging_s": judging,
        "compile_again_s": compile_again_s(data),
        "fit_s": seconds["compile_s"] + seconds["sampling_s"],
        "gradients": gradients,
        "gradient_s": alone,
        "gradient_together_s": together,
        "gradient_share": gradients * alone / worked,
        "gradient_share_together": gradients * together / worked,
        "verdict": judged(verdict),
        "sentence": verdict.sentence(),
    }


TEXTS = {"default": default_text, "textbook": textbook_text, "growth": growth_text}


def run_with_empty_cache() -> None:
    """Run this command again with an empty cache of compiled code, as on a new machine."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [os.environ.get("PYTENSOR_FLAGS", ""), f"base_compiledir={folder}"]
        subprocess.run(
            [sys.executable, *sys.argv, "--keep-cache"],
            env=os.environ | {"PYTENSOR_FLAGS": ",".join(filter(None, flags))},
            check=True,
        )


def main() -> None:
    """Run the parts asked for, print them, and write them beside those of earlier runs."""
    parser = argparse.ArgumentParser(description="Speed of compiling and sampling.")
    parser.add_argument("--part", choices=tuple(TEXTS), help="one part only; all by default")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument(
        "--keep-cache", action="store_true", help="use this machine's cache of compiled code"
    )
    options = parser.parse_args()
    if not options.keep_cache:
        run_with_empty_cache()
        return
    file, found = RESULTS / "sampling.json", {}
    if file.is_file() and not options.quick:
        found = json.loads(file.read_text(encoding="utf-8"))
    few = {"draws": 50, "tune": 100, "chains": 2} if options.quick else {}
    for part in [options.part] if options.part else list(TEXTS):
        begun = time.perf_counter()
        if part == "growth":
            figures = growth_part(is_quick=options.quick)
        elif part == "textbook":
            figures = textbook_part(few, 8 if options.quick else EVERY_SWEEP)
        else:
            figures = default_part(VERIFIERS[:1] if options.quick else (), few)
        took = (time.perf_counter() - begun) / 60
        found[part] = figures | {"stamp": f"{took:.1f} min. {stamp()}"}
        print(f"{TEXTS[part](found[part])}\n\n{found[part]['stamp']}\n", flush=True)
    texts = [f"{text(found[p])}\n\n{found[p]['stamp']}" for p, text in TEXTS.items() if p in found]
    if not options.quick:
        write_results("sampling", "\n\n".join(["# Speed of sampling", *texts]), found)


if __name__ == "__main__":
    main()
