"""A summary and the records of the same run, side by side: one run, not two."""

import math
from pathlib import Path

from bayes_sd.readers.aiperf_load import RATE_ASKED
from bayes_sd.readers.aiperf_records import LOAD_NOT_TOLD
from bayes_sd.readers.reading import Reading
from bayes_sd.readers.requests import (
    arrival_notes,
    disagreements,
    gap_statistics,
    measured_arrivals,
)

SUMMARY, RECORDS = "aiperf", "aiperf-records"
Found = tuple[Path, str, str, Reading]


def join_records(found: list[Found]) -> tuple[list[Found], dict[Path, Path]]:
    """Add the records of a run to its summary in the same folder.

    AIPerf writes both for every run. The summary's figures and its load are used; the records add
    what it lacks, the measured rate among it, and the requests.

    Parameters
    ----------
    found : list of tuples
        Path, format, meaning and reading of each file.

    Returns
    -------
    found : list of tuples
        Without the records that were joined.
    joined : dict of Path to Path
        Records to their summary.
    """
    by_folder: dict[Path, dict[str, list[Found]]] = {}
    for item in found:
        if item[1] in (SUMMARY, RECORDS) and len(item[3].runs) == 1:
            by_folder.setdefault(item[0].parent, {}).setdefault(item[1], []).append(item)
    joined: dict[Path, Path] = {}
    for formats in by_folder.values():
        summaries, records = formats.get(SUMMARY, []), formats.get(RECORDS, [])
        if len(summaries) != 1 or len(records) != 1:
            continue
        (path, _, _, summary), (other, _, _, listed) = summaries[0], records[0]
        joined[other] = path
        _join(summary, listed)
    return [item for item in found if item[0] not in joined], joined


def _join(summary: Reading, listed: Reading) -> None:
    """Add the run of the records to that of the summary, in place."""
    printed, computed, requests = summary.runs[0], dict(listed.runs[0]), listed.requests[0]
    # What the records alone could not tell, the summary does.
    notes = [text for text in listed.notes if LOAD_NOT_TOLD not in text]
    for text in (*notes, *listed.skipped, *disagreements(printed, computed, "")):
        summary.note(text)
    unused, measured = set[str](), set[str]()
    if printed.get("load_kind") != "open":
        unused.add("request_rate_rps")
    elif requests is not None and "request_rate_rps" in computed:
        measured = {"request_rate_rps", "arrivals"}
        asked = str(printed.get("arrivals", ""))
        gaps = gap_statistics(requests["start_s"].dropna())
        computed["arrivals"] = measured_arrivals(gaps, asked)
        summary.notes = [text for text in summary.notes if text != RATE_ASKED]
        for text in arrival_notes(gaps, asked, printed.get("target_rate_rps", math.nan), ""):
            summary.note(text)
    if printed.get("is_throughput_test"):
        unused |= {"request_rate_rps", "mean_in_system_requests"}
    kept = {name: value for name, value in printed.items() if name not in measured}
    added = {name: value for name, value in computed.items() if name not in unused}
    summary.runs[0] = {**added, **kept}
    summary.requests[0] = requests
