"""Tokens per step of each run as far as it was measured: what a least-squares fit needs."""

import numpy as np
import xarray as xr

from bayes_sd.acceptance_levels import pooled_rates
from bayes_sd.exceptions import DataError
from bayes_sd.physics.acceptance import mean_acceptance_length


def tokens_per_step(data: xr.Dataset) -> np.ndarray:
    """Return E of each run: from the forced rate, its own counts, or its group's; 1 at k = 0.

    Parameters
    ----------
    data : xarray.Dataset
        Result of `bayes_sd.to_dataset`.

    Returns
    -------
    array, (run,)
        Tokens per step, the verifier's own counted.

    Raises
    ------
    DataError
        If a run drafts and its acceptance is neither forced nor counted.
    """
    drafts = data["num_speculative_tokens"].values
    longest = int(drafts.max(initial=0))
    told = data["known_acceptance_rate"].values
    length = np.ones(len(drafts))
    if longest:
        trials = data["trials_at_position"].values[:, 0].astype(float)
        accepted = data["accepted_at_position"].values.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            counted = 1 + accepted / np.where(trials > 0, trials, np.nan)
        counted = np.where(np.isnan(counted), 1 + data["accepted_per_step"].values, counted)
        group = data["group_of_run"].values
        if (group >= 0).any():  # no figure of its own: that of its acceptance group
            rates = pooled_rates(data)[np.maximum(group, 0)][:, :longest]
            pooled = np.asarray(mean_acceptance_length(list(rates.T), drafts))
            counted = np.where(np.isnan(counted) & (group >= 0), pooled, counted)
        known = np.asarray(mean_acceptance_length([np.nan_to_num(told)] * longest, drafts))
        length = np.where(np.isnan(told), counted, known)
        length = np.where(drafts == 0, 1.0, length)
    missing = np.isnan(length)
    if missing.any():
        raise DataError(
            f"the law needs the acceptance of every run that drafts. Got {missing.sum()} runs with "
            f"neither forced rate nor counts, such as {data['run'].values[missing][0]!r}: leave "
            "them out."
        )
    return length
