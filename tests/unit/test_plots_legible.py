"""Plots can be read: no text over another, no legend over data, units, and colours in grey."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.colors import to_rgb

from bayes_sd.plots.acceptance import plot_acceptance
from bayes_sd.plots.bands import labelled
from bayes_sd.plots.comparison import plot_comparison
from bayes_sd.plots.effective_batch import plot_effective_batch
from bayes_sd.plots.experts import plot_expert_coverage
from bayes_sd.plots.next_run import plot_next_run
from bayes_sd.plots.objective import plot_slo_attainment
from bayes_sd.plots.policy_steps import plot_policy
from bayes_sd.plots.residuals import plot_residuals
from bayes_sd.plots.shares import LOOKS, plot_latency_shares
from bayes_sd.plots.speedup import plot_speedup
from bayes_sd.plots.style import colors_of

MANY = pd.Index(np.linspace(0.5, 14.0, 40), name="request_rate_rps")
BAND = pd.DataFrame({"low": 0.5, "median": 0.6, "high": 0.7}, MANY)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def acceptance():
    rates = xr.DataArray(np.linspace([0.5] * 8, [0.99] * 8, 101), dims=("sample", "position"))
    return plot_acceptance(rates, [70_000] * 8, [100_000] * 8)


def comparison():
    return plot_comparison(BAND, pd.Series(0.987, MANY), names=("first", "second"))


def policy():
    chosen = pd.array([5] * 20 + [3] * 20, dtype="Int64")
    table = {"num_speculative_tokens": chosen, "probability_best": 0.56, "verdict": "choose"}
    return plot_policy(pd.DataFrame(table, MANY))


def residuals():
    runs = {"effective_batch": np.geomspace(0.2, 60, 40), "num_speculative_tokens": 3}
    runs |= {"observed_e2e_s": 1.0, "median_e2e_s": 1.0, "low_e2e_s": 0.5, "high_e2e_s": 2.0}
    return plot_residuals(pd.DataFrame(runs))


def shares():
    values = np.full((4, 50, 12), 0.25)
    labels = [f"scenario {i}" for i in range(12)]
    coords = {"part": list(LOOKS), "scenario": labels}
    return plot_latency_shares(
        xr.DataArray(values, dims=("part", "sample", "scenario"), coords=coords)
    )


def experts():
    tokens = pd.Index(np.geomspace(1, 256, 30), name="tokens")
    median = 1 - np.exp(-tokens.to_numpy() / 20)
    table = pd.DataFrame({"low": 0.8 * median, "median": median, "high": median}, tokens)
    return plot_expert_coverage(table, marks={"alone, k = 3": 4, "16 in flight, k = 3": 64})


def next_run():
    runs = {"candidate": [f"pair, k = {k}, 4 rps" for k in range(12)], "num_requests": 200}
    runs |= {"regret_after": 0.02, "regret_reduction": 0.01, "reduction_error": 0.001}
    return plot_next_run(pd.DataFrame(runs))


DRAWN = {
    f.__name__: f for f in (acceptance, comparison, policy, residuals, shares, experts, next_run)
}


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_no_text_lies_over_another(draw):
    ax = draw()
    ax.figure.canvas.draw()
    boxes = [(t.get_text(), t.get_window_extent()) for t in ax.texts if t.get_text()]
    over = [(a, b) for (a, one), (b, two) in combinations(boxes, 2) if one.overlaps(two)]
    assert not over


@pytest.mark.parametrize("draw", [acceptance, residuals, shares])
def test_the_legend_lies_outside_the_data(draw):
    ax = draw()
    ax.figure.canvas.draw()
    legend, data = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert not legend.overlaps(data) or legend.y0 >= data.y1 - 1 or legend.x0 >= data.x1 - 1


def test_names_of_marks_keep_away_from_the_curve():
    ax = experts()
    ax.figure.canvas.draw()
    (line,) = (x for x in ax.lines if x.get_label() == "as routed")
    curve = ax.transData.transform(line.get_xydata())
    for text in (t for t in ax.texts if "k = 3" in t.get_text()):
        box = text.get_window_extent()
        assert not box.contains(curve[:, 0].min(), 0)
        inside = (curve[:, 0] >= box.x0) & (curve[:, 0] <= box.x1)
        assert not ((curve[:, 1] >= box.y0) & (curve[:, 1] <= box.y1) & inside).any()


def test_bars_have_room_for_their_two_lines():
    ax = shares()
    ax.figure.canvas.draw()
    bar = ax.patches[0].get_window_extent()
    written = [t.get_window_extent().height for t in ax.texts if "(" in t.get_text()]
    assert max(written[:-1]) <= bar.height


@pytest.mark.parametrize(
    ("name", "unit"), [("request_rate_rps", "requests/s"), ("concurrency", "in flight")]
)
def test_rates_in_a_legend_have_their_unit(name, unit):
    table = pd.DataFrame({3: [1.0, 0.9]}, pd.Index([1.0, 8.0], name=name))
    ax = plot_slo_attainment(table, max_rates={3: 6.5})
    assert ax.get_legend().get_texts()[0].get_text() == f"k = 3: up to 6.5 {unit}"


def test_loads_of_runs_have_their_unit():
    names = [label.get_text() for label in next_run().get_yticklabels()]
    assert names[0] == "k = 0, 4 requests/s"


def test_every_band_and_mark_is_named_below():
    def note(ax):
        return " ".join(t.get_text() for t in ax.texts)

    ended = BAND.assign(high=np.where(MANY < 10, 0.7, np.inf))
    assert "ends where" in note(plot_effective_batch({3: ended}))
    assert "ends where" not in note(plot_effective_batch({3: BAND}))
    assert "stops paying, central 90 % and median" in note(
        plot_speedup({3: BAND}, turns={3: (4.0, 6.0, 7.0)})
    )
    assert "Blue: the run to make next." in note(next_run())
    assert "with its median" in note(acceptance())


def grey(color):
    return float(np.dot(to_rgb(color), [0.2126, 0.7152, 0.0722]))


def test_draft_lengths_are_told_apart_in_grey():
    shades = [grey(color) for color in colors_of([0, 1, 2, 3, 5, 8, 12]).values()]
    assert (np.diff(shades) > 0.03).all()


def test_parts_of_latency_are_told_apart_in_grey_or_by_their_hatch():
    looks = [(grey(color), hatch) for color, hatch in LOOKS.values()]
    assert all(abs(a - b) > 0.1 or h != g for (a, h), (b, g) in combinations(looks, 2))


def test_places_of_labels_leave_room():
    kept = labelled(MANY.to_numpy(), room=0.1)
    assert kept[0] == 0
    assert np.diff(MANY.to_numpy()[kept]).min() >= 0.1 * (MANY[-1] - MANY[0]) - 1e-9
    assert labelled(np.array([3.0])) == [0]
