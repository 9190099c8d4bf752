"""A fit thinned and packed for queries: `thin_for_queries`.

What predictions, decisions, reports and drift read of a fit is a small part of it. That part, of
draws spread evenly over all chains, answers the same questions within Monte Carlo error, from a
file of a few megabytes. What the whole fit said of its convergence goes with it.
"""

import json
import zlib

import numpy as np
import xarray as xr

from bayes_sd.convergence import PACKED, diagnose
from bayes_sd.exceptions import ArgumentError
from bayes_sd.posterior import (
    BASE_FIELDS,
    OPTIONAL_FIELDS,
    PAIR_FIELDS,
    SPREAD_FIELDS,
    SPREAD_SCALARS,
    TTFT_FIELDS,
)
from bayes_sd.spread_priors import PREFIX
from bayes_sd.storage import PACKED_DRAWS
from bayes_sd.validate import positive, whole_number

DRAWS = 1000
FEWEST_DRAWS = 100
SIZE_MB = 5.0
MAX_ROUNDING = 1e-6  # relative; float32 rounds to 6e-8 within its range
BYTES = 4
BYTES_PER_LABEL = 40  # what HDF5 adds to a text
BYTES_PER_VARIABLE = 2000  # what HDF5 adds to a variable: names, dims, attributes, index

ERRORS = ("boot_sd", "discrepancy_sd", "load_discrepancy_sd", "request_cv")
ACCEPTANCE = (
    "conditional_acceptance_rate",
    "acceptance_request_sd",
    "acceptance_run_sd",
    "acceptance_logit",
    "acceptance_group_sd",
    "acceptance_decay",
    "acceptance_decay_sd",
    "acceptance_drafter_sd",
    "acceptance_drafter_effect",
    "acceptance_workload_sd",
    "acceptance_workload_effect",
    "acceptance_sampling_sd",
    "acceptance_sampling_effect",
)
POPULATION = tuple(
    name.format(kind)
    for kind in ("verifier", "drafter")
    for name in ("log_{}_level", "{}_size_exponent", "{}_group_sd")
)
# Of the runs, only what no query reads is left out: they are few beside the draws.
UNREAD_OF_RUNS = (
    "e2e_quantile_s",
    "ttft_quantile_s",
    "tpot_quantile_s",
    "itl_quantile_s",
    "mean_ttft_s",
    "mean_tpot_s",
    "completed_rate_rps",
    "mean_in_system_requests",
    "other_load_cores",
    "num_drafts",
    "num_accepted_tokens",
    "is_speculation_loaded",
    "source_id",
)


def thin_for_queries(
    tree: xr.DataTree, *, draws: int | None = None, size_mb: float = SIZE_MB
) -> xr.DataTree:
    """Return a fit with fewer draws and only what queries read, to be saved as a small file.

    Draws are taken at even distances along every chain, so that all chains and all of each
    chain are heard. Values are rounded to 32-bit floats, which `bayes_sd.save` writes.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`, of `update_acceptance`, or of this function.
    draws : int, optional
        Draws kept over all chains, rounded down to as many of each chain. By default 1000, or
        fewer where the fit has fewer or the file would be larger than ``size_mb``.
    size_mb : float
        Size that the file may have by default, 1e6 bytes.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``constant_data``. Attributes are those of the fit, and
        ``packed_draws`` and ``packed_of_draws``: draws kept, and draws that the fit had.
        `diagnose` returns the verdict on all draws of the fit, not on those kept.

    Raises
    ------
    ArgumentError
        If the tree is no fit, has fewer draws than asked for, or not even 100 draws fit in
        ``size_mb``.

    Notes
    -----
    A probability p has a standard error of sqrt(p (1 - p) / n) from n draws: at most 0.016 from
    1000. What reads all runs or all parameters (`prior_sensitivity`, residual checks, ArviZ's
    `loo`) needs the whole fit: keep its file.

    Examples
    --------
    >>> import bayes_sd as bs
    >>> tree = bs.load("fit.nc")  # doctest: +SKIP
    >>> bs.save(thin_for_queries(tree), "small.nc")  # doctest: +SKIP
    """
    if "posterior" not in tree.children or "constant_data" not in tree.children:
        raise ArgumentError("tree must be the result of fit, with posterior and constant_data.")
    positive(size_mb, "size_mb")
    posterior = tree["posterior"].to_dataset()
    posterior = posterior[[str(n) for n in posterior.data_vars if str(n) in queried()]]
    runs = tree["constant_data"].to_dataset().drop_vars(UNREAD_OF_RUNS, errors="ignore")
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    if draws is None:
        draws = _fitting_draws(posterior, runs, size_mb)
    whole_number(draws, "draws", minimum=chains)
    if draws > chains * length:
        raise ArgumentError(
            f"draws must be at most {chains * length}, those that the fit has. Got {draws} instead."
        )
    each = draws // chains
    kept = ((np.arange(each) + 0.5) * length / each).astype(int)
    thinned = posterior.isel(draw=kept)
    attrs = dict(tree.attrs) | {
        PACKED: json.dumps(diagnose(tree, warn=False).to_dict()),
        PACKED_DRAWS: each * chains,
        "packed_of_draws": int(tree.attrs.get("packed_of_draws", chains * length)),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": thinned.map(_rounded, keep_attrs=True),
            "constant_data": runs,
            "/": xr.Dataset(attrs=attrs),
        }
    )


def queried() -> frozenset[str]:
    """Return the names of the posterior's variables that queries read.

    Examples
    --------
    >>> "verify_fixed_s" in queried(), "log_boot" in queried()
    (True, False)
    """
    spread = [p + name for p in PREFIX.values() for name in (*SPREAD_FIELDS, *SPREAD_SCALARS)]
    costs = (*BASE_FIELDS, *OPTIONAL_FIELDS, *PAIR_FIELDS, *TTFT_FIELDS)
    return frozenset((*costs, *ERRORS, "extrapolation_sd", *ACCEPTANCE, *POPULATION, *spread))


def _fitting_draws(posterior: xr.Dataset, runs: xr.Dataset, size_mb: float) -> int:
    """Return how many draws to keep by default, as whole chains' shares."""
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    numbers = sum(v.size for v in posterior.data_vars.values()) / (chains * length)
    of_runs = sum(
        v.size * BYTES_PER_LABEL + v.nbytes / BYTES
        if v.dtype.kind == "U"
        else len(zlib.compress(v.values.tobytes(), 1))
        for v in (*runs.variables.values(), *posterior.coords.values())
    )
    of_runs += BYTES_PER_VARIABLE * (len(posterior.variables) + len(runs.variables))
    fitting = int((1e6 * size_mb - of_runs) / (BYTES * numbers))
    if fitting < min(FEWEST_DRAWS, chains * length):
        raise ArgumentError(
            f"size_mb must hold {FEWEST_DRAWS} draws, {1e-6 * of_runs:.2f} MB of runs and "
            f"{4e-6 * numbers * FEWEST_DRAWS:.2f} MB of draws. Got {size_mb:g} instead: allow "
            "more, or say how many draws to keep."
        )
    return min(DRAWS, chains * length, fitting) // chains * chains


def _rounded(values: xr.DataArray) -> xr.DataArray:
    """Round to what 32 bits hold; leave whole what they cannot hold."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype("float32").astype(float)
    error = abs(rounded - values).fillna(0.0)
    return values if bool((error > MAX_ROUNDING * abs(values)).any()) else rounded
