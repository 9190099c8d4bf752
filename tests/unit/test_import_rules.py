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

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "bayes_sd"
MAX_LINES = 300

# module     | libraries                     | modules of bayes_sd
TABLE = """
exceptions        |                               |
schema_columns    |                               |
schema            |                               | schema_columns
validate          | ARRAYS                        | exceptions schema
physics.*         | numpy                         |
simulate_*        | numpy pandas scipy numba      | LOW
simulate          | numpy pandas rich             | LOW simulate_*
labels            | ARRAYS                        | LOW
run_checks        | numpy pandas                  | LOW
acceptance_counts | numpy pandas                  | LOW run_checks
run_variables     | ARRAYS                        | LOW run_checks
request_statistics | numpy pandas                 | LOW run_variables
unit_checks       | numpy pandas                  | LOW
frames            | numpy pandas                  | LOW run_checks unit_checks
equivalent_rate   | scipy                         | physics.*
draft_shapes      | numpy pandas                  | LOW acceptance_counts equivalent_rate
data              | ARRAYS                        | LOW frames ROWS draft_shapes
datasets          | numpy pandas                  | LOW frames
prior             | numpy scipy                   | LOW
acceptance_priors |                               | prior
acceptance_levels | numpy xarray                  | LOW physics.*
acceptance_likelihoods | numpy GRAPH              | LOW
percentile_ratios | numpy scipy                   | LOW physics.*
tail_likelihood   | numpy GRAPH                   | LOW physics.* percentile_ratios
priors            | ARRAYS GRAPH scipy            | LOW physics.* prior acceptance_priors
population        | ARRAYS GRAPH                  | LOW priors
run_load          | numpy xarray                  | LOW physics.*
expert_graph      | ARRAYS GRAPH                  | LOW physics.* labels priors
acceptance_graph  | ARRAYS GRAPH                  | LOW physics.* priors population
+ acceptance_levels acceptance_likelihoods
likelihoods       | ARRAYS GRAPH                  | LOW physics.*
shares_of_sums    | GRAPH                         |
graph             | ARRAYS GRAPH                  | LOW physics.* labels priors population
+ shares_of_sums expert_graph
ttft_graph        | ARRAYS GRAPH                  | LOW prior priors population run_load
+ shares_of_sums
least_squares     | ARRAYS scipy                  | LOW physics.* labels priors run_load
+ acceptance_graph acceptance_levels
percentile_graph  | ARRAYS GRAPH                  | LOW physics.* prior population run_load
+ acceptance_levels percentile_ratios tail_likelihood
model             | ARRAYS GRAPH                  | LOW physics.* data priors likelihoods graph
+ run_load population acceptance_graph expert_graph ttft_graph percentile_graph
+ least_squares
start             | ARRAYS scipy                  | LOW priors graph least_squares
convergence       | ARRAYS arviz                  | LOW
storage           | ARRAYS                        | LOW
fitting           | ARRAYS GRAPH nutpie           | LOW data priors model start convergence
+ storage acceptance_graph least_squares
scenario          | numpy pandas                  | LOW
posterior         | numpy xarray                  | LOW physics.* labels scenario acceptance_levels
+ equivalent_rate
support           | numpy xarray                  | LOW physics.* scenario
new_pairs         | numpy xarray scipy            | LOW physics.* priors scenario posterior
configuration     | numpy xarray                  | LOW physics.* run_load scenario posterior
+ new_pairs
request_latency   | numpy                         | LOW physics.* configuration percentile_ratios
+ acceptance_levels
sensitivity       | ARRAYS arviz scipy            | LOW prior priors new_pairs
predict           | ARRAYS scipy                  | LOW physics.* scenario posterior support
+ configuration request_latency
acceptance_predict | ARRAYS                       | LOW physics.* acceptance_levels posterior
summary           | ARRAYS                        | LOW
shares            | ARRAYS                        | LOW physics.* scenario predict configuration
decision          | pandas                        |
decide            | ARRAYS                        | LOW physics.* scenario predict decision
+ configuration
policy            | ARRAYS                        | LOW physics.* scenario predict decide
pair_comparison   | ARRAYS                        | LOW scenario predict decide
run_value         | ARRAYS                        | LOW scenario predict decide
runs_needed       | numpy xarray                  | LOW scenario decide run_value
break_even        | ARRAYS                        | LOW physics.* scenario support predict decide
+ configuration
curves            | ARRAYS                        | LOW scenario support predict decide
+ configuration
run_law           | ARRAYS scipy                  | LOW physics.* labels posterior acceptance_graph
+ run_load
+ acceptance_levels expert_graph likelihoods
check             | ARRAYS pymc                   | LOW data prior model run_law
generate_counts   | ARRAYS scipy                  | LOW acceptance_likelihoods run_law
generate          | ARRAYS                        | LOW physics.* run_load run_law
+ generate_counts ttft_graph
uniformity        | ARRAYS scipy                  | LOW
sbc_quantities    | ARRAYS                        | LOW physics.* scenario posterior predict
+ configuration
+ break_even run_law generate_counts
sbc_mistakes      | ARRAYS GRAPH                  | LOW run_law
sbc               | ARRAYS GRAPH nutpie rich arviz | LOW data priors model start fitting generate
+ uniformity
+ run_law sbc_quantities sbc_mistakes
measured_acceptance | numpy xarray                | LOW physics.* acceptance_levels
baselines         | ARRAYS scipy                  | LOW physics.* measured_acceptance
readers.*         | numpy pandas orjson zstandard pyarrow rich | LOW frames request_statistics
plots.*           | ARRAYS matplotlib arviz_plots | LOW
report            | ARRAYS rich                   | LOW MIDDLE plots.*
render            | ARRAYS rich                   | LOW convergence decision policy break_even
demo              | ARRAYS rich matplotlib        | LOW MIDDLE SHOWN
cli_*             | ARRAYS rich typer             | LOW MIDDLE SHOWN readers.* demo
cli               | ARRAYS rich typer             | LOW MIDDLE SHOWN readers.* demo cli_*
__init__          |                               | LOW MIDDLE datasets readers.* plots.* report
"""
SETS = {
    "ARRAYS": ["numpy", "pandas", "xarray"],
    "GRAPH": ["pymc", "pytensor"],
    "LOW": ["exceptions", "schema", "schema_columns", "validate"],
    "ROWS": ["run_checks", "labels", "acceptance_counts", "run_variables"],
    "MIDDLE": (
        "frames data priors model convergence storage fitting check scenario posterior predict "
        "summary shares decision decide policy break_even curves sensitivity prior "
        "acceptance_predict sbc pair_comparison run_value runs_needed "
        "uniformity request_statistics simulate simulate_*"
    ).split(),
    "SHOWN": ["datasets", "plots.*", "report", "render"],
}
FRONT = ["readers.*", "plots.*", "report", "cli", "cli_*"]
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
