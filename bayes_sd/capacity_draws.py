"""Draws of a configuration's capacity: the rate above which requests pile up without end."""

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.configuration import Configuration, misfit_of
from bayes_sd.physics.effective_batch import capacity_rps
from bayes_sd.support import support

Floats = npt.NDArray[np.float64]


def capacity_draws_rps(tree: xr.DataTree, found: Configuration, random_seed: int = 0) -> Floats:
    """Return draws of the rate above which requests pile up: the largest B / L(B), 1/s, (draw,).

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    found : Configuration
        An open loop looked up in it.
    random_seed : int
        Seed of the misfit, which divides the rate.

    Returns
    -------
    array, (draw,)
        Requests per second.
    """
    cap = np.full(found.cell.discrepancy_sd.shape, float(found.scenario.max_num_seqs))
    central, batch = capacity_rps(found.latency, cap)
    lies = support(
        tree,
        found.scenario,
        base=found.cell.base,
        pair=found.cell.pair,
        batch=float(np.median(batch)),
        lengths=(found.input_len, found.output_len),
    )
    return np.asarray(central / misfit_of(found, lies.doublings, random_seed, batch))
