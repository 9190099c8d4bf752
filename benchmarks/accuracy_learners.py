"""Learners without a law: a Gaussian process, and gradient-boosted quantile regression.

Both see the same features: log load, draft length, log steps, and where they vary log lengths, log
sizes, open or closed loop. Their hyperparameters are chosen by cross-validation inside the
training runs, over sweeps where there are several.
"""

import warnings

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.accuracy_task import NUM_DRAWS, Floats, Task

LEVELS = (0.02, 0.05, 0.25, 0.5, 0.75, 0.95, 0.98)
TUNING_LEVELS = (0.05, 0.5, 0.95)
INNER_FOLDS = 3
MAX_GP_RUNS, MAX_TUNING_RUNS = 300, 120
TREES = 200
TREE_GRID = tuple(
    {"num_leaves": leaves, "min_child_samples": least, "learning_rate": rate}
    for leaves in (4, 15)
    for least in (3, 15)
    for rate in (0.05, 0.15)
)


def table(runs: pd.DataFrame, train: NDArray[np.bool_]) -> pd.DataFrame:
    """Return the features that vary among training runs, or between them and what is asked."""
    found = pd.DataFrame(
        {
            "log_load": runs["log_load"],
            "k": runs["k"],
            "log_steps": np.log(runs["steps"]),
            "log_prompt": np.log(runs["prompt"]).round(1),
            "log_answer": np.log(runs["answer"]).round(1),
            "log_verifier": np.log(runs["verifier_b"]).fillna(0.0),
            "log_drafter": np.log(runs["drafter_b"]).fillna(-5.0),
            "is_open": runs["is_open"].astype(float),
            "base": runs["base"].astype(float),
        }
    )
    varies = found[train].std() > 1e-9
    return found.loc[:, varies]


def inner_folds(runs: pd.DataFrame, rng: np.random.Generator) -> NDArray[np.int_]:
    """Return the inner fold of each training run: sweeps whole where there are enough of them."""
    key = runs["sweep"] if runs["sweep"].nunique() >= INNER_FOLDS else pd.Series(range(len(runs)))
    codes = pd.factorize(key)[0]
    return rng.permutation(codes.max() + 1)[codes] % INNER_FOLDS


def quantile_trees(task: Task) -> Floats:
    """Return draws of LightGBM quantile regressions, by the quantile function they trace."""
    from lightgbm import LGBMRegressor

    rng, runs = task.rng(), task.features
    x = table(runs, task.train)
    if x.shape[1] == 0:
        return np.full((NUM_DRAWS, len(task.asked)), np.nan)
    values, y = x.to_numpy(), np.log(task.data["mean_e2e_s"].values)
    at = np.flatnonzero(task.train)

    def model(level: float, settings: dict) -> LGBMRegressor:
        return LGBMRegressor(
            objective="quantile",
            alpha=level,
            n_estimators=TREES,
            n_jobs=1,
            verbose=-1,
            random_state=0,
            min_data_in_bin=1,
            **settings,
        )

    fold = inner_folds(runs.iloc[at], rng)

    def loss(settings: dict) -> float:
        total = 0.0
        for number in np.unique(fold):
            fit, left = at[fold != number], at[fold == number]
            if not len(fit):
                continue
            for level in TUNING_LEVELS:
                missed = y[left] - model(level, settings).fit(values[fit], y[fit]).predict(
                    values[left]
                )
                total += float(np.maximum(level * missed, (level - 1) * missed).sum())
        return total

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grid = [s for s in TREE_GRID if 2 * s["min_child_samples"] <= len(at)] or TREE_GRID[:1]
        best = min(grid, key=loss) if len(grid) > 1 else grid[0]
        asked = values[task.asked]
        quantiles = [model(q, best).fit(values[at], y[at]).predict(asked) for q in LEVELS]
    return draws_of_quantiles(np.sort(np.array(quantiles), axis=0), LEVELS)


def draws_of_quantiles(quantiles: Floats, levels: tuple[float, ...]) -> Floats:
    """Return an even sample of the quantile function through some quantiles, (draw, run).

    Straight lines between the levels, and on beyond the outer ones.
    """
    even = (np.arange(NUM_DRAWS) + 0.5) / NUM_DRAWS
    place = np.clip(np.searchsorted(levels, even) - 1, 0, len(levels) - 2)
    left, right = np.asarray(levels)[place], np.asarray(levels)[place + 1]
    share = ((even - left) / (right - left))[:, None]
    return np.asarray(quantiles[place] * (1 - share) + quantiles[place + 1] * share)


def gaussian_process(task: Task) -> Floats:
    """Draw from a Gaussian process on log latency, one for each base.

    Standardised features, a length scale for each, noise; the family of the kernel is chosen by
    inner cross-validation on log density, the rest by marginal likelihood. A base that was not
    seen is asked of one process over all of them, with size as a feature.
    """
    rng, runs = task.rng(), task.features
    draws = np.full((NUM_DRAWS, len(task.asked)), np.nan)
    y = np.log(task.data["mean_e2e_s"].values)
    asked_base = runs["base"].to_numpy()[task.asked]
    for base in np.unique(asked_base):
        own = task.train & (runs["base"] == base).to_numpy()
        is_new = not own.any()
        train = task.train if is_new else own
        x = table(runs, train).drop(columns="base", errors="ignore")
        if x.shape[1] == 0 or train.sum() < 3:
            continue
        at = np.flatnonzero(train)
        at = rng.permutation(at)[:MAX_GP_RUNS]
        center, scale = x.iloc[at].mean(), x.iloc[at].std() + 1e-9
        z = ((x - center) / scale).to_numpy()
        kernel = _best_kernel(z, y, at, runs, rng)
        mean, sd = _process(kernel, z[at], y[at], z[task.asked[asked_base == base]])
        draws[:, asked_base == base] = mean + sd * rng.standard_normal((NUM_DRAWS, len(mean)))
    return draws


def _kernels(number: int) -> dict[str, object]:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
    from sklearn.gaussian_process.kernels import WhiteKernel as Noise

    scales, bounds = np.ones(number), (0.05, 50.0)
    size = ConstantKernel(1.0, (1e-3, 1e3))
    noise = Noise(0.01, (1e-7, 1.0))
    line = ConstantKernel(0.1, (1e-4, 1e2)) * DotProduct(1.0, (1e-2, 1e2))
    smooth = {
        "squared exponential": RBF(scales, bounds),
        "Matern 5/2": Matern(scales, bounds, nu=2.5),
    }
    found: dict[str, object] = {name: size * kernel + noise for name, kernel in smooth.items()}
    return found | {f"{name} and a line": size * k + line + noise for name, k in smooth.items()}


def _process(kernel: object, x: Floats, y: Floats, asked: Floats) -> tuple[Floats, Floats]:
    from sklearn.gaussian_process import GaussianProcessRegressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a length scale at its bound: that feature says nothing
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(x, y)
        mean, sd = model.predict(asked, return_std=True)
    return mean, sd


def _best_kernel(
    z: Floats, y: Floats, at: NDArray[np.int_], runs: pd.DataFrame, rng: np.random.Generator
) -> object:
    """Return the kernel of best held-out log density among some of the training runs."""
    kernels = _kernels(z.shape[1])
    some = at[:MAX_TUNING_RUNS]
    if len(some) < 2 * INNER_FOLDS:
        return kernels["squared exponential"]
    fold = inner_folds(runs.iloc[some], rng)

    def loss(kernel: object) -> float:
        total = 0.0
        for number in np.unique(fold):
            left = some[fold == number]
            mean, sd = _process(kernel, z[some[fold != number]], y[some[fold != number]], z[left])
            total += float((0.5 * ((y[left] - mean) / sd) ** 2 + np.log(sd)).sum())
        return total

    return min(kernels.values(), key=loss)
