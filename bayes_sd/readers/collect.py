"""Read files of any known format into one table of runs."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers import companions, model_sizes
from bayes_sd.readers.content import Content
from bayes_sd.readers.formats import FORMAT_NAMES, read_content
from bayes_sd.readers.names import ASSUMED_SWEEP, labels_of, name_runs
from bayes_sd.readers.paths import find_files
from bayes_sd.readers.reading import Cells, Reading, is_blank
from bayes_sd.readers.report import FileReport, ReadReport
from bayes_sd.readers.rows import keep_valid, missing_cells, table
from bayes_sd.readers.scrapes import rate_cells
from bayes_sd.readers.side_information import SideInformation
from bayes_sd.readers.summaries import join_records
from bayes_sd.validate import one_of

type Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read_runs(
    paths: Paths,
    format: str = "auto",  # the name that users know from pandas and xarray
    *,
    side_information: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **columns: Any,
) -> pd.DataFrame:
    """Read benchmark results into a table of runs.

    Parameters
    ----------
    paths : path, or iterable of paths
        Files, folders (read with all that is in them) and patterns; packed as ``.gz`` or ``.zst``
        or not. Metrics pages, gauges, server commands and logs beside a result are joined to it.
    format : str, default "auto"
        Name of the files' format (`bayes_sd.readers.formats.FORMAT_NAMES`). By default it is
        decided for each file by its content.
    side_information : path, optional
        TOML file of what the files do not tell, such as draft lengths (`docs/reading.md`).
    progressbar : bool, default True
        Show one while reading.
    **columns : object
        Columns of `bayes_sd.schema` with one value for all runs, such as
        ``num_speculative_tokens=3``. They win over the files and over the TOML file.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`, units as in their names; it passes `check_runs`.

    Raises
    ------
    FormatError
        If no file could be read; the message says why, file by file.
    DataError
        If files were read and all their runs lack what no run can do without.
    ArgumentError
        If an argument, or a key of the side information, is not one of those allowed.

    Warns
    -----
    UnusedRunsWarning
        If files or runs were left out, with the reasons.
    AssumptionWarning
        If something was assumed, or a file contradicts itself.

    See Also
    --------
    read_report : the same with the requests, and the report of each file as data.

    Examples
    --------
    >>> import tempfile
    >>> from bayes_sd.datasets import load_vllm_cpu
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_vllm_cpu().to_csv(f"{folder}/runs.csv", index=False)
    ...     frame = read_runs(folder, progressbar=False)
    >>> len(frame)
    125
    """
    report = read_report(
        paths, format, side_information=side_information, progressbar=progressbar, **columns
    )
    report.raise_if_empty()
    report.warn()
    return report.runs


def read_report(
    paths: Paths,
    format: str = "auto",
    *,
    side_information: str | os.PathLike[str] | None = None,
    keep_requests: bool = False,
    progressbar: bool = True,
    **columns: Any,
) -> ReadReport:
    """Read benchmark results, and report file by file what was read, left out and assumed.

    Parameters
    ----------
    paths, format, side_information, progressbar, **columns
        As in `read_runs`.
    keep_requests : bool, default False
        Keep the requests of each run whose file lists them.

    Returns
    -------
    ReadReport
        Files that cannot be read are in it with the reason; nothing is raised for them.

    Raises
    ------
    ArgumentError
        If an argument, or a key of the side information, is not one of those allowed.
    FormatError
        If a folder or pattern holds no file, or the TOML file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "notes.json").write_text("{}")
    ...     report = read_report(folder, progressbar=False)
    >>> len(report.runs), report.files[0].error.split(" is ")[1][:26]
    (0, 'JSON of no format known he')
    """
    one_of(format, ("auto", *FORMAT_NAMES), "format")
    side = SideInformation.from_arguments(
        None if side_information is None else Path(side_information), columns
    )
    files = find_files(paths)
    results, beside = companions.group(files.paths)
    found: list[tuple[Path, str, str, Reading]] = []
    reports: dict[Path, FileReport] = {}
    with _progress(progressbar, files.paths) as advance:
        for path in results:
            try:
                known, reading = read_content(Content(path), format)
            except BayesSdError as error:
                reports[path] = FileReport(path, error=str(error))
            else:
                found.append((path, known.name, known.meaning, reading))
            advance(path)
    return _assemble(found, reports, files.skipped, beside, side, keep_requests)


@contextmanager
def _progress(shown: bool, paths: list[Path]) -> Iterator[Any]:
    """Show how much of the files has been read, in bytes."""
    if not shown:
        yield lambda path: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        sizes = {path: path.stat().st_size if path.is_file() else 0 for path in paths}
        task = bar.add_task("Reading", total=sum(sizes.values()))
        yield lambda path: bar.update(task, advance=sizes[path])


def _assemble(
    found: list[tuple[Path, str, str, Reading]],
    reports: dict[Path, FileReport],
    skipped: list[str],
    beside: companions.Beside,
    side: SideInformation,
    keep_requests: bool,
) -> ReadReport:
    """Join what was read, name the runs, and keep those that pass the schema."""
    found, records = join_records(found)
    runs: list[tuple[Path, Cells]] = []
    tables: list[pd.DataFrame | None] = []
    notes: dict[Path, list[str]] = {}
    for path, _, _, reading in found:
        notes[path] = list(reading.notes)
        for run, requests in zip(reading.runs, reading.requests, strict=True):
            cells, said = _complete(path, run, requests, beside, side, len(reading.runs))
            notes[path] += [text for text in said if text not in notes[path]]
            runs.append((path, cells))
            tables.append(requests)
    _add_sizes(runs, notes)
    general = list(side.unused())
    if name_runs(runs):
        general.append(ASSUMED_SWEEP)
    lacking = [missing_cells(run) for _, run in runs]
    whole = table([run for (_, run), lack in zip(runs, lacking, strict=True) if not lack])
    incomplete = table([run for (_, run), lack in zip(runs, lacking, strict=True) if lack])
    incomplete["missing"] = [", ".join(lack) for lack in lacking if lack]
    labels = labels_of([run for _, run in runs])
    whole.index = pd.Index([n for n, lack in zip(labels, lacking, strict=True) if not lack])
    valid, refused, warned = keep_valid(whole)
    kept = set(valid.index)
    count = Counter(path for (path, _), name in zip(runs, labels, strict=True) if name in kept)
    for path, name, meaning, reading in found:
        reports[path] = FileReport(
            path, name, meaning, count[path], tuple(reading.skipped), tuple(notes[path])
        )
    for path, target in beside.used() + [(r, s.name) for r, s in records.items()]:
        reports[path] = FileReport(path, "companion", "companion", joined_to=target)
    return ReadReport(
        runs=valid.reset_index(drop=True),
        incomplete=incomplete,
        files=tuple(reports.values()),
        skipped=(*skipped, *refused),
        notes=(*general, *warned),
        requests={
            name: requests
            for name, requests in zip(labels, tables, strict=True)
            if keep_requests and requests is not None and name in kept
        },
    )


def _complete(
    path: Path,
    run: Cells,
    requests: pd.DataFrame | None,
    beside: companions.Beside,
    side: SideInformation,
    num_runs: int,
) -> tuple[Cells, list[str]]:
    """Add to a run what its companions and the user tell of it."""
    joined, notes = beside.join(path, run, requests, num_runs)
    told, said = side.cells(path, str(run.get("_entry", "")), joined)
    joined = {**joined, **told}
    if not is_blank(joined.get("_duration_s")) and "_duration_s" in told:
        joined = {**rate_cells(joined), **joined}
    drafts: Any = joined.get("num_speculative_tokens")
    if is_blank(joined.get("method")) and not is_blank(drafts) and float(drafts) > 0:
        joined["method"] = "other"
        said = [*said, "how the server drafts is not said: method is 'other'. Give method=... ."]
    if joined.get("method") == "none" and is_blank(drafts):
        joined["num_speculative_tokens"] = 0
    return joined, [*notes, *said]


def _add_sizes(runs: list[tuple[Path, Cells]], notes: dict[Path, list[str]]) -> None:
    """Look up sizes of models that no file gives: one file's own figure counts for all."""
    sized = {run.get("verifier") for _, run in runs if not is_blank(run.get("verifier_params_b"))}
    sized |= {run.get("drafter") for _, run in runs if not is_blank(run.get("drafter_params_b"))}
    for path, run in runs:
        found, said = model_sizes.cells(run)
        for name, value in found.items():
            model = "drafter" if name.startswith("drafter_") else "verifier"
            if run.get(model) not in sized and is_blank(run.get(name)):
                run[name] = value
        notes[path] += [text for text in said if text not in notes[path]]
