"""From a table of runs to the labelled arrays that the model reads."""

import hashlib
import warnings
from collections.abc import Iterable

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.acceptance_counts import (
    acceptance_totals,
    counts_by_position,
    figures_in_group,
    has_estimated_steps,
    is_estimated,
)
from bayes_sd.draft_shapes import UNKNOWN_SHAPE, with_draft_shapes
from bayes_sd.exceptions import AssumptionWarning, DataError, UnusedRunsWarning
from bayes_sd.frames import check_runs
from bayes_sd.labels import (
    acceptance_labels,
    deployment_label,
    known,
    number_groups,
    pair_labels,
    unique_labels,
)
from bayes_sd.run_checks import DEPLOYMENT
from bayes_sd.run_variables import (
    QUANTILES,
    Variable,
    column_variables,
    describe,
    load_variables,
    routing_variables,
    size_variables,
    with_derived_latency,
)
from bayes_sd.schema import COLUMNS, SCHEMA_VERSION
from bayes_sd.validate import name_rows

BASE_KEY = ("verifier", *DEPLOYMENT)
PAIR_KEY = ("verifier", "method", "drafter", *DEPLOYMENT)
GROUP_KEY = ("verifier", "method", "drafter", "workload", "sampling")

_MEAN_ACCEPTED = {
    "units": "tokens/step",
    "long_name": "Mean of accepted drafts per step, where nothing is known by position",
}
NO_ACCEPTANCE = (
    "draft, and no run of their drafter, workload and sampling setting has a figure of acceptance. "
    "It is unknown to the model: its prior and the latency say little of it, so draft costs stay "
    "wide. Give accepted_per_position, acceptance_per_position, mean_acceptance_length, "
    "draft_acceptance_rate or forced_acceptance_rate if you have one"
)
_STEPS_OF_MEAN = {"units": "steps", "long_name": "Steps that this mean is over; 0 for none"}


def data_hash(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a checked table, independent of the order of rows and columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        Result of `bayes_sd.frames.check_runs`. Columns that are blank throughout do not count.

    Returns
    -------
    str
        64 hexadecimal digits.
    """
    columns = []
    for entry in sorted(COLUMNS, key=lambda c: c.name):
        cells = frame[entry.name]
        if entry.dtype in ("str", "floats"):
            text = [str(cell) for cell in cells]
        else:
            text = ["" if cell != cell else repr(float(cell)) for cell in cells]
        if any(text):
            columns.append([f"{entry.name}={cell}" for cell in text])
    rows = sorted("\x1f".join(row) for row in zip(*columns, strict=True))
    return hashlib.sha256("\x1e".join(rows).encode()).hexdigest()


def _leave_out(frame: pd.DataFrame) -> np.ndarray:
    """Mark the runs to keep; warn of the others by reason, or raise if none is left."""
    reasons = {
        "throughput tests (is_throughput_test), which measure capacity, not latency": frame[
            "is_throughput_test"
        ].to_numpy(dtype=bool),
        UNKNOWN_SHAPE: frame["has_unknown_shape"].to_numpy(dtype=bool),
        "without mean_e2e_s, and without the mean_ttft_s and mean_tpot_s that it follows from": (
            frame["mean_e2e_s"].isna().to_numpy()
        ),
    }
    keep = np.ones(len(frame), dtype=bool)
    lines = []
    for reason, found in reasons.items():
        fresh = found & keep
        if fresh.any():
            rows = list(frame.index[fresh])
            lines.append(f"- {len(rows)} {reason} ({name_rows(rows)})")
        keep &= ~found
    if not keep.any():
        raise DataError(
            f"none of the {len(frame)} runs can be used:\n" + "\n".join(lines),
            rows=frame.index,
        )
    if lines:
        warnings.warn(
            f"{len(frame) - keep.sum()} of {len(frame)} runs are left out:\n" + "\n".join(lines),
            UnusedRunsWarning,
            stacklevel=3,
        )
    return keep


def _warn_of_estimated_steps(runs: pd.DataFrame, has_figure: np.ndarray) -> None:
    """Say which rates or mean lengths of acceptance count for how many steps by assumption."""
    found = has_figure & has_estimated_steps(runs)
    if found.any():
        warnings.warn(
            f"acceptance of {found.sum()} runs comes without its number of steps "
            f"({name_rows(list(runs.index[found]))}). It is taken as num_requests x "
            "(output_len_tokens - 1) / tokens per step, which says how much the figure weighs. "
            "Give num_drafts if you have it.",
            AssumptionWarning,
            stacklevel=3,
        )


def _warn_of_unknown_acceptance(runs: pd.DataFrame, group: np.ndarray, known: np.ndarray) -> None:
    """Say which runs draft though no figure tells how much of it was accepted."""
    found = (group >= 0) & ~figures_in_group(group, known)
    if found.any():
        warnings.warn(
            f"{found.sum()} runs {NO_ACCEPTANCE} ({name_rows(list(runs.index[found]))}).",
            AssumptionWarning,
            stacklevel=3,
        )


def to_dataset(frame: pd.DataFrame) -> xr.Dataset:
    """Turn a table of runs into labelled arrays, all that the model reads.

    Parameters
    ----------
    frame : pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`; checked by `bayes_sd.frames.check_runs`.

    Returns
    -------
    xarray.Dataset
        Dims ``run``, ``sweep``, ``base`` (a verifier on a deployment), ``pair`` (verifier,
        drafter and method on a deployment), ``deployment``, ``acceptance_group`` (drafter x
        workload x sampling setting of a verifier), ``position`` (1 to the largest k) and
        ``quantile``. ``*_of_run`` and the like are numbers along the other dim, -1 for none:

        - ``sweep_of_run``, ``base_of_run``, ``pair_of_run`` (-1: method none), ``group_of_run``
          (-1: no drafts, or acceptance forced), ``base_of_sweep``, ``base_of_pair``,
          ``deployment_of_base``.
        - load: ``control`` (open, closed, cap), ``request_rate_rps`` (NaN if closed),
          ``concurrency`` (NaN if open), ``cap_requests``, ``effective_batch_observed``,
          ``arrivals``, ``completed_rate_rps``, ``mean_in_system_requests``.
        - response: ``mean_e2e_s`` (where blank, ttft + (tokens - 1) tpot, see
          `with_derived_latency`), ``mean_ttft_s``, ``mean_tpot_s``, ``e2e_quantile_s`` (run,
          quantile) and the like where any are known.
        - acceptance: ``accepted_at_position``, ``trials_at_position`` (run, position);
          ``accepted_per_step`` and ``steps_of_mean`` where only a total or a mean is known;
          ``forced_acceptance_rate``, and the totals as reported.
        - drafts: ``num_speculative_tokens``, ``num_draft_steps``, ``num_verified_tokens``, and
          ``known_acceptance_rate``: the forced one, or of a tree and adaptive drafting the rate
          that gives their mean length (`bayes_sd.draft_shapes`).
        - experts: ``routed_load_cv``, the imbalance that counts per expert show, where known.
        - models: ``verifier_params_b``, ``verifier_active_params_b``, ``num_experts``,
          ``experts_per_token`` (base), ``drafter_params_b``, ``drafter``, ``method`` (pair).

        Attributes ``schema_version``, ``data_hash`` (of the whole table), ``num_runs``.

    Raises
    ------
    SchemaError, UnitError
        As `check_runs`.
    DataError
        If no run can be used.

    Warns
    -----
    UnusedRunsWarning
        If runs are left out, with reason and rows.

    Examples
    --------
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> frame = load_vllm_cpu("dense", quiet_only=True)
    >>> data = to_dataset(frame[~frame["is_throughput_test"]])
    >>> data["pair"].values.tolist()
    ['verifier-dense + draft_model (drafter-a60)', 'verifier-dense + draft_model (drafter-a85)']
    >>> data["accepted_at_position"].dims
    ('run', 'position')
    """
    checked = check_runs(frame)
    digest = data_hash(checked)
    checked = with_draft_shapes(with_derived_latency(checked))
    accepted, trials, is_counted = counts_by_position(checked)
    per_step, steps, is_total = acceptance_totals(checked, is_counted)
    drafting = is_estimated(checked)
    _, of_group = number_groups(checked, GROUP_KEY, drafting)
    keep = _leave_out(checked)
    runs, is_known = checked.loc[keep], (is_counted | is_total)[keep]
    _warn_of_estimated_steps(runs, is_known)
    _warn_of_unknown_acceptance(runs, of_group[keep], is_known)
    deployments, _ = number_groups(runs, DEPLOYMENT)
    bases, base = number_groups(runs, BASE_KEY)
    pairs, pair = number_groups(runs, PAIR_KEY, (runs["method"] != "none").to_numpy())
    groups, group = number_groups(runs, GROUP_KEY, drafting[keep])
    sweeps, sweep = number_groups(runs, ("source_id", "sweep_id"))

    places = unique_labels([[deployment_label(key)] for key in deployments])
    deployment_of_base = [deployments.index(key[1:]) for key in bases]
    base_of_pair = np.array([bases.index((key[0], *key[3:])) for key in pairs], dtype=np.int64)
    on = [places[i] for i in deployment_of_base]
    base_labels = [[key[0], f"{key[0]} on {place}"] for key, place in zip(bases, on, strict=True)]
    longest = int(runs["num_speculative_tokens"].max())
    coords = {
        "run": _source_labels(known(runs["source_id"]), runs["run_id"].tolist()),
        "sweep": _source_labels([s for s, _ in sweeps], [name for _, name in sweeps]),
        "base": unique_labels(base_labels),
        "pair": pair_labels(pairs, [on[i] for i in base_of_pair]),
        "deployment": places,
        "acceptance_group": acceptance_labels(groups),
    }
    first_run = np.array([np.flatnonzero(sweep == s)[0] for s in range(len(sweeps))])

    variables: dict[str, Variable] = {
        **column_variables(runs),
        **load_variables(runs),
        **size_variables(runs, base, pair, (len(bases), len(pairs))),
        "sweep_of_run": _numbers("run", "sweep", sweep),
        "base_of_run": _numbers("run", "base", base),
        "pair_of_run": _numbers("run", "pair", pair),
        "group_of_run": _numbers("run", "acceptance_group", group),
        "base_of_sweep": _numbers("sweep", "base", base[first_run]),
        "base_of_pair": _numbers("pair", "base", base_of_pair),
        "deployment_of_base": _numbers("base", "deployment", deployment_of_base),
        "method": _names("pair", [key[1] for key in pairs], "method"),
        "drafter": _names("pair", [key[2] for key in pairs], "drafter"),
        **{
            f"{name}_of_group": _names("acceptance_group", [key[i] for key in groups], name)
            for i, name in enumerate(GROUP_KEY)
        },
        "accepted_per_step": ("run", per_step[keep], _MEAN_ACCEPTED),
        "steps_of_mean": ("run", steps[keep], _STEPS_OF_MEAN),
        **routing_variables(runs),
    }
    for name, counts in (("accepted", accepted[keep]), ("trials", trials[keep])):
        text = {"units": "tokens", "long_name": f"Drafts {name} at each position"}
        variables[f"{name}_at_position"] = (("run", "position"), counts[:, :longest], text)
    return xr.Dataset(
        variables,
        coords={
            **{dim: np.array(labels, dtype=str) for dim, labels in coords.items()},
            "position": np.arange(1, longest + 1),
            "quantile": list(QUANTILES.values()),
        },
        attrs={
            "schema_version": SCHEMA_VERSION,
            "data_hash": digest,
            "num_runs": len(runs),
        },
    )


def _numbers(dim: str, other: str, values: Iterable[int]) -> Variable:
    """Return a variable along one dim that holds places along another."""
    text = {"units": "1", "long_name": f"Number along {other}, from 0; -1 for none"}
    return dim, np.array(values, dtype=np.int64), text


def _names(dim: str, values: list[str], name: str) -> Variable:
    """Return a variable of names along one dim, described by a column of the schema."""
    return dim, np.array(values, dtype=str), describe(name)


def _source_labels(sources: list[str], names: list[str]) -> list[str]:
    return unique_labels(
        [[name, f"{source}|{name}"] for source, name in zip(sources, names, strict=True)]
    )
