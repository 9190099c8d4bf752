"""Why a configuration is slow: the share of latency that each part takes."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from bayes_sd.configuration import resolve
from bayes_sd.physics.step_time import draft_shape, step_time
from bayes_sd.predict import effective_batch
from bayes_sd.scenario import Scenario

SHARES = ("prefill", "drafting", "verification", "load")


def latency_shares(
    tree: xr.DataTree, scenarios: Scenario | Sequence[Scenario], *, random_seed: int = 0
) -> xr.DataArray:
    """Return which share of the mean latency each part takes.

    ``prefill`` is the request's own prompt; ``drafting`` and ``verification`` are its steps as
    if it were alone; ``load`` is all that the other requests add: their prefills, their place in
    the steps, and the bend to compute-bound.

    Parameters
    ----------
    tree, scenarios, random_seed
        As `predict_latency`, whose errors it raises.

    Returns
    -------
    xarray.DataArray
        Dims (part, sample, scenario), sums to 1 over parts; NaN in draws past capacity.

    Examples
    --------
    >>> here = Scenario("Qwen3-8B", request_rate_rps=4.0)
    >>> latency_shares(tree, here).mean("sample")  # doctest: +SKIP
    """
    listed = [scenarios] if isinstance(scenarios, Scenario) else list(scenarios)
    batch = effective_batch(tree, listed, random_seed=random_seed)
    columns = []
    for i, scenario in enumerate(listed):
        found = resolve(tree, scenario)
        k, costs = scenario.num_speculative_tokens, found.costs
        shape = (scenario.num_draft_steps, scenario.num_verified_tokens)
        passes, verified = draft_shape(k, *shape)
        context = found.input_len + found.output_len / 2
        here = batch.values[:, i]
        held = np.where(np.isfinite(here), here, np.nan)
        total = found.latency(held)
        alone = step_time(
            costs, 1.0, k, context, num_draft_steps=passes, num_verified_tokens=verified
        )
        drafting = passes * (costs.draft_fixed_s + costs.draft_per_request_s)
        prefill = costs.prefill_fixed_s + costs.prefill_per_token_s * found.input_len
        parts = [prefill, found.steps * drafting, found.steps * (alone - drafting)]
        parts.append(total - sum(parts))
        columns.append(np.stack([p / total for p in parts]))
    return xr.DataArray(
        np.stack(columns, axis=-1),
        dims=("part", "sample", "scenario"),
        coords={"part": list(SHARES), "scenario": [s.label for s in listed]},
        attrs={"units": "1"},
    )
