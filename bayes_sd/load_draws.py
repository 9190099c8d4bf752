"""Draws of one configuration at several loads, as plain arrays."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.configuration import resolve_all
from bayes_sd.configuration_draws import draw_configuration
from bayes_sd.scenario import Scenario

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LoadDraws:
    """Draws of one configuration at several loads.

    Attributes
    ----------
    label : str
        The pair, or the base.
    batch : array[load, draw]
        Requests in the system; infinite past capacity.
    e2e_s : array[load, draw]
        Mean latency, s; infinite past capacity.
    status, outside : tuple of str
        As in `predict_latency`, per load.
    """

    label: str
    batch: Floats
    e2e_s: Floats
    status: tuple[str, ...]
    outside: tuple[str, ...]


def predict_over_loads(
    tree: xr.DataTree,
    arms: Sequence[Scenario],
    loads: Sequence[float],
    *,
    random_seed: int = 0,
) -> list[LoadDraws]:
    """Draw the mean latency of several configurations at the same loads.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    arms : sequence of Scenario
        Configurations; of their loads only the kind counts, open or closed loop.
    loads : sequence of float
        Requests per second, or in flight.
    random_seed : int
        As in `predict_latency`, whose errors it raises.

    Returns
    -------
    list of LoadDraws
        One per configuration.

    Examples
    --------
    >>> predict_over_loads(tree, [scenario], [1.0, 2.0])[0].e2e_s.shape  # doctest: +SKIP
    (2, 4000)
    """
    drawn = []
    for found in resolve_all(tree, arms, random_seed=random_seed):
        each = draw_configuration(tree, found, loads, "mean", random_seed, first_token=False)
        drawn.append(LoadDraws(found.cell.label, each.batch, each.e2e_s, each.status, each.outside))
    return drawn
