"""Names of runs and of sweeps, where the files do not give them."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bayes_sd.readers.content import PACKED
from bayes_sd.readers.reading import Cells, is_blank

# Runs of one folder that agree in these are taken for runs of one server start.
SERVER = (
    "engine",
    "engine_version",
    "hardware",
    "tensor_parallel_size",
    "dtype",
    "verifier",
    "drafter",
    "method",
    "num_speculative_tokens",
    "forced_acceptance_rate",
)
ASSUMED_SWEEP = (
    "runs of one folder with the same model, method and draft length are taken for runs of one "
    "server start. If the server was started again between them, give each start its own sweep_id."
)


def place_of(path: Path, root: str) -> str:
    """Name a file by its place below a folder, without its ending and on one line.

    Examples
    --------
    >>> place_of(Path("/data/k3/rate2.json.gz"), "/data")
    'k3/rate2'
    """
    inside = Path(os.path.relpath(path, root) if root else path.name)
    if inside.suffix in PACKED:
        inside = inside.with_suffix("")
    return " ".join(inside.with_suffix("").as_posix().split())


def common_root(paths: Sequence[Path]) -> str:
    """Return the folder that holds all files."""
    folders = [os.path.realpath(path.parent) for path in paths]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:  # two drives
        return ""


def name_runs(runs: Sequence[tuple[Path, Cells]]) -> bool:
    """Fill ``run_id`` and ``sweep_id`` where they are missing, in place.

    A run is named by its file, below the folder that all files share, and by its entry in it. A
    sweep is named by the reader's or companion's ``_sweep``, else by folder and server.

    Parameters
    ----------
    runs : sequence of (Path, dict)
        File and cells of each run.

    Returns
    -------
    bool
        Whether any sweep was assumed from the folder.
    """
    root = common_root([path for path, _ in runs])
    entries = Counter(path for path, _ in runs)
    assumed = False
    named = []
    for path, run in runs:
        place = place_of(Path(os.path.realpath(path)), root)
        if is_blank(run.get("run_id")):
            entry = str(run.get("_entry", ""))
            run["run_id"] = f"{place} {entry}" if entry and entries[path] > 1 else place
            named.append(run)
        if is_blank(run.get("sweep_id")):
            folder = os.path.dirname(place)
            if not is_blank(run.get("_sweep")):
                run["sweep_id"] = f"{place} {run['_sweep']}".strip()
            elif not is_blank(run.get("_server")):
                run["sweep_id"] = str(run["_server"])
            elif entries[path] > 1:
                run["sweep_id"] = _server(place, run)
            else:
                run["sweep_id"] = _server(folder, run)
                assumed = True
    _make_unique(named, [run for _, run in runs])
    return assumed


def labels_of(runs: Sequence[Cells]) -> list[str]:
    """Return what to call runs in messages: ``run_id``, with the source where two have one."""
    counts = Counter(str(run["run_id"]) for run in runs)
    return [
        f"{run['source_id']}|{run['run_id']}"
        if counts[str(run["run_id"])] > 1 and not is_blank(run.get("source_id"))
        else str(run["run_id"])
        for run in runs
    ]


def _server(place: str, run: Cells) -> str:
    parts = [str(run[name]) for name in SERVER if not is_blank(run.get(name))]
    return "|".join([place, *parts]) if place else "|".join(parts) or "all"


def _make_unique(named: Sequence[Cells], runs: Sequence[Cells]) -> None:
    """Add a number to names made here that are taken; names that files give stay as they are."""
    ours = {id(run) for run in named}
    given = [run for run in runs if id(run) not in ours]
    taken = {_key(run) for run in given}
    for run in named:
        number, name = 1, run["run_id"]
        while _key(run) in taken:
            number += 1
            run["run_id"] = f"{name} ({number})"
        taken.add(_key(run))


def _key(run: Cells) -> tuple[str, str]:
    return str(run.get("source_id", "")), str(run["run_id"])
