"""A summary and the records of the same run, side by side: one run, not two."""

from pathlib import Path

from bayes_sd.readers.reading import Reading
from bayes_sd.readers.requests import disagreements

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
        printed, computed = summary.runs[0], listed.runs[0]
        for text in (*listed.notes, *listed.skipped, *disagreements(printed, computed, "")):
            summary.note(text)
        is_open = printed.get("load_kind") == "open"
        measured = {"request_rate_rps", "arrivals"} if is_open else set()
        kept = {n: v for n, v in printed.items() if n not in measured or n not in computed}
        unused = set() if is_open else {"request_rate_rps"}
        if printed.get("is_throughput_test"):
            unused |= {"request_rate_rps", "mean_in_system_requests"}
        computed = {n: v for n, v in computed.items() if n not in unused}
        summary.runs[0] = {**computed, **kept}
        summary.requests[0] = listed.requests[0]
    return [item for item in found if item[0] not in joined], joined
