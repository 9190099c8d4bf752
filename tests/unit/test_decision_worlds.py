"""What the benchmarks of decisions compute: regret, reliability, the rules, and the kept worlds."""

import json

import numpy as np
import pytest

from benchmarks.a_a_study import AS, a_a_design, a_a_table, extremes
from benchmarks.decision_baselines import RULES, by_draft_length
from benchmarks.decision_report import worlds_report
from benchmarks.decision_tables import chance_error, regret_of, reliability, turn_table
from benchmarks.decision_worlds import ASKED, DRAFT_LENGTHS, worlds_design
from benchmarks.world_fits import append_world, cached_worlds

FIXED_S, VERIFY_S, DRAFT_S = 0.05, 0.008, 0.002
STALL_S, VERIFY_PER_REQUEST_S, DRAFT_PER_REQUEST_S = 0.01, 2e-4, 4e-4


@pytest.fixture(scope="module")
def linear_runs():
    """Runs that follow the published law exactly, and what C1 and C2 of each k are."""
    data = worlds_design()
    k = data["num_speculative_tokens"].values
    steps = data["output_len_tokens"].values / np.where(k, 1 + sum_of_powers(k), 1)
    c1 = FIXED_S + steps * (VERIFY_S + k * DRAFT_S)
    c2 = STALL_S + steps * (VERIFY_PER_REQUEST_S + k * DRAFT_PER_REQUEST_S)
    is_open = data["control"].values == "open"
    batch = np.where(is_open, 0.0, np.nan_to_num(data["concurrency"].values))
    rate = np.nan_to_num(data["request_rate_rps"].values)
    latency = np.where(is_open, c1 / (1 - rate * c2), c1 + batch * c2)
    batch = np.where(is_open, rate * latency, batch)
    return (
        data.assign(
            mean_e2e_s=("run", latency),
            effective_batch_observed=("run", batch),
        ),
        by_draft_length(data, c1)[1],
        by_draft_length(data, c2)[1],
    )


def sum_of_powers(k):
    return sum(np.where(k > j, 0.7 ** (j + 1), 0.0) for j in range(5))


def test_regret_is_that_of_each_choice():
    true = np.array([[[1.0, 2.0], [4.0, 3.0]], [[np.inf, 2.0], [np.inf, np.inf]]])
    chosen = np.array([[1, 0], [0, 1]])
    np.testing.assert_allclose(regret_of(true, chosen), [[0.5, 0.25], [1.0, np.nan]])


def test_rules_choose_what_the_law_says_where_it_holds(linear_runs):
    data, c1, c2 = linear_runs
    rates = [0.5, 4.0, 8.0, 14.0]  # at the last one only k = 0 and 1 are below capacity
    latency = np.array([np.where(r * c2 < 1, c1 / (1 - r * c2), np.inf) for r in rates])
    best = [DRAFT_LENGTHS[i] for i in latency.argmin(axis=1)]
    assert len(set(best)) > 1  # else a constant would pass
    assert RULES["least-squares law"](data, rates) == best
    assert RULES["most tokens per step"](data, rates) == [5] * 4
    alone = DRAFT_LENGTHS[np.argmin(c1 + c2)]
    assert RULES["fastest with one request in flight"](data, rates) == [alone] * 4


def test_the_law_past_capacity_takes_the_largest(linear_runs):
    data, _, c2 = linear_runs
    assert RULES["least-squares law"](data, [1e3]) == [DRAFT_LENGTHS[np.argmin(c2)]]


def test_goodput_is_tokens_over_the_time_of_a_step():
    """Latencies that are steps x (a + k b + B (c + k d)), so that least squares is exact."""
    data = worlds_design()
    k, batch = data["num_speculative_tokens"].values, np.linspace(1, 60, data.sizes["run"])

    def step(drafts, batch):
        return VERIFY_S + drafts * DRAFT_S + batch * VERIFY_PER_REQUEST_S * (1 + 2 * drafts)

    steps = data["output_len_tokens"].values / (1 + sum_of_powers(k))
    data = data.assign(
        mean_e2e_s=("run", steps * step(k, batch)), effective_batch_observed=("run", batch)
    )
    lengths = np.array(DRAFT_LENGTHS)
    tokens = 1 + sum_of_powers(lengths)
    is_open = data["control"].values == "open"
    chosen = []
    for rate in (1.0, 5.0, 50.0):
        nearest = is_open & (data["request_rate_rps"].values == min(rate, 5.0))
        at = rate * data["mean_e2e_s"].values[nearest].mean()
        chosen.append(int(lengths[np.argmax(tokens / step(lengths, at))]))
    assert len(set(chosen)) > 1  # else a constant would pass
    assert RULES["goodput, point estimates"](data, [1.0, 5.0, 50.0]) == chosen


def test_right_probabilities_are_reliable_and_wrong_ones_are_not():
    rng = np.random.default_rng(0)
    right = rng.dirichlet(np.ones(4), size=(2000, 3))
    best = (rng.random((2000, 3, 1)) > right.cumsum(axis=-1)).sum(axis=-1)
    is_best = best[..., None] == np.arange(4)
    table, error = reliability(right, is_best)
    assert table["statements"].sum() == right.size
    assert error == pytest.approx(chance_error(right), abs=0.005)
    sharper = right**4 / (right**4).sum(axis=-1, keepdims=True)
    assert reliability(sharper, is_best)[1] > 10 * error


def test_reliability_by_hand():
    table, error = reliability(np.array([0.0, 0.05, 1.0, 0.95]), np.array([0, 1, 1, 1], dtype=bool))
    assert table["statements"].tolist() == [2, *[0] * 8, 2]
    assert table["observed"].iloc[[0, 9]].tolist() == [0.5, 1.0]
    assert error == pytest.approx((2 * 0.475 + 2 * 0.025) / 4)


def test_only_worlds_with_a_turn_are_judged():
    def turn(true, low, high):
        return {"true": true, "low": low, "median": low, "high": high, "p_crosses": 0.5}

    worlds = [turn(2.0, 1.0, 3.0), turn(4.0, 1.0, 3.0), turn(np.nan, 1.0, 3.0)]
    worlds.append(turn(2.0, np.nan, np.nan))  # no draw turns, and the truth does: not held
    table = turn_table([{"turns": {"3": t}} for t in worlds]).set_index("k")
    assert table.loc["all", ["statements", "with_turn", "held"]].tolist() == [4, 3, 1]
    assert table.loc["3", "turn"] == 0.75


def world_row(number, choice):
    asked = {
        "true_s": [4.0, 3.0, 2.0, 1.0],
        "law_s": [4.0, 3.0, 1.0, 2.0],
        "choice": choice,
        "verdict": "choose",
        "probability_best": [0.0, 0.0, 0.1, 0.9],
        "expected_regret": [0.7, 0.6, 0.4, 0.01],
    }
    turn = {"true": 2.0, "low": 1.0, "median": 2.0, "high": 3.0, "p_crosses": 1.0}
    return {
        "world": number,
        "asked": [asked] * len(ASKED),
        "rules": {"a rule": [0] * len(ASKED)},
        "turns": {"3": turn},
        "max_rate": {
            "verdict": "found",
            "status": "interpolated",
            "rate": 3.0,
            "room": 1.1,
            "limit_s": 1.0,
            "true_s": 1.0 + (number == 0),
        },
        "draws": 600,
        "divergences": 0,
        "max_r_hat": 1.0,
        "min_ess": 300.0,
        "sampling_s": 1.0,
        "deciding_s": 1.0,
        "prior_draws": 21,
    }


@pytest.mark.parametrize(("choice", "regret", "met"), [(5, 0.0, "yes"), (3, 0.5, "NO")])
def test_report_judges_the_choice(choice, regret, met):
    rows = [world_row(i, choice) for i in range(20)]
    text, figures = worlds_report(rows, DRAFT_LENGTHS, ASKED)
    assert figures["regret"][0]["mean_regret"] == regret
    assert figures["regret"][0]["without_misfit"] == 0.5 - regret
    assert figures["regret"][1]["mean_regret"] == 0.75
    assert [bar["met"] for bar in figures["bars"]] == [met, "NO", "NO", "yes"]
    assert figures["max_rate"]["violated"] == 1
    assert "always k = 5, the best in hindsight" in text
    assert "1 of 21 draws of the prior were past capacity" in text


@pytest.mark.parametrize("kind", AS)
def test_a_a_designs_differ_in_names_only(kind):
    one, two = a_a_design({}), a_a_design(AS[kind])
    assert one.sizes["pair"] == 1
    assert two.sizes["pair"] == 2
    assert two.sizes["deployment"] == (2 if kind == "deployments" else 1)
    for name in ("run", "request_rate_rps", "concurrency", "num_requests", "sweep_of_run"):
        np.testing.assert_array_equal(one[name].values, two[name].values)
    # Pairs are listed in the order of the names, which `compare_in` gives to them.
    np.testing.assert_array_equal(two["pair_of_run"].values, two["sweep_of_run"].values)


def test_extreme_probabilities_are_counted():
    found = extremes(np.array([0.01, 0.05, 0.5, 0.96, 0.99]))
    assert (found["below_0.05"], found["above_0.95"], found["extreme"]) == (1, 2, 3)
    rows = [
        {"p_faster": [0.5] * 3, "low": [low] * 3, "high": [1.1] * 3, "p_faster_law": [0.5]}
        for low in (0.9, 1.05)
    ]
    assert a_a_table(rows)["ratio_1_in_90_%_interval"].iloc[0] == 0.5


def test_worlds_are_kept_and_a_line_cut_off_is_computed_again(tmp_path):
    path, settings = tmp_path / "new" / "worlds.jsonl", {"worlds": 3, "rates": (1.0, 2.0)}
    assert cached_worlds(path, settings) == {}
    append_world(path, {"world": 0, "true_s": np.inf})
    with path.open("a") as file:
        file.write(json.dumps({"world": 1, "true_s": 1.0})[:-5])
    assert set(cached_worlds(path, settings)) == {0}
    append_world(path, {"world": 1, "true_s": 1.0})
    assert cached_worlds(path, settings) == {
        0: {"world": 0, "true_s": np.inf},
        1: {"world": 1, "true_s": 1.0},
    }
    with pytest.raises(ValueError, match="must hold worlds of"):
        cached_worlds(path, settings | {"worlds": 4})
