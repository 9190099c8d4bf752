"""Which terms a step needs: forms of the step time compared by least squares, without sampling.

    python benchmarks/step_forms.py

Each form is linear in its costs once the knee's place is given, and is fitted by non-negative
least squares on relative errors at the measured batch, verifier by verifier, in four folds over
the sweeps. The place is the one of ``KNEES`` of least error on the training runs. Held-out runs
are predicted from their rate alone, by B = rate x L(B).
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import nnls

from bayes_sd.acceptance_graph import steps_of_runs
from bayes_sd.physics.arrivals import met_by_arrivals
from bayes_sd.physics.effective_batch import solve_effective_batch
from bayes_sd.physics.step_time import knee_time
from benchmarks.folds import (
    NUM_FOLDS,
    cap_of_runs,
    fold_of_runs,
    load_data,
    markdown,
    short_name,
    stamp,
    two_highest,
    write_results,
)
from benchmarks.scores import absolute_percentage_error

type Floats = NDArray[np.float64]

KNEES = tuple(float(round(place)) for place in np.geomspace(20, 400, 17))
KNEE_WIDTH = 0.3  # of its place
JUMPS = (64, 128, 256, 512)  # tokens per step at which an engine may change kernels or graphs
JUMP_WIDTH = 0.06


@dataclass(frozen=True)
class Form:
    """A form of the step time: which terms it has beyond the linear ones."""

    knee: bool = False
    mixed: bool = False
    jumps: tuple[int, ...] = ()


FORMS = {
    "linear": Form(),
    "knee": Form(knee=True),
    "mixed": Form(mixed=True),
    "knee + mixed": Form(knee=True, mixed=True),
    "knee + mixed + jumps": Form(knee=True, mixed=True, jumps=JUMPS),
}
QUESTIONS = {
    "all": "All loads seen",
    "highest": "All loads seen, error on the two highest of each sweep",
    "highest_unseen": "The two highest loads of every sweep unseen, error on them",
}


@dataclass(frozen=True)
class Runs:
    """What a form needs to know of runs; arrays over runs."""

    is_closed: NDArray[np.bool_]
    rate_rps: Floats
    batch: Floats
    latency_s: Floats
    drafts: Floats
    steps: Floats
    cap: Floats

    def at(self, mask: NDArray[np.bool_]) -> "Runs":
        """Return some of the runs."""
        return Runs(**{name: values[mask] for name, values in vars(self).items()})


def runs_of(data: xr.Dataset) -> Runs:
    """Return the columns of a data set whose open loops have evenly spaced arrivals."""
    is_closed = data["control"].values == "closed"
    return Runs(
        is_closed=is_closed,
        rate_rps=np.nan_to_num(data["request_rate_rps"].values),
        batch=data["effective_batch_observed"].values,
        latency_s=data["mean_e2e_s"].values,
        drafts=data["num_speculative_tokens"].values.astype(float),
        steps=steps_of_runs(data),
        cap=cap_of_runs(data),
    )


def features(form: Form, runs: Runs, batch: Floats, knee: float) -> Floats:
    """Return what each cost of a form is multiplied with, (run, cost)."""
    (open_step, open_others), (closed_step, closed_others) = (
        met_by_arrivals(batch, arrivals) for arrivals in ("constant", "closed")
    )
    requests = np.where(runs.is_closed, closed_step, open_step)
    others = np.where(runs.is_closed, closed_others, open_others)
    steps, drafts = runs.steps, runs.drafts
    tokens = requests * (drafts + 1)
    columns = [
        np.ones_like(steps),
        others,
        steps,
        steps * drafts,
        steps * requests,
        steps * requests * drafts,
    ]
    if form.knee:
        columns.append(steps * knee_time(tokens, 1.0, knee, KNEE_WIDTH * knee))
    if form.mixed:
        columns.append(steps * (1 - np.exp(-others / steps)))
    for place in form.jumps:
        excess = np.clip((tokens - place) / (JUMP_WIDTH * place), -50, 50)
        columns.append(steps / (1 + np.exp(-excess)))
    return np.stack(columns, axis=-1)


def fit_form(form: Form, runs: Runs) -> tuple[Floats, float]:
    """Return the costs, and the place of the knee (NaN if the form has none)."""
    best, costs, place = np.inf, np.zeros(0), np.nan
    for knee in KNEES if form.knee else (np.nan,):
        relative = features(form, runs, runs.batch, knee) / runs.latency_s[:, None]
        size = np.linalg.norm(relative, axis=0)
        size = np.where(size > 0, size, 1.0)
        found, error = nnls(relative / size, np.ones(len(relative)))
        if error < best:
            best, costs, place = error, found / size, knee
    return costs, place


def predict(form: Form, runs: Runs, costs: Floats, knee: float) -> Floats:
    """Return latency from the control alone; at the cap where the rate is past capacity."""

    def latency(batch: Floats) -> Floats:
        return features(form, runs, batch, knee) @ costs

    rate = np.where(runs.is_closed, 1e-3, runs.rate_rps)
    batch = solve_effective_batch(rate, latency, runs.cap)
    batch = np.where(np.isfinite(batch), batch, runs.cap)
    solved = latency(np.where(runs.is_closed, runs.batch, batch))
    return np.where(runs.is_closed, solved, np.minimum(solved, runs.cap / rate))


def judge(form: Form, runs: Runs, fold: NDArray[np.int_], highest: NDArray[np.bool_]) -> dict:
    """Return the median error of held-out runs, %, by question, and the knees found."""
    errors: dict[str, list[Floats]] = {name: [] for name in QUESTIONS}
    knees = []
    for number in range(NUM_FOLDS):
        out = fold == number
        for unseen in (False, True):
            costs, knee = fit_form(form, runs.at(~out & ~(highest & unseen)))
            tested = out & highest if unseen else out
            held = runs.at(tested)
            error = absolute_percentage_error(predict(form, held, costs, knee), held.latency_s)
            knees.append(knee)
            if unseen:
                errors["highest_unseen"].append(error)
            else:
                errors["all"].append(error)
                errors["highest"].append(error[highest[out]])
    medians = {name: float(np.median(np.concatenate(e))) for name, e in errors.items()}
    return medians | {"knees": [k for k in knees if np.isfinite(k)]}


def by_verifier(data: xr.Dataset) -> dict[str, dict[str, dict]]:
    """Judge every form on every verifier: form -> verifier -> figures."""
    runs, fold, highest = runs_of(data), fold_of_runs(data), two_highest(data)
    uncapped = data["control"].values != "cap"
    found: dict[str, dict[str, dict]] = {}
    for name, form in FORMS.items():
        found[name] = {}
        for number, base in enumerate(data["base"].values):
            at = uncapped & (data["base_of_run"].values == number)
            found[name][short_name(base)] = judge(form, runs.at(at), fold[at], highest[at])
    return found


def main() -> None:
    """Print the tables and write them to ``results/step_forms``."""
    found = by_verifier(load_data("scaling-study"))
    verifiers = next(iter(found.values()))
    parts = ["# Forms of the step time on held-out sweeps", ""]
    parts += ["Median absolute percentage error of the mean latency, from the rate alone.", ""]
    for question, title in QUESTIONS.items():
        rows = [
            {"verifier": v} | {form: f"{found[form][v][question]:.2f}" for form in found}
            for v in verifiers
        ]
        parts += [f"{title}:", "", markdown(pd.DataFrame(rows)), ""]
    lines = []
    for verifier in verifiers:
        knees = found["knee + mixed"][verifier]["knees"]
        lines.append(f"{verifier} {min(knees):.0f} to {max(knees):.0f}")
    parts += [f"Knees chosen with the mixed term, tokens per step: {'; '.join(lines)}.", ""]
    text = "\n".join([*parts, stamp()])
    print(text)
    write_results("step_forms", text, {"stamp": stamp(), "forms": found})


if __name__ == "__main__":
    main()
