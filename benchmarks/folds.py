"""What all accuracy benchmarks share: the folds, the two highest loads, and how to write results.

Four folds over the sweeps of each verifier, sorted by name, index modulo four: a sweep, which is
one server start, is held out whole.
"""

import datetime
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_atom_moe, load_h200_70b, load_scaling_study, load_vllm_cpu

NUM_FOLDS = 4
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("bayes_sd", "numpy", "scipy", "xarray", "pymc", "nutpie")
DATA = {
    "scaling-study": load_scaling_study,
    "vllm-cpu": lambda: load_vllm_cpu("dense"),
    "vllm-cpu-moe": lambda: load_vllm_cpu("moe"),
    "atom": load_atom_moe,
    "h200": load_h200_70b,
}
DEFAULT_CAP = 256.0


def load_data(name: str, verifiers: tuple[str, ...] = ()) -> xr.Dataset:
    """Return a data set without its throughput tests; all verifiers by default."""
    frame = DATA[name]()
    if "is_throughput_test" in frame:
        frame = frame[~frame["is_throughput_test"]]
    if "num_speculative_tokens_schedule" in frame:  # a draft length that changes within a run
        frame = frame[frame["num_speculative_tokens_schedule"].isna()]
    if name == "atom":  # each night is another commit: taken as boots of one deployment
        frame["engine_version"] = ""
    if verifiers:
        frame = frame[frame["verifier"].isin(verifiers)]
    return to_dataset(frame.reset_index(drop=True))


def fold_of_runs(data: xr.Dataset) -> NDArray[np.int_]:
    """Return the fold of each run, 0 to 3."""
    fold = np.zeros(data.sizes["sweep"], dtype=int)
    for base in range(data.sizes["base"]):
        members = np.flatnonzero(data["base_of_sweep"].values == base)
        order = members[np.argsort(data["sweep"].values[members])]
        fold[order] = np.arange(len(order)) % NUM_FOLDS
    return fold[data["sweep_of_run"].values]


def two_highest(data: xr.Dataset) -> NDArray[np.bool_]:
    """Mark the two open-loop runs of highest rate in each sweep; runs at a cap do not count."""
    is_open = data["control"].values == "open"
    rate = pd.Series(np.where(is_open, data["request_rate_rps"].values, np.nan))
    rank = rate.groupby(data["sweep_of_run"].values).rank(ascending=False, method="first")
    return (rank <= 2).to_numpy()


def cap_of_runs(data: xr.Dataset) -> NDArray[np.float64]:
    """Return the limit on requests in flight of each run; 256 where none is known."""
    cap = data["cap_requests"].values
    return np.where(np.isnan(cap), DEFAULT_CAP, cap)


def ceiling_of_runs(data: xr.Dataset) -> NDArray[np.float64]:
    """Return the latency at which a run's limit on requests in flight is full, s.

    Cap / rate, by Little's law. Predictions past capacity are set to it, of every method: the
    client holds further requests back. Infinite in a closed loop.
    """
    rate = data["request_rate_rps"].values
    return np.where(np.isnan(rate), np.inf, cap_of_runs(data) / rate)


def short_name(base: str) -> str:
    """Return a verifier's name without its owner."""
    return base.rsplit("/", 1)[-1]


def markdown(table: pd.DataFrame) -> str:
    """Return a table of text and numbers as Markdown; the index is not shown."""
    rows = [list(table.columns), ["---"] * len(table.columns), *table.astype(str).values.tolist()]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def stamp() -> str:
    """Return date, machine and versions in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"{today}, Python {platform.python_version()}, {versions}"


def write_results(name: str, text: str, figures: dict[str, Any]) -> None:
    """Write a result as Markdown and JSON."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    dumped = json.dumps(figures, indent=1, default=float)
    (RESULTS / f"{name}.json").write_text(dumped + "\n", encoding="utf-8")
