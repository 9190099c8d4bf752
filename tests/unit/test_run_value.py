"""The value of a run: against the closed form of two normal arms, and on a made-up posterior."""

import numpy as np
import pytest
from scipy.stats import norm

from bayes_sd import run_value
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning
from bayes_sd.run_value import features_of, next_run, regret_after_result
from bayes_sd.runs_needed import runs_until_sure
from bayes_sd.scenario import Scenario
from tests.fake_fit import fake_fit

PAIR = "big + draft_model (quick)"


@pytest.fixture(scope="module")
def unsure():
    return fake_fit(draws=1500, spread=0.3, discrepancy_sd=0.05)


def run(rate=2.0, k=3, **changes):
    return Scenario(PAIR, request_rate_rps=rate, num_speculative_tokens=k, **changes)


@pytest.mark.parametrize(("center", "noise_sd"), [(0.0, 0.5), (0.4, 0.5), (0.4, 2.0), (-0.8, 0.3)])
def test_value_of_a_result_is_that_of_the_closed_form(center, noise_sd):
    """Two arms whose difference is normal: unit normal loss, Raiffa and Schlaifer (1961)."""
    rng = np.random.default_rng(1)
    gap = rng.normal(center, 1.0, 200_000)
    result = gap + rng.normal(0, noise_sd, gap.size)
    regret = [np.column_stack([np.maximum(gap, 0), np.maximum(-gap, 0)])]
    halves = rng.permutation(gap.size) % 2 == 0
    now, after = (
        regret_after_result(regret, features, halves).mean()
        for features in (None, features_of(result))
    )
    spread = 1 / np.sqrt(1 + noise_sd**2)
    at = abs(center) / spread
    expected = spread * (norm.pdf(at) - at * norm.cdf(-at))
    assert now - after == pytest.approx(expected, abs=0.006)


def test_a_result_that_says_nothing_is_worth_nothing():
    rng = np.random.default_rng(2)
    gap = rng.normal(0.1, 1.0, 20_000)
    regret = [np.column_stack([np.maximum(gap, 0), np.maximum(-gap, 0)])]
    halves = rng.permutation(gap.size) % 2 == 0
    noise = features_of(rng.normal(size=gap.size))
    now, after = (regret_after_result(regret, f, halves).mean() for f in (None, noise))
    assert after >= now - 0.005  # judged on draws it was not fitted on: no gain by chance


def test_results_past_capacity_are_a_mark_of_their_own():
    features = features_of(np.array([0.1, np.inf, 0.3, np.inf]))
    assert np.isfinite(features).all()
    assert features[:, -1].tolist() == [0, 1, 0, 1]
    assert features_of(np.full(3, np.inf)).tolist() == [[1], [1], [1]]


def test_a_misfit_that_no_fit_can_learn_is_worth_no_run(monkeypatch):
    """The law is known and its misfit is not: a refit takes it for noise, and learns nothing.

    Where results share the misfit of what is decided, as they once did, a run seems to save most
    of the regret: the same check tells the two apart.
    """
    tree = fake_fit(draws=1500, spread=0.001, discrepancy_sd=0.1)
    candidates = [run(k=k) for k in (0, 1, 3, 5)]
    found = next_run(tree, candidates)
    assert found.regret_now > 0.04
    assert found.choice is None
    assert min(found.regret_after) > 0.95 * found.regret_now
    monkeypatch.setattr(run_value, "RESULT_SEED", 0)
    assert min(next_run(tree, candidates).regret_after) < 0.5 * found.regret_now


def test_a_sure_fit_needs_no_run():
    sure = fake_fit(draws=300, spread=0.001, discrepancy_sd=0.0001)
    found = next_run(sure, [run(k=k) for k in (1, 3, 5)])
    assert found.choice is None
    assert "No candidate" in found.statement()
    assert runs_until_sure(sure, run()) == 0


def test_an_unsure_fit_gains_from_a_run_of_a_rival(unsure):
    found = next_run(unsure, [run(k=k) for k in (0, 5)] + [run(k=5, num_requests=2)])
    table = found.to_frame()
    assert found.choice == 0
    assert (table["regret_reduction"].diff().dropna() <= 0).all()
    assert found.candidates[0].label in found.statement()
    assert len(found.decisions) == 1  # one pair at one load, whatever the runs would be
    assert found.to_dict()["choice"] == found.candidates[0].label


def test_more_certainty_takes_more_runs(unsure):
    few, many = (runs_until_sure(unsure, run(), certainty=c) for c in (0.8, 0.9))
    assert few is not None
    assert many is not None
    assert few <= many


def test_a_single_candidate_needs_no_run():
    tree = fake_fit(draws=600, spread=0.2, boot_sd=0.05)
    assert runs_until_sure(tree, run(), candidates=[0], certainty=0.99) == 0


def test_bad_fit_is_said_first():
    tree = fake_fit(draws=40, passed=False)
    with pytest.warns(ConvergenceWarning):
        found = next_run(tree, [run()])
    assert found.statement().startswith(found.convergence)


@pytest.mark.parametrize(
    ("candidates", "more", "words"),
    [
        ([], {}, "at least one Scenario"),
        (["x"], {}, "at least one Scenario"),
        ([run()], {"decisions": []}, "decisions must hold"),
        ([run()], {"draft_length_candidates": [-1]}, "at least 0"),
    ],
)
def test_bad_arguments_say_what_is_allowed(unsure, candidates, more, words):
    with pytest.raises(ArgumentError, match=words):
        next_run(unsure, candidates, **more)


@pytest.mark.parametrize("certainty", [0, 1, 95])
def test_certainty_is_a_probability(unsure, certainty):
    with pytest.raises(ArgumentError, match="certainty"):
        runs_until_sure(unsure, run(), certainty=certainty)
