"""Plots of decisions: what they draw, what they say, and the Axes that they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_sd.exceptions import ArgumentError
from bayes_sd.pair_comparison import compare_pairs
from bayes_sd.plots.acceptance import plot_acceptance
from bayes_sd.plots.comparison import plot_comparison
from bayes_sd.plots.effective_batch import plot_effective_batch
from bayes_sd.plots.experts import plot_expert_coverage
from bayes_sd.plots.next_run import FIRST, OTHERS, plot_next_run
from bayes_sd.plots.objective import plot_slo_attainment
from bayes_sd.plots.policy_steps import plot_policy
from bayes_sd.plots.residuals import plot_residuals
from bayes_sd.plots.shares import plot_latency_shares
from bayes_sd.plots.speedup import plot_speedup
from bayes_sd.plots.style import colors_of
from bayes_sd.policy import draft_length_policy
from bayes_sd.run_value import next_run
from bayes_sd.scenario import Scenario
from bayes_sd.shares import latency_shares
from tests.fake_fit import fake_fit

LOADS = [1.0, 4.0, 8.0]
QUICK = Scenario("quick", request_rate_rps=1.0)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=50, spread=0.02)


@pytest.fixture(scope="module")
def pair(tree):
    asked = {"off": QUICK, "on": QUICK.with_(num_speculative_tokens=3)}
    return compare_pairs(tree, asked, loads=LOADS)


def band(name="request_rate_rps", low=0.5):
    values = {"low": [low, 1.0, 2.0], "median": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 9.0]}
    return pd.DataFrame(values, pd.Index(LOADS, name=name))


def texts_of(ax):
    labels = [ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left")]
    legend = ax.get_legend()
    named = [] if legend is None else [text.get_text() for text in legend.get_texts()]
    return " ".join([*labels, *named, *(text.get_text() for text in ax.texts)])


POLICY = pd.DataFrame(
    {
        "num_speculative_tokens": pd.array([5, 0, None], dtype="Int64"),
        "probability_best": [0.95, 0.6, np.nan],
        "verdict": ["choose", "near tie", "past capacity"],
    },
    index=pd.Index(LOADS, name="request_rate_rps"),
)
RUNS = pd.DataFrame(
    {
        "candidate": ["b", "a", "c"],
        "num_requests": [200, 100, 50],
        "regret_after": [0.02, 0.01, 0.031],
        "regret_reduction": [0.01, 0.02, -0.001],
        "reduction_error": [0.002, 0.002, 0.002],
    }
)
RESIDUALS = pd.DataFrame(
    {
        "effective_batch": [1.0, 8.0, 32.0],
        "num_speculative_tokens": [0, 3, 3],
        "observed_e2e_s": [1.1, 2.0, 4.5],
        "median_e2e_s": [1.0, 2.0, 3.0],
        "low_e2e_s": [0.9, 1.8, 2.7],
        "high_e2e_s": [1.2, 2.2, 3.3],
    }
)
RATES = xr.DataArray(np.linspace([0.6, 0.5], [0.8, 0.7], 101), dims=("sample", "position"))
DRAWERS = {
    "speedup": lambda ax: plot_speedup({3: band()}, turns={3: (1.0, 2.0, 3.0)}, ax=ax),
    "comparison": lambda ax: plot_comparison(band(), pd.Series(0.5, LOADS), ax=ax),
    "slo": lambda ax: plot_slo_attainment(
        pd.DataFrame({0: [1.0, 0.5, 0.0]}, pd.Index(LOADS, name="concurrency")), ax=ax
    ),
    "batch": lambda ax: plot_effective_batch({0: band()}, ax=ax),
    "policy": lambda ax: plot_policy(POLICY, ax=ax),
    "next run": lambda ax: plot_next_run(RUNS, ax=ax),
    "acceptance": lambda ax: plot_acceptance(RATES, [70, 40], [100, 70], ax=ax),
    "experts": lambda ax: plot_expert_coverage(band(low=0.1) / 10, ax=ax),
    "residuals": lambda ax: plot_residuals(RESIDUALS, ax=ax),
    "shares": lambda ax: plot_latency_shares(
        xr.DataArray(
            np.full((2, 3, 1), 0.5),
            dims=("part", "sample", "scenario"),
            coords={"part": ["prefill", "load"], "scenario": ["here"]},
        ),
        ax=ax,
    ),
}


@pytest.mark.parametrize("draw", DRAWERS.values(), ids=DRAWERS)
def test_every_plot_draws_where_it_is_told_and_names_its_axes(draw):
    _, (ax, other) = plt.subplots(1, 2)
    assert draw(ax) is ax
    assert not other.has_data(), "and nowhere else"
    assert draw(None) is not ax
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel() or ax.get_yticklabels()
    ax.figure.canvas.draw()


def line_of(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def test_speedup_draws_the_comparison_and_the_turn(pair):
    table = pair.difference("off", "on")
    ax = plot_speedup({3: table}, turns={3: (4.0, 6.0, 7.0), 5: (1.0, 2.0, 3.0)})
    np.testing.assert_allclose(line_of(ax, "k = 3").get_ydata(), table["median"])
    assert line_of(ax, "k = 3").get_color() == colors_of([3])[3]
    spans = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 2]
    assert any(np.allclose(span, [4.0, 7.0]) for span in spans)
    assert not any(np.allclose(span, [1.0, 3.0]) for span in spans), "k = 5 is not drawn"
    assert (ax.get_yscale(), ax.get_xlabel()) == ("log", "Request rate (requests/s)")
    assert "central 90 %" in texts_of(ax)


def test_a_turn_that_does_not_exist_is_not_drawn():
    ax = plot_speedup({3: band()}, turns={3: (np.nan,) * 3})
    assert "stops paying" not in texts_of(ax)


def test_comparison_writes_the_probability_above_each_load(pair):
    faster = pair.probability_faster("on", "off")
    ax = plot_comparison(pair.difference("on", "off"), faster, names=("on", "off"))
    written = {text.xy[0]: text.get_text() for text in ax.texts if text.xy[1] > 1}
    assert written == {load: f"{p:.2f}" for load, p in faster.items()}
    assert "below 1 on is faster" in texts_of(ax)


def test_slo_plot_marks_the_highest_load_of_each_draft_length():
    table = pd.DataFrame({0: [1.0, 0.5, 0.0], 3: [1.0, 1.0, 0.9]}, pd.Index(LOADS, name="rps"))
    ax = plot_slo_attainment(table, max_rates={0: 0.0, 3: 6.5}, certainty=0.9, slo="e2e_p95 <= 2")
    verticals = [list(line.get_xdata()) for line in ax.lines if list(line.get_ydata()) == [0, 0.9]]
    assert verticals == [[6.5, 6.5]], "none for k = 0, which has no rate"
    assert "k = 3: up to 6.5" in texts_of(ax)
    assert "e2e_p95 <= 2" in texts_of(ax)
    assert "certainty asked for, 0.9" in texts_of(ax)


@pytest.mark.parametrize("values", [[], [0.0, 1.5], [-0.1, 0.5]])
def test_slo_plot_refuses_what_is_no_probability(values):
    with pytest.raises(ArgumentError, match="probabilities from 0 to 1"):
        plot_slo_attainment(pd.DataFrame({3: values}))


def test_shares_add_up_and_are_those_of_the_draws(tree):
    asked = [QUICK, QUICK.with_(num_speculative_tokens=3), QUICK.with_(request_rate_rps=500.0)]
    shares = latency_shares(tree, asked)
    ax = plot_latency_shares(shares)
    widths = {}
    for bar in ax.patches:
        widths.setdefault(round(bar.get_y() + bar.get_height() / 2), []).append(bar.get_width())
    assert sorted(widths) == [1, 2], "the third is past capacity"
    means = shares.mean("sample").values
    np.testing.assert_allclose(widths[2], means[:, 0], atol=1e-9)
    np.testing.assert_allclose(widths[1], means[:, 1], atol=1e-9)
    assert "past capacity" in texts_of(ax)
    assert len({bar.get_facecolor() for bar in ax.patches}) == 4


def test_a_curve_of_the_batch_ends_at_capacity():
    table = band()
    table.loc[8.0, "high"] = np.inf
    ax = plot_effective_batch({0: table}, max_num_seqs=256)
    drawn = np.isfinite(np.asarray(line_of(ax, "off (k = 0)").get_ydata(), dtype=float))
    assert drawn.tolist() == [True, True, False]
    assert "max_num_seqs" in texts_of(ax)


def test_policy_steps_are_the_policy(tree):
    policy = draft_length_policy(tree, QUICK, [1.0, 8.0, 60.0])
    ax = plot_policy(policy)
    chosen = policy["num_speculative_tokens"].astype("Float64").to_numpy(float, na_value=np.nan)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), chosen)
    assert "past capacity" in texts_of(ax)
    for p in policy["probability_best"].dropna():
        assert f"{p:.2f}" in texts_of(ax)


def test_policy_marks_are_hollow_where_it_is_not_sure():
    ax = plot_policy(POLICY)
    faces = [tuple(c.get_facecolor()[0]) for c in ax.collections[:2]]
    assert faces[0] != (1, 1, 1, 1)
    assert faces[1] == (1, 1, 1, 1)
    assert [label.get_text() for label in ax.get_yticklabels()][:2] == ["off", "1"]


def test_next_run_sorts_and_marks_the_first_only_if_it_is_sure():
    ax = plot_next_run(RUNS)
    bars = {round(bar.get_y() + bar.get_height() / 2): bar for bar in ax.patches}
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["a (n = 100)", "b (n = 200)", "c (n = 50)"]
    np.testing.assert_allclose([bars[i].get_width() for i in (2, 1, 0)], [2.0, 1.0, -0.1])
    assert plt.matplotlib.colors.to_hex(bars[2].get_facecolor()) == FIRST
    assert "regret now: 3 %" in texts_of(ax)
    unsure = plot_next_run(RUNS.assign(reduction_error=0.05))
    assert {plt.matplotlib.colors.to_hex(bar.get_facecolor()) for bar in unsure.patches} == {OTHERS}


def test_next_run_takes_a_real_result_and_says_what_it_hides(tree):
    runs = [
        QUICK.with_(num_speculative_tokens=k, request_rate_rps=r)
        for k in (0, 1, 3)
        for r in range(1, 7)
    ]
    ax = plot_next_run(next_run(tree, runs).to_frame())
    assert len(ax.patches) == 12
    assert "6 runs that save less are not shown" in texts_of(ax)


def test_acceptance_shows_counts_over_the_posterior():
    ax = plot_acceptance(RATES, [70, 0], [100, 0])
    points = ax.collections[-1].get_offsets()
    np.testing.assert_allclose(points, [[1.14, 0.7]])
    middle = ax.collections[1].get_offsets()[:, 1]
    np.testing.assert_allclose(middle, [0.7, 0.6])
    assert "100" in [text.get_text() for text in ax.texts]
    with pytest.raises(ArgumentError, match="one number per position"):
        plot_acceptance(RATES, [70], [100])


def test_coverage_marks_steps_and_the_balanced_router():
    table = band(low=0.1) / 10
    ax = plot_expert_coverage(table, balanced=table["high"], marks={"alone": 4})
    np.testing.assert_allclose(line_of(ax, "balanced router").get_ydata(), table["high"])
    assert "alone" in texts_of(ax)
    assert ax.get_ylim() == (0, 1.02)


def test_residuals_are_full_outside_the_interval_and_counted():
    ax = plot_residuals(RESIDUALS)
    assert "3 runs: 1 outside, 0.3 expected" in texts_of(ax)
    points = np.concatenate([c.get_offsets() for c in ax.collections if len(c.get_offsets())])
    known = [[1.0, 10.0], [8.0, 0.0], [32.0, 50.0]]
    assert all(any(np.allclose(p, k) for p in points) for k in known)


@pytest.mark.parametrize("draw", [plot_policy, plot_next_run, plot_residuals, plot_expert_coverage])
def test_a_table_without_its_columns_is_refused(draw):
    with pytest.raises(ArgumentError, match="must have rows and the columns"):
        draw(pd.DataFrame({"other": [1.0]}))
