"""What a worker does for a fleet: fit one group of runs, and hand back the content of its file."""

import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import BayesSdError, ConvergenceWarning
from bayes_sd.fitting import complete_tree
from bayes_sd.fleet_groups import FitSettings, Group
from bayes_sd.fleet_store import FAILED, FITTED, STAMP, Record
from bayes_sd.model import RESPONSES
from bayes_sd.priors import check_priors, default_priors
from bayes_sd.sampling import compile_blocks, compile_model, sample
from bayes_sd.shared_compile import compile_shared
from bayes_sd.storage import save

# A worker may fit in several threads. Compilers, and the list of warnings, are one per process.
ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Outcome:
    """What became of a group.

    Attributes
    ----------
    record : Record
        What is known of its fit.
    content : bytes or None
        Content of the fit's file; None if it failed.
    """

    record: Record
    content: bytes | None = field(default=None, repr=False)


def fit_group(group: Group, settings: FitSettings) -> Outcome:
    """Fit one group; whatever goes wrong is told, never raised.

    Parameters
    ----------
    group : Group
        Its runs, its seed, its fingerprint.
    settings : FitSettings
        How to fit.

    Returns
    -------
    Outcome
    """
    begun = time.perf_counter()
    record = Record(
        group=group.name,
        key=group.key,
        fingerprint=group.fingerprint,
        status=FAILED,
        num_runs=len(group.frame),
        seconds=0.0,
    )
    said: list[str] = []
    try:
        tree = fit_runs(group.frame, settings, group.seed, said)
        record = replace(
            record,
            status=FITTED,
            seconds=round(time.perf_counter() - begun, 2),
            converged=bool(tree.attrs["passed"]),
            verdict=str(tree.attrs["verdict"]),
            warnings=tuple(said),
        )
        return Outcome(record, content_of(tree, record))
    except Exception as error:
        seconds = round(time.perf_counter() - begun, 2)
        failed = replace(record, status=FAILED, seconds=seconds, error=in_words(error))
        return Outcome(replace(failed, warnings=tuple(said)))


def fit_runs(
    frame: pd.DataFrame, settings: FitSettings, random_seed: int, said: list[str]
) -> xr.DataTree:
    """Fit a table of runs as `bayes_sd.fit` does, with what was compiled before if it can be.

    Parameters
    ----------
    frame : pandas.DataFrame, one row per run
    settings : FitSettings
    random_seed : int
    said : list of str
        Warnings are added to it, each once.

    Returns
    -------
    xarray.DataTree
        As `fit` returns.
    """
    with _listening(said):
        begun = time.perf_counter()
        data = to_dataset(frame)
        priors = check_priors(settings.priors or default_priors(data))
        compile_one = compile_shared if settings.share_compilation else compile_model
        responses = RESPONSES if settings.responses is None else settings.responses
        compiled = compile_blocks(data, priors, responses=responses, compile_one=compile_one)
        ready = time.perf_counter()
    tree = sample(
        compiled,
        draws=settings.draws,
        tune=settings.tune,
        chains=settings.chains,
        target_accept=settings.target_accept,
        random_seed=random_seed,
        progressbar=False,
        cores=settings.cores,
    )
    sampled = time.perf_counter()
    with _listening(said):
        whole = complete_tree(tree, data, random_seed, priors)
    times: dict[str, Any] = {"compile_s": ready - begun, "sampling_s": sampled - ready}
    whole.attrs |= {name: round(seconds, 1) for name, seconds in times.items()}
    return whole


def content_of(tree: xr.DataTree, record: Record) -> bytes:
    """Return the content of a fit's file, stamped with its record."""
    tree.attrs[STAMP] = record.to_json()
    with tempfile.TemporaryDirectory(prefix="bayes_sd_") as folder:
        return save(tree, Path(folder) / "fit.nc").read_bytes()


def in_words(error: BaseException) -> str:
    """Return an error as text; of one that this library does not raise, its kind and place too."""
    text = str(error).strip()
    if isinstance(error, BayesSdError):
        return text
    steps = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(steps[-1].filename).name}, line {steps[-1].lineno})" if steps else ""
    return f"{type(error).__name__}: {text}{place}"


@contextmanager
def _listening(said: list[str]) -> Iterator[None]:
    """Keep other threads of this process out, and collect what is warned of meanwhile.

    `ConvergenceWarning` is left out: the verdict says it.
    """
    with ONE_AT_A_TIME, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for unwanted in (ConvergenceWarning, DeprecationWarning, PendingDeprecationWarning):
            warnings.simplefilter("ignore", unwanted)
        try:
            yield
        finally:
            fresh = dict.fromkeys(str(warning.message) for warning in caught)
            said += [text for text in fresh if text not in said]
