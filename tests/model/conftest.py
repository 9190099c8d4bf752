"""One small simulated study, its model and one short fit, shared by the tests of this folder."""

import pytest

from bayes_sd import fitting
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ConvergenceWarning
from bayes_sd.fitting import fit
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.sampling import compile_model
from bayes_sd.start import starting_point
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


@pytest.fixture(scope="session")
def compiled(model, data):
    return compile_model(model, starting_point(data, default_priors(data)))


@pytest.fixture(scope="session")
def tree(model, compiled):
    """Return a fit that is far too short, and says so, from the model compiled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "compile_model", lambda *args: compiled)
        with pytest.warns(ConvergenceWarning, match=r"^NOT CONVERGED"):
            return fit(model, random_seed=5, draws=60, tune=200, chains=2, progressbar=False)
