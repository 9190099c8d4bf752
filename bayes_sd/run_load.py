"""What the requests of each run met, given the batch that it had."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from bayes_sd.physics.arrivals import met_by_arrivals, met_slopes, met_variance

# What the law asks of a run besides its load, costs and steps.
REQUEST = (
    "num_speculative_tokens",
    "num_draft_steps",
    "num_verified_tokens",
    "input_len_tokens",
    "output_len_tokens",
)
# The heavy tails of a fit to few runs reach factors that are no numbers; none is above 5e8.
MAX_LOG_ERROR = 20.0
TTFT_TAIL_DOF = 4.0  # a few runs queue, and the law of ttft does not know it


@dataclass(frozen=True)
class Load:
    """What the requests of each run met; arrays over runs."""

    requests_per_step: np.ndarray
    others: np.ndarray
    requests_slope: np.ndarray
    others_slope: np.ndarray
    arrival_noise: np.ndarray
    requests_variance: np.ndarray
    feedback: np.ndarray

    @property
    def is_noisy(self) -> bool:
        """Whether the number in a step fluctuates in any run."""
        return bool(self.requests_variance.any())


def load_of_runs(data: xr.Dataset) -> Load:
    """Return what the requests of each run met, given the batch that it had.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    Load
        Arrays over runs. Slopes are derivatives in the batch; ``feedback`` is 1 where the batch
        answers to latency, 0 where the control sets it (closed loop, cap).
    """
    batch = data["effective_batch_observed"].values
    control = data["control"].values
    arrivals = np.where(control == "open", data["arrivals"].values, "closed")
    met = np.zeros((5, len(batch)))
    for kind in np.unique(arrivals):
        at = arrivals == kind
        met[4, at] = met_variance(batch[at], str(kind))
        met[:2, at] = met_by_arrivals(batch[at], str(kind))
        met[2, at], met[3, at] = met_slopes(batch[at], str(kind))
    noisy = np.isin(arrivals, ("poisson", "bursty")).astype(float)
    feedback = (control == "open").astype(float)
    return Load(met[0], met[1], met[2], met[3], noisy, met[4], feedback)


def observations(data: xr.Dataset) -> dict[str, np.ndarray]:
    """Return what a run's response brings into the graph: its latency, and what it met by it.

    The batch of an open loop follows from the latency, so all of them change together when the
    same design is observed again; `nutpie` sets them without compiling anew.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `to_dataset`.

    Returns
    -------
    dict of str to array, (run,)
        By name of the model's data.
    """
    load = load_of_runs(data)
    return {
        "log_mean_e2e": np.log(data["mean_e2e_s"].values),
        "effective_batch": data["effective_batch_observed"].values,
        "requests_per_step": load.requests_per_step,
        "requests_slope": load.requests_slope,
        "requests_variance": load.requests_variance,
        "others": load.others,
    }
