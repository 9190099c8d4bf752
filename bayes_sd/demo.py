"""A tour on measured runs: one fit, draft lengths by load, break-even loads, plots."""

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import xarray as xr
from rich.console import Console

from bayes_sd.break_even import BreakEven, break_even_rate
from bayes_sd.convergence import diagnose
from bayes_sd.curves import latency_curves
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study, load_vllm_cpu
from bayes_sd.exceptions import FitFileError, UnusedRunsWarning
from bayes_sd.fitting import fit
from bayes_sd.plots.draft_length import plot_draft_length
from bayes_sd.plots.latency import plot_latency
from bayes_sd.policy import draft_length_policy
from bayes_sd.posterior import fitted_pairs
from bayes_sd.render import (
    render_break_even,
    render_convergence,
    render_draft_lengths,
    render_policy,
    render_verdict,
)
from bayes_sd.scenario import Scenario
from bayes_sd.storage import save

# Loads and limits as in the runs: `data/README.md`.
STUDIED = "Qwen3-8B"
STUDY_RATES = tuple(float(rate) for rate in range(1, 13))
ACCEPTANCES = (0.6, 0.7, 0.8)
SHOWN_ACCEPTANCE = 0.7
OTHER_RATES = {  # light, medium and heavy load of each verifier
    "Qwen3-0.6B": (10.0, 25.0, 40.0),
    "Qwen3-1.7B": (6.0, 15.0, 25.0),
    "Qwen3-14B": (2.0, 4.5, 7.0),
    "Qwen3-32B": (0.6, 1.4, 2.2),
}
CPU_DRAFTERS = ("drafter-a60", "drafter-a85")
CPU_RATES = (0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0)
CPU_LENGTHS = (1, 3, 5)
PLOTTED_LENGTHS = (1, 3, 5, 10)
DPI = 150


def run_demo(
    folder: str | Path,
    *,
    progressbar: bool = True,
    draws: int = 700,
    tune: int = 500,
    chains: int = 4,
    random_seed: int = 0,
    console: Console | None = None,
) -> dict[str, Any]:
    """Fit the bundled scaling study and the runs of vLLM on a CPU, and answer from the fit.

    Parameters
    ----------
    folder : str or Path
        Where the fit and the plots go; made if it does not exist.
    progressbar, draws, tune, chains, random_seed
        As `fit`.
    console : rich.console.Console, optional
        Where tables are written; stdout by default.

    Returns
    -------
    dict
        Plain values: ``converged``, ``verdict``, ``left_out``, ``policies``, ``break_even``,
        ``files``, ``folder``, ``seconds``, and ``interrupted``, true (and nothing else but the
        folder) if sampling was stopped by hand.

    Raises
    ------
    FitFileError
        If the folder cannot be made or written to.
    ArgumentError
        As `fit`.
    """
    begun = time.perf_counter()
    console = console or Console(highlight=False)
    folder = _made(Path(folder))
    frame = pd.concat([load_scaling_study(), load_vllm_cpu("dense")], ignore_index=True)
    data, left_out = _data(frame)
    console.print(
        f"{data.sizes['run']} of {len(frame)} runs are used: {data.sizes['base']} verifiers, "
        f"{data.sizes['pair']} pairs, {data.sizes['sweep']} sweeps."
    )
    for line in left_out:
        console.print(f"Left out: {line}", style="yellow", markup=False)
    console.print("One fit of all of them: compiling (up to a minute), then sampling.")
    tree = fit(
        data,
        draws=draws,
        tune=tune,
        chains=chains,
        random_seed=random_seed,
        progressbar=progressbar,
    )
    fitted = time.perf_counter()
    if tree["posterior"].sizes["draw"] < draws:  # the sampler stops early on Ctrl-C
        return {"interrupted": True, "folder": str(folder)}
    verdict = diagnose(tree, warn=False)
    console.print(render_verdict(verdict))
    files = [save(tree, folder / "fit.nc")]
    answers = answer(tree, folder, console)
    files += [Path(name) for name in answers.pop("plots")]
    total = time.perf_counter() - begun
    console.print(
        f"Written to {folder.resolve()}:", *(f"  {path.name}" for path in files), sep="\n"
    )
    sampling = tree.attrs.get("sampling_s", float("nan"))
    console.print(
        f"{total:.0f} s in all, {fitted - begun:.0f} s of it to read, compile and fit, of which "
        f"sampling {sampling:.0f} s."
    )
    problem = "" if verdict.passed else verdict.sentence()
    console.print(render_convergence(problem))  # again, for the first is out of sight by now
    return {
        "interrupted": False,
        "converged": verdict.passed,
        "convergence": problem,
        "verdict": verdict.to_dict(),
        "left_out": left_out,
        **answers,
        "folder": str(folder),
        "files": [str(path) for path in files],
        "seconds": {"fit": fitted - begun, "total": total},
    }


def answer(tree: xr.DataTree, folder: Path, console: Console) -> dict[str, Any]:
    """Write the tables and plots of a fit that holds the demo's pairs.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    folder : Path
        Where the plots go.
    console : rich.console.Console
        Where the tables go.

    Returns
    -------
    dict
        ``policies`` (title to rows), ``break_even`` (list), ``plots`` (paths).
    """
    policies: dict[str, list[dict[str, Any]]] = {}
    with warnings.catch_warnings():  # said once, by the verdict above
        warnings.simplefilter("ignore")
        shown: dict[str, pd.DataFrame] = {}
        for acceptance in ACCEPTANCES:
            asked = study_scenario(STUDIED, acceptance)
            title = f"{STUDIED}, acceptance {acceptance:g}, evenly spaced arrivals"
            shown[title] = draft_length_policy(tree, asked, STUDY_RATES)
        for drafter in CPU_DRAFTERS:
            title = f"vLLM on CPU, {drafter}, Poisson arrivals"
            shown[title] = draft_length_policy(tree, cpu_scenario(drafter), CPU_RATES)
        others = _other_verifiers(tree)
        measured = [_turn(tree, cpu_scenario(d), k) for d in CPU_DRAFTERS for k in CPU_LENGTHS]
        asked = study_scenario(STUDIED, SHOWN_ACCEPTANCE)
        extrapolated = [_turn(tree, asked, k) for k in CPU_LENGTHS]
        plots = _plots(tree, folder)
    for title, policy in shown.items():
        console.print()
        console.print(render_policy(policy, title))
        policies[title] = _rows(policy)
    console.print()
    console.print(
        render_draft_lengths(
            others, f"Best k of the other verifiers, acceptance {SHOWN_ACCEPTANCE:g}"
        )
    )
    policies |= {f"{v}, acceptance {SHOWN_ACCEPTANCE:g}": _rows(p) for v, p in others.items()}
    console.print()
    console.print(
        render_break_even(measured, "Where speculation stops paying: vLLM on CPU, off was measured")
    )
    console.print(
        render_break_even(
            extrapolated,
            f"The same for {STUDIED}, acceptance {SHOWN_ACCEPTANCE:g}, extrapolated to k = 0: "
            "no run without speculation was measured",
        )
    )
    return {
        "policies": policies,
        "break_even": [
            {**found.to_dict(), "statement": found.statement()}
            for found in (*measured, *extrapolated)
        ],
        "plots": [str(path) for path in plots],
    }


def study_scenario(verifier: str, acceptance: float) -> Scenario:
    """Return a scenario of the scaling study, as it was measured."""
    return Scenario(
        verifier,
        request_rate_rps=1.0,
        arrivals="constant",
        acceptance=acceptance,
        max_num_seqs=128,
    )


def cpu_scenario(drafter: str) -> Scenario:
    """Return a scenario of vLLM on CPU, as it was measured."""
    return Scenario(drafter, request_rate_rps=1.0, max_num_seqs=64)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FitFileError(
            f"folder {folder} cannot be made: {error.strerror}. Choose another with --folder."
        ) from error
    return folder


def _data(frame: pd.DataFrame) -> tuple[xr.Dataset, list[str]]:
    """Return the data set, and why runs were left out, without the rows' numbers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = to_dataset(frame)
    left_out = []
    for entry in caught:
        if issubclass(entry.category, UnusedRunsWarning):
            lines = str(entry.message).splitlines()[1:]
            left_out += [line.removeprefix("- ").rsplit(" (rows ", 1)[0] for line in lines]
        else:
            warnings.warn_explicit(entry.message, entry.category, entry.filename, entry.lineno)
    return data, left_out


def _other_verifiers(tree: xr.DataTree) -> dict[str, pd.DataFrame]:
    """Return the policies of the scaling study's other verifiers, at three loads each."""
    labels = fitted_pairs(tree)
    return {
        verifier: draft_length_policy(tree, study_scenario(verifier, SHOWN_ACCEPTANCE), rates)
        for verifier, rates in OTHER_RATES.items()
        if any(verifier in label for label in labels)
    }


def _plots(tree: xr.DataTree, folder: Path) -> list[Path]:
    """Draw latency against load, and the probability that each k is best, for two pairs."""
    asked = {
        "qwen3-8b": (study_scenario(STUDIED, SHOWN_ACCEPTANCE), 14.5, PLOTTED_LENGTHS),
        "vllm-cpu": (cpu_scenario(CPU_DRAFTERS[0]), 12.0, None),
    }
    made = []
    for name, (scenario, highest, lengths) in asked.items():
        rates = [highest * (i + 1) / 36 for i in range(36)]
        curves = latency_curves(tree, scenario, rates, lengths)
        axes = plot_latency(curves)
        made.append(_saved(axes, folder / f"latency-{name}.png"))
        axes = plot_draft_length(draft_length_policy(tree, scenario, rates[1::2]))
        title = f"{curves.attrs['pair']}\n{curves.attrs['about']}"
        axes.set_title(title, loc="left", fontsize=9, pad=36)
        made.append(_saved(axes, folder / f"draft-length-{name}.png"))
    return made


def _saved(axes: Any, path: Path) -> Path:
    axes.figure.savefig(path, dpi=DPI)
    plt.close(axes.figure)
    return path


def _rows(policy: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(name): value for name, value in row.items()}
        for row in policy.reset_index().astype(object).to_dict(orient="records")
    ]


def _turn(tree: xr.DataTree, scenario: Scenario, drafts: int) -> BreakEven:
    """Return a break-even load, without what the verdict on the fit has said already."""
    found = break_even_rate(tree, scenario.pair, num_speculative_tokens=drafts, scenario=scenario)
    return replace(found, convergence="")
