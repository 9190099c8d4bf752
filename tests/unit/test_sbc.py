"""Ranks, their band and their verdict, on a model whose posterior is known in closed form.

A mean theta ~ N(0, 1) of five observations y ~ N(theta, 1) has the posterior N(5 m / 6, 1 / 6).
Exact draws of it must pass, and those of a wrong posterior must not.
"""

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.plots.calibration import plot_calibration
from bayes_sd.run_law import steps_of_draws
from bayes_sd.sbc import check_replaceable, convergence_of
from bayes_sd.sbc_mistakes import WRONG
from bayes_sd.sbc_quantities import parameter_draws, turn_of_draws, with_fixed
from bayes_sd.scenario import Scenario
from bayes_sd.uniformity import calibration_verdict, rank_band, rank_of_first, uniformity_p_values
from tests.fake_fit import fake_fit
from tests.simulated_runs import simulated_frame

NUM_SIMULATIONS, NUM_RANKS, NUM_DATA = 200, 99, 5


def normal_ranks(rng, *, shift=0.0, times_counted=1, num_quantities=20):
    """Return ranks of theta under a posterior that is right, displaced or counts data twice."""
    precision = 1 + NUM_DATA * times_counted
    ranks = np.empty((NUM_SIMULATIONS, num_quantities), dtype=int)
    for i in range(NUM_SIMULATIONS):
        theta = rng.standard_normal(num_quantities)
        mean = rng.normal(theta, 1 / np.sqrt(NUM_DATA))
        center = NUM_DATA * times_counted * mean / precision + shift / np.sqrt(precision)
        draws = rng.normal(center, 1 / np.sqrt(precision), size=(NUM_RANKS, num_quantities))
        ranks[i] = rank_of_first(np.vstack([theta, draws]), rng)
    return result_of(ranks)


def result_of(ranks):
    return xr.Dataset(
        {"rank": (("simulation", "quantity"), ranks)},
        coords={"quantity": [f"theta[{i}]" for i in range(ranks.shape[1])]},
        attrs={"num_ranks": NUM_RANKS},
    )


def test_an_exact_posterior_is_calibrated():
    verdict = calibration_verdict(normal_ranks(np.random.default_rng(0)))
    assert verdict.passed, verdict.sentence()
    assert verdict.expected_outside == pytest.approx(1.0)
    assert verdict.sentence().startswith("Calibrated")


@pytest.mark.parametrize(
    ("mistake", "mean_rank", "spread"),
    [({"shift": 0.5}, -1, 0), ({"shift": -0.5}, 1, 0), ({"times_counted": 2}, 0, 1)],
    ids=["too high", "too low", "data counted twice"],
)
def test_a_wrong_posterior_is_not(mistake, mean_rank, spread):
    verdict = calibration_verdict(normal_ranks(np.random.default_rng(0), **mistake))
    assert not verdict.passed
    assert verdict.sentence().startswith("NOT CALIBRATED")
    assert verdict.num_outside > verdict.allowed_outside
    # A truth that lies half a posterior standard deviation off, in units of two such deviates.
    expected = stats.norm.cdf(0.5 * mean_rank / np.sqrt(2))
    assert verdict.table["mean_rank"].mean() == pytest.approx(expected, abs=0.02)
    assert (verdict.table["spread"].mean() > 1.1) == bool(spread)


def test_one_bad_quantity_among_many_is_found():
    """A single one would not be more than chance allows outside, but lies too far outside."""
    ranks = np.random.default_rng(1).integers(0, NUM_RANKS + 1, size=(NUM_SIMULATIONS, 60))
    assert calibration_verdict(result_of(ranks)).passed
    ranks[:, 7] = (ranks[:, 7] * 0.75).astype(int)
    verdict = calibration_verdict(result_of(ranks))
    assert verdict.num_outside <= verdict.allowed_outside
    assert not verdict.passed
    assert verdict.worst == "theta[7]"


def test_a_quantity_and_its_logarithm_count_once():
    ranks = np.random.default_rng(6).integers(0, NUM_RANKS + 1, size=(NUM_SIMULATIONS, 3))
    verdict = calibration_verdict(result_of(ranks[:, [0, 1, 0, 2]]))
    assert verdict.table.index.tolist() == ["theta[0]", "theta[1]", "theta[3]"]
    assert verdict.num_quantities == verdict.curves.sizes["quantity"] == 3


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_uniform_ranks_leave_the_band_as_often_as_it_says(level):
    """Of 4,000 curves of other seeds than the band's; the tolerance is 4 standard errors."""
    ranks = np.random.default_rng(2).integers(0, NUM_RANKS + 1, size=(NUM_SIMULATIONS, 4000))
    fraction, low, high = rank_band(NUM_SIMULATIONS, NUM_RANKS, level)
    below = (ranks[:, :, None] < np.arange(1, NUM_RANKS + 1)).mean(axis=0)
    outside = ((below < low) | (below > high)).any(axis=1)
    error = np.sqrt(level * (1 - level) / 4000)
    assert outside.mean() == pytest.approx(1 - level, abs=4 * error)
    np.testing.assert_allclose(fraction, np.arange(1, 100) / 100)
    # The p value says the same: outside the band means below 1 - level.
    np.testing.assert_array_equal(uniformity_p_values(ranks, NUM_RANKS) < 1 - level, outside)


def test_the_band_is_wider_than_that_of_one_place_and_the_same_tail_everywhere():
    """SciPy's pointwise 95 % limits would be left somewhere by far more than 5 % of curves."""
    fraction, low, high = rank_band(NUM_SIMULATIONS, NUM_RANKS, 0.95)
    one = stats.binom(NUM_SIMULATIONS, fraction)
    least, most = np.rint(low * NUM_SIMULATIONS), np.rint(high * NUM_SIMULATIONS)
    assert (least <= one.ppf(0.025)).all()
    assert (most >= one.ppf(0.975)).all()
    # One tail lies between the last count outside and the first inside, at every place.
    assert max(one.cdf(least - 1).max(), one.sf(most).max()) < min(
        one.cdf(least).min(), one.sf(most - 1).min()
    )


def test_p_values_of_uniform_ranks_are_uniform():
    ranks = np.random.default_rng(3).integers(0, NUM_RANKS + 1, size=(NUM_SIMULATIONS, 3000))
    p_values = uniformity_p_values(ranks, NUM_RANKS)
    assert stats.kstest(p_values, "uniform").statistic < 0.04  # discrete, so not exactly


def test_ties_are_broken_at_random():
    rng = np.random.default_rng(4)
    values = np.zeros((1 + NUM_RANKS, 5000))
    ranks = rank_of_first(values, rng)
    counts = np.bincount(ranks, minlength=NUM_RANKS + 1)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert rank_of_first(np.array([[np.inf], [1.0], [np.inf]]), rng)[0] in (1, 2)


@pytest.mark.parametrize("bad", [-1, NUM_RANKS + 1])
def test_ranks_out_of_range_are_refused(bad):
    with pytest.raises(ArgumentError, match=r"whole numbers from 0 to num_ranks = 99. Got int64"):
        uniformity_p_values(np.full((10, 1), bad), NUM_RANKS)
    with pytest.raises(ArgumentError, match="Got float64"):
        uniformity_p_values(np.full((10, 1), 1.5), NUM_RANKS)


def test_truth_stands_before_the_draws_and_a_few_elements_stand_for_a_vector():
    posterior = xr.Dataset(
        {
            "a": (("chain", "draw"), np.arange(6.0).reshape(2, 3)),
            "b": (("chain", "draw", "sweep"), np.random.default_rng(0).random((2, 3, 9))),
            "held": (("chain", "draw"), np.zeros((2, 3))),
        }
    )
    truth = xr.Dataset(
        {"a": ("sample", [7.0]), "b": (("sample", "sweep"), np.full((1, 9), 0.5))},
    ).assign(held=("sample", [1.0]))

    def twice(tree, random_seed):
        return 2 * tree["posterior"]["a"].values[0] + random_seed

    table = parameter_draws(posterior, truth, xr.Dataset(), {"twice": twice}, 10)
    assert table["quantity"].values.tolist() == ["a", "b[0]", "b[4]", "b[8]", "twice"]
    assert table.sel(quantity="a").values.tolist() == [7.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert table.sel(quantity="twice").values.tolist() == [24.0, 10, 12, 14, 16, 18, 20]
    assert table.sel(quantity="b[4]").values[0] == 0.5


def test_the_turn_has_a_value_in_every_draw():
    """Speculation that pays at every load comes last, and one that never does first."""
    tree = fake_fit(draws=20, spread=0.05)
    costly = (
        tree["posterior"].to_dataset().assign(draft_fixed_s=lambda fit: 50 * fit["draft_fixed_s"])
    )
    scenario = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=1)
    pays = turn_of_draws(tree, scenario, 0)
    tree["posterior"] = xr.DataTree(costly)
    never = turn_of_draws(tree, scenario, 0)
    assert (never == 0).all()
    assert (pays > 0).all()
    assert not np.isnan(pays).any()


def test_plot_names_what_is_outside():
    ranks = np.random.default_rng(5).integers(0, NUM_RANKS + 1, size=(NUM_SIMULATIONS, 8))
    ranks[:, 3] = ranks[:, 3] // 2
    verdict = calibration_verdict(result_of(ranks))
    ax = plot_calibration(verdict.curves)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    outside = verdict.table.index[verdict.table["outside"]]
    assert labels[:3] == ["95 % band of one curve", "quantities inside it", "theta[3]"]
    assert sorted(labels[2:]) == sorted(outside)
    title = ax.get_title(loc="left")
    assert title == f"200 simulations, 8 quantities: {len(outside)} outside, 0.4 expected by chance"
    plt.close("all")


def test_a_response_that_stays_as_it_is_is_refused():
    with pm.Model() as model:
        theta = pm.Normal("theta")
        set_anew = pm.Data("data_of_a", np.zeros(3))
        pm.Normal("a", theta, 1, observed=set_anew)
        check_replaceable(model)
        pm.Normal("b", theta, 1, observed=np.zeros(3))
    with pytest.raises(ArgumentError, match=r"must all be data. Got constants for \['b'\]"):
        check_replaceable(model)


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_changes_something(name):
    mistake = WRONG[name]
    assert mistake.about
    assert mistake.fixed or mistake.steps or mistake.score_weight != 1


def test_a_parameter_held_at_a_number_is_no_longer_drawn():
    with pm.Model(coords={"deployment": ["a", "b"]}) as model:
        sd = pm.LogNormal("boot_sd", dims="deployment")
        pm.Deterministic("log_boot", 2 * sd, dims="deployment")
    changed = WRONG["no_boot"].change(model)
    assert not changed.free_RVs
    assert pm.draw(changed["log_boot"]).tolist() == [0.0, 0.0]
    assert [v.name for v in model.free_RVs] == ["boot_sd"]
    truth = xr.Dataset({"boot_sd": (("sample", "deployment"), [[0.1, 0.2]])})
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))})
    held = with_fixed(posterior, truth, WRONG["no_boot"].fixed)
    assert held["boot_sd"].dims == ("chain", "draw", "deployment")
    assert (held["boot_sd"] == 0).all()


def test_another_token_per_step_means_fewer_steps():
    data = to_dataset(simulated_frame(load_shares=(0.1,), draft_lengths=(3,)))
    shape = (1, data.sizes["acceptance_group"], data.sizes["position"])
    draws = xr.Dataset(
        {
            "conditional_acceptance_rate": (
                ("sample", "acceptance_group", "position"),
                np.full(shape, 0.6),
            ),
            "acceptance_request_sd": ("sample", [1e-6]),
        }
    )
    right, wrong = steps_of_draws(data, draws)[0], WRONG["bonus_token"].steps(data, draws)[0]
    counted = data["group_of_run"].values >= 0
    # 1 + q_1 + q_2 + q_3 tokens per step, and 2 + q_1 + q_2; 127 tokens.
    emitted = [1 + 0.6 + 0.36 + 0.216, 2 + 0.6 + 0.36]
    np.testing.assert_allclose(right[counted], 127 / emitted[0], rtol=0.02)
    np.testing.assert_allclose(wrong[counted], 127 / emitted[1], rtol=0.02)
    np.testing.assert_array_equal(right[~counted], wrong[~counted])


def test_convergence_of_infinite_and_of_constant_draws():
    """An infinite value counts by its order, as any finite one above the others would."""
    draws = np.random.default_rng(7).standard_normal((400, 3))
    draws[:, 1] = np.where(draws[:, 0] > 1, np.inf, draws[:, 0])
    draws[:, 2] = 0.0
    capped = np.where(np.isinf(draws), 99.0, draws)
    r_hat, ess = convergence_of(draws, chains=2)
    np.testing.assert_array_equal(ess[:2], convergence_of(capped, chains=2)[1][:2])
    np.testing.assert_allclose(r_hat[:2], 1.0, atol=0.03)
    assert 300 < ess[1] < 600
    assert np.isnan([r_hat[2], ess[2]]).all()
