"""Keeping a fit: `save` and `load`."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.exceptions import FitFileError
from bayes_sd.whole_file import whole_file

FORMAT = "bayes_sd fit 3"
PACKED_DRAWS = "packed_draws"  # attribute of a fit whose draws are rounded to 32 bits


def save(tree: xr.DataTree, path: str | Path) -> Path:
    """Write a fit to a NetCDF file, whole or not at all.

    The file is written beside its place and moved there when complete, so a kill in the middle
    leaves an older file as it was.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    path : str or Path
        File to write, usually ``*.nc``.

    Returns
    -------
    pathlib.Path
        The file that was written.

    Raises
    ------
    FitFileError
        If the folder does not exist or cannot be written to.

    Examples
    --------
    >>> save(tree, "fit.nc")  # doctest: +SKIP
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FitFileError(
            f"{path} cannot be written: folder {str(path.parent)!r} does not exist. Make it first."
        )
    packed = PACKED_DRAWS in tree.attrs
    with whole_file(path) as part:
        tree.to_netcdf(
            part,
            engine="h5netcdf",
            encoding={
                f"/{group}": {
                    v: _encoding(values, packed=packed and group == "posterior")
                    for v, values in tree[group].data_vars.items()
                    if values.dtype.kind in "fi" and values.size > 100
                }
                for group in tree.children
            },
        )
    return path


def load(path: str | Path) -> xr.DataTree:
    """Read a fit that `save` wrote.

    Parameters
    ----------
    path : str or Path
        File.

    Returns
    -------
    xarray.DataTree
        What `fit` returned.

    Raises
    ------
    FitFileError
        If there is no such file, or it is not a fit of this library.

    Examples
    --------
    >>> tree = load("fit.nc")  # doctest: +SKIP
    """
    path = Path(path)
    if not path.is_file():
        raise FitFileError(f"{path} is not a file. Write one with save(fit(data), {str(path)!r}).")
    try:
        with xr.open_datatree(path, engine="h5netcdf") as opened:
            tree = opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise FitFileError(f"{path} cannot be read as NetCDF: {error}") from error
    if tree.attrs.get("format") != FORMAT:
        raise FitFileError(
            f"{path} must be a fit of this library ({FORMAT!r}). "
            f"Got format {tree.attrs.get('format')!r} instead: fit the data again."
        )
    if PACKED_DRAWS in tree.attrs:  # 32 bits on disk, 64 in memory: no sum is ever of 32 bits
        posterior = tree["posterior"].to_dataset()
        tree["posterior"] = posterior.assign(
            {n: v.astype(float) for n, v in posterior.items() if v.dtype == np.float32}
        )
    return tree


def _encoding(values: xr.DataArray, *, packed: bool) -> dict[str, Any]:
    """Return how a variable is written: compressed, and in 32 bits where those hold it."""
    compression = {"zlib": True, "complevel": 4, "shuffle": True}
    if packed and values.dtype == float:
        with np.errstate(over="ignore"):
            if np.array_equal(values.values.astype(np.float32), values.values, equal_nan=True):
                return compression | {"dtype": "float32"}
    return compression
