import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from bayes_sd.baselines import LAW_COEFFICIENTS, fit_law, predict_law
from benchmarks.accuracy_data import lawful_world, load_case, with_latency
from benchmarks.accuracy_law import linear_bootstrap, log_distance, pooled_law
from benchmarks.accuracy_law_fit import Fit, curve, linear_fit
from benchmarks.accuracy_law_size import coefficients_at
from benchmarks.accuracy_learners import LEVELS, draws_of_quantiles
from benchmarks.accuracy_models import COMPETITORS
from benchmarks.accuracy_score import PINBALL_LEVELS, pinball
from benchmarks.accuracy_splits import SPLITS
from benchmarks.accuracy_task import blind_task
from benchmarks.scores import crps

TRUE = dict(zip(LAW_COEFFICIENTS, (0.08, 0.011, 0.0006, 0.02, 1.5e-4, 2e-5), strict=True))


@pytest.fixture(scope="module")
def lawful():
    return lawful_world(TRUE, noise=0.01, random_seed=3)


def error_of(method, case, split, number=0):
    """Return the median percentage error of the median draw on a fold, over runs told of."""
    fold = SPLITS[split](case.data)[number]
    asked = np.flatnonzero(fold.tested)
    draws = COMPETITORS[method].draw(blind_task(case.data, fold.train, asked, 1))
    told = ~np.isnan(draws).any(axis=0)
    assert told.any()
    with np.errstate(over="ignore"):
        ratio = (
            np.exp(np.median(draws[:, told], axis=0)) / case.data["mean_e2e_s"].values[asked[told]]
        )
    return float(np.median(100 * abs(ratio - 1)))


@pytest.mark.parametrize("method", ["pooled law", "linear law", "law per sweep"])
def test_a_law_recovers_runs_of_its_own_form_beyond_the_loads_seen(lawful, method):
    assert error_of(method, lawful, "highest loads") < 4.0


@pytest.mark.parametrize("method", ["division by E", "goodput", "quantile trees"])
def test_what_has_no_law_of_load_is_beaten_beyond_the_loads_seen(lawful, method):
    if method == "quantile trees":
        pytest.importorskip("lightgbm")
    law = error_of("pooled law", lawful, "highest loads")
    assert error_of(method, lawful, "highest loads") > 3 * law


def test_division_recovers_latency_that_is_a_curve_of_load_over_acceptance_length(lawful):
    rng = np.random.default_rng(0)
    rate = lawful.data["request_rate_rps"].values
    k = lawful.data["num_speculative_tokens"].values
    length = (1 - 0.7 ** (k + 1)) / 0.3
    made = with_latency(lawful, (1 + rate) / length * np.exp(0.01 * rng.normal(size=len(k))))
    assert error_of("division by E", made, "sweeps") < 8.0
    assert error_of("goodput", made, "sweeps") > error_of("division by E", made, "sweeps")


@pytest.mark.parametrize(
    ("method", "package"), [("Gaussian process", "sklearn"), ("quantile trees", "lightgbm")]
)
def test_a_learner_recovers_a_smooth_surface_between_what_it_saw(lawful, method, package):
    pytest.importorskip(package)
    rate = lawful.data["request_rate_rps"].values
    k = lawful.data["num_speculative_tokens"].values
    rng = np.random.default_rng(0)
    smooth = np.exp(0.2 * np.log(rate) - 0.05 * k + 0.01 * rng.normal(size=len(k)))
    limit = 3.0 if method == "Gaussian process" else 12.0
    assert error_of(method, with_latency(lawful, smooth), "boot") < limit


def test_linear_fit_is_the_published_law_of_the_library():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load_case("vllm-cpu").data
    fold = SPLITS["sweeps"](data)[1]
    task = blind_task(data, fold.train, np.flatnonzero(fold.tested))
    fit = linear_fit(task, 0)
    np.testing.assert_allclose(fit.coefficients, fit_law(data, fold.train).coefficients[0])
    asked = task.features.iloc[task.asked]
    expected = predict_law(fit_law(data, fold.train), data.isel(run=task.asked))
    np.testing.assert_allclose(fit.predict(asked, fit.coefficients, 1.0), expected)


def test_expert_coverage_makes_the_batch_a_fixed_point():
    runs = pd.DataFrame(
        {
            "steps": [40.0, 40.0],
            "prompt": [64.0, 64.0],
            "answer": [64.0, 64.0],
            "draft_steps": [1.0, 1.0],
            "k": [1.0, 1.0],
            "rate_rps": [2.0, 0.0],
            "held": [0.0, 6.0],
            "experts": [32.0, 32.0],
            "experts_used": [2.0, 2.0],
        }
    )
    found = np.array([0.05, 1e-3, 1e-4, 8e-3, 0.01, 1e-4, 1e-5, 1e-5])
    latency = Fit(runs, np.ones(2), np.ones(2), False, found).predict(runs, found, 1.0)

    def law(batch):
        share = 1 - (1 - 2 / 32) ** (max(batch, 1) * 2)
        fixed = 0.05 + 40 * (1e-3 + 1e-4 + share * 8e-3)
        return fixed + batch * (0.01 + 40 * (1e-4 + 1e-5 + share * 1e-5))

    assert latency[0] == pytest.approx(law(2.0 * latency[0]), rel=1e-4)
    assert latency[1] == pytest.approx(law(6.0), rel=1e-6)


def test_intervals_of_the_law_hold_what_they_say_on_its_own_data():
    inside = []
    for seed in range(6):
        case = lawful_world(TRUE, noise=0.03, random_seed=seed)
        for fold in SPLITS["sweeps"](case.data):
            asked = np.flatnonzero(fold.tested)
            draws = pooled_law(blind_task(case.data, fold.train, asked, seed))
            low, high = np.quantile(draws, [0.05, 0.95], axis=0)
            seen = np.log(case.data["mean_e2e_s"].values[asked])
            inside += list((low <= seen) & (seen <= high))
    assert 0.84 < np.mean(inside) < 0.96


def test_law_per_sweep_has_no_word_on_a_sweep_that_was_not_seen(lawful):
    fold = SPLITS["sweeps"](lawful.data)[0]
    task = blind_task(lawful.data, fold.train, np.flatnonzero(fold.tested))
    assert np.isnan(COMPETITORS["law per sweep"].draw(task)).all()


def test_law_per_sweep_is_wider_the_further_beyond_the_loads_seen(lawful):
    fold = SPLITS["highest loads"](lawful.data)[0]
    task = blind_task(lawful.data, fold.train, np.flatnonzero(fold.tested), 0)
    spread = COMPETITORS["law per sweep"].draw(task).std(axis=0)
    sweep = lawful.data["sweep_of_run"].values[task.asked]
    load = lawful.data["request_rate_rps"].values[task.asked]
    for one in np.unique(sweep):
        below, above = spread[sweep == one][np.argsort(load[sweep == one])]
        assert above > 1.5 * below


def test_curve_is_the_closed_form_in_both_loops():
    runs = pd.DataFrame({"rate_rps": [2.0, 0.0, 30.0], "held": [0.0, 4.0, 0.0]})
    np.testing.assert_allclose(curve(runs, 1.0, 0.1), [1 / 0.8, 1.4, np.inf])


def test_log_distance_is_smooth_where_it_turns_into_a_line():
    share = np.array([0.5, 0.98 - 1e-9, 0.98 + 1e-9, 1.2])
    values = log_distance(share)
    assert values[0] == pytest.approx(np.log(0.5))
    assert values[1] == pytest.approx(values[2], abs=1e-6)
    assert np.isfinite(values).all()


def test_coefficients_over_size_lie_on_the_line_of_those_measured():
    runs = pd.DataFrame({"verifier_b": [0.0], "drafter_b": [0.0]})

    def made(size):
        own = runs.assign(verifier_b=float(size), drafter_b=size / 10)
        line = np.array([0.1 + 0.2 * size, 0.3 * size, 0.5 * size / 10] * 2)
        return Fit(own, np.ones(1), np.ones(1), False, line)

    found = coefficients_at([made(s) for s in (1, 2, 4)], 8.0, 0.8)
    np.testing.assert_allclose(found, made(8).coefficients, rtol=1e-6)


def test_law_of_a_new_verifier_uses_sizes_and_says_how_far_off_it_may_be():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load_case("scaling-study").data
    fold, near = SPLITS["verifier"](data)[4], SPLITS["sweeps"](data)[0]
    asked = np.flatnonzero(fold.tested & near.tested)[::4]
    new = linear_bootstrap(blind_task(data, fold.train, asked))
    seen = linear_bootstrap(blind_task(data, near.train, asked))
    assert np.median(new.std(axis=0) / seen.std(axis=0)) > 1.5
    truth = np.log(data["mean_e2e_s"].values[asked])
    by_size = np.median(abs(np.median(new, axis=0) - truth))
    assert by_size < 0.5  # sizes tell something: the verifiers differ by a factor of seven


def test_draws_of_quantiles_have_those_quantiles():
    levels = np.array(LEVELS)
    quantiles = norm.ppf(levels)[:, None] * np.array([[1.0, 2.0]])
    draws = draws_of_quantiles(quantiles, LEVELS)
    np.testing.assert_allclose(np.quantile(draws, levels, axis=0), quantiles, atol=0.05)


def test_pinball_at_the_median_is_half_the_absolute_error():
    observed = np.array([1.0, -2.0])
    np.testing.assert_allclose(pinball(np.zeros((1, 2)), (0.5,), observed), [0.5, 1.0])


def test_pinball_over_all_levels_is_half_the_crps(rng):
    draws, observed = rng.normal(size=(20_000, 1)), np.array([0.8])
    levels = tuple((np.arange(999) + 0.5) / 999)
    quantiles = np.quantile(draws, levels, axis=0)
    assert 2 * pinball(quantiles, levels, observed)[0] == pytest.approx(
        crps(draws, observed)[0], rel=0.01
    )


def test_pinball_prefers_the_true_quantiles(rng):
    observed = rng.normal(size=4_000)
    right = np.tile(norm.ppf(PINBALL_LEVELS)[:, None], 4_000)
    best = pinball(right, PINBALL_LEVELS, observed).mean()
    for wrong in (0.5 * right, 1.7 * right, right + 0.3):
        assert pinball(wrong, PINBALL_LEVELS, observed).mean() > best
