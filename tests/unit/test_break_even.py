"""Where speculation stops paying, against SciPy's root of the two solved curves over the rate."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from bayes_sd.break_even import break_even_rate
from bayes_sd.exceptions import ArgumentError, ConvergenceWarning, DataError, UnknownPairError
from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch
from bayes_sd.scenario import Scenario
from tests.fake_fit import BIG, FORCED, KNOWN, MAX_NUM_SEQS, fake_fit, true_latency

SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
SHARP = KNOWN.of_pair["big", "sharp"]


def changed(base=(), pair=()):
    """Return the known law with other costs of ``big`` and of its drafter ``sharp``."""
    return replace(
        KNOWN,
        of_base=dict(KNOWN.of_base) | {"big": BIG | dict(base)},
        of_pair=dict(KNOWN.of_pair) | {("big", "sharp"): SHARP | dict(pair)},
    )


def fit_of(coefficients):
    return fake_fit(draws=3, coefficients=coefficients, **SILENT)


def latency_at(rate, coefficients, k, acceptance=FORCED):
    """Solve the law at a rate; infinite past capacity."""
    costs = coefficients.costs("big", "sharp" if k else None)
    batch = solve_effective_batch(
        rate, lambda b: true_latency(costs, (acceptance,) * k, k, b), MAX_NUM_SEQS
    )
    return float(batch) / rate


def independent_turn(coefficients, k, low, high):
    """Return the rate at which the two solved curves cross, by a root finder over the rate."""
    gap = lambda r: latency_at(r, coefficients, k) - latency_at(r, coefficients, 0)  # noqa: E731
    return brentq(gap, low, high, xtol=1e-9)


@pytest.mark.parametrize(("k", "low", "high"), [(1, 14.0, 17.5), (3, 10.0, 15.5), (5, 8.0, 13.5)])
def test_the_turn_is_where_the_two_solved_curves_cross(k, low, high):
    found = break_even_rate(fit_of(KNOWN), "sharp", num_speculative_tokens=k, acceptance=FORCED)
    assert (found.p_crosses, found.p_never, found.p_always, found.p_reversed) == (1, 0, 0, 0)
    expected = independent_turn(KNOWN, k, low, high)
    np.testing.assert_allclose(found.rate, expected, rtol=2e-3)
    assert latency_at(0.98 * expected, KNOWN, k) < latency_at(0.98 * expected, KNOWN, 0)


def test_the_turn_comes_earlier_for_longer_drafts():
    tree = fit_of(KNOWN)
    turns = [
        break_even_rate(tree, "sharp", num_speculative_tokens=k, acceptance=FORCED).interval()[1]
        for k in (1, 3, 5)
    ]
    assert turns[0] > turns[1] > turns[2]


def test_in_a_closed_loop_the_turn_is_a_number_of_requests():
    scenario = Scenario("sharp", concurrency=1, acceptance=FORCED)
    found = break_even_rate(fit_of(KNOWN), "sharp", num_speculative_tokens=3, scenario=scenario)
    costs = [KNOWN.costs("big", "sharp"), KNOWN.costs("big")]

    def gap(n):
        on = true_latency(costs[0], (FORCED,) * 3, 3, n, arrivals="closed")
        return float(on - true_latency(costs[1], (), 0, n, arrivals="closed"))

    np.testing.assert_allclose(found.rate, brentq(gap, 1.0, 200.0), rtol=2e-3)
    assert found.unit == "requests in flight"


def test_a_costly_drafter_never_pays():
    never = changed(pair={"draft_fixed_s": 0.05})
    found = break_even_rate(fit_of(never), "sharp", num_speculative_tokens=3, acceptance=FORCED)
    assert (found.p_crosses, found.p_never, found.p_always, found.p_reversed) == (0, 1, 0, 0)
    assert np.isnan(found.rate).all()
    assert np.isnan(found.interval()).all()
    assert "no load at which speculation turns from gain to loss" in found.statement()
    assert "P(never pays) 1.00" in found.statement()


def test_a_free_drafter_always_pays():
    free = {"draft_fixed_s": 0.0, "draft_per_request_s": 0.0, "verify_growth_per_draft": 0.0}
    always = changed(base={"knee_s_per_token": 0.0}, pair=free)
    found = break_even_rate(fit_of(always), "sharp", num_speculative_tokens=3, acceptance=FORCED)
    assert (found.p_crosses, found.p_never, found.p_always, found.p_reversed) == (0, 0, 1, 0)


def test_a_drafter_that_pays_only_under_load_is_reversed():
    # A dear draft step that no request adds to: lost when idle, and made good by fewer steps
    # once the cost of a step is that of its requests.
    costly = changed(
        base={"verify_per_request_s": 1e-3, "knee_s_per_token": 0.0},
        pair={
            "draft_fixed_s": 0.02,
            "draft_per_request_s": 0.0,
            "verify_growth_per_draft": 0.0,
        },
    )
    found = break_even_rate(fit_of(costly), "sharp", num_speculative_tokens=1, acceptance=FORCED)
    assert (found.p_crosses, found.p_never, found.p_always, found.p_reversed) == (0, 0, 0, 1)
    assert latency_at(0.1, costly, 1) > latency_at(0.1, costly, 0)
    assert "P(pays only under load) 1.00" in found.statement()


def test_an_arm_that_reaches_its_capacity_first_stops_paying_there():
    # The bend is so steep that the rate of the drafting arm peaks and falls while it is still the
    # faster at equal batch; without drafts the server serves rates that it cannot.
    steep = changed(
        base={
            "prefill_stall_per_token_s": 1e-6,
            "knee_s_per_token": 2e-3,
            "knee_tokens": 100.0,
            "knee_width_tokens": 30.0,
        },
        pair={"draft_per_request_s": 0.0, "verify_growth_per_draft": 0.0},
    )
    capacity = {
        k: float(
            capacity_rps(
                lambda b, k=k: true_latency(
                    steep.costs("big", "sharp" if k else None), (FORCED,) * k, k, b
                ),
                MAX_NUM_SEQS,
            )[0]
        )
        for k in (0, 3)
    }
    assert capacity[3] < capacity[0]
    below = 0.995 * capacity[3]
    assert latency_at(below, steep, 3) < latency_at(below, steep, 0)
    found = break_even_rate(fit_of(steep), "sharp", num_speculative_tokens=3, acceptance=FORCED)
    assert (found.p_crosses, found.p_always) == (1, 0)
    np.testing.assert_allclose(found.rate, capacity[3], rtol=1e-2)


def test_break_even_acceptance_length_of_one_box():
    """Case C20: 50 ms a step against 32 ms a token, whatever the load, break even at 1.56.

    Source: https://github.com/Tanguille/cluster/pull/4910.
    """
    flat = dict.fromkeys(BIG, 0.0) | {"verify_fixed_s": 0.032, "knee_tokens": 1.0}
    drafting = {"draft_fixed_s": 0.018, "draft_per_request_s": 0.0, "verify_growth_per_draft": 0.0}
    tree = fit_of(changed(base=flat, pair=drafting))
    long_answer = Scenario("sharp", request_rate_rps=1.0, output_len_tokens=4096)

    def pays(acceptance):
        found = break_even_rate(
            tree,
            "sharp",
            num_speculative_tokens=1,
            scenario=replace(long_answer, acceptance=acceptance),
        )
        assert found.p_always + found.p_never == 1
        return found.p_always == 1

    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    assert 1 + (low + high) / 2 == pytest.approx(1.56, abs=0.005)


def test_an_uncertain_law_gives_an_interval_about_the_truth():
    tree = fake_fit(draws=300, spread=0.02)
    found = break_even_rate(tree, "sharp", num_speculative_tokens=5, acceptance=FORCED)
    low, middle, high = found.interval()
    truth = independent_turn(KNOWN, 5, 8.0, 13.5)
    assert low < truth < high
    assert middle == pytest.approx(truth, rel=0.05)
    assert found.p_crosses + found.p_never + found.p_always + found.p_reversed == pytest.approx(1)
    assert np.isfinite(found.rate).mean() == pytest.approx(found.p_crosses)
    narrow = found.interval(level=0.5)
    assert low < narrow[0] < narrow[1] == middle < narrow[2] < high
    assert f"stops paying at {middle:.3g} requests/s" in found.statement()


def test_what_was_not_measured_is_named():
    tree = fit_of(KNOWN)
    found = break_even_rate(tree, "small", num_speculative_tokens=3)
    assert found.status == "extrapolated"
    assert "k = 0" in found.outside.split(", ")
    assert found.statement().endswith(f"[extrapolated: {found.outside}]")


def test_plain_values_are_json():
    found = break_even_rate(fit_of(KNOWN), "quick", num_speculative_tokens=1)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["median"] is None
    assert plain["p_always"] == 1.0
    assert plain["pair"] == "big + draft_model (quick)"


def test_a_fit_that_did_not_converge_is_said_first():
    tree = fake_fit(draws=5, passed=False)
    with pytest.warns(ConvergenceWarning, match=r"NOT CONVERGED"):
        found = break_even_rate(tree, "quick", num_speculative_tokens=1)
    assert found.statement().startswith("NOT CONVERGED")


@pytest.mark.parametrize(
    ("pair", "options", "error", "words"),
    [
        ("quick", {"num_speculative_tokens": 0}, ArgumentError, r"at least 1\. Got 0"),
        ("shrap", {"num_speculative_tokens": 1}, UnknownPairError, r"pair 'shrap' is unknown"),
        ("sharp", {"num_speculative_tokens": 1}, DataError, r"was not counted"),
        (
            "sharp",
            {
                "num_speculative_tokens": 1,
                "acceptance": 0.8,
                "scenario": Scenario("sharp", request_rate_rps=1.0),
            },
            ArgumentError,
            r"in the scenario or alone\. Got both: drop one",
        ),
    ],
)
def test_what_cannot_be_answered_is_said(pair, options, error, words):
    with pytest.raises(error, match=words):
        break_even_rate(fit_of(KNOWN), pair, **options)
