"""Load on the simulator: queues with known answers, Little's law, loops and caps, others met."""

import dataclasses

import numpy as np
import pytest

from bayes_sd.exceptions import ArgumentError
from bayes_sd.simulate import (
    SimulatedArm,
    SimulatedDrafter,
    SimulatedLoad,
    SimulatedServer,
    simulate_run,
    simulated_capacity_rps,
)

# Ten steps of 0.01 s per request: one for its prompt, nine more for its answer.
SERVER = SimulatedServer(weights_s=0.01, compute_per_token_s=0.0)
TEN_STEPS = {"input_len_tokens": 50, "output_len_tokens": 10}
SERVICE_S = 0.1


def run(server=SERVER, random_seed=0, **load):
    return simulate_run(
        SimulatedArm(server=server), SimulatedLoad(**TEN_STEPS | load), random_seed=random_seed
    )


def measured(result):
    return result.requests[result.requests["is_measured"]]


def e2e_of(result):
    return (measured(result)["end_s"] - measured(result)["sent_s"]).to_numpy()


def error_of_mean(values, batches=40):
    """Standard error of the mean of values that depend on their neighbours: batch means."""
    parts = np.array_split(values, batches)
    return np.std([part.mean() for part in parts], ddof=1) / np.sqrt(batches)


@pytest.mark.parametrize("busy", [0.3, 0.7])
def test_one_at_a_time_is_the_m_d_1_queue(busy):
    one = dataclasses.replace(SERVER, max_num_seqs=1)
    e2e = e2e_of(run(one, request_rate_rps=busy / SERVICE_S, num_requests=20_000))
    waiting = busy * SERVICE_S / (2 * (1 - busy))  # Pollaczek-Khinchine, constant service
    error = error_of_mean(e2e)
    assert abs(e2e.mean() - (SERVICE_S + waiting)) < 4 * error
    assert abs(e2e.mean() - (SERVICE_S + 2 * waiting)) > 4 * error  # exponential service


def test_one_at_a_time_is_the_m_g_1_queue():
    one = dataclasses.replace(SERVER, max_num_seqs=1)
    result = run(one, request_rate_rps=6.0, output_len_cv=1.0, num_requests=40_000)
    e2e, service = e2e_of(result), 0.01 * measured(result)["output_len_tokens"].to_numpy()
    rate = result.summary()["request_rate_rps"]
    waiting = rate * np.mean(service**2) / (2 * (1 - rate * service.mean()))
    error = error_of_mean(e2e)
    assert abs(e2e.mean() - (service.mean() + waiting)) < 4 * error
    constant = rate * service.mean() ** 2 / (2 * (1 - rate * service.mean()))
    assert abs(e2e.mean() - (service.mean() + constant)) > 4 * error


def test_evenly_spaced_requests_below_capacity_never_wait():
    one = dataclasses.replace(SERVER, max_num_seqs=1)
    result = run(one, request_rate_rps=9.5, arrivals="constant")
    assert np.allclose(e2e_of(result), SERVICE_S, rtol=1e-9)
    assert result.summary()["request_rate_rps"] == pytest.approx(9.5)


def test_without_interaction_the_number_in_the_batch_is_poisson():
    result = run(request_rate_rps=80.0, num_requests=40_000)
    steps = result.steps[result.steps["start_s"] > 5.0]
    number = steps["running_requests"].to_numpy()
    # An M/G/inf system but for the wait for the step under way: mean = variance = rate x service.
    assert number.mean() == pytest.approx(80.0 * SERVICE_S, rel=0.02)
    assert number.var() == pytest.approx(80.0 * SERVICE_S, rel=0.06)
    evenly = run(request_rate_rps=80.0, arrivals="constant", num_requests=4000).steps
    assert evenly["running_requests"][500:].var() < 1.0


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "bursty"])
def test_gaps_between_arrivals(arrivals):
    spread = {"poisson": 1.0, "constant": 0.0, "bursty": 3.0}[arrivals]
    result = run(request_rate_rps=20.0, arrivals=arrivals, arrivals_cv=3.0, num_requests=40_000)
    gaps = np.diff(measured(result)["sent_s"])
    assert gaps.mean() == pytest.approx(1 / 20, rel=4 * spread / 200 + 1e-9)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.06, abs=1e-9)


def test_bursts_cost_latency():
    slow = dataclasses.replace(SERVER, request_in_step_s=2e-3)
    means = [
        run(slow, request_rate_rps=15.0, arrivals=kind, num_requests=5000).summary()["mean_e2e_s"]
        for kind in ("constant", "poisson", "bursty")
    ]
    assert means[0] < means[1] < means[2]


@pytest.mark.parametrize("arrivals", ["poisson", "constant", "bursty"])
def test_littles_law(arrivals):
    loaded = dataclasses.replace(SERVER, request_in_step_s=1e-3, request_start_s=0.03)
    result = run(loaded, request_rate_rps=30.0, arrivals=arrivals, num_requests=20_000)
    row = result.summary()
    number = row["mean_in_system_requests"]
    assert row["request_rate_rps"] * row["mean_e2e_s"] == pytest.approx(number, rel=0.005)
    in_batch = (result.requests["end_s"] - result.requests["admitted_s"])[
        result.requests["is_measured"]
    ]
    running = row["request_rate_rps"] * in_batch.mean()
    assert row["mean_running_requests"] == pytest.approx(running, rel=0.005)
    assert row["completed_rate_rps"] == pytest.approx(row["request_rate_rps"], rel=0.01)


def test_number_in_system_is_the_integral_over_the_window():
    result = run(request_rate_rps=40.0, num_requests=100)
    start, end = result.window_s
    sent, ended = result.requests["sent_s"].to_numpy(), result.requests["end_s"].to_numpy()
    changes = np.unique(np.concatenate([sent, ended[np.isfinite(ended)], [start, end]]))
    changes = changes[(changes >= start) & (changes <= end)]
    middles = (changes[1:] + changes[:-1]) / 2
    number = [np.sum((sent <= t) & ~(ended <= t)) for t in middles]
    integral = np.dot(number, np.diff(changes)) / (end - start)
    assert result.summary()["mean_in_system_requests"] == pytest.approx(integral, rel=1e-9)


def test_closed_loop_keeps_its_number():
    slow = dataclasses.replace(SERVER, request_in_step_s=1e-3, request_start_s=0.01)
    result = run(slow, concurrency=7, output_len_cv=0.5, num_requests=3000)
    row = result.summary()
    assert row["mean_in_system_requests"] == pytest.approx(7.0, rel=1e-9)
    assert row["completed_rate_rps"] * row["mean_e2e_s"] == pytest.approx(7.0, rel=0.01)
    assert row["load_kind"] == row["arrivals"] == "closed"
    assert np.isnan(row["request_rate_rps"])
    # Each completion starts the next request at once.
    sent = np.sort(result.requests["sent_s"])[7:]
    ended = np.sort(result.requests["end_s"].dropna())[: len(sent)]
    assert np.allclose(sent, ended)


def test_client_cap_holds_and_latency_counts_from_the_sending():
    result = run(request_rate_rps=200.0, client_cap=5, num_requests=500)
    row = result.summary()
    assert row["mean_in_system_requests"] == pytest.approx(5.0, rel=1e-9)
    assert row["mean_e2e_s"] == pytest.approx(SERVICE_S, rel=1e-9)
    assert row["target_rate_rps"] == 200.0
    assert row["request_rate_rps"] == pytest.approx(5 / SERVICE_S, rel=0.02)
    loose = run(request_rate_rps=2.0, client_cap=5, num_requests=500)
    assert loose.summary()["request_rate_rps"] == pytest.approx(2.0, rel=0.2)


def test_run_that_drains_completes_slower_than_it_arrives():
    load = {"request_rate_rps": 100.0, "num_requests": 20, "warmup_requests": 0}
    row = run(**load, keeps_arriving=False).summary()
    result = run(**load, keeps_arriving=False)
    assert len(result.requests) == 20
    span = result.requests["end_s"].max() - result.requests["sent_s"].min()
    assert row["completed_rate_rps"] == pytest.approx(20 / span)
    assert row["completed_rate_rps"] < 0.8 * row["request_rate_rps"]
    assert row["output_tokens_per_s"] == pytest.approx(200 / span)


def test_past_capacity_measured_requests_still_end():
    few = dataclasses.replace(SERVER, max_num_seqs=4)  # 40 requests per second
    result = run(few, request_rate_rps=400.0, num_requests=300)
    row = result.summary()
    assert measured(result)["end_s"].notna().all()
    assert row["request_rate_rps"] == pytest.approx(400.0, rel=0.2)
    assert row["completed_rate_rps"] == pytest.approx(40.0, rel=0.2)
    assert row["mean_running_requests"] == pytest.approx(4.0, rel=0.05)
    with pytest.raises(ArgumentError, match="lower it, or set client_cap or keeps_arriving=False"):
        run(few, request_rate_rps=1e6, num_requests=300)


def test_capacity_is_the_rate_with_a_full_batch():
    few = dataclasses.replace(SERVER, max_num_seqs=4)
    load = SimulatedLoad(request_rate_rps=1.0, **TEN_STEPS)
    assert simulated_capacity_rps(SimulatedArm(server=few), load) == pytest.approx(40.0, rel=0.02)
    capped = dataclasses.replace(load, client_cap=2)
    assert simulated_capacity_rps(SimulatedArm(server=few), capped) == pytest.approx(20, rel=0.02)


def test_duration_measures_what_arrives_within_it():
    result = run(request_rate_rps=50.0, duration_s=20.0)
    sent = measured(result)["sent_s"]
    before = result.requests["sent_s"][~result.requests["is_measured"]]
    start = before[before < sent.iloc[0]].max()
    assert len(sent) == pytest.approx(1000, abs=4 * 1000**0.5)
    assert sent.iloc[-1] - start <= 20.0 < before[before > sent.iloc[-1]].min() - start


def test_lengths_have_the_mean_and_spread_asked_for():
    result = run(
        request_rate_rps=5.0,
        input_len_tokens=300.5,
        input_len_cv=0.8,
        output_len_tokens=40.0,
        output_len_cv=0.3,
        num_requests=10_000,
    )
    for name, mean, cv in (("input_len", 300.5, 0.8), ("output_len", 40.0, 0.3)):
        lengths = measured(result)[f"{name}_tokens"]
        assert lengths.mean() == pytest.approx(mean, rel=4 * cv / 100)
        assert lengths.std() / lengths.mean() == pytest.approx(cv, rel=0.1)
    pairs = run(request_rate_rps=5.0, input_len_tokens=(10, 20, 30), output_len_tokens=(1, 2, 3))
    lengths = measured(pairs)
    assert set(lengths["input_len_tokens"]) == {10, 20, 30}
    assert (lengths["input_len_tokens"] == 10 * lengths["output_len_tokens"]).all()


@pytest.mark.parametrize(("k", "acceptance"), [(0, 0.0), (1, 0.7), (3, 0.75), (5, 0.8)])
@pytest.mark.parametrize("rate", [0.5, 2.0, 4.0])
def test_poisson_requests_meet_others_besides_themselves(k, acceptance, rate):
    # Additive costs, so that the demands are known: what one more request adds to my latency is
    # its tokens in each of my steps, and its prefill.
    server = SimulatedServer(
        weights_s=8e-3, compute_per_token_s=6e-5, request_in_step_s=1e-4, roofline_sharpness=1.0
    )
    drafter = SimulatedDrafter(acceptance=acceptance)
    arm = SimulatedArm(server=server, drafter=drafter, num_speculative_tokens=k)
    load = SimulatedLoad(
        request_rate_rps=rate, input_len_tokens=128, output_len_tokens=256, num_requests=8000
    )
    result = simulate_run(arm, load)
    row, num_steps = result.summary(), measured(result)["num_steps"].mean()
    own = num_steps * (1e-4 + (k + 1) * 6e-5)
    others = own + 128 * 6e-5
    load_independent = (8e-3 + 1e-4 + 128 * 6e-5) + num_steps * 8e-3
    batch = row["mean_in_system_requests"]
    ratio = (load_independent + own + others * batch) / row["mean_e2e_s"]
    assert ratio == pytest.approx(1.0, abs=0.01)
    read_as_all = (load_independent + others * batch) / row["mean_e2e_s"]
    assert 0.015 < 1 - read_as_all < 0.09  # C1 + C2 B reads too low


def test_closed_loop_meets_one_fewer():
    server = SimulatedServer(
        weights_s=8e-3, compute_per_token_s=6e-5, request_in_step_s=1e-3, roofline_sharpness=1.0
    )
    load = SimulatedLoad(concurrency=6, ramp_up_s=2.0, input_len_tokens=10, num_requests=600)
    row = simulate_run(SimulatedArm(server=server), load).summary()
    step = 8e-3 + 6 * (1e-3 + 6e-5)  # holds six, all of them, not seven
    alone = 128 * step + 6 * 10 * 6e-5
    assert row["mean_e2e_s"] == pytest.approx(alone, rel=0.005)
    assert row["mean_e2e_s"] != pytest.approx(alone + 128 * 1.06e-3, rel=0.05)
