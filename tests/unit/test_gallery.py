"""The gallery: a short script for each plot of decisions, that compiles and saves one figure."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = [p for p in sorted(GALLERY.glob("*.py")) if p.stem not in ("run_all", "shared_fit")]
OLDER = {"plot_latency", "plot_draft_length", "plot_calibration"}  # in the README and benchmarks


def names_in(path):
    return {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_every_plot_has_a_script():
    plots = {
        node.name
        for path in (ROOT / "bayes_sd" / "plots").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("plot_")
    }
    shown = set().union(*(names_in(path) for path in SCRIPTS))
    assert plots - OLDER <= shown


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_saves_the_figure_of_its_name(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 45
    assert ast.get_docstring(ast.parse(text))
    assert {"save_figure", "shared_fit"} <= names_in(path)
    assert f'"{path.stem}")' in text
