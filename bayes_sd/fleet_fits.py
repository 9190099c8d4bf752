"""Fits of a fleet, as they lie in its folder: `FleetFits`, and `load_fleet` that finds them."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import xarray as xr

from bayes_sd.exceptions import ArgumentError, FitFileError
from bayes_sd.fleet_store import FAILED, KEPT, merged, read_folder, table_of
from bayes_sd.nearest import nearest_names
from bayes_sd.storage import load


@dataclass(frozen=True)
class FleetFits:
    """The fits of a fleet: a table of groups, and their files.

    Attributes
    ----------
    folder : pathlib.Path
        Folder of the files.
    groups : pandas.DataFrame, one row per group
        ``group`` (name), its values of the columns grouped by, ``status`` (``fitted``; ``kept``:
        of an earlier call; ``failed``), ``converged`` and ``verdict`` of `diagnose`, ``num_runs``,
        ``seconds`` that the fit took, ``path`` of its file, ``error`` of one that failed, and
        ``warnings``, a line each.

    Examples
    --------
    >>> fits = fit_many(runs, by="verifier", folder="fleet")  # doctest: +SKIP
    >>> fits.groups[["group", "status", "converged"]]  # doctest: +SKIP
    """

    folder: Path
    groups: pd.DataFrame

    def load(self, group: str) -> xr.DataTree:
        """Return the fit of one group.

        Parameters
        ----------
        group : str
            Name of the group; ``"(pooled)"`` is the fit of all runs.

        Returns
        -------
        xarray.DataTree
            What `fit` returns.

        Raises
        ------
        ArgumentError
            If there is no group of that name.
        FitFileError
            If it failed, or its file cannot be read.
        """
        names = list(self.groups["group"])
        if group not in names:
            near = nearest_names(str(group), names, parts=True)
            advice = f"Did you mean {near[0]!r}?" if near else f"They are {', '.join(names)}."
            raise ArgumentError(f"group must be one of the fleet. Got {group!r} instead. {advice}")
        row = self.groups.loc[self.groups["group"] == group].iloc[0]
        if row["status"] == FAILED:
            raise FitFileError(f"group {group!r} has no fit, for it failed: {row['error']}")
        return load(row["path"])

    def sentence(self) -> str:
        """Return in one sentence how many groups are done, failed, and did not converge."""
        status = self.groups["status"]
        failed = int((status == FAILED).sum())
        loose = int((~self.groups["converged"].fillna(True)).sum())
        kept = int((status == KEPT).sum())
        done = len(status) - failed
        of_earlier = f" ({kept} of them kept from an earlier call)" if kept else ""
        return (
            f"{done} of {len(status)} groups have a fit{of_earlier}; {failed} failed, and "
            f"{loose} did not converge."
        )


def load_fleet(folder: str | Path) -> FleetFits:
    """Return the fits that `fit_many` wrote to a folder, whichever call they are of.

    Parameters
    ----------
    folder : str or Path
        Folder of a fleet.

    Returns
    -------
    FleetFits
        Read from the fits themselves, so a lost ``groups.csv`` does not matter.

    Raises
    ------
    FitFileError
        If there is no such folder, or it holds no fit.

    Examples
    --------
    >>> tree = load_fleet("fleet").load("Qwen/Qwen3-8B")  # doctest: +SKIP
    """
    path = Path(folder)
    records = merged(*read_folder(path)) if path.is_dir() else {}
    if not records:
        raise FitFileError(
            f"{path} must be a folder that fit_many wrote to. Got none with a fit in it instead."
        )
    return FleetFits(path, table_of(path, sorted(records.items())))
