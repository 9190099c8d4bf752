"""Batches at several loads against the safe root finder at full precision, in every draw."""

import numpy as np
import pytest
import xarray as xr

from bayes_sd.configuration import MisfitDraws, misfit_draws, resolve
from bayes_sd.configuration_draws import medians
from bayes_sd.law_of_draws import LawOfDraws
from bayes_sd.load_curve import LoadCurve
from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.smooth_curve import SmoothCurve, curve_of
from bayes_sd.smooth_law import SmoothLaw
from tests.fake_fit import FORCED, KNOWN, Coefficients, fake_fit

RATES = np.array([0.01, 0.5, 2.0, 6.0, 10.0, 12.0, 13.0, 14.0, 15.0, 25.0, 100.0])
JUMPS = {"jump_64_s": 1e-3, "jump_128_s": 2e-3, "jump_256_s": 1e-3}
EXPERTS = {"expert_share": 0.8, "expert_load_cv": 0.7, "hot_expert_growth": 0.3}
ASKED = Scenario("sharp", request_rate_rps=1.0, acceptance=FORCED, num_speculative_tokens=3)


def fit_of(spread, **of_base):
    law = Coefficients(
        {name: costs | of_base for name, costs in KNOWN.of_base.items()},
        KNOWN.of_pair,
        KNOWN.acceptance,
    )
    tree = fake_fit(150, 2, spread, coefficients=law, load_discrepancy_sd=0.02)
    if "expert_share" in of_base:
        data = tree["constant_data"].to_dataset()
        counts = {"num_experts": 32, "experts_per_token": 2}
        changed = {name: xr.full_like(data[name], count) for name, count in counts.items()}
        tree["constant_data"] = xr.DataTree(data.assign(changed))
    return tree


def exact(found, rate, factor=1.0):
    """Solve by the safe method, to full precision."""
    return solve_effective_batch(
        rate * factor, found.latency, found.scenario.max_num_seqs, relative_tolerance=1e-14
    )


def assert_close(batch, expected, tolerance=2e-9):
    np.testing.assert_array_equal(np.isinf(batch), np.isinf(expected))
    alive = np.isfinite(expected)
    np.testing.assert_allclose(batch[alive], expected[alive], rtol=tolerance)


either = pytest.mark.parametrize("curve_from", [LoadCurve, curve_of], ids=["general", "chosen"])


@either
@pytest.mark.parametrize("arrivals", ["poisson", "constant"])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("terms", [{}, JUMPS, EXPERTS], ids=["dense", "jumps", "experts"])
def test_batches_are_the_roots_with_and_without_misfit(terms, spread, arrivals, curve_from):
    found = resolve(fit_of(spread, **terms), ASKED.with_(arrivals=arrivals))
    curve, misfit = curve_from(found), misfit_draws(found, 0)
    points = curve.points(RATES)
    doublings = np.linspace(0.0, 1.0, len(RATES))
    batch = curve.solve(RATES, points, misfit, doublings)
    for i, rate in enumerate(RATES):
        central = exact(found, rate)
        assert_close(points.central[i], central)
        finite = np.isfinite(central)
        share = np.where(finite, found.elasticity(np.where(finite, central, 1.0)), 1.0)
        assert_close(batch[i], exact(found, rate, misfit.factor(share, doublings[i])))


@either
def test_draws_far_apart_and_a_small_limit_on_requests_in_flight(curve_from):
    found = resolve(fit_of(0.4), ASKED.with_(max_num_seqs=16))
    curve = curve_from(found)
    misfit = MisfitDraws(*0.1 * np.random.default_rng(0).standard_normal((3, 300)))
    points = curve.points(RATES)
    batch = curve.solve(RATES, points, misfit, np.zeros(len(RATES)))
    for i, rate in enumerate(RATES):
        central = exact(found, rate)
        assert_close(points.central[i], central, tolerance=1e-7)
        finite = np.isfinite(central)
        share = np.where(finite, found.elasticity(np.where(finite, central, 1.0)), 1.0)
        assert_close(batch[i], exact(found, rate, misfit.factor(share, 0.0)), tolerance=1e-7)
    assert 0.1 < np.isinf(batch).mean() < 0.9


@either
def test_a_further_factor_multiplies_the_rate(curve_from):
    found = resolve(fit_of(0.02), ASKED)
    curve, misfit = curve_from(found), MisfitDraws(*np.zeros((3, 300)))
    rates, further = np.array([4.0, 9.0]), np.linspace(0.7, 1.3, 300)
    batch = curve.solve(rates, curve.points(rates), misfit, np.zeros(2), further)
    for i, rate in enumerate(rates):
        assert_close(batch[i], exact(found, rate, further))


@pytest.mark.parametrize("spread", [0.02, 0.4])
@pytest.mark.parametrize("terms", [{}, JUMPS], ids=["dense", "jumps"])
def test_every_load_is_the_same_to_the_last_bit_alone_and_among_others(terms, spread):
    tree = fit_of(spread, **terms)
    together = predict_latency(tree, [ASKED.with_(request_rate_rps=r) for r in RATES])
    for i, rate in enumerate(RATES):
        alone = predict_latency(tree, ASKED.with_(request_rate_rps=rate))
        for name in ("e2e_s", "effective_batch"):
            np.testing.assert_array_equal(together[name].values[:, i], alone[name].values[:, 0])


@either
@pytest.mark.parametrize("share", [0.9, 0.99, 0.999, 0.9999, 1.0001])
def test_just_below_and_above_capacity(share, curve_from):
    found = resolve(fit_of(0.0), ASKED)
    rate = np.array([share * float(capacity_rps(found.latency, 256.0)[0].flat[0])])
    assert_close(curve_from(found).points(rate).central[0], exact(found, rate[0]), tolerance=1e-6)


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "closed"])
@pytest.mark.parametrize("terms", [{}, JUMPS, EXPERTS], ids=["dense", "jumps", "experts"])
def test_the_slope_is_the_derivative(terms, arrivals):
    scenario = (
        ASKED.with_(concurrency=1) if arrivals == "closed" else ASKED.with_(arrivals=arrivals)
    )
    found = resolve(fit_of(0.05, **terms), scenario)
    law = LawOfDraws.of(found)
    batch = np.linspace(1.5, 40.0, 300)
    up, down = (np.log(law.latency(batch * (1 + h))) for h in (1e-6, -1e-6))
    latency, slope = law.latency_and_slope(batch)
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(latency, found.latency(batch))
    np.testing.assert_allclose(law.elasticity(batch), found.elasticity(batch), rtol=1e-12)
    some = np.array([3, 1, 250])
    np.testing.assert_array_equal(law.take(some).latency(batch[some]), latency[some])


@pytest.mark.parametrize("k", [0, 1, 15])
@pytest.mark.parametrize("width", [0.0, 0.3, 30.0])
def test_a_bend_of_any_width_and_misfit_far_from_1(k, width):
    tree = fit_of(0.1, knee_width_tokens=width)
    found = resolve(tree, ASKED.with_(num_speculative_tokens=k))
    curve = curve_of(found)
    assert isinstance(curve, SmoothCurve)
    points = curve.points(RATES)
    further = np.exp(np.linspace(-1.0, 1.0, 300))
    batch = curve.solve(RATES, points, MisfitDraws(*np.zeros((3, 300))), 0 * RATES, further)
    for i, rate in enumerate(RATES):
        assert_close(points.central[i], exact(found, rate), tolerance=1e-8)
        assert_close(batch[i], exact(found, rate, further), tolerance=1e-8)


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("loaded", [False, True])
def test_few_terms_are_the_whole_law(k, loaded):
    tree = fit_of(0.1, **({"idle_drafter_s": 1e-3} if loaded else {}))
    found = resolve(tree, ASKED.with_(num_speculative_tokens=k, drafter_loaded=loaded))
    whole = LawOfDraws.of(found)
    law = SmoothLaw.of(whole)
    batch = np.geomspace(1e-3, 250.0, 300)
    latency, slope = whole.latency_and_slope(batch)
    np.testing.assert_allclose(law.latency(batch), latency, rtol=1e-13)
    np.testing.assert_allclose(law.latency_and_slope(batch), (latency, slope), rtol=1e-11)
    up, down = (law.latency_and_slope(batch * (1 + h)) for h in (1e-5, -1e-5))
    slopes = [
        s * value / (batch * (1 + h))
        for (value, s), h in zip((up, down), (1e-5, -1e-5), strict=True)
    ]
    bending = batch * (slopes[0] - slopes[1]) / 2e-5 / latency
    np.testing.assert_allclose(law.curve(batch)[2], bending, rtol=1e-5, atol=1e-9)


def test_laws_with_other_terms_have_no_few():
    for terms, arrivals in ((JUMPS, "poisson"), (EXPERTS, "poisson"), ({}, "constant")):
        found = resolve(fit_of(0.0, **terms), ASKED.with_(arrivals=arrivals))
        assert SmoothLaw.of(LawOfDraws.of(found)) is None
        assert isinstance(curve_of(found), LoadCurve)


@pytest.mark.parametrize("draws", [1, 2, 7, 300])
def test_medians_are_those_of_numpy(draws):
    values = np.random.default_rng(0).standard_normal((5, draws))
    values[0] = np.inf
    np.testing.assert_array_equal(medians(values), np.median(values, axis=1))
