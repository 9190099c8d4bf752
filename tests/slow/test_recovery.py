"""Recovery: fit runs of a known law, and predict fresh boots at loads that were never measured.

N = 8 sweeps (k = 0, 1, 3 and 5, two boots of each) of 6 runs with 200 requests each. The check is
coverage: at least 85 % of fresh runs must fall into the 90 % intervals of ``kind="run"``. A fit
that were told of another acceptance must fail the very same check, or the check says nothing.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from bayes_sd.convergence import diagnose
from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ConvergenceWarning
from bayes_sd.fitting import fit
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from tests.simulated_runs import BIG, KNOWN, simulated_frame

PAIR = ("big", "quick")
LAW = replace(
    KNOWN,
    of_base={"big": BIG},
    of_pair={PAIR: KNOWN.of_pair[PAIR]},
    acceptance={PAIR: KNOWN.acceptance[PAIR]},
    forced=(),
)
NOISE = {"boot_sd": 0.015, "misfit_sd": 0.01, "request_cv": 0.2}
MEASURED = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8)
UNSEEN = (0.1, 0.42, 0.58, 0.72)
FRESH_BOOTS = 10

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs():
    return simulated_frame(LAW, load_shares=MEASURED, boots=2, random_seed=1, **NOISE)


def fitted(frame):
    """Fit; the tests judge convergence themselves, a single divergence apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(to_dataset(frame), random_seed=1, progressbar=False)


@pytest.fixture(scope="module")
def tree(runs):
    assert runs["sweep_id"].nunique() == 8
    return fitted(runs)


@pytest.fixture(scope="module")
def fresh():
    """Runs of other boots at other loads: 4 draft lengths x 4 loads x 10 boots = 160."""
    frame = simulated_frame(LAW, load_shares=UNSEEN, boots=FRESH_BOOTS, random_seed=2, **NOISE)
    assert len(frame) == 160
    return frame


def coverage(tree, fresh, level=0.9, acceptance=None):
    """Return the share of fresh runs inside the central interval of their prediction."""
    scenarios = [
        Scenario(
            "draft_model",
            request_rate_rps=run.request_rate_rps,
            num_speculative_tokens=run.num_speculative_tokens,
            num_requests=run.num_requests,
            acceptance=acceptance if run.num_speculative_tokens else None,
        )
        for run in fresh.itertuples()
    ]
    draws = predict_latency(tree, scenarios, "run", random_seed=9)["e2e_s"].values
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0, method="inverted_cdf")
    measured = fresh["mean_e2e_s"].to_numpy()
    return float(((measured >= low) & (measured <= high)).mean())


def test_the_fit_converged(tree):
    """Of so few runs the error scales have funnels: one draw in a thousand may diverge."""
    verdict = diagnose(tree, warn=False)
    assert verdict.r_hat <= 1.01, verdict.sentence()
    assert min(verdict.ess_bulk, verdict.ess_tail) >= 400, verdict.sentence()
    assert verdict.divergences <= 3, verdict.sentence()


def test_fresh_runs_at_unseen_loads_are_inside_their_intervals(tree, fresh):
    assert coverage(tree, fresh) >= 0.85


def test_intervals_are_not_wide_for_nothing(tree, fresh):
    """An interval that holds everything would pass, too: half of the runs are in the 50 % ones."""
    assert 0.35 <= coverage(tree, fresh, level=0.5) <= 0.75


def test_a_miscounted_bonus_token_is_rejected(tree, fresh):
    """Count the verifier's own token as an accepted draft: every rate moves one position on.

    The mistake is made in the prediction. In the runs of one pair it would be made up for by the
    drafting costs, which are told by the same latencies: measured loads and lengths come out right.
    """
    miscounted = (1.0, *LAW.acceptance[PAIR][:-1])
    assert coverage(tree, fresh, acceptance=tuple(LAW.acceptance[PAIR])) >= 0.85
    assert coverage(tree, fresh, acceptance=miscounted) < 0.6
