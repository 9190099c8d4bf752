"""How fast the model samples: against its textbook form, against a minute, and as data grow.

    python benchmarks/sampling.py                  # all parts; alone on two cores
    python benchmarks/sampling.py --part textbook  # or default, or growth: one part of the results
    python benchmarks/sampling.py --quick          # smoke test; writes no file

Times are of this machine, with nothing else running; gradients and effective sample sizes are not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import nutpie
import pandas as pd
import xarray as xr

from bayes_sd.convergence import Verdict, diagnose
from bayes_sd.fitting import CompiledModel, compile_model, complete_tree, sample
from bayes_sd.model import RESPONSES, build_model
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.priors import default_priors
from bayes_sd.start import starting_point
from benchmarks.folds import RESULTS, load_data, markdown, stamp, write_results
from benchmarks.sampling_growth import growth_part, growth_text, seconds_per_gradient
from benchmarks.textbook_model import build_textbook_model

VERIFIERS = ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B")
CORES = min(4, os.cpu_count() or 1)  # what `sample` uses for four chains
BAR_S = 60.0
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
    data: xr.Dataset, responses: tuple[str, ...], lengths: dict[str, int]
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
    data: xr.Dataset, lengths: dict[str, int]
) -> tuple[xr.DataTree, CompiledModel, dict[str, float]]:
    """Fit the textbook form at nutpie's defaults; return what `fit_library` does."""
    begun = time.perf_counter()
    model = build_textbook_model(data, default_priors(data))
    compiled = CompiledModel(model, nutpie.compile_pymc_model(model))
    ready = time.perf_counter()
    tree = nutpie.sample(
        compiled.compiled,
        **{name: sample.__kwdefaults__[name] for name in ("draws", "tune", "chains")} | lengths,
        cores=CORES,
        seed=SEED,
        progress_bar=False,
    )
    done = time.perf_counter()
    return tree, compiled, {"compile_s": ready - begun, "sampling_s": done - ready}


def judged(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values, with its effective sample size at worst."""
    return verdict.to_dict() | {"smallest_ess": min(verdict.ess_bulk, verdict.ess_tail)}


def textbook_part(verifiers: tuple[str, ...], lengths: dict[str, int]) -> dict[str, Any]:
    """Fit both forms of the mean-latency model to the same runs; return all figures."""
    data = load_data("scaling-study", verifiers)
    fits = {
        "library": fit_library(data, (), lengths),
        "textbook": fit_textbook(data, lengths),
    }
    posteriors = [tree["posterior"].to_dataset() for tree, _, _ in fits.values()]
    shared = sorted(set(posteriors[0]) & set(posteriors[1]))
    costs = [name for name in shared if name in COSTS]
    found: dict[str, Any] = {"verifiers": list(verifiers), "num_runs": data.sizes["run"]}
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
        first, second = (np.log(p[name]) for p in posteriors)
        gap = abs(first.mean(("chain", "draw")) - second.mean(("chain", "draw")))
        gaps[name] = float((gap / first.std(("chain", "draw"))).max())
    found["largest_gap"] = max(gaps.values())
    found["cost_of_largest_gap"] = max(gaps, key=lambda name: gaps[name])
    return found


def cold_compile_s(verifiers: tuple[str, ...]) -> float:
    """Return the seconds of the first compilation of all on a machine, in a process of its own."""
    code = (
        "import time\n"
        "from bayes_sd.fitting import compile_model\n"
        "from bayes_sd.model import build_model\n"
        "from bayes_sd.start import starting_point\n"
        "from bayes_sd.priors import default_priors\n"
        "from benchmarks.folds import load_data\n"
        f"data = load_data('scaling-study', {verifiers!r}); begun = time.perf_counter()\n"
        "compile_model(build_model(data), starting_point(data, default_priors(data)))\n"
        "print(time.perf_counter() - begun)"
    )
    with tempfile.TemporaryDirectory() as folder:
        flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), f"compiledir={folder}"]))
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTENSOR_FLAGS": flags},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def default_part(verifiers: tuple[str, ...], lengths: dict[str, int]) -> dict[str, Any]:
    """Fit the whole model with defaults; return the seconds of each part and the verdict."""
    cold = cold_compile_s(verifiers)
    data = load_data("scaling-study", verifiers)
    tree, compiled, seconds = fit_library(data, RESPONSES, lengths)
    done = time.perf_counter()
    verdict = diagnose(complete_tree(tree, data, SEED), warn=False)
    gradients, alone = num_gradients(tree), seconds_per_gradient(compiled)
    together = seconds_per_gradient(compiled, threads=CORES)
    worked = seconds["sampling_s"] * CORES
    return seconds | {
        "num_runs": data.sizes["run"],
        "num_parameters": int(compiled.compiled.n_dim),
        "cold_compile_s": cold,
        "judging_s": time.perf_counter() - done,
        "fit_s": seconds["compile_s"] + seconds["sampling_s"],
        "gradients": gradients,
        "gradient_s": alone,
        "gradient_together_s": together,
        "gradient_share": gradients * alone / worked,
        "gradient_share_together": gradients * together / worked,
        "verdict": judged(verdict),
        "sentence": verdict.sentence(),
    }


def textbook_text(found: dict[str, Any]) -> str:
    """Return the comparison with the textbook form."""
    columns: dict[str, list[float]] = {}
    for name in ("library", "textbook"):
        one = found[name]
        whole = one["compile_s"] + one["sampling_s"]
        rows: dict[str, float] = {
            "parameters": one["num_parameters"],
            "compile, s": one["compile_s"],
            "sampling, s": one["sampling_s"],
            "gradients, thousands": one["gradients"] / 1e3,
            "one gradient, us": one["gradient_s"] * 1e6,
            "divergences": one["costs"]["divergences"],
        }
        for kind, label in (("costs", "costs"), ("shared", "all shared")):
            of = one[kind]
            ess = of["smallest_ess"]
            rows |= {
                f"{label}: worst R-hat": of["r_hat"],
                f"{label}: smallest bulk ESS": of["ess_bulk"],
                f"{label}: smallest tail ESS": of["ess_tail"],
                f"{label}: smallest ESS per s of sampling": ess / one["sampling_s"],
                f"{label}: the same per s, compilation counted": ess / whole,
                f"{label}: the same per 1,000 gradients": 1e3 * ess / one["gradients"],
            }
        for label, value in rows.items():
            columns.setdefault(label, []).append(value)
    table = pd.DataFrame(
        [
            {
                "": label,
                "library": f"{a:.4g}",
                "textbook": f"{b:.4g}",
                "ratio": f"{a / b:.3g}" if b else "",
            }
            for label, (a, b) in columns.items()
        ]
    )
    worst = ", ".join(
        f"{name} {found[name]['costs']['worst_ess_bulk']}" for name in ("library", "textbook")
    )
    return (
        "## Against the textbook form\n\n"
        f"The mean latency of {found['num_runs']} runs of {' and '.join(found['verifiers'])}: the "
        "same data, law, likelihood (the batch integrated out in both) and priors but for "
        "half-normal scales; see `textbook_model.py`. Draws, tuning steps and chains are alike. "
        f"Costs are the {found['num_costs']} of `CostCoefficients`; all shared are "
        f"{found['num_shared']} quantities, with scales, levels, exponents and boots.\n\n"
        f"{markdown(table)}\n\n"
        f"Smallest bulk ESS of a cost: {worst}. Posterior means of log costs differ most in "
        f"{found['cost_of_largest_gap']}, by {found['largest_gap']:.2f} posterior standard "
        "deviations (chance and the other scales' priors)."
    )


def default_text(found: dict[str, Any]) -> str:
    """Return how long the bundled data take with defaults, against the bar."""
    converged = found["verdict"]["passed"]
    met = converged and found["fit_s"] <= BAR_S
    rows = {
        "compile, s": f"{found['compile_s']:.1f}",
        "compile with nothing cached (first fit on a machine), s": f"{found['cold_compile_s']:.1f}",
        "sampling, s": f"{found['sampling_s']:.1f}",
        "compile + sampling, s": f"{found['fit_s']:.1f}",
        "judging and packing, s": f"{found['judging_s']:.1f}",
        "gradients, thousands": f"{found['gradients'] / 1e3:.0f}",
        "one gradient alone, us": f"{found['gradient_s'] * 1e6:.0f}",
        f"one gradient, {CORES} at once, us": f"{found['gradient_together_s'] * 1e6:.0f}",
        "share of sampling in gradients, alone": f"{found['gradient_share']:.0%}",
        f"the same, {CORES} at once": f"{found['gradient_share_together']:.0%}",
    }
    table = pd.DataFrame({"": list(rows), "value": list(rows.values())})
    return (
        "## The bundled data with defaults\n\n"
        f"{found['num_runs']} runs, all responses, {found['num_parameters']} parameters.\n\n"
        f"{markdown(table)}\n\n{found['sentence']}\n\n"
        f"Bar: converged within {BAR_S:.0f} s, compilation counted: "
        f"{'met' if met else 'NOT met'}."
    )


TEXTS = {"default": default_text, "textbook": textbook_text, "growth": growth_text}


def main() -> None:
    """Run the parts asked for, print them, and write them beside those of earlier runs."""
    parser = argparse.ArgumentParser(description="Speed of compiling and sampling.")
    parser.add_argument("--part", choices=tuple(TEXTS), help="one part only; all by default")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    options = parser.parse_args()
    file, found = RESULTS / "sampling.json", {}
    if file.is_file() and not options.quick:
        found = json.loads(file.read_text(encoding="utf-8"))
    few = {"draws": 50, "tune": 100, "chains": 2} if options.quick else {}
    two = VERIFIERS[:1] if options.quick else VERIFIERS
    for part in [options.part] if options.part else list(TEXTS):
        begun = time.perf_counter()
        if part == "growth":
            figures = growth_part(is_quick=options.quick)
        elif part == "textbook":
            figures = textbook_part(two, few)
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
