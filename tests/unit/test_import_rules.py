"""Who may import whom: one table, and a test that fails on any other import.

Each line of the table may use the standard library, the libraries and the modules it names, and
for a package (``physics.*``) its own files. A line may name lines above it only, so that the
arrows all point up. A module that no line covers is an error: add it where it belongs.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.import_table import SETS, TABLE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "bayes_sd"
MAX_LINES = 300

FRONT = [
    "readers.*",
    "plots.*",
    "report",
    "prometheus_api",
    "prometheus_windows",
    "live_source",
    "cli",
    "cli_*",
]
MAY_IMPORT_FRONT = [*FRONT, "demo", "__init__"]
# Kept apart whatever the table comes to say: module, and what it may never import.
NEVER = {
    "physics.*": ["pandas", "xarray", "pymc", "pytensor"],
    "simulate": ["physics.*", "likelihoods", "model"],
    "simulate_*": ["physics.*", "likelihoods", "model"],
    "plots.*": ["model", "fitting", "predict", "pymc"],
    "decide": ["model", "likelihoods", "priors", "fitting", "posterior", "pymc", "nutpie"],
    "policy": ["model", "likelihoods", "priors", "fitting", "posterior", "pymc", "nutpie"],
}


def read_table() -> dict[str, tuple[list[str], list[str]]]:
    """Parse the table: line name -> (libraries, modules of bayes_sd)."""
    rules = {}
    for line in TABLE.strip().replace("\n+", " ").splitlines():
        (name,), *cells = (cell.split() for cell in line.split("|"))
        libraries, modules = ([x for w in cell for x in SETS.get(w, [w])] for cell in cells)
        rules[name] = (libraries, modules)
    return rules


RULES = read_table()


def covers(line: str, module: str) -> bool:
    """Tell whether a line's name ('model', 'physics.*', 'cli_*') covers a module's."""
    if line.endswith(".*"):
        return module == line[:-2] or module.startswith(line[:-1])
    return module.startswith(line[:-1]) if line.endswith("*") else module == line


def line_of(module: str) -> str | None:
    """Name the table's line for a module; None for a module that it does not list."""
    return next((line for line in RULES if covers(line, module)), None)


def imports_of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line number and full dotted name of each import, wherever in the file it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom) and node.module == "bayes_sd":
            yield from ((node.lineno, f"bayes_sd.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, str(node.module)
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                yield node.lineno, "import by a computed name"


def faults(module: str, source: str) -> list[str]:
    """List what a module's source imports against the table, one sentence for each."""
    line = line_of(module)
    if line is None:
        return [f"{module}: no line of the table covers it; add one where it belongs"]
    libraries, modules = RULES[line]
    found = []
    for number, name in imports_of(ast.parse(source)):
        head, _, rest = name.partition(".")
        if head == "":
            found.append(f"{module}:{number} imports {name} relatively; write the full name")
            continue
        if name == "import by a computed name":
            allowed = module == "__init__"
        elif head == "bayes_sd":
            # A public name taken from the package's top may stand for any module: not for insiders.
            target = rest if line_of(rest) else "__init__"
            allowed = any(covers(m, target) for m in modules) or (
                line.endswith("*") and covers(line, target)
            )
        else:
            allowed = head in sys.stdlib_module_names or head in libraries
        if not allowed:
            may = ", ".join([*libraries, *modules]) or "the standard library only"
            found.append(f"{module}:{number} imports {name}; it may import {may}")
    return found


def module_name(path: Path) -> str:
    """Name a file as the table does: 'physics.latency', 'physics' or '__init__'."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


SOURCES = sorted(PACKAGE.rglob("*.py"))
ALL_FILES = [f for d in ("bayes_sd", "tests", "benchmarks") for f in (ROOT / d).rglob("*.py")]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_imports_follow_the_table(path):
    assert faults(module_name(path), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted(ALL_FILES), ids=lambda p: str(p.relative_to(ROOT)))
def test_file_is_short_and_named_for_its_idea(path):
    assert path.stem not in ("utils", "helpers", "common", "misc")
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines, of {MAX_LINES} allowed: split it by idea"


def test_arrows_point_up():
    above: list[str] = []
    for line, (_, modules) in RULES.items():
        assert set(modules) <= set(above), f"{line} names lines that do not stand above it"
        above.append(line)


def test_only_the_front_imports_the_front():
    users = {line for line, (_, modules) in RULES.items() if set(modules) & set(FRONT)}
    assert users <= set(MAY_IMPORT_FRONT)


@pytest.mark.parametrize("line", NEVER)
def test_table_keeps_layers_apart(line):
    libraries, modules = RULES[line]
    assert not {*libraries, *modules} & set(NEVER[line])


@pytest.mark.parametrize(
    ("module", "source", "words"),
    [
        ("physics.latency", "import pandas as pd", "may import numpy"),
        ("physics", "from bayes_sd.schema import COLUMNS", "imports bayes_sd.schema"),
        ("exceptions", "import numpy", "the standard library only"),
        ("simulate", "from bayes_sd import physics", "imports bayes_sd.physics"),
        ("decide", "def choose():\n    import pymc", "decide:2 imports pymc"),
        ("policy", "from bayes_sd.model import build_model", "imports bayes_sd.model"),
        ("plots.latency", "from bayes_sd.predict import x", "imports bayes_sd.predict"),
        ("model", "from bayes_sd.plots.latency import x", "imports bayes_sd.plots.latency"),
        ("predict", "from bayes_sd import fit", "imports bayes_sd.fit"),
        ("predict", "import bayes_sd", "imports bayes_sd;"),
        ("predict", "import importlib\nimportlib.import_module('pymc')", "by a computed name"),
        ("data", "from . import schema", "relatively"),
        ("data", "from .schema import COLUMNS", "relatively"),
        ("physics_extra", "", "no line of the table covers it"),
    ],
)
def test_forbidden_import_is_reported(module, source, words):
    (fault,) = faults(module, source)
    assert words in fault


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "physics.latency",
            "import math, numpy\nfrom bayes_sd.physics import experts",
        ),
        ("model", "import pymc.dims as pmd\nfrom bayes_sd.physics.latency import x"),
        ("plots.latency", "import matplotlib.pyplot as plt\nfrom bayes_sd.plots import style"),
        ("cli_fit", "import typer\nfrom bayes_sd import fitting\nfrom bayes_sd.cli_json import x"),
    ],
)
def test_allowed_import_is_not_reported(module, source):
    assert faults(module, source) == []
