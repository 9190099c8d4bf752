"""Which shape request latency has about the mean of its run, on held-out sweeps, without sampling.

    python benchmarks/tail_forms.py

Percentiles as ratios to the mean of the same requests, in four folds over the sweeps; each form is
fitted by penalised maximum likelihood, with the priors proposed for the model. Held-out runs are
judged by the log density of their ratios and by whether intervals hold their p95 and p99.
"""

import time

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_sd.data import to_dataset
from benchmarks.folds import NUM_FOLDS, markdown, stamp, write_results
from benchmarks.tail_models import (
    FORMS,
    Form,
    Runs,
    fit_form,
    load_frames,
    log_density,
    predict,
    runs_of,
)

type Floats = NDArray[np.float64]

NUM_SIMULATED = 2000
KINDS = {
    "scaling study": ("e2e", "tpot", "ttft"),
    "vLLM on CPU": ("e2e", "tpot", "ttft"),
    "vLLM on CPU, quiet": ("e2e",),
    "H200": ("e2e",),
}


def ranks(form: Form, runs: Runs, p: dict[str, Floats], rng: np.random.Generator) -> Floats:
    """Return the predictive rank of each run's ratios, (run, level), by simulation."""
    expected, bulk, top = predict(form, runs, p)
    found = np.full(expected.shape, np.nan)
    for run in np.flatnonzero(runs.data.is_scored):
        kept = np.flatnonzero(runs.whiten[run].any(axis=1))
        dof, top_dof = np.exp(p["dof"][run]), np.exp(p["top_dof"][run])
        noise = rng.standard_normal((NUM_SIMULATED, len(kept))) * np.sqrt(bulk[run])
        noise /= np.sqrt(rng.chisquare(dof, NUM_SIMULATED) / dof)[:, None]
        if form.top and runs.data.has_top[run]:
            noise[:, -1] = rng.standard_t(top_dof, NUM_SIMULATED) * np.sqrt(top[run])
        root = np.linalg.inv(runs.whiten[run][np.ix_(kept, kept)])
        simulated = expected[run, kept] + noise @ root.T
        found[run, kept] = (simulated < runs.ratio[run, kept]).mean(axis=0)
    return found


def judge(form: Form, runs: Runs) -> dict[str, object]:
    """Return held-out log density by base, errors and coverage, and the parameters found."""
    density, rank = np.full(len(runs.base), np.nan), np.full(runs.z.shape, np.nan)
    error, rng = np.full(runs.z.shape, np.nan), np.random.default_rng(0)
    parameters = []
    for number in range(NUM_FOLDS):
        out = runs.fold == number
        p = fit_form(form, runs, ~out & runs.data.is_scored)
        density[out] = log_density(form, runs, p)[out]
        rank[out] = ranks(form, runs, p, rng)[out]
        error[out] = np.abs(np.expm1(predict(form, runs, p)[0] - runs.ratio))[out]
        first = [np.flatnonzero(runs.base == b)[0] for b in np.unique(runs.base)]
        parameters.append({k: [round(float(v[i]), 3) for i in first] for k, v in p.items()})
    density[~runs.data.is_scored] = np.nan
    figures: dict[str, object] = {"density": float(np.nanmean(density))}
    figures["by_base"] = {
        name: float(np.nanmean(density[runs.base == b])) for b, name in enumerate(runs.names)
    }
    for place, name in ((-2, "p95"), (-1, "p99")):
        known = rank[:, place][~np.isnan(rank[:, place])]
        figures[name] = {
            "error": float(100 * np.nanmedian(error[:, place])),
            "in_90": float(100 * np.mean((known > 0.05) & (known < 0.95))),
            "in_50": float(100 * np.mean((known > 0.25) & (known < 0.75))),
        }
    figures["parameters"] = parameters
    return figures


def rows_of(found: dict[str, dict]) -> pd.DataFrame:
    """Return one row per form: density by base, errors and coverage."""
    rows = []
    for name, figures in found.items():
        row = {"form": name, "all": f"{figures['density']:.3f}"}
        row |= {base: f"{value:.2f}" for base, value in figures["by_base"].items()}
        for level in ("p95", "p99"):
            of = figures[level]
            row[f"{level} error %"] = f"{of['error']:.1f}"
            row[f"{level} in 90 / 50 %"] = f"{of['in_90']:.0f} / {of['in_50']:.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def parameter_rows(runs: Runs, figures: dict, form: Form) -> pd.DataFrame:
    """Return the fitted parameters of each base, mean over the folds, in their units."""
    rows = []
    names = ["heterogeneity", *form.shape, "load_factor", "misfit_sd"]
    for place, base in enumerate(runs.names):
        row = {"base": base}
        for name in [*names, "excess_misfit", "dof", "top_dof"]:
            mean = np.mean([p[name][place] for p in figures["parameters"]])
            row[name] = f"{mean if name == 'skew' else np.exp(mean):.3g}"
        rows.append(row)
    return pd.DataFrame(rows)


def main() -> None:
    """Print the tables and write them to ``results/tail_forms``."""
    begun = time.perf_counter()
    parts = ["# Forms of the spread of request latency on held-out sweeps", ""]
    parts += ["Log density per run of log(percentile / mean), nats; higher is better. The error is"]
    parts += [
        "that of the percentile given the run's mean, median over runs. An interval is that of"
    ]
    parts += ["the percentile of one held-out run, given its mean.", ""]
    everything: dict[str, dict] = {}
    for name, frame in load_frames().items():
        data = to_dataset(frame)
        for kind in KINDS[name]:
            runs = runs_of(data, kind)
            found = {label: judge(form, runs) for label, form in FORMS.items()}
            everything[f"{name}, {kind}"] = found
            count = int(runs.data.is_scored.sum())
            parts += [f"## {name}, {kind}: {count} runs", "", markdown(rows_of(found)), ""]
            best = "skewed + backlog"
            table = parameter_rows(runs, found[best], FORMS[best])
            parts += [f"Parameters of '{best}':", "", markdown(table), ""]
            print("\n".join(parts[-8:]), flush=True)
    parts.append(f"{time.perf_counter() - begun:.0f} s. {stamp()}")
    write_results("tail_forms", "\n".join(parts), {"stamp": stamp(), "found": everything})


if __name__ == "__main__":
    main()
