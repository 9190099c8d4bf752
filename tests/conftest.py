"""Settings and fixtures shared by all tests; needs NumPy only, as the physics tests do."""

import os

import numpy as np
import pytest

# Set before anything imports matplotlib, and inherited by subprocesses: no test opens a window.
os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a fresh generator with a fixed seed: a test's draws depend on no other test."""
    return np.random.default_rng(20240607)
