"""The numbers behind the plots, and what the plots show of them."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from bayes_sd.curves import latency_curves
from bayes_sd.exceptions import ArgumentError
from bayes_sd.plots.draft_length import plot_draft_length
from bayes_sd.plots.latency import plot_latency
from bayes_sd.plots.style import colors_of, markers_of, text_color_on
from bayes_sd.policy import draft_length_policy
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from tests.fake_fit import FORCED, fake_fit

RATES = [1.0, 4.0, 8.0, 12.0, 16.0, 40.0]
QUICK = Scenario("quick", request_rate_rps=1.0)
SHARP = Scenario("sharp", request_rate_rps=1.0, acceptance=FORCED)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=50, spread=0.02)


@pytest.fixture(scope="module")
def curves(tree):
    return latency_curves(tree, QUICK, RATES)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def texts_of(ax):
    labels = [ax.get_xlabel(), ax.get_ylabel(), ax.get_title(loc="left")]
    return " ".join([*labels, *(text.get_text() for text in ax.texts)])


def test_curves_are_quantiles_of_the_predictions(tree, curves):
    asked = QUICK.with_(num_speculative_tokens=3, request_rate_rps=8.0)
    draws = predict_latency(tree, asked, kind="run")["e2e_s"].values[:, 0]
    here = curves.sel(num_speculative_tokens=3, rate=8.0)
    for part, level in (("low", 0.05), ("median", 0.5), ("high", 0.95)):
        found = float(here[f"{part}_e2e_s"])
        assert np.mean(draws < found) <= level <= np.mean(draws <= found)
    assert curves["num_speculative_tokens"].values.tolist() == [0, 1, 3, 5]
    assert float(curves["p_past_capacity"].sel(rate=40.0).min()) == 1.0


def test_curves_carry_the_runs_of_the_same_configuration(tree):
    runs = tree["constant_data"].to_dataset()
    curves = latency_curves(tree, SHARP, RATES, [0, 3])
    kept = runs.sel(run=curves["run"].values)
    assert set(kept["num_speculative_tokens"].values) == {0, 3}
    drafted = kept.isel(run=kept["num_speculative_tokens"].values == 3)
    assert {str(runs["pair"].values[i]) for i in drafted["pair_of_run"].values} == {
        "big + draft_model (sharp)"
    }
    assert curves["measured_e2e_s"].values.tolist() == kept["mean_e2e_s"].values.tolist()
    assert curves["measured_load"].values.tolist() == kept["request_rate_rps"].values.tolist()


@pytest.mark.parametrize(
    "other",
    [
        SHARP.with_(acceptance=0.6),
        SHARP.with_(acceptance=(FORCED, FORCED, 0.5)),
        SHARP.with_(arrivals="constant"),
        SHARP.with_(input_len_tokens=600.0),
        SHARP.with_(concurrency=4.0),
    ],
    ids=["acceptance", "acceptance by position", "arrivals", "length", "closed loop"],
)
def test_runs_of_another_configuration_are_left_out(tree, other):
    assert latency_curves(tree, SHARP, [1.0, 2.0], [3]).sizes["run"] == 5
    assert latency_curves(tree, other, [1.0, 2.0], [3]).sizes["run"] == 0


@pytest.mark.parametrize("rates", [[], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0]])
def test_curves_refuse_loads_that_do_not_increase(tree, rates):
    with pytest.raises(ArgumentError, match="rates must be positive and increasing"):
        latency_curves(tree, QUICK, rates)


def test_latency_plot_returns_the_axes_it_is_given(curves):
    _, ax = plt.subplots()
    assert plot_latency(curves, ax=ax) is ax
    assert plot_latency(curves) is not ax


def test_latency_plot_has_a_line_a_band_and_a_name_for_each_draft_length(curves):
    ax = plot_latency(curves)
    assert len(ax.lines) == curves.sizes["num_speculative_tokens"]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["off (k = 0)", "k = 1", "k = 3", "k = 5"]
    colors = [line.get_color() for line in ax.lines]
    assert len(set(colors)) == len(colors)


def test_latency_plot_states_units_kind_and_level(curves, tree):
    text = texts_of(plot_latency(curves))
    assert "requests/s" in text
    assert "latency (s" in text
    assert "central 90 % for a fresh run (kind = run)" in text
    assert "big + draft_model (quick)" in text
    mean = latency_curves(tree, QUICK, [1.0, 2.0], kind="mean", level=0.5)
    text = texts_of(plot_latency(mean))
    assert "central 50 % for the mean latency (kind = mean)" in text
    assert "Not drawn" not in text


def test_latency_plot_does_not_draw_past_capacity_and_says_so(curves):
    ax = plot_latency(curves)
    assert "Not drawn: loads where more than 5 % of the draws are past capacity" in texts_of(ax)
    for line, high in zip(ax.lines, curves["high_e2e_s"].values, strict=True):
        drawn = np.isfinite(np.asarray(line.get_ydata(), dtype=float))
        assert drawn.tolist() == np.isfinite(high).tolist()
    ax.figure.canvas.draw()


def test_latency_plot_draws_every_matching_run_once(curves):
    ax = plot_latency(curves)
    points = [p for c in ax.collections for p in c.get_offsets() if c.get_offsets().shape[0]]
    drawn = sorted((round(x, 9), round(y, 9)) for x, y in points if y > 0)
    known = zip(curves["measured_load"].values, curves["measured_e2e_s"].values, strict=True)
    assert drawn == sorted((round(float(x), 9), round(float(y), 9)) for x, y in known)


def test_latency_plot_of_a_closed_loop_names_its_axis(tree):
    curves = latency_curves(tree, QUICK.with_(concurrency=1.0), [1.0, 8.0, 32.0])
    assert "requests in flight" in plot_latency(curves).get_xlabel()


@pytest.fixture(scope="module")
def policy(tree):
    return draft_length_policy(tree, QUICK, RATES)


def test_draft_length_plot_stacks_one_area_per_candidate(policy):
    _, ax = plt.subplots()
    assert plot_draft_length(policy, ax=ax) is ax
    areas = [c for c in ax.collections if not c.get_hatch()]
    assert len(areas) == len([name for name in policy if name.startswith("p_best_k")])


def test_draft_length_plot_names_axes_choices_and_signs(policy):
    text = texts_of(plot_draft_length(policy))
    assert "Request rate (requests/s)" in text
    assert "P(k has the lowest mean latency)" in text
    assert "chosen k" in text
    assert "every k is past capacity" in text
    for chosen in policy["num_speculative_tokens"].dropna().unique():
        assert str(chosen) in text


@pytest.mark.parametrize(
    ("verdict", "status", "strip", "words"),
    [
        ("choose", "measured", "3", ""),
        ("near tie", "measured", "(3)", "another k costs at most 1 % more"),
        ("not enough data", "measured", "3?", "not enough data to choose"),
        ("choose", "extrapolated", "3*", "extrapolated in load, tokens per step"),
    ],
)
def test_draft_length_plot_marks_doubt(verdict, status, strip, words):
    policy = pd.DataFrame(
        {
            "num_speculative_tokens": pd.array([3, 3], dtype="Int64"),
            "verdict": verdict,
            "status": status,
            "outside": "load, tokens per step" if status == "extrapolated" else "",
            "p_best_k0": [0.0, 0.005],
            "p_best_k3": [1.0, 0.995],
        },
        index=pd.Index([1.0, 2.0], name="request_rate_rps"),
    )
    ax = plot_draft_length(policy)
    assert strip in [text.get_text() for text in ax.texts]
    assert words in texts_of(ax)
    assert "Not listed, below 1 % at every load: off (k = 0)" in texts_of(ax)


def test_draft_length_plot_takes_one_load(policy):
    ax = plot_draft_length(policy.iloc[:1])
    low, high = ax.get_xlim()
    assert low < policy.index[0] < high


def test_a_draft_length_looks_the_same_in_every_plot():
    few, many = colors_of([0, 3]), colors_of(range(13))
    assert all(many[k] == color for k, color in few.items())
    assert len(set(many.values())) == len(many)
    assert markers_of([3])[3] == markers_of(range(13))[3]
    assert len(set(markers_of(range(13)).values())) == 13


def test_colors_of_longer_drafts_are_lighter_in_grey_print():
    colors = colors_of([0, 1, 2, 3, 5, 8, 10])
    grey = [
        sum(w * int(c[i : i + 2], 16) for w, i in ((0.3, 1), (0.59, 3), (0.11, 5)))
        for c in colors.values()
    ]
    assert grey == sorted(grey)
    assert text_color_on(colors[0]) == "white"
