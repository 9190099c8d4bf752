"""Which files stand beside which results: metrics pages, gauges, server commands and logs.

A companion is called as its result file is, with words of its own at the end:
``NAME.metrics.txt``, ``NAME_metrics_before.txt`` and ``NAME_metrics_after.txt``,
``NAME.gauges.jsonl``, ``NAME.server.json``, ``NAME.log``. A server's command belongs to all results
whose names begin as its own (``rep0_server.json`` to ``rep0_rate2.json`` and ``rep0_rate4.json``),
``server.json`` and a log to all results of their folder. Longer names win over shorter ones.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers import prometheus, server_command, vllm_log
from bayes_sd.readers.content import PACKED, Content
from bayes_sd.readers.joining import Beside, Companion
from bayes_sd.readers.names import common_root, place_of

WORDS = frozenset(
    "after before end gauges json jsonl log logs metrics page prom prometheus scrape server start "
    "stdout stderr txt vllm out".split()
)
PARTS = re.compile(r"[._-]+")
SERVER = re.compile(r"(?P<name>.*?)[._-]*server\.json", re.IGNORECASE)
TEXTS = (".txt", ".prom", ".log", ".out", ".metrics", "")
JSON = (".json", ".jsonl")
MAX_NAMED = 3


@dataclass(frozen=True)
class _Named:
    """A file by the parts of its name."""

    path: Path
    name: str  # without the ending of its packing
    stem: str  # without its ending, too
    ending: str


def group(paths: Sequence[Path]) -> tuple[list[Path], Beside]:
    """Tell results from the files that stand beside them.

    Parameters
    ----------
    paths : sequence of Path
        All files.

    Returns
    -------
    results : list of Path
        Files to read by themselves, in the order given: results, and whatever belongs to none.
        Of two metrics pages without a result, the one before; reading it reads both.
    beside : Beside
        Joins the others to the runs of the results.
    """
    files = [_named(path) for path in paths]
    kinds = {file.path: _kind(file) for file in files}
    root = common_root(list(paths))
    folders: dict[Path, list[_Named]] = {}
    for file in files:
        folders.setdefault(file.path.parent, []).append(file)
    taken: dict[Path, list[Companion]] = {}
    for inside in folders.values():
        taken |= _of_folder(inside, kinds, root)
    beside = Beside()
    for file in files:
        for companion in taken.get(file.path, []):
            beside.add(companion)
    return [path for path in paths if not taken.get(path)], beside


def _of_folder(
    files: list[_Named], kinds: dict[Path, str], root: str
) -> dict[Path, list[Companion]]:
    """Return what each file of a folder adds, and to which results of the folder."""
    results = [file for file in files if not kinds[file.path]]
    first_choice = sorted(results, key=lambda file: file.ending in JSON)  # the last one wins
    stems = {file.stem: file.path for file in first_choice}
    taken = _servers([f for f in files if kinds[f.path] == "server"], results, root)
    pages: dict[Path, str] = {}
    for file in files:
        kind = kinds[file.path]
        if kind in ("", "server"):
            continue
        owner = _owner(file, stems)
        if owner is not None:
            taken[file.path] = [Companion(kind, file.path, owner, owner.name)]
        elif kind == "log":
            target = _some([result.name for result in results])
            taken[file.path] = [Companion(kind, file.path, r.path, target) for r in results]
        elif kind in ("before", "after"):
            pages[file.path] = kind
    for path, kind in pages.items():
        first = prometheus.partner(path) if kind == "after" else None
        if first is not None and pages.get(first) == "before":
            taken[path] = [Companion("read", path, first, first.name)]
    return taken


def _named(path: Path) -> _Named:
    name = path.stem if path.suffix in PACKED else path.name
    inside = Path(name)
    return _Named(path, name, inside.stem, inside.suffix.lower())


def _kind(file: _Named) -> str:
    """Name what a file may add to a result, by its name and, where that is not clear, its text."""
    words = {word.lower() for word in PARTS.split(file.name)}
    if file.ending in JSON and "gauges" in words:
        return "gauges"
    if file.ending == ".json":
        is_named = SERVER.fullmatch(file.name) is not None
        return "server" if is_named and _holds_command(file.path) else ""
    if file.ending not in TEXTS:
        return ""
    head = _head(file.path)
    if prometheus.recognises_text(head):
        word = prometheus.word_of(file.name)
        return "pages" if not word else "before" if word in prometheus.WORDS else "after"
    return "log" if vllm_log.recognises_text(head) else ""


def _owner(file: _Named, stems: dict[str, Path]) -> Path | None:
    """Return the result whose name this one continues with words of a companion only."""
    for cut in reversed([found.start() for found in PARTS.finditer(file.name)]):
        if not all(word.lower() in WORDS for word in PARTS.split(file.name[cut:]) if word):
            return None
        owner = stems.get(file.name[:cut])
        if owner is not None:
            return owner
    return None


def _servers(
    servers: list[_Named], results: list[_Named], root: str
) -> dict[Path, list[Companion]]:
    """Return the results of each server start: those that begin with its name and no longer one."""
    names = {_server_name(server): server for server in reversed(servers)}
    members: dict[Path, list[_Named]] = {server.path: [] for server in servers}
    for result in results:
        ends = [0, *(found.start() for found in PARTS.finditer(result.stem)), len(result.stem)]
        name = next((result.stem[:e] for e in reversed(ends) if result.stem[:e] in names), None)
        if name is not None:
            members[names[name].path].append(result)
    taken = {}
    for name, server in names.items():
        mine = members[server.path]
        target = _some([result.name for result in mine])
        place = (Path(place_of(server.path, root)).parent / (name or "server")).as_posix()
        taken[server.path] = [Companion("server", server.path, r.path, target, place) for r in mine]
    return taken


def _server_name(file: _Named) -> str:
    found = SERVER.fullmatch(file.name)
    return found["name"] if found else ""


def _holds_command(path: Path) -> bool:
    try:
        return server_command.recognises(Content(path).sample)
    except BayesSdError:
        return False


def _head(path: Path) -> str:
    try:
        return Content(path).head
    except BayesSdError:
        return ""


def _some(names: list[str]) -> str:
    """Name the first of some files, and say how many there are."""
    if len(names) <= MAX_NAMED:
        return ", ".join(names)
    return f"{len(names)} files ({', '.join(names[:MAX_NAMED])}, ...)"
