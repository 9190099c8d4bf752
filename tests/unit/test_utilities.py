"""What a draft length is chosen for: each utility against counting by hand on the same draws."""

import numpy as np
import pytest

from bayes_sd.decide import choose_draft_length, compare, decide_from_draws
from bayes_sd.exceptions import ArgumentError
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.scenario import Scenario
from bayes_sd.utilities import check_utility, criterion_of, losses_of
from tests.fake_fit import fake_fit

PAIR = "big + draft_model (quick)"
LENGTHS = (0, 1, 3, 5)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=400, spread=0.2, discrepancy_sd=0.05)


def scenario(**changes):
    return Scenario(PAIR, **({"request_rate_rps": 2.0} | changes))


def arms(**changes):
    return [scenario(num_speculative_tokens=k, **changes) for k in LENGTHS]


def choose(tree, utility, slo=None, **changes):
    return choose_draft_length(
        tree, scenario(**changes), utility=utility, slo=slo, candidates=LENGTHS, max_regret=0.9
    )


def test_percentile_is_that_of_the_requests(tree):
    drawn = predict_quantiles(tree, arms(), [0.95]).values[:, :, 0]
    best, regret = compare(drawn)
    found = choose(tree, "p95")
    assert found.probability_best == tuple(best)
    assert found.expected_regret == tuple(regret)
    assert found.utility == found.to_dict()["utility"] == "p95"


def test_objective_counts_the_draws_that_meet_it(tree):
    drawn = predict_quantiles(tree, arms(), [0.95]).values[:, :, 0]
    limit = float(np.median(drawn[:, 2]))
    met = drawn <= limit
    losses = losses_of(
        tree, arms(), "slo", check_utility("slo", f"e2e_p95 <= {limit!r}", arms()[0])
    )
    assert (np.isfinite(losses) == met).all()
    found = choose(tree, "slo", f"e2e_p95 <= {limit!r}")
    regret = (met.any(axis=1, keepdims=True) & ~met).mean(axis=0)
    assert found.expected_regret == pytest.approx(regret)
    assert found.choice == LENGTHS[int(met.mean(axis=0).argmax())]


def test_an_objective_that_nothing_meets_is_said(tree):
    found = choose(tree, "slo", "e2e_p95 <= 0.0001")
    assert found.choice is None
    assert found.verdict == "objective not met"
    assert choose(tree, "goodput", "e2e_p95 <= 0.0001").choice is None


def test_goodput_at_a_rate_is_the_share_within_the_objective(tree):
    easy = choose(tree, "goodput", "e2e_p95 <= 1000")
    assert easy.expected_regret == pytest.approx((0, 0, 0, 0))  # all answer all requests
    mean = predict_latency(tree, arms())["e2e_s"].values
    nearly = choose(tree, "goodput", f"e2e_p95 <= {1.35 * float(mean.max())!r}")
    assert nearly.probability_best == pytest.approx([0.25] * 4, abs=0.002)  # not by rounding
    hard = choose(tree, "goodput", f"e2e_p95 <= {float(np.median(mean[:, 2]))!r}")
    assert hard.expected_regret[2] < hard.expected_regret[0]


def test_cost_per_token_is_server_time(tree):
    closed = {"request_rate_rps": None, "concurrency": 8}
    latency = predict_latency(tree, arms(**closed))["e2e_s"].values
    losses = losses_of(tree, arms(**closed, output_len_tokens=100), "cost")
    scaled = predict_latency(tree, arms(**closed, output_len_tokens=100))["e2e_s"].values
    assert losses == pytest.approx(scaled / (8 * 100))
    # At one concurrency the cheapest is the fastest.
    assert choose(tree, "cost", **closed).probability_best == tuple(compare(latency)[0])


def test_risk_prefers_the_candidate_whose_worst_draws_are_mild():
    rng = np.random.default_rng(0)
    safe = np.full(1000, 1.05)
    bold = np.where(rng.random(1000) < 0.05, 1.5, 1.0)
    losses = np.stack([safe, bold], axis=1)
    regret = compare(losses)[1]
    assert criterion_of(losses, regret, "mean").argmin() == 1
    assert criterion_of(losses, regret, "cvar").argmin() == 0
    assert criterion_of(losses, regret, "cvar")[1] == pytest.approx(np.sort(bold)[-100:].mean())


def test_choice_by_risk_is_used_in_the_decision(tree):
    draws = predict_latency(tree, arms())
    losses = np.tile([1.05, 1.0, 2.0, 2.0], (draws.sizes["sample"], 1))
    losses[:30, 1] = 5.0
    for utility, choice in (("mean", 1), ("cvar", 0)):
        decision = decide_from_draws(draws, LENGTHS, losses=losses, utility=utility, max_regret=0.9)
        assert decision.choice == choice


@pytest.mark.parametrize(
    ("utility", "slo", "words"),
    [
        ("men", None, "Did you mean 'mean'"),
        ("p0", None, "utility must be"),
        ("slo", None, "must come with slo"),
        ("mean", "e2e_p95 <= 2", "slo is used by"),
        ("cost", None, "concurrency"),
        (3, None, "utility must be"),
    ],
)
def test_bad_arguments_say_what_is_allowed(tree, utility, slo, words):
    with pytest.raises(ArgumentError, match=words):
        choose(tree, utility, slo)
