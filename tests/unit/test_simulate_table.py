"""Tables of simulated runs: accepted by the library, alike for one seed; and settings refused."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import ArgumentError
from bayes_sd.frames import check_runs
from bayes_sd.simulate import (
    SimulatedArm,
    SimulatedDrafter,
    SimulatedExperts,
    SimulatedLoad,
    SimulatedServer,
    simulate_run,
    simulate_runs,
    simulated_capacity_rps,
)
from bayes_sd.simulate_records import compiled

DENSE = SimulatedServer(
    weights_s=8e-3, compute_per_token_s=6e-5, step_noise_cv=0.05, verifier_params_b=8.0
)
MOE = dataclasses.replace(
    DENSE,
    verifier="moe",
    experts=SimulatedExperts(num_experts=32, experts_per_token=4, load_cv=1.0, num_shards=4),
    verifier_params_b=30.0,
    verifier_active_params_b=3.0,
)
DRAFTER = SimulatedDrafter(
    acceptance=(0.8, 0.7, 0.6), acceptance_spread_logit=0.5, fixed_s=5e-4, drafter_params_b=0.3
)
FORCED = dataclasses.replace(
    DRAFTER, acceptance=0.8, acceptance_spread_logit=0.0, is_forced=True, drafter="forced"
)
ARMS = [
    SimulatedArm(server=DENSE),
    SimulatedArm(server=DENSE, drafter=DRAFTER, num_speculative_tokens=3),
    SimulatedArm(server=DENSE, drafter=FORCED, num_speculative_tokens=2),
    SimulatedArm(server=MOE, drafter=DRAFTER),
    SimulatedArm(server=MOE, drafter=DRAFTER, num_speculative_tokens=1),
]
SMALL = {"input_len_tokens": 64, "output_len_tokens": 32, "workload": "chat"}
LOADS = [
    SimulatedLoad(request_rate_rps=1.0, num_requests=300, **SMALL),
    SimulatedLoad(concurrency=4, num_requests=100, **SMALL),
]


def simulated(**changes):
    settings = {"load_shares": (0.1, 0.5), "boots": 2, "boot_sd": 0.05} | changes
    return simulate_runs(ARMS, LOADS, **settings)


@pytest.fixture(scope="module")
def table():
    return simulated()


def test_table_is_accepted_as_it_is(table):
    assert len(table) == len(ARMS) * 2 * 3
    checked = check_runs(table)  # warnings are errors: no unit, name or Little's law is odd
    assert set(table.columns) <= set(checked.columns)
    data = to_dataset(table)
    assert data.sizes["run"] == len(table)
    assert data.sizes["sweep"] == len(ARMS) * 2
    assert data["method"].values.tolist().count("draft_model") == data.sizes["pair"] == 3
    assert data["num_experts"].values.tolist() == [32, 0]  # by name: moe, verifier


def test_counts_of_acceptance_belong_to_the_run(table):
    counted = table[table["num_speculative_tokens"] == 3].iloc[0]
    arm, load = ARMS[1], LOADS[1]
    accepted = [int(n) for n in counted["accepted_per_position"].split(";")]
    assert len(accepted) == 3
    assert sum(accepted) == counted["num_accepted_tokens"]
    assert counted["num_draft_tokens"] == 3 * counted["num_drafts"]
    assert np.isnan(counted["forced_acceptance_rate"])
    forced = table[table["drafter"] == "forced"]
    assert (forced["forced_acceptance_rate"] == 0.8).all()
    off = table[(table["num_speculative_tokens"] == 0) & (table["method"] != "none")]
    assert len(off) == 6
    assert (off["accepted_per_position"] == "").all()
    run = simulate_run(arm, load)
    measured = run.requests["is_measured"].to_numpy()
    sums = run.accepted_at_position[measured].sum(axis=0)
    assert run.summary()["accepted_per_position"] == ";".join(map(str, sums))


def test_same_seed_same_table(table):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    pd.testing.assert_frame_equal(simulated(), table)
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    other = simulated(random_seed=1)
    assert not np.isclose(other["mean_e2e_s"], table["mean_e2e_s"], rtol=1e-6).any()


def test_same_seed_same_run_whoever_ran_before():
    first = simulate_run(ARMS[4], LOADS[0], random_seed=5)
    simulate_run(ARMS[1], LOADS[1], random_seed=6)
    again = simulate_run(ARMS[4], LOADS[0], random_seed=5)
    pd.testing.assert_frame_equal(first.requests, again.requests)
    pd.testing.assert_frame_equal(first.steps, again.steps)


def test_streams_of_randomness_are_apart():
    # More noise in the steps, or another verifier, leaves arrivals as they are.
    sent = [
        simulate_run(arm, LOADS[0]).requests["sent_s"][:300]
        for arm in (ARMS[0], ARMS[1], ARMS[4], ARMS[0].booted(0.3))
    ]
    for other in sent[1:]:
        assert np.array_equal(sent[0], other)


def test_shares_are_of_the_arms_own_capacity(table):
    capacity = simulated_capacity_rps(ARMS[0], LOADS[0])
    rates = table[(table["method"] == "none") & (table["load_kind"] == "open")]
    targets = sorted(set(rates["target_rate_rps"].round(9)))
    assert targets == pytest.approx([0.1 * capacity, 0.5 * capacity], rel=1e-6)


def test_boots_differ_by_a_factor_of_the_step_time():
    quiet = dataclasses.replace(DENSE, step_noise_cv=0.0)
    load = SimulatedLoad(concurrency=1, num_requests=3, warmup_requests=0)
    arm = SimulatedArm(server=quiet)
    runs = simulate_runs([arm], [load, load], boots=80, boot_sd=0.05)
    alone = simulate_run(arm, load).summary()["mean_e2e_s"]
    effect = np.log(runs["mean_e2e_s"] / alone).groupby(runs["sweep_id"])
    assert np.allclose(effect.std(), 0.0, atol=1e-9)  # shared by all runs of a sweep
    assert effect.mean().mean() == pytest.approx(0.0, abs=4 * 0.05 / 80**0.5)
    assert effect.mean().std() == pytest.approx(0.05, rel=0.3)
    assert simulate_runs([arm], [load])["mean_e2e_s"].iloc[0] == pytest.approx(alone, rel=1e-12)


def test_schedule_is_written_into_the_table():
    adaptive = dataclasses.replace(ARMS[1], draft_length_schedule=((1, 4, 3), (5, 8, 0)))
    (text,) = simulate_runs([adaptive], LOADS[:1])["num_speculative_tokens_schedule"]
    assert text == "[[1, 4, 3], [5, 8, 0]]"


def test_progress_bar_changes_nothing(capsys, table):
    pd.testing.assert_frame_equal(simulated(progressbar=True), table)
    assert "Simulating sweeps" in capsys.readouterr().out


def test_engine_compiles_where_nothing_can_be_cached():
    scope = {}
    exec("def twice(x):\n    return 2 * x", scope)  # a function without a file has no cache
    assert compiled(scope["twice"])(21) == 42


REFUSED = [
    (lambda: SimulatedLoad(), "one of them. Got request_rate_rps=None"),
    (lambda: SimulatedLoad(request_rate_rps=1.0, concurrency=2), "one of them"),
    (lambda: SimulatedLoad(request_rate_rps=-1.0), "request_rate_rps must be a finite number"),
    (lambda: SimulatedLoad(request_rate_rps=1.0, arrivals="poison"), "Did you mean 'poisson'"),
    (lambda: SimulatedLoad(request_rate_rps=1.0, num_requests=1), "num_requests must be a whole"),
    (lambda: SimulatedLoad(concurrency=2, duration_s=1.0), "duration_s must stand alone"),
    (lambda: SimulatedLoad(concurrency=2, client_cap=3), "client_cap must be left alone in a cl"),
    (lambda: SimulatedLoad(request_rate_rps=2.0, ramp_up_s=3.0), "ramp_up_s must be left alone"),
    (lambda: SimulatedLoad(concurrency=2, arrivals="bursty"), "arrivals must be left alone"),
    (lambda: SimulatedLoad(concurrency=2, input_len_tokens=9.5), "input_len_tokens must be"),
    (lambda: SimulatedLoad(concurrency=2, input_len_tokens=()), "at least one length"),
    (
        lambda: SimulatedLoad(concurrency=2, input_len_tokens=(1, 2), output_len_tokens=(3,)),
        r"one size.*Got sizes \[1, 2\]",
    ),
    (lambda: SimulatedServer(weights_s=0.0, compute_per_token_s=0.0), r"above 0 seconds"),
    (lambda: dataclasses.replace(DENSE, context_per_token_s=-1e-9), "context_per_token_s must be"),
    (lambda: dataclasses.replace(DENSE, roofline_sharpness=0.5), "must be at least 1. Got 0.5"),
    (lambda: dataclasses.replace(DENSE, roofline_sharpness=np.nan), "must be at least 1. Got nan"),
    (lambda: dataclasses.replace(DENSE, verifier=""), "verifier must be a name"),
    (lambda: SimulatedDrafter(acceptance=80), "For 80 % write 0.8"),
    (lambda: dataclasses.replace(FORCED, acceptance=(0.8, 0.7)), "is_forced must be False"),
    (lambda: dataclasses.replace(DRAFTER, method="none"), "method must be one of"),
    (lambda: SimulatedExperts(num_experts=8, experts_per_token=9), "from 1 to 8. Got 9"),
    (
        lambda: SimulatedExperts(num_experts=8, experts_per_token=2, popularity=(1.0, 2.0)),
        "each of the 8 experts. Got 2",
    ),
    (lambda: SimulatedArm(server=DENSE, num_speculative_tokens=2), "0 without a drafter. Got 2"),
    (
        lambda: SimulatedArm(server=DENSE, drafter=DRAFTER, num_speculative_tokens=4),
        "each of the 4 positions. Got 3",
    ),
    (
        lambda: dataclasses.replace(ARMS[1], draft_length_schedule=((2, 4, 3),)),
        r"from 1 requests on.*Got \(2, 4, 3\)",
    ),
    (lambda: simulate_runs([], LOADS), "Got 0 arms and 2 loads"),
    (lambda: simulate_runs(ARMS, LOADS, load_shares=(0.0,)), "load_shares must be"),
    (lambda: simulate_run(ARMS[0], LOADS[0], random_seed=-1), "random_seed must be"),
    (
        lambda: simulate_run(
            SimulatedArm(server=dataclasses.replace(DENSE, kv_capacity_tokens=95)), LOADS[0]
        ),
        "kv_capacity_tokens must be at least 96 tokens.*Got 95",
    ),
    (
        lambda: simulate_run(
            SimulatedArm(
                server=dataclasses.replace(
                    MOE, experts=dataclasses.replace(MOE.experts, load_cv=9.0, popularity="zipf")
                )
            ),
            LOADS[0],
        ),
        "load_cv must be at most .* for 32 experts of zipf popularity. Got 9",
    ),
    (
        lambda: simulate_run(
            ARMS[0], dataclasses.replace(LOADS[1], num_requests=4, warmup_requests=0)
        ),
        "more num_requests than concurrency",
    ),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_setting_is_refused(make, words):
    with pytest.raises(ArgumentError, match=words):
        make()
