"""One small simulated study, its model and one short fit, shared by the tests of this folder."""

import pytest

from bayes_sd.data import to_dataset
from bayes_sd.model import build_model
from tests.simulated_runs import simulated_frame


@pytest.fixture(scope="session")
def frame():
    return simulated_frame(
        boot_sd=0.01, misfit_sd=0.01, request_cv=0.15, load_shares=(0.05, 0.3, 0.6), random_seed=3
    )


@pytest.fixture(scope="session")
def data(frame):
    return to_dataset(frame)


@pytest.fixture(scope="session")
def model(data):
    return build_model(data)
