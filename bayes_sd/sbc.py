"""Simulation-based calibration: a fit gets back what was put in, as often as it says.

Parameters are drawn from the prior, data from the parameters, and the model is fitted to them.
Truth and posterior draws then come from one joint distribution, and the rank of the truth among
the draws is uniform, for every parameter and every function of parameters and data [1]_, [2]_.

References
----------
.. [1] Talts et al. (2018). Validating Bayesian inference algorithms with simulation-based
   calibration. arXiv:1804.06788.
.. [2] Modrák et al. (2023). Simulation-based calibration checking for Bayesian computation: the
   choice of test quantities shapes sensitivity. Bayesian Analysis. For the log likelihood.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from rich.progress import track

from bayes_sd.data import to_dataset
from bayes_sd.generate import design_of, with_responses
from bayes_sd.model import build_model
from bayes_sd.prior_simulation import check_replaceable, simulate_from_prior
from bayes_sd.priors import Prior, check_priors, default_priors
from bayes_sd.sampling import CompiledModel, compile_model, sample
from bayes_sd.sbc_mistakes import WRONG, Mistake
from bayes_sd.sbc_quantities import Quantity, default_quantities, parameter_draws, with_fixed
from bayes_sd.start import starting_point
from bayes_sd.uniformity import rank_of_first
from bayes_sd.validate import one_of, whole_number

MAX_REPEATS = 3


def run_sbc(
    design: Any,
    priors: dict[str, Prior] | None = None,
    *,
    num_simulations: int = 200,
    num_ranks: int = 99,
    draws: int = 200,
    tune: int = 300,
    chains: int = 2,
    quantities: Mapping[str, Quantity] | None = None,
    wrong: str | None = None,
    random_seed: int = 0,
    progressbar: bool = True,
) -> xr.Dataset:
    """Rank the truth among posterior draws, for data made from the prior again and again.

    The model is compiled once; each simulation changes its data only. Draws of the prior whose
    open loops are past capacity at the design's rates give no data: they are drawn again, and
    counted. They should be rare, for what is kept is then not quite the prior.

    Parameters
    ----------
    design : xarray.Dataset or pandas.DataFrame
        Result of `to_dataset`, or a table that it takes: runs, loads and numbers of requests.
        Its latencies and accepted drafts are replaced; the model's coordinates are chosen by
        them, so the accepted drafts should be typical ones.
    priors : dict of str to Prior, optional
        Of truth and fit alike; by default `default_priors(design)`, which is far too wide for
        open loops at given rates.
    num_simulations : int
        How many data sets.
    num_ranks : int
        Draws that each truth is ranked among, L.
    draws, tune, chains : int
        As in `fit`. Where the effective sample size of a quantity is below ``num_ranks``, the
        fit is repeated with twice the draws, up to three times.
    quantities : mapping of str to callable, optional
        Functions of a fit and a seed that return one number per draw, ranked besides the
        parameters; by default `default_quantities(design)`.
    wrong : str, optional
        A key of ``WRONG``: a deliberate mistake, which the ranks must show.
    random_seed : int
        Seed of everything.
    progressbar : bool
        Whether to show progress.

    Returns
    -------
    xarray.Dataset
        Dims (simulation, quantity): ``rank``, draws below the truth, 0 to ``num_ranks``;
        ``truth``; ``ess``, bulk effective sample size. Dim simulation: ``divergences``,
        ``max_r_hat``, ``num_draws``. Attributes: ``num_ranks``, ``num_rejected`` draws of the prior
        among ``num_drawn``, ``wrong``, ``compile_s``, ``seconds_per_simulation``.

    Raises
    ------
    ArgumentError
        If a number is out of range, the mistake is unknown, or a response cannot be replaced.
    DataError
        If more than half of the prior's draws give no data.

    Warns
    -----
    AssumptionWarning
        If more than 2 % of the prior's draws gave no data.

    Examples
    --------
    >>> result = run_sbc(design, priors, num_simulations=20)  # doctest: +SKIP
    >>> calibration_verdict(result).passed  # doctest: +SKIP
    True
    """
    for name, value in (
        ("num_simulations", num_simulations),
        ("num_ranks", num_ranks),
        ("tune", tune),
    ):
        whole_number(value, name)
    whole_number(chains, "chains", minimum=2)
    whole_number(draws, "draws", minimum=-(-(num_ranks + 1) // chains))
    whole_number(random_seed, "random_seed", minimum=0)
    mistake = WRONG[one_of(wrong, tuple(WRONG), "wrong")] if wrong is not None else Mistake()
    data = design_of(design if isinstance(design, xr.Dataset) else to_dataset(design))
    priors = check_priors(default_priors(data) if priors is None else priors)
    chosen = default_quantities(data) if quantities is None else quantities
    model = build_model(data, priors, replaceable=True)
    check_replaceable(model)
    truths, generated, num_drawn = simulate_from_prior(
        data, model, num_simulations, np.random.default_rng(random_seed), mistake=mistake
    )
    begun = time.perf_counter()
    first = with_responses(data, generated.isel(sample=0))
    compiled = compile_model(mistake.change(model), starting_point(first, priors))
    ready = time.perf_counter()
    rows = []
    each = each_data_set(compiled, data, generated, priors)
    progress = track(each, "calibration", num_simulations, disable=not progressbar)
    for i, (simulated, changed) in enumerate(progress):
        rows.append(
            _rank_one(
                changed,
                simulated,
                truths.isel(sample=[i]),
                chosen,
                mistake=mistake,
                num_ranks=num_ranks,
                settings={"draws": draws, "tune": tune, "chains": chains},
                seed=random_seed + 1 + i,
            )
        )
    result = xr.concat(rows, dim="simulation")
    return result.assign_attrs(
        num_ranks=num_ranks,
        num_rejected=num_drawn - num_simulations,
        num_drawn=num_drawn,
        wrong=wrong or "",
        compile_s=round(ready - begun, 1),
        seconds_per_simulation=round((time.perf_counter() - ready) / num_simulations, 2),
    )


def each_data_set(
    compiled: CompiledModel, design: xr.Dataset, generated: xr.Dataset, priors: dict[str, Prior]
) -> Iterator[tuple[xr.Dataset, CompiledModel]]:
    """Yield each generated data set, and the compiled model with its responses in place.

    Parameters
    ----------
    compiled : CompiledModel
        Result of `compile_model`, of ``build_model(design, priors, replaceable=True)``.
    design : xarray.Dataset
        Result of `to_dataset`.
    generated : xarray.Dataset
        Result of `generate_latency`, dim ``sample``.
    priors : dict of str to Prior
        Table of priors.

    Yields
    ------
    data : xarray.Dataset
        The design with the responses of one sample.
    compiled : CompiledModel
        The same compilation, to `sample` from.
    """
    for i in range(generated.sizes["sample"]):
        simulated = with_responses(design, generated.isel(sample=i))
        changed = compiled.compiled.with_data(**data_of_model(simulated, priors))
        yield simulated, replace(compiled, compiled=changed)


def data_of_model(data: xr.Dataset, priors: dict[str, Prior]) -> dict[str, np.ndarray]:
    """Return the values of a model's data variables by name, without compiling anything.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.
    priors : dict of str to Prior
        Table of priors.
    """
    return {v.name: v.get_value() for v in build_model(data, priors, replaceable=True).data_vars}


def _rank_one(
    compiled: CompiledModel,
    data: xr.Dataset,
    truth: xr.Dataset,
    quantities: Mapping[str, Quantity],
    *,
    mistake: Mistake,
    num_ranks: int,
    settings: dict[str, int],
    seed: int,
) -> xr.Dataset:
    """Fit one data set, with more draws until they are worth ``num_ranks``; rank the truth."""
    for repeat in range(MAX_REPEATS + 1):
        tree = sample(
            compiled,
            score_weight=np.full(data.sizes["run"], mistake.score_weight),
            random_seed=seed,
            progressbar=False,
            **settings | {"draws": settings["draws"] * 2**repeat},
        )
        posterior = with_fixed(tree["posterior"].to_dataset(), truth, mistake.fixed)
        values = parameter_draws(posterior, truth, data, quantities, seed)
        r_hat, ess = convergence_of(values.values[1:], settings["chains"])
        if np.nanmin(ess) >= num_ranks:
            break
    total = len(values) - 1
    kept = 1 + np.linspace(0, total - 1, num_ranks).round().astype(int)
    ranks = rank_of_first(values.values[[0, *kept]], np.random.default_rng(seed))
    stats = tree["sample_stats"].to_dataset()
    return xr.Dataset(
        {
            "rank": ("quantity", ranks),
            "truth": ("quantity", values.values[0]),
            "ess": ("quantity", ess),
            "divergences": int(stats["diverging"].sum()),
            "max_r_hat": float(np.nanmax(r_hat)),
            "num_draws": total,
        },
        coords={"quantity": values["quantity"].values},
    )


def convergence_of(draws: np.ndarray, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Return R-hat and bulk ESS of each column; NaN for those that never move."""
    moving = (draws != draws[0]).any(axis=0)
    # Both hang on the order alone: an infinite value may be any that is above the others.
    finite = np.where(np.isinf(draws), np.nan, draws)
    draws = np.where(np.isinf(draws), np.nanmax(finite, axis=0, initial=0) + 1, draws)
    shape = (chains, -1, moving.sum())
    table = xr.Dataset({"x": (("chain", "draw", "quantity"), draws[:, moving].reshape(shape))})
    figures = np.full((2, len(moving)), np.nan)
    figures[:, moving] = az.rhat(table)["x"].values, az.ess(table, method="bulk")["x"].values
    return figures[0], figures[1]
