"""Is speculation faster at a load that was not measured? Probabilities against what was measured.

    python -m benchmarks.speedup_sign                    # vLLM on a CPU: dense, then mixture
    python -m benchmarks.speedup_sign --data atom        # six deployments, closed loops
    python -m benchmarks.speedup_sign --quick            # smoke test; writes no file

A run with drafts and one without on one verifier and deployment, at equal lengths and one load
(rates with no gap of more than 7 % between them), are a question: was the one with drafts faster?
The loads are split in three; a third is hidden from the fit, all its runs, and asked for. P is the
share of draws in which a fresh run with drafts is faster than a fresh one without. Beside it the
share of such runs that were faster at the loads seen, and the published law with its residual
bootstrap. The runs of one deployment are not independent: the standard errors are over loads.
"""

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.baselines import fit_law, is_covered, law_bootstrap
from bayes_sd.fitting import complete_tree
from bayes_sd.predict import predict_latency
from bayes_sd.priors import default_priors
from bayes_sd.sampling import CompiledModel, compile_blocks, sample
from benchmarks.folds import load_data, markdown, stamp, write_results
from benchmarks.heldout import scenario_of_run

type Floats = NDArray[np.float64]

NUM_FOLDS = 3
LOAD_GAP = 1.07  # ratio of neighbouring loads from which they are two loads
LAW_DRAWS = 1000
NAMES = {"model": "the model", "law": "the law, bootstrap", "constant": "a constant"}


def load_keys(data: xr.Dataset) -> list[tuple[Any, ...]]:
    """Return for each run what must be equal for two runs to be compared."""
    is_open = data["control"].values == "open"
    load = np.where(is_open, data["request_rate_rps"].values, data["concurrency"].values)
    known = np.unique(load[np.isfinite(load)])
    group = np.concatenate([[0], np.cumsum(known[1:] / known[:-1] > LOAD_GAP)])
    steps = group[np.searchsorted(known, load).clip(max=len(known) - 1)]
    lengths = (data[f"{kind}_len_tokens"].values for kind in ("input", "output"))
    rounded = [np.round(np.log(values), 1) for values in lengths]
    return list(zip(data["base_of_run"].values, steps, is_open, *rounded, strict=True))


def questions(data: xr.Dataset) -> pd.DataFrame:
    """Return one row per run with drafts and partner without: run, partner, truth, load.

    ``fold`` splits the loads of each verifier: every third, from a start of its own.
    """
    keys, drafts = load_keys(data), data["num_speculative_tokens"].values
    latency = data["mean_e2e_s"].values
    of_key: dict[tuple[Any, ...], list[int]] = {}
    for run, key in enumerate(keys):
        if drafts[run] == 0 and data["control"].values[run] != "cap":
            of_key.setdefault(key, []).append(run)
    asked = sorted({keys[r] for r in range(len(keys)) if drafts[r] and keys[r] in of_key})
    fold = {key: i % NUM_FOLDS for i, key in enumerate(asked)}
    rows = [
        {
            "run": run,
            "partner": partner,
            "faster": bool(latency[run] < latency[partner]),
            "load": asked.index(key),
            "fold": fold[key],
        }
        for run, key in enumerate(keys)
        if key in fold and drafts[run] and data["control"].values[run] != "cap"
        for partner in of_key[key]
    ]
    return pd.DataFrame(rows)


def answers(
    data: xr.Dataset,
    asked: pd.DataFrame,
    compiled: list[CompiledModel],
    number: int,
    **lengths: int,
) -> tuple[pd.DataFrame, str]:
    """Hide one fold of loads, fit, and answer its questions; return them with the verdict."""
    keys = load_keys(data)
    hidden = {keys[run] for run in asked["run"][asked["fold"] == number]}
    train = np.array([key not in hidden for key in keys])
    tree = sample(
        compiled,
        score_weight=train.astype(float),
        random_seed=number,
        progressbar=False,
        **lengths,
    )
    whole = complete_tree(tree, data, number)
    constant = whole["constant_data"].to_dataset().isel(run=np.flatnonzero(train))
    seen = xr.DataTree.from_dict(
        {"posterior": whole["posterior"].to_dataset(), "constant_data": constant}
    )
    of_fold = asked[asked["fold"] == number].reset_index(drop=True)
    law = fit_law(data, train)
    known = asked[asked["fold"] != number]["faster"].mean()
    rng = np.random.default_rng(number)
    places, at = np.unique(of_fold[["run", "partner"]], return_inverse=True)
    held, (first, second) = data.isel(run=places), at.reshape(-1, 2).T
    scenarios = [scenario_of_run(data, run) for run in places]
    drawn = predict_latency(seen, scenarios, "run")["e2e_s"].values
    covered = is_covered(law, held)
    boot = np.full((LAW_DRAWS, len(places)), np.nan)
    boot[:, covered] = law_bootstrap(law, held.isel(run=covered), draws=LAW_DRAWS, rng=rng)
    by_law = (boot[:, first] < boot[:, second]).mean(axis=0)
    rows = {
        "model": (drawn[:, first] < drawn[:, second]).mean(axis=0),
        "law": np.where(covered[first] & covered[second], by_law, np.nan),
        "constant": known,
    }
    return pd.concat([of_fold, pd.DataFrame(rows, of_fold.index)], axis=1), str(
        whole.attrs["verdict"]
    )


def scores(found: pd.DataFrame) -> pd.DataFrame:
    """Return Brier score, log score and share of right signs of each method, over loads."""
    found = found[found[list(NAMES)].notna().all(axis=1)]
    truth = found["faster"].to_numpy(dtype=float)
    rows = []
    for name, label in NAMES.items():
        p = found[name].to_numpy(dtype=float)
        brier = pd.Series((p - truth) ** 2).groupby(found["load"].to_numpy()).mean()
        inside = np.clip(p, 1e-3, 1 - 1e-3)
        rows.append(
            {
                "method": label,
                "questions": len(found),
                "loads": len(brier),
                "Brier score": f"{((p - truth) ** 2).mean():.4f} ({brier.sem():.4f})",
                "log score": f"{np.log(np.where(truth, inside, 1 - inside)).mean():.3f}",
                "right sign": f"{100 * ((p > 0.5) == truth).mean():.0f} %",
            }
        )
    return pd.DataFrame(rows)


def reliability(found: pd.DataFrame) -> pd.DataFrame:
    """Return how often what was said came true, by what was said."""
    place = pd.cut(found["model"], [-0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0])
    by = found.groupby(place, observed=True)
    return pd.DataFrame(
        {
            "P(faster)": [f"{max(i.left, 0):g} to {i.right:g}" for i in by.groups],
            "questions": by.size().to_numpy(),
            "said": by["model"].mean().round(3).to_numpy(),
            "came true": by["faster"].mean().round(3).to_numpy(),
        }
    )


def study(name: str, options: argparse.Namespace) -> tuple[str, pd.DataFrame]:
    """Return a data set's part of the page, and its questions with the answers."""
    data = load_data(name)
    asked = questions(data)
    compiled = compile_blocks(data, default_priors(data), responses=())
    lengths = {name: getattr(options, name) for name in ("draws", "tune", "chains")}
    parts, verdicts = [], []
    for number in range(1 if options.quick else NUM_FOLDS):
        part, verdict = answers(data, asked, compiled, number, **lengths)
        parts.append(part)
        verdicts.append(f"- Fold {number}: {verdict}")
    found = pd.concat(parts, ignore_index=True)
    text = "\n\n".join(
        [
            f"## {name}",
            f"{found['faster'].mean():.1%} of {len(found)} pairs of runs were faster with drafts.",
            markdown(scores(found)),
            "The model's probabilities:",
            markdown(reliability(found)),
            "\n".join(verdicts),
        ]
    )
    return text, found


def main() -> None:
    """Ask, print the tables and write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["vllm-cpu", "vllm-cpu-moe"])
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--chains", type=int, default=4)
    options = parser.parse_args()
    if options.quick:
        options.data, options.draws, options.tune, options.chains = ["vllm-cpu-moe"], 50, 100, 2
    warnings.simplefilter("ignore")
    begun = time.perf_counter()
    studies = {name: study(name, options) for name in options.data}
    text = "\n\n".join(
        [
            "# The sign of the speedup at loads that were not seen",
            *(part for part, _ in studies.values()),
            "In brackets the standard error over loads. "
            f"{options.draws} draws after {options.tune} in each of {options.chains} chains, "
            f"{(time.perf_counter() - begun) / 60:.0f} min in all. {stamp()}",
        ]
    )
    print(text)
    if not options.quick:
        name = "speedup_sign" + ("_" + "_".join(options.data) if "atom" in options.data else "")
        figures = {name: scores(found).to_dict("records") for name, (_, found) in studies.items()}
        write_results(name, text, {"stamp": stamp(), "figures": figures})


if __name__ == "__main__":
    main()
