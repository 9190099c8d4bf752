import numpy as np
import pytest

from bayes_sd.baselines import (
    LAW_COEFFICIENTS,
    fit_law,
    law_bootstrap,
    law_demands,
    predict_law,
    tokens_per_step,
)
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study, load_vllm_cpu
from bayes_sd.exceptions import ArgumentError, DataError
from benchmarks.folds import fold_of_runs, two_highest
from benchmarks.law_table import law_errors

TRUE = dict(zip(LAW_COEFFICIENTS, (0.08, 0.011, 0.0006, 0.02, 1.5e-4, 2e-5), strict=True))


@pytest.fixture(scope="module")
def study():
    frame = load_scaling_study()
    return to_dataset(frame[~frame["is_throughput_test"]])


@pytest.fixture(scope="module")
def small(study):
    return study.isel(run=np.flatnonzero(study["base"].values[study["base_of_run"]] == LARGEST))


LARGEST = "Qwen/Qwen3-32B"


def lawful(data, rng=None, noise=0.0):
    """Replace measured latencies by the law's, at the rates of the data."""
    steps = data["output_len_tokens"].values / tokens_per_step(data)
    drafts = steps * data["num_speculative_tokens"].values
    c1 = TRUE["c1p"] + TRUE["c1v"] * steps + TRUE["c1d"] * drafts
    c2 = TRUE["c2p"] + TRUE["c2v"] * steps + TRUE["c2d"] * drafts
    factor = 1.0 if rng is None else np.exp(noise * rng.normal(size=len(c1)))
    rate = data["request_rate_rps"].values
    latency = np.where(np.isnan(rate), factor * (c1 + c2), factor * c1 / (1 - rate * factor * c2))
    batch = np.where(np.isnan(rate), 1.0, rate * latency)
    return data.assign(mean_e2e_s=("run", latency), effective_batch_observed=("run", batch))


def test_law_on_the_scaling_study_has_the_known_errors(study):
    """Figures of the design's table, computed there by another program."""
    errors = law_errors(study)
    known = {
        "Qwen3-32B": (1.4, 1.3, 1.5, 1.1),
        "Qwen3-14B": (2.7, 7.3, 9.2, 1.6),
        "Qwen3-8B": (3.2, 9.0, 17.1, 1.7),
        "Qwen3-1.7B": (2.0, 3.9, 4.0, 1.1),
    }
    for verifier, expected in known.items():
        np.testing.assert_allclose(errors.loc[verifier], expected, atol=0.051, err_msg=verifier)
    assert errors.loc["Qwen3-0.6B", "all"] == pytest.approx(3.9, abs=0.051)


def test_law_finds_its_own_coefficients(small):
    law = fit_law(lawful(small))
    np.testing.assert_allclose(law.coefficients[0], list(TRUE.values()), rtol=1e-5)
    np.testing.assert_allclose(law.residuals[0], 1.0)


def test_law_predicts_its_own_latency_from_the_control_alone(small):
    data = lawful(small)
    blind = data.assign(effective_batch_observed=data["effective_batch_observed"] * np.nan)
    np.testing.assert_allclose(predict_law(fit_law(data), blind), data["mean_e2e_s"].values)


def test_law_is_not_moved_by_runs_that_are_held_out(small):
    held = fold_of_runs(small) == 0
    spoilt = small.assign(mean_e2e_s=small["mean_e2e_s"] * np.where(held, 3.0, 1.0))
    np.testing.assert_array_equal(
        fit_law(small, ~held).coefficients, fit_law(spoilt, ~held).coefficients
    )


def test_capped_runs_are_not_learned_from_and_predicted_at_the_cap(study):
    capped = study["control"].values == "cap"
    spoilt = study.assign(mean_e2e_s=study["mean_e2e_s"] * np.where(capped, 9.0, 1.0))
    law = fit_law(spoilt)
    np.testing.assert_array_equal(law.coefficients, fit_law(study).coefficients)
    c1, c2 = law_demands(law, study)
    np.testing.assert_allclose(predict_law(law, study)[capped], (c1 + 128 * c2)[capped])


def test_past_capacity_is_infinite(small):
    law = fit_law(small)
    fast = small.assign(request_rate_rps=small["request_rate_rps"] * 1e3)
    is_open = small["control"].values == "open"
    assert np.isinf(predict_law(law, fast)[is_open]).all()
    assert np.isfinite(predict_law(law, fast)[~is_open]).all()


def test_bootstrap_holds_its_own_noise_at_every_load(small, rng):
    """The residual acts at a given batch, so that load amplifies it by 1 / (1 - elasticity)."""
    busy = small.assign(request_rate_rps=4 * small["request_rate_rps"])
    data = lawful(busy, rng, noise=0.02)
    held = fold_of_runs(data) == 0
    law = fit_law(data, ~held)
    draws = law_bootstrap(law, data, draws=300, rng=rng)
    assert draws.shape == (300, data.sizes["run"])
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    inside = (low <= data["mean_e2e_s"].values) & (data["mean_e2e_s"].values <= high)
    assert inside[held].mean() == pytest.approx(0.9, abs=0.08)
    _, c2 = law_demands(law, data)
    amplified = 1 / (1 - np.nan_to_num(data["request_rate_rps"].values) * c2)
    highest = two_highest(data)
    assert amplified[highest].mean() > 1.15
    width = np.log(high / low) / amplified
    assert width[highest].mean() == pytest.approx(width[~highest].mean(), rel=0.04)


def test_bootstrap_repeats_with_its_seed(small):
    law = fit_law(small)
    first, again = (
        law_bootstrap(law, small, draws=3, rng=np.random.default_rng(4)) for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)


def test_counted_acceptance_gives_the_tokens_per_step():
    frame = load_vllm_cpu("dense", quiet_only=True)
    frame = frame[~frame["is_throughput_test"] & frame["num_speculative_tokens_schedule"].isna()]
    data = to_dataset(frame)
    drafts = data["num_speculative_tokens"].values
    length = tokens_per_step(data)
    assert (length[drafts == 0] == 1).all()
    expected = 1 + data["num_accepted_tokens"].values / data["num_drafts"].values
    np.testing.assert_allclose(length[drafts > 0], expected[drafts > 0], rtol=1e-3)


def test_lengths_have_their_own_coefficients(small):
    other = small.assign(
        input_len_tokens=small["input_len_tokens"] * 4, mean_e2e_s=small["mean_e2e_s"] * 2
    )
    law = fit_law(small)
    assert len(law.cells) == 1
    with pytest.raises(DataError, match=r"520 in, 128 out.*leave them out"):
        predict_law(law, other)


def test_mask_must_be_one_boolean_per_run(small):
    with pytest.raises(ArgumentError, match="booleans, one per run"):
        fit_law(small, np.array([0, 1, 2]))


def test_law_needs_a_run(small):
    with pytest.raises(DataError, match="no run to learn from"):
        fit_law(small, np.zeros(small.sizes["run"], dtype=bool))
