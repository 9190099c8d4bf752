"""Run notebooks from top to bottom and keep their outputs.

    python notebooks/execute.py                   # all of them, in full
    python notebooks/execute.py 01_first_fit      # some, by name
    python notebooks/execute.py --short           # few draws, and nothing is written

A notebook runs in an empty folder of its own, and is written only if no cell failed. What was run,
and how long it took, is kept in the notebook's metadata under ``bayes_sd_run``; the tests refuse
outputs of a short run.
"""

import argparse
import os
import re
import resource
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
TIMEOUT_S = 1800  # of one cell
CELL_FILE = re.compile(r"/\S*/ipykernel_\d+/\d+\.py")


def notebooks_named(names: list[str]) -> list[Path]:
    """Return the notebooks of these names, or all of them."""
    present = {path.stem: path for path in sorted(HERE.glob("*.ipynb"))}
    unknown = [name for name in names if Path(name).stem not in present]
    if unknown:
        raise SystemExit(
            f"notebooks must be some of {', '.join(present)}. Got {', '.join(unknown)} instead."
        )
    return [present[Path(name).stem] for name in names] or list(present.values())


def without_machine_paths(notebook: nbformat.NotebookNode) -> None:
    """Take from texts where this machine keeps the source and the cells; warnings name them."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                text = output.text.replace(f"{HERE.resolve().parent}/", "")
                output.text = CELL_FILE.sub("this cell", text)


def execute(path: Path, *, short: bool) -> nbformat.NotebookNode:
    """Run one notebook and return it with its outputs; the file is not touched.

    Parameters
    ----------
    path : Path
        The notebook.
    short : bool
        Whether to sample a few draws only, which the notebooks ask of ``BAYES_SD_SHORT``.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    environment = {k: v for k, v in os.environ.items() if k not in ("MPLBACKEND", "BAYES_SD_SHORT")}
    if short:
        environment["BAYES_SD_SHORT"] = "1"
    begun, used = time.perf_counter(), _seconds_of_children()
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            resources={"metadata": {"path": folder}},
            record_timing=False,
        )
        client.execute(env=environment)
    without_machine_paths(notebook)
    notebook.metadata["bayes_sd_run"] = {
        "short": short,
        "wall_s": round(time.perf_counter() - begun),
        "processor_s": round(_seconds_of_children() - used),
    }
    return notebook


def _seconds_of_children() -> float:
    """Return the processor time of all kernels that have ended, s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description="Run notebooks and keep their outputs.")
    parser.add_argument("names", nargs="*", help="such as 01_first_fit; all by default")
    parser.add_argument("--short", action="store_true", help="few draws; writes no file")
    options = parser.parse_args()
    for path in notebooks_named(options.names):
        notebook = execute(path, short=options.short)
        run = notebook.metadata["bayes_sd_run"]
        print(f"{path.stem}: {run['wall_s']} s, {run['processor_s']} s of processor", flush=True)  # noqa: T201
        if not options.short:
            nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
