"""Every notebook runs with short sampling, and keeps the outputs of a whole run, by house rules."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MAX_LINES = 15
MACHINE_PATH = re.compile(r"(?<![\w.:/])/(work|home|root|tmp|usr|opt|var|mnt|Users)/|[A-Z]:\\\\")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)


def outputs_of(cell):
    return cell.outputs if cell.cell_type == "code" else []


def texts_of(output):
    """Return what an output says, pictures left out."""
    found = [output.get("text", ""), *output.get("traceback", [])]
    for kind, data in output.get("data", {}).items():
        if not kind.startswith("image/"):
            found.append(data)
    return [str(text) for text in found]


def has_figure(cell):
    return any("image/png" in output.get("data", {}) for output in outputs_of(cell))


def faults_of(notebook):
    """Return what is wrong with a notebook as it is committed."""
    cells = notebook.cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    faults = []
    if not (cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")):
        faults.append("the first cell is not a title")
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        faults.append("it was not run from top to bottom")
    if notebook.metadata.get("bayes_sd_run", {}).get("short", True):
        faults.append("it was not run in full by notebooks/execute.py")
    for number, cell in enumerate(cells):
        if len(cell.source.splitlines()) > MAX_LINES:
            faults.append(f"cell {number} has more than {MAX_LINES} lines")
        after = cells[number + 1] if number + 1 < len(cells) else None
        if has_figure(cell) and (after is None or after.cell_type != "markdown"):
            faults.append(f"the figure of cell {number} is not followed by text")
        if any(output.output_type == "error" for output in outputs_of(cell)):
            faults.append(f"cell {number} failed")
        texts = [cell.source, *(t for output in outputs_of(cell) for t in texts_of(output))]
        if any(MACHINE_PATH.search(text) for text in texts):
            faults.append(f"cell {number} holds a path of a machine")
        if any("NOT CONVERGED" in text for text in texts[1:]):
            faults.append(f"a fit of cell {number} has not converged")
    return faults


def test_there_are_notebooks():
    assert NOTEBOOKS


# The kernel's sockets and the event loop are closed by their own threads, after the test.
@pytest.mark.filterwarnings("ignore:.*:ResourceWarning", "ignore:.*:DeprecationWarning")
@each_notebook
def test_notebook_runs(path, monkeypatch, tmp_path):
    monkeypatch.setenv("BAYES_SD_SHORT", "1")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()


@each_notebook
def test_notebook_keeps_the_outputs_of_a_whole_run(path):
    notebook = nbformat.read(path, as_version=4)
    assert faults_of(notebook) == []
    if any("bs.fit(" in cell.source for cell in notebook.cells):
        texts = [t for cell in notebook.cells for o in outputs_of(cell) for t in texts_of(o)]
        assert any(re.search("converged", text, re.IGNORECASE) for text in texts), "no verdict"


# The check of the rules must itself be able to fail.


def sound_notebook():
    v4 = nbformat.v4
    picture = v4.new_output("display_data", {"image/png": "aGk=", "text/plain": "<Figure>"})
    notebook = v4.new_notebook(metadata={"bayes_sd_run": {"short": False}})
    notebook.cells = [
        v4.new_markdown_cell("# A question?"),
        v4.new_code_cell("bs.plot(1)", execution_count=1, outputs=[picture]),
        v4.new_markdown_cell("**Read off it:** nothing."),
        v4.new_code_cell(
            "print(2)", execution_count=2, outputs=[v4.new_output("stream", text="2")]
        ),
    ]
    return notebook


def test_a_sound_notebook_has_no_faults():
    assert faults_of(sound_notebook()) == []


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda n: n.cells.pop(0), "title"),
        (lambda n: n.cells.pop(2), "not followed by text"),
        (lambda n: n.metadata.bayes_sd_run.update(short=True), "in full"),
        (lambda n: n.metadata.pop("bayes_sd_run"), "in full"),
        (lambda n: n.cells[3].update(execution_count=7), "top to bottom"),
        (lambda n: n.cells[3].update(source="x = 1\n" * 16), "more than 15 lines"),
        (lambda n: n.cells[3].outputs[0].update(text="see /home/me/fit.nc"), "path of a machine"),
        (lambda n: n.cells[3].outputs[0].update(text="NOT CONVERGED, do"), "not converged"),
        (
            lambda n: n.cells[3].outputs.append(nbformat.v4.new_output("error", ename="E")),
            "failed",
        ),
    ],
)
def test_each_fault_is_found(spoil, fault):
    notebook = sound_notebook()
    spoil(notebook)
    assert any(fault in found for found in faults_of(notebook))
