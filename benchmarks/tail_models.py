"""Forms of the spread of request latency, fitted by penalised maximum likelihood; see `tail_forms`.

Elasticities are those of a curve through each sweep's means, 0 where the batch is set (closed loop,
cap), as in the model.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize, nnls
from scipy.special import gammaln

from bayes_sd.datasets import load_h200_70b, load_scaling_study, load_vllm_cpu
from bayes_sd.percentile_ratios import RatioData, expected_levels, ratio_data
from bayes_sd.physics.acceptance import expected_steps_renewal
from bayes_sd.physics.request_quantiles import TAIL_MEAN, log_mean_offset, tail_shape
from bayes_sd.physics.request_spread import load_variance, request_spread, steps_variance_renewal
from benchmarks.folds import fold_of_runs

type Floats = NDArray[np.float64]

# name: (centre, spread) on the scale that is fitted: logarithms but for the skewness.
PRIORS = {
    "heterogeneity": (np.log(0.05), 1.0),
    "load_factor": (0.0, 0.3),
    "skew": (0.0, 0.1),
    "shift": (np.log(0.15), 1.0),
    "backlog_s": (np.log(0.1), 1.5),
    "misfit_sd": (np.log(0.01), 0.8),
    "excess_misfit": (np.log(0.3), 0.7),
    "dof": (np.log(3.0), 0.5),
    "top_dof": (np.log(3.0), 0.5),
}
SHARED = ("excess_misfit", "dof", "top_dof")  # by all bases of a data set
LOADS = ("none", "elasticity", "log(1 + B)", "wandering batch")
FREE = 1.5  # spread of the load factor of functions whose size no theory gives


@dataclass(frozen=True)
class Form:
    """A shape, a load function, and whether p99 has a term of its own."""

    shape: tuple[str, ...] = ()
    load: str = "wandering batch"
    top: bool = True


BOTH = ("skew", "backlog_s")
FORMS = {
    "log-normal": Form(),
    "shifted log-normal": Form(("shift",)),
    "skewed log-normal": Form(("skew",)),
    "log-normal + backlog": Form(("backlog_s",)),
    "skewed + backlog": Form(BOTH),
    "same, one Student-t for all": Form(BOTH, top=False),
    **{f"same, load: {load}": Form(BOTH, load) for load in LOADS[:3]},
}


@dataclass
class Runs:
    """What the forms need of a data set and one kind of latency; arrays over runs."""

    base: NDArray[np.int_]
    fold: NDArray[np.int_]
    names: list[str]
    data: RatioData
    whiten: Floats  # (run, level, level)
    z: Floats
    level: Floats
    steps_cv2: Floats
    decode_share: Floats
    duration_s: Floats
    load: dict[str, Floats]
    elasticity: Floats
    ratio: Floats


def load_frames() -> dict[str, pd.DataFrame]:
    """Return the data sets that hold percentiles."""
    h200 = load_h200_70b()
    frames = {
        "scaling study": load_scaling_study(),
        "vLLM on CPU": load_vllm_cpu("all"),
        "vLLM on CPU, quiet": load_vllm_cpu("all", quiet_only=True),
        "H200": h200[h200["method"] == "none"],
    }
    for name, frame in frames.items():
        keep = np.ones(len(frame), dtype=bool)
        if "is_throughput_test" in frame:
            keep &= ~frame["is_throughput_test"].to_numpy(dtype=bool)
        if "num_speculative_tokens_schedule" in frame:
            keep &= frame["num_speculative_tokens_schedule"].isna().to_numpy()
        frames[name] = frame[keep].reset_index(drop=True)
    return frames


def steps_cv2_of_runs(data: xr.Dataset) -> Floats:
    """Return Var(N) / N^2 of the steps of each run, from forced or counted acceptance."""
    drafts = data["num_speculative_tokens"].values
    emitted = np.maximum(data["output_len_tokens"].values - 1, 1)
    trials = np.maximum(data["trials_at_position"].values, 1)
    counted = data["accepted_at_position"].values / trials
    forced = data["forced_acceptance_rate"].values[:, None]
    rates = list(np.where(np.isnan(forced), counted, forced).T)
    variance = steps_variance_renewal(emitted, rates, drafts)
    steps = expected_steps_renewal(emitted, rates, drafts)
    return np.where(drafts > 0, np.maximum(variance, 0) / steps**2, 0.0)


def elasticity_of_runs(data: xr.Dataset) -> Floats:
    """Return the elasticity of a curve through each sweep's means; 0 where the batch is set."""
    batch, latency = data["effective_batch_observed"].values, data["mean_e2e_s"].values
    sweep = data["sweep_of_run"].values
    found = np.zeros(len(batch))
    bend = 8.0
    for number in np.unique(sweep):
        at = sweep == number
        b = batch[at]
        columns = np.stack([np.ones_like(b), b, b / (b + bend)], axis=-1)
        costs, _ = nnls(columns / latency[at][:, None], np.ones(len(b)))
        slope = costs[1] + costs[2] * bend / (b + bend) ** 2
        found[at] = b * slope / np.maximum(columns @ costs, 1e-12)
    return np.where(data["control"].values == "open", np.minimum(found, 1.0), 0.0)


def runs_of(data: xr.Dataset, kind: str) -> Runs:
    """Return the ratios of one kind of latency, whitened, and what explains them."""
    mean, quantile = data[f"mean_{kind}_s"].values, data[f"{kind}_quantile_s"].values
    n, levels = data["num_requests"].values, list(data["quantile"].values)
    found = ratio_data(quantile, mean, n, levels)
    at = expected_levels(levels, n)
    units = np.where(np.isnan(quantile)[None], np.nan, np.exp(np.eye(len(levels)))[:, None])
    whiten = np.stack([ratio_data(u, np.ones(len(n)), n, levels).columns[0] for u in units], -1)
    elasticity = elasticity_of_runs(data)
    batch = data["effective_batch_observed"].values
    prefill = data["mean_ttft_s"].values / data["mean_e2e_s"].values
    later = data["output_len_tokens"].values - 1
    noisy = np.isin(data["arrivals"].values, ("poisson", "bursty"))
    return Runs(
        base=data["base_of_run"].values,
        fold=fold_of_runs(data),
        names=[str(b).rsplit("/", 1)[-1] for b in data["base"].values],
        data=found,
        whiten=whiten,
        z=stats.norm.ppf(at),
        level=at,
        steps_cv2=steps_cv2_of_runs(data),
        decode_share={"e2e": 1 - prefill, "tpot": np.ones_like(mean)}.get(kind, 0 * mean),
        duration_s=mean * (later if kind == "tpot" else 1),
        load={
            "none": np.zeros_like(mean),
            "elasticity": (0.1 * elasticity) ** 2,
            "log(1 + B)": (0.02 * np.log1p(batch)) ** 2,
            "wandering batch": load_variance(1 - elasticity, batch, noisy.astype(float)),
        },
        elasticity=elasticity,
        ratio=np.log(quantile / mean[:, None]),
    )


def predict(form: Form, runs: Runs, p: dict[str, Floats]) -> tuple[Floats, Floats, Floats]:
    """Return expected ratios (run, level), and the squared scales of bulk and top (run,)."""
    spread = request_spread(
        steps_cv2=runs.steps_cv2,
        decode_share=runs.decode_share,
        heterogeneity=np.exp(p["heterogeneity"]),
        load_factor=np.exp(p["load_factor"]),
        load_cv2=runs.load[form.load],
    )
    s = spread[:, None]
    if "shift" in form.shape:
        xi = np.exp(p["shift"])[:, None]
        expected = np.log(np.maximum(1 + s / xi * (np.exp(xi * runs.z - xi**2 / 2) - 1), 1e-3))
    else:
        skew = p["skew"][:, None] if "skew" in form.shape else 0 * s
        expected = s * (runs.z + skew * (runs.z**2 - 1)) - log_mean_offset(s, skew)
    excess = 0 * spread
    if "backlog_s" in form.shape:
        excess = np.exp(p["backlog_s"]) * runs.elasticity / runs.duration_s
        expected = expected + excess[:, None] * (tail_shape(runs.level) - TAIL_MEAN)
    bulk = spread**2 / runs.data.num_requests + np.exp(2 * p["misfit_sd"])
    return expected, bulk, bulk + (np.exp(p["excess_misfit"]) * excess) ** 2


def student(squared: Floats, variance: Floats, size: Floats, dof: Floats) -> Floats:
    """Return the log density of a multivariate Student-t, up to the whitening's determinant."""
    constant = gammaln((dof + size) / 2) - gammaln(dof / 2) - size / 2 * np.log(np.pi * dof)
    spread = size / 2 * np.log(variance)
    return constant - spread - (dof + size) / 2 * np.log1p(squared / (dof * variance))


def log_density(form: Form, runs: Runs, p: dict[str, Floats]) -> Floats:
    """Return the log density of each run's ratios, (run,)."""
    expected, bulk, top = predict(form, runs, p)
    residual = runs.data.columns[0] - np.einsum("rij,rj->ri", runs.whiten, expected)
    dof, top_dof = np.exp(p["dof"]), np.exp(p["top_dof"])
    k, has_top, squared = runs.data.num_bulk, runs.data.has_top, residual**2
    if not form.top:
        return student(squared.sum(axis=1), bulk, k + has_top, dof) - runs.data.log_det
    found = student(squared[:, :-1].sum(axis=1), bulk, k, dof)
    return (
        found
        + has_top * student(squared[:, -1], top, np.ones_like(k), top_dof)
        - (runs.data.log_det)
    )


def fit_form(form: Form, runs: Runs, train: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return the parameters of each run on the fitted scale, (run,), by maximum likelihood."""
    names = ["heterogeneity", "misfit_sd", "dof", *form.shape]
    names += ["load_factor"] if runs.load[form.load].any() else []
    names += ["top_dof"] if form.top else []
    names += ["excess_misfit"] if form.top and "backlog_s" in form.shape else []
    sizes = {n: 1 if n in SHARED else len(runs.names) for n in names}
    start = np.concatenate([np.full(sizes[n], PRIORS[n][0]) for n in names])
    spreads = {n: c[1] for n, c in PRIORS.items()}
    if form.load != "wandering batch":
        spreads["load_factor"] = FREE
    width = np.concatenate([np.full(sizes[n], spreads[n]) for n in names])

    def unpack(v: Floats) -> dict[str, Floats]:
        found = {n: np.full(len(runs.base), c) for n, (c, _) in PRIORS.items()}
        place = 0
        for n in names:
            part = v[place : place + sizes[n]]
            found[n] = part[runs.base] if sizes[n] > 1 else np.full(len(runs.base), part[0])
            place += sizes[n]
        return found

    def loss(v: Floats) -> float:
        fitted = log_density(form, runs, unpack(v))[train].sum()
        return float(-fitted + 0.5 * (((v - start) / width) ** 2).sum())

    found = minimize(loss, start, method="L-BFGS-B", options={"maxfun": 100_000})
    return unpack(found.x)
