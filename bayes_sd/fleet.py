"""Fits of a fleet: `fit_many` fits each group of runs by itself, and keeps what is done."""

import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bayes_sd.exceptions import ArgumentError, BayesSdWarning, ConvergenceWarning
from bayes_sd.fleet_cluster import client_of, run_groups, usable_cores
from bayes_sd.fleet_fits import FleetFits
from bayes_sd.fleet_groups import FitSettings, Group, split_runs
from bayes_sd.fleet_store import (
    FAILED,
    KEPT,
    Record,
    forget_failure,
    merged,
    open_folder,
    read_folder,
    table_of,
    write_failure,
    write_fit,
    write_table,
)
from bayes_sd.fleet_task import Outcome, fit_group
from bayes_sd.model import RESPONSES
from bayes_sd.prior import Prior
from bayes_sd.priors import check_priors
from bayes_sd.validate import one_of, probability, whole_number

NAMED = 5  # groups that a warning names


def fit_many(
    data: pd.DataFrame,
    by: str | Sequence[str],
    folder: str | Path,
    *,
    pooled: bool = False,
    workers: int | None = None,
    client: Any = None,
    priors: dict[str, Prior] | None = None,
    responses: Sequence[str] | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    target_accept: float = 0.95,
    random_seed: int = 0,
    share_compilation: bool = True,
    progressbar: bool = True,
) -> FleetFits:
    """Fit the latency model to each group of a table of runs, side by side.

    Each fit is written to ``folder`` when it is done. The same call again skips the groups whose
    file is there and whose data and settings are the same, and fits the others: those that are
    missing, that failed, or whose runs changed.

    Parameters
    ----------
    data : pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`.
    by : str or sequence of str
        Columns whose values make a group, such as ``["verifier", "hardware"]``; blanks count as
        ``unknown``. A column that the schema does not know is allowed.
    folder : str or Path
        Folder for the fits, made if it is not there: a NetCDF file per group, a note per failure,
        and ``groups.csv``, the table of them.
    pooled : bool
        Whether all runs are also fitted together, as the group ``(pooled)``: there the groups
        learn from each other, through the population of costs.
    workers : int, optional
        Local processes; by default one for each core, and no more than groups to fit. A script
        calls this function below ``if __name__ == "__main__":``, for each of them reads it.
    client : distributed.Client, optional
        A Dask cluster to run on, in place of local processes; its workers need this library. They
        need not see the folder: files are written here.
    priors : dict of str to Prior, optional
        For all groups; by default `default_priors` of each.
    responses, draws, tune, chains, target_accept
        As in `fit`.
    random_seed : int
        Seed of the fleet. That of a group follows from it and from the group's values of the
        columns, so that a fit does not hang on other groups, on their order, or on the worker.
    share_compilation : bool
        Whether a worker compiles once for all groups of the same shape (as many runs, sweeps and
        so on). The posterior is the same, and draws differ from those of `fit`.
    progressbar : bool
        Whether to show progress on stderr; False is silent.

    Returns
    -------
    FleetFits
        Table of the groups, and a method that loads one.

    Raises
    ------
    ArgumentError
        If a column is missing, a setting is out of range, or Dask is not installed.
    DataError
        If the table has no rows.
    FitFileError
        If the folder cannot be written to.
    KeyboardInterrupt
        If it is interrupted: what is done is kept, and the same call goes on from there.

    Warns
    -----
    BayesSdWarning
        If groups failed; their errors are in the table.
    ConvergenceWarning
        If fits did not converge.

    Notes
    -----
    A group that fails does not stop the others. One whose worker is killed is fitted again by
    another worker: at most 5 times on local processes, and as often as
    ``distributed.scheduler.allowed-failures`` says (3 by default) on a cluster of yours.

    Examples
    --------
    >>> from bayes_sd.datasets import load_scaling_study
    >>> runs = load_scaling_study()
    >>> fits = fit_many(runs, by="verifier", folder="fleet", workers=2)  # doctest: +SKIP
    >>> fits.sentence()  # doctest: +SKIP
    '5 of 5 groups have a fit; 0 failed, and 0 did not converge.'
    >>> tree = fits.load("Qwen/Qwen3-8B")  # doctest: +SKIP
    """
    whole_number(draws, "draws", minimum=2)
    whole_number(tune, "tune", minimum=1)
    whole_number(chains, "chains", minimum=2)
    probability(target_accept, "target_accept", ends=False)
    whole_number(random_seed, "random_seed", minimum=0)
    for response in responses or ():
        one_of(response, RESPONSES, "responses")
    if workers is not None and client is not None:
        raise ArgumentError("workers must be left out where a client is given. Got both instead.")
    if workers is not None:
        whole_number(workers, "workers", minimum=1)
    settings = FitSettings(
        draws=draws,
        tune=tune,
        chains=chains,
        target_accept=target_accept,
        responses=None if responses is None else tuple(responses),
        priors=None if priors is None else check_priors(priors),
        share_compilation=share_compilation,
    )
    groups = split_runs(data, by, settings, random_seed=random_seed, pooled=pooled)
    path = open_folder(folder)
    found, failures = read_folder(path)
    known = merged(found, failures)
    own: dict[str, Record] = {}
    for group in groups:
        before = found.get(group.stem)
        if before is not None and before.fingerprint == group.fingerprint:
            forget_failure(path, group.stem)
            known[group.stem] = before
            own[group.stem] = replace(before, group=group.name, status=KEPT)
    todo = [group for group in groups if group.stem not in own]
    write_table(path, known)
    coming = closing(_outcomes(todo, settings, client, workers))
    with _progress(len(groups), len(own), shown=progressbar) as tell, coming as outcomes:
        for group, outcome in outcomes:
            if outcome.content is None:
                write_failure(path, group.stem, outcome.record)
            else:
                write_fit(path, group.stem, outcome.content)
            own[group.stem] = known[group.stem] = outcome.record
            write_table(path, known)
            tell(outcome.record)
    fits = FleetFits(path, table_of(path, [(g.stem, own[g.stem]) for g in groups]))
    _warn(fits)
    return fits


def _outcomes(
    groups: list[Group], settings: FitSettings, client: Any, workers: int | None
) -> Generator[tuple[Group, Outcome]]:
    """Fit groups on a cluster; without any, none is started."""
    if not groups:
        return
    cores = 1  # of a cluster of the user's, which counts a task as one
    if client is None:
        workers = min(workers or usable_cores(1), len(groups))
        cores = usable_cores(workers)
    work = partial(fit_group, settings=replace(settings, cores=cores))
    with client_of(client, workers or 1) as own:
        yield from run_groups(own, groups, work)


class _Tell(Protocol):
    """Tells that a group is done."""

    def __call__(self, record: Record) -> None: ...


@contextmanager
def _progress(total: int, kept: int, *, shown: bool) -> Iterator[_Tell]:
    """Show on stderr how many groups are done: a bar, or where there is no screen a line each."""
    console = Console(stderr=True, highlight=False)
    if not shown:
        yield lambda record: None
        return
    if not (console.is_terminal or console.is_jupyter):
        done = kept

        def tell(record: Record) -> None:
            nonlocal done
            done += 1
            console.print(
                f"{done} of {total}: {record.group} {record.status}, {record.seconds:.1f} s",
                markup=False,
                soft_wrap=True,
            )

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("groups", total=total, completed=kept)
        failed = 0

        def advance(record: Record) -> None:
            nonlocal failed
            failed += record.status == FAILED
            words = f"groups, {failed} failed" if failed else "groups"
            progress.update(task, advance=1, description=words)

        yield advance


def _warn(fits: FleetFits) -> None:
    """Warn of groups that failed, and of fits that did not converge."""
    groups = fits.groups
    failed = groups[groups["status"] == FAILED]
    if len(failed):
        first = failed.iloc[0]
        warnings.warn(
            f"{len(failed)} of {len(groups)} groups failed: {_named(failed)}. The first error: "
            f"{first['error']} All are in the column error of the table; the same call again "
            "tries these groups only.",
            BayesSdWarning,
            stacklevel=3,
        )
    loose = groups[~groups["converged"].fillna(True)]
    if len(loose):
        warnings.warn(
            f"{len(loose)} of {len(groups)} fits did not converge, do not decide on them: "
            f"{_named(loose)}. diagnose says of each what it needs: more "
            "draws (draws=2000, tune=1000) or smaller steps (target_accept=0.99).",
            ConvergenceWarning,
            stacklevel=3,
        )


def _named(groups: pd.DataFrame) -> str:
    names = list(groups["group"])
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
