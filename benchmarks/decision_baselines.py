"""How draft lengths are chosen without a posterior: rules that the decision has to beat.

Each sees the same runs as the fit, and names a draft length for each load that is asked about.
"""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.optimize import nnls

from bayes_sd.baselines import fit_law, law_demands
from bayes_sd.measured_acceptance import tokens_per_step
from bayes_sd.physics.linear_law import closed_form_latency

type Floats = NDArray[np.float64]
type Rule = Callable[[xr.Dataset, Sequence[float]], list[int]]


def fastest_alone(data: xr.Dataset, rates: Sequence[float]) -> list[int]:
    """Choose, at every rate, the draft length that was fastest with one request in flight."""
    alone = (data["control"].values == "closed") & (data["concurrency"].values == 1)
    drafts = data["num_speculative_tokens"].values[alone]
    fastest = drafts[np.argmin(data["mean_e2e_s"].values[alone])]
    return [int(fastest)] * len(rates)


def most_tokens_per_step(data: xr.Dataset, rates: Sequence[float]) -> list[int]:
    """Choose the draft length of the largest mean acceptance length: latency divided by it."""
    lengths, tokens = by_draft_length(data, tokens_per_step(data))
    return [int(lengths[np.argmax(tokens)])] * len(rates)


def least_squares_law(data: xr.Dataset, rates: Sequence[float]) -> list[int]:
    """Choose the draft length of the lowest latency by the published law, C1 / (1 - rate C2).

    Where the law has every draft length past capacity: the one of the largest capacity, 1 / C2.
    """
    c1, c2 = law_demands(fit_law(data), data)
    lengths, fixed = by_draft_length(data, c1)
    _, per_request = by_draft_length(data, c2)
    chosen = []
    for rate in rates:
        latency = np.asarray(closed_form_latency(fixed, per_request, rate))
        best = np.argmin(latency if np.isfinite(latency).any() else per_request)
        chosen.append(int(lengths[best]))
    return chosen


def goodput(data: xr.Dataset, rates: Sequence[float]) -> list[int]:
    """Choose the draft length of most accepted tokens per second at the observed batch.

    Tokens per step over the time of a step, a + k b + B (c + k d), by non-negative least squares
    on relative errors of latency over steps. The batch is rate x latency, with the mean latency
    over draft lengths that was measured at the nearest rate.
    """
    per_run = tokens_per_step(data)
    steps = data["output_len_tokens"].values / per_run
    drafts = data["num_speculative_tokens"].values
    features = _of_step(drafts, data["effective_batch_observed"].values)
    relative = features / (data["mean_e2e_s"].values / steps)[:, None]
    size = np.linalg.norm(relative, axis=0)
    found = nnls(relative / size, np.ones(len(steps)))[0] / size
    lengths, tokens = by_draft_length(data, per_run)
    chosen = []
    for rate in rates:
        batch = rate * measured_latency(data, rate)
        step_time = _of_step(lengths, np.full(len(lengths), batch)) @ found
        chosen.append(int(lengths[np.argmax(tokens / step_time)]))
    return chosen


def _of_step(drafts: NDArray[np.int_], batch: Floats) -> Floats:
    return np.stack([np.ones(len(drafts)), drafts, batch, batch * drafts], axis=-1)


def measured_latency(data: xr.Dataset, rate: float) -> float:
    """Return the mean latency of the open loops whose rate is nearest, by ratio, s."""
    is_open = data["control"].values == "open"
    rates = data["request_rate_rps"].values[is_open]
    far = abs(np.log(rates / rate))
    return float(data["mean_e2e_s"].values[is_open][far == far.min()].mean())


def by_draft_length(data: xr.Dataset, values: Floats) -> tuple[NDArray[np.int_], Floats]:
    """Return the draft lengths, rising, and the mean of a figure over the runs of each."""
    drafts = data["num_speculative_tokens"].values
    lengths = np.unique(drafts)
    return lengths, np.array([values[drafts == k].mean() for k in lengths])


RULES: dict[str, Rule] = {
    "fastest with one request in flight": fastest_alone,
    "most tokens per step": most_tokens_per_step,
    "least-squares law": least_squares_law,
    "goodput, point estimates": goodput,
}
