"""Importing the package, or its formulas, loads none of the large libraries."""

import subprocess
import sys

import pytest

HEAVY = {"arviz", "matplotlib", "nutpie", "pandas", "pymc", "pytensor", "scipy", "xarray"}


def heavy_modules_after(code: str) -> set[str]:
    """Run `code` in a fresh interpreter, warnings being errors; the large libraries it loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import bayes_sd",
        "import bayes_sd; dir(bayes_sd); bayes_sd.__version__",
        "import bayes_sd; hasattr(bayes_sd, 'no_such_name')",
        "import bayes_sd.physics.latency",
    ],
)
def test_import_loads_no_large_library(code):
    assert heavy_modules_after(code) == set()


def test_the_check_notices_a_large_library():
    assert "matplotlib" in heavy_modules_after("import bayes_sd, matplotlib")
