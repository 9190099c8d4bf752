"""Do the readers survive damaged files? 100,000 damaged copies of real files for each format.

    python -m benchmarks.reader_fuzz                  # all formats, 100,000 each
    python -m benchmarks.reader_fuzz --count 2000     # quick; writes no file
    python -m benchmarks.reader_fuzz --format sglang

A finding is an exception outside `BayesSdError`, or a file that takes longer than a second and a
second more per MB. Every run that is returned is also put through naming and the schema.
"""

import argparse
import random
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers.content import Content
from bayes_sd.readers.formats import FORMATS, Format, read_content
from bayes_sd.readers.names import name_runs
from bayes_sd.readers.rows import keep_valid, missing_cells, table
from benchmarks.folds import stamp, write_results
from benchmarks.reader_mutations import mutations

FILES = Path(__file__).parents[1] / "tests" / "files"
COUNT = 100_000
MAX_SAMPLE_BYTES = 60_000
SLOW_S = 1.0
CHECK_EVERY = 50  # the check of the whole table takes ten times as long as a reader


def samples(known: Format) -> list[Path]:
    """Return the real files of one format among the tests' files."""
    found = []
    for path in sorted(p for p in FILES.rglob("*") if p.is_file() and p.suffix != ".md"):
        try:
            taken, _ = read_content(Content(path))
        except BayesSdError:
            continue
        if taken is known and path.stat().st_size <= MAX_SAMPLE_BYTES:
            found.append(path)
    return found


def fuzz(known: Format, count: int, seed: int = 0) -> dict[str, Any]:
    """Read damaged copies and count how they end.

    Parameters
    ----------
    known : Format
        The format whose reader is meant; a copy may be taken for another one.
    count : int
        How many copies.
    seed : int
        Of the damage.

    Returns
    -------
    dict
        ``read``, ``refused``, ``runs``, ``findings`` (text to count), ``slowest_s_per_mb``.
    """
    rng = random.Random(seed)
    sources = [mutations(path.read_bytes(), rng) for path in samples(known)]
    ends: Counter[str] = Counter()
    findings: Counter[str] = Counter()
    slowest = 0.0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as d:
        path = Path(d, "damaged")
        for number in range(count if sources else 0):
            raw = next(sources[number % len(sources)])
            path.write_bytes(raw)
            start = time.perf_counter()
            try:
                runs = _read(path, known, check=number % CHECK_EVERY == 0)
                ends["read"] += 1
                ends["runs"] += runs
            except BayesSdError:
                ends["refused"] += 1
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                findings[f"{type(error).__name__} at {Path(where.filename).name}: {error}"] += 1
            took = time.perf_counter() - start
            slowest = max(slowest, took / max(1.0, len(raw) / 1e6))
            if took > SLOW_S * (1 + len(raw) / 1e6):
                findings[f"slow: {took:.1f} s for {len(raw)} bytes"] += 1
    return {
        "format": known.name,
        "samples": len(sources),
        "copies": count if sources else 0,
        **{name: ends[name] for name in ("read", "refused", "runs")},
        "slowest_s_per_mb": slowest,
        "findings": dict(findings),
    }


def _read(path: Path, known: Format, *, check: bool) -> int:
    """Read one file as its own format or by its content; return the number of runs."""
    content = Content(path)
    reading = known.read(content)
    runs = [(path, dict(run)) for run in reading.runs]
    name_runs(runs)
    if check:
        whole = table([run for _, run in runs if not missing_cells(run)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            keep_valid(whole)
            read_content(Content(path))
    return len(runs)


def text_of(results: list[dict[str, Any]]) -> str:
    """Write the table, and what was found."""
    lines = [
        "# Readers on damaged files",
        "",
        "| format | real files | damaged copies | read | refused with a typed error | runs read | "
        "slowest, s per MB | findings |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in results:
        lines.append(
            f"| {r['format']} | {r['samples']} | {r['copies']} | {r['read']} | {r['refused']} | "
            f"{r['runs']} | {r['slowest_s_per_mb']:.2f} | {sum(r['findings'].values())} |"
        )
    lines += ["", "Damage: bytes changed, cut, doubled, inserted; values, keys and lists of the "]
    lines[-1] += "parsed file replaced, dropped, renamed. Seconds per MB count 1 MB at least."
    for r in results:
        for text, number in r["findings"].items():
            lines.append(f"- {r['format']}: {number} x {text}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--format", choices=[f.name for f in FORMATS])
    options = parser.parse_args()
    chosen = [f for f in FORMATS if options.format in (None, f.name)]
    results = []
    for known in chosen:
        start = time.perf_counter()
        results.append(fuzz(known, options.count))
        print(f"{known.name}: {time.perf_counter() - start:.0f} s, {results[-1]['findings']}")
    text = text_of(results)
    print(text)
    if options.count >= COUNT and options.format is None:
        write_results("reader_fuzz", text + "\n" + stamp() + "\n", {"results": results})


if __name__ == "__main__":
    main()
