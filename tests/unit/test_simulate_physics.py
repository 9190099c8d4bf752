"""What the simulated engine does with tokens: times by hand, acceptance, experts, preemption.

The right answers are worked out here, without the package's formulas.
"""

import dataclasses

import numpy as np
import pytest

from bayes_sd.simulate import (
    SimulatedArm,
    SimulatedDrafter,
    SimulatedExperts,
    SimulatedLoad,
    SimulatedServer,
    simulate_run,
)

SERVER = SimulatedServer(weights_s=8e-3, compute_per_token_s=6e-5)
ALONE = SimulatedLoad(concurrency=1, num_requests=20, warmup_requests=0)


def drafting(k, acceptance, server=SERVER, **costs):
    drafter = SimulatedDrafter(acceptance=acceptance, **costs)
    return SimulatedArm(server=server, drafter=drafter, num_speculative_tokens=k)


def measured(run):
    return run.requests[run.requests["is_measured"]]


def test_time_of_a_lone_request_by_hand():
    server = SimulatedServer(
        weights_s=8e-3,
        compute_per_token_s=6e-5,
        step_fixed_s=1e-3,
        roofline_sharpness=3.0,
        request_in_step_s=1e-4,
        context_per_token_s=1e-7,
        mixed_step_s=0.5,  # never paid: nothing else is in its steps
        request_start_s=0.02,
        boot_factor=1.1,
    )
    arm = drafting(
        3,
        1.0,
        server,
        fixed_s=7e-4,
        per_request_s=2e-5,
        verify_per_draft_s=3e-5,
        prefill_per_token_s=4e-6,
        loaded_s=2e-4,
    )
    load = dataclasses.replace(ALONE, input_len_tokens=100, output_len_tokens=9)
    row = simulate_run(arm, load).summary()

    def bend(tokens):
        return (8e-3**3 + (6e-5 * tokens) ** 3) ** (1 / 3)

    prefill = 1.1 * (1.2e-3 + bend(100) + 1e-4 + 100e-7 + 100 * 4e-6)
    drafts = 3 * (7e-4 + 2e-5 + 3e-5)
    # Eight tokens are left, four a step; the cache holds the context and this step's tokens.
    steps = [1.1 * (1.2e-3 + bend(4) + 1e-4 + c * 1e-7 + drafts) for c in (104, 108)]
    assert row["mean_ttft_s"] == pytest.approx(0.02 + prefill, rel=1e-12)
    assert row["mean_e2e_s"] == pytest.approx(0.02 + prefill + sum(steps), rel=1e-12)
    assert row["mean_tpot_s"] == pytest.approx(sum(steps) / 8, rel=1e-12)
    assert row["mean_itl_s"] == pytest.approx(sum(steps) / 2, rel=1e-12)
    assert row["mean_acceptance_length"] == 4.0


@pytest.mark.parametrize(("sharpness", "step_s"), [(1.0, 11e-3 + 1e-5), (np.inf, 11e-3 - 3e-3)])
def test_ends_of_the_roofline(sharpness, step_s):
    # 50 tokens and 1 token: sums at one end, the longer of the two times at the other.
    server = dataclasses.replace(SERVER, roofline_sharpness=sharpness)
    load = dataclasses.replace(ALONE, input_len_tokens=50, output_len_tokens=2)
    steps = simulate_run(SimulatedArm(server=server), load).steps
    durations = (steps["end_s"] - steps["start_s"]).to_numpy()
    assert durations[0] == pytest.approx(step_s - (1e-5 if sharpness == 1.0 else 0), rel=1e-9)
    assert durations[1] == pytest.approx(8e-3 + (6e-5 if sharpness == 1.0 else 0), rel=1e-9)


def test_long_prompt_is_cut_into_chunks():
    server = dataclasses.replace(SERVER, roofline_sharpness=1.0, max_num_batched_tokens=64)
    load = dataclasses.replace(ALONE, input_len_tokens=150, output_len_tokens=1)
    run = simulate_run(SimulatedArm(server=server), load)
    assert run.steps["prefill_tokens"].tolist()[:3] == [64, 64, 22]
    assert run.summary()["mean_e2e_s"] == pytest.approx(3 * 8e-3 + 150 * 6e-5, rel=1e-9)


def test_mixed_step_pays_once_whatever_it_holds():
    # Two requests, the second sent during the first's decoding: one mixed step, of known content.
    server = dataclasses.replace(SERVER, roofline_sharpness=1.0, mixed_step_s=0.1)
    load = dataclasses.replace(ALONE, concurrency=2, num_requests=2, keeps_arriving=False)
    load = dataclasses.replace(load, ramp_up_s=0.04, input_len_tokens=10, output_len_tokens=5)
    steps = simulate_run(SimulatedArm(server=server), load).steps
    mixed = (steps["decoding_requests"] > 0) & (steps["prefill_tokens"] > 0)
    assert mixed.sum() == 1
    times = (steps["end_s"] - steps["start_s"])[mixed]
    assert times.iloc[0] == pytest.approx(0.1 + 8e-3 + 11 * 6e-5, rel=1e-9)


def test_limits_hold_in_every_step():
    server = dataclasses.replace(SERVER, max_num_seqs=6, max_num_batched_tokens=22)
    load = SimulatedLoad(concurrency=12, input_len_tokens=33, output_len_tokens=200)
    steps = simulate_run(drafting(4, 0.6, server), load).steps
    tokens = steps["decoding_requests"] + steps["drafted_tokens"] + steps["prefill_tokens"]
    assert steps["running_requests"].max() == 6
    assert tokens.max() == 22


def test_noise_of_steps_keeps_their_mean():
    server = dataclasses.replace(SERVER, compute_per_token_s=0.0, step_noise_cv=0.3)
    load = dataclasses.replace(ALONE, num_requests=100)
    steps = simulate_run(SimulatedArm(server=server), load).steps
    times = steps["end_s"] - steps["start_s"]
    assert times.mean() == pytest.approx(8e-3, rel=4 * 0.3 / len(times) ** 0.5)
    assert times.std() / times.mean() == pytest.approx(0.3, rel=0.05)


def step_distribution(rates):
    """Chance that a step emits 1, 2, ... tokens, draft by draft."""
    chances, reached = [], 1.0
    for rate in rates:
        chances.append(reached * (1 - rate))
        reached *= rate
    return [*chances, reached]


def steps_by_recursion(tokens, rates):
    """Expected steps to emit at least so many tokens: the renewal recursion."""
    chances = step_distribution(rates)
    expected = [0.0]
    for n in range(1, tokens + 1):
        later = sum(c * expected[max(n - s, 0)] for s, c in enumerate(chances, start=1))
        expected.append(1 + later)
    return expected[tokens]


def test_acceptance_length_counts_the_bonus_token():
    rates = (0.8, 0.7, 0.6, 0.5)
    load = dataclasses.replace(ALONE, num_requests=2000)
    row = simulate_run(drafting(4, rates), load).summary()
    accepted = [int(n) for n in row["accepted_per_position"].split(";")]
    reached = row["num_drafts"]
    for rate, count in zip(rates, accepted, strict=True):
        error = np.sqrt(reached * rate * (1 - rate))
        assert abs(count - rate * reached) < 4 * error
        reached = count
    chances = np.array(step_distribution(rates))
    emitted = np.arange(1, 6)
    mean = float(chances @ emitted)  # E = 1 + sum of products of rates
    error = np.sqrt((chances @ emitted**2 - mean**2) / row["num_drafts"])
    assert mean == pytest.approx(1 + 0.8 + 0.56 + 0.336 + 0.168)
    assert abs(row["mean_acceptance_length"] - mean) < 4 * error
    assert abs(row["mean_acceptance_length"] - (mean - 1)) > 4 * error  # bonus not counted
    assert row["draft_acceptance_rate"] == pytest.approx(sum(accepted) / row["num_draft_tokens"])


@pytest.mark.parametrize(("k", "rates"), [(0, ()), (1, (0.7,)), (5, (0.9, 0.9, 0.85, 0.8, 0.8))])
def test_number_of_steps_follows_the_recursion(k, rates):
    load = dataclasses.replace(ALONE, num_requests=3000, output_len_tokens=40)
    run = simulate_run(drafting(k, rates if k else 0.0), load)
    steps = measured(run)["num_steps"]
    error = steps.std() / np.sqrt(len(steps))
    right = steps_by_recursion(39, rates)
    assert abs(steps.mean() - right) <= 4 * error
    if k == 5:
        mean_length = np.dot(step_distribution(rates), np.arange(1, 7))
        assert abs(steps.mean() - 40 / mean_length) > 4 * error  # g / E is the limit, not exact
        assert abs(steps.mean() - 39 / (mean_length - 1)) > 4 * error  # bonus not counted


def test_survivors_are_easier_where_requests_differ():
    base, spread, k, tokens = 0.7, 1.0, 4, 60
    load = dataclasses.replace(ALONE, num_requests=4000, output_len_tokens=tokens + 1)
    run = simulate_run(drafting(k, base, acceptance_spread_logit=spread), load)
    counted = run.accepted_at_position[run.requests["is_measured"]].sum(axis=0)
    reached = np.array([measured(run)["num_drafts"].sum(), *counted[:-1]])
    # The mixture by quadrature over requests; a hard request takes more steps, so it weighs more.
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    own = 1 / (1 + np.exp(-(np.log(base / (1 - base)) + spread * nodes)))
    weights = weights * [steps_by_recursion(tokens, (a,) * k) for a in own]
    right = [np.sum(weights * own**j) / np.sum(weights * own ** (j - 1)) for j in range(1, k + 1)]
    error = 3 * np.sqrt(0.25 / reached) + 0.006  # steps of one request share its effect
    assert np.all(np.abs(counted / reached - right) < error)
    assert counted[3] / reached[3] > counted[0] / reached[0] + 0.05
    assert np.any(np.abs(counted / reached - base) > error)  # as if all were alike


def test_draft_length_follows_the_schedule():
    arm = dataclasses.replace(drafting(4, 0.5), draft_length_schedule=((1, 2, 4), (4, 6, 1)))
    load = SimulatedLoad(request_rate_rps=5.0, num_requests=300)
    steps = simulate_run(arm, load).steps
    decoding = steps[(steps["prefill_tokens"] == 0) & (steps["decoding_requests"] > 0)]
    length = decoding["drafted_tokens"] / decoding["decoding_requests"]
    for batch, k in {1: 4, 2: 4, 3: 4, 4: 1, 6: 1, 8: 1}.items():  # gaps and the tail keep k
        assert set(length[decoding["running_requests"] == batch]) == {k}


def coverage_of(experts, tokens, repeats=4000):
    """Mean share of experts touched in prefills of so many tokens, and its standard error."""
    server = dataclasses.replace(SERVER, experts=experts)
    load = dataclasses.replace(
        ALONE, input_len_tokens=tokens, output_len_tokens=1, num_requests=repeats
    )
    found = simulate_run(SimulatedArm(server=server), load).steps["expert_coverage"]
    return found.mean(), found.std() / np.sqrt(len(found))


@pytest.mark.parametrize("tokens", [1, 3, 8, 30])
def test_balanced_coverage_is_the_published_form(tokens):
    mean, error = coverage_of(SimulatedExperts(num_experts=32, experts_per_token=4), tokens)
    assert abs(mean - (1 - (1 - 4 / 32) ** tokens)) <= 4 * error + 1e-12
    if tokens == 3:  # experts drawn with replacement: a token would touch fewer
        assert abs(mean - (1 - (1 - 1 / 32) ** (4 * tokens))) > 4 * error


@pytest.mark.parametrize(("num_experts", "per_token"), [(8, 2), (32, 4), (128, 8)])
@pytest.mark.parametrize("cv", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("tokens", [1, 4, 16, 64])
def test_uneven_coverage_is_near_the_gamma_mixture(num_experts, per_token, cv, tokens):
    experts = SimulatedExperts(num_experts=num_experts, experts_per_token=per_token, load_cv=cv)
    mean, _ = coverage_of(experts, tokens, repeats=1000)
    fraction = per_token / num_experts
    scale = ((1 - fraction) ** -(cv**2) - 1) / cv**2
    mixture = 1 - (1 + cv**2 * scale * tokens) ** (-1 / cv**2)
    assert mean == pytest.approx(mixture, abs=0.03)
    if cv == 2.0 and tokens == 16:
        assert abs(mean - (1 - (1 - fraction) ** tokens)) > 0.1  # as if balanced


def test_routing_is_top_m_of_perturbed_logits(rng):
    weights = np.array([8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 1e-6, 1e-7])
    experts = SimulatedExperts(num_experts=8, experts_per_token=3, popularity=weights)
    gumbel = np.log(weights) + rng.gumbel(size=(20000, 5, 8))
    chosen = np.argsort(gumbel, axis=2)[:, :, -3:].reshape(20000, 15)
    brute = np.array([len(set(row)) for row in chosen.tolist()]) / 8
    mean, error = coverage_of(experts, 5, repeats=20000)
    assert abs(mean - brute.mean()) < 4 * np.hypot(error, brute.std() / np.sqrt(20000))


def test_expert_counts_and_the_hottest_shard():
    experts = SimulatedExperts(num_experts=16, experts_per_token=2, load_cv=1.0, num_shards=16)
    server = dataclasses.replace(SERVER, experts=experts, roofline_sharpness=1.0)
    load = SimulatedLoad(concurrency=4, ramp_up_s=1.0, input_len_tokens=20)
    run = simulate_run(SimulatedArm(server=server), load)
    counts = run.experts_by_tokens().set_index("tokens")
    assert counts["num_steps"].sum() == len(run.steps)
    assert counts.loc[1, "mean_distinct_experts"] == pytest.approx(2.0)
    assert counts.loc[1, "mean_shard_imbalance"] == pytest.approx(8.0)  # two shards of 16 work
    steps = run.steps
    tokens = steps["decoding_requests"] + steps["prefill_tokens"]
    hot = 1 - 0.7 + 0.7 * steps["shard_imbalance"]
    reading = 8e-3 * (1 - 0.9 + 0.9 * steps["expert_coverage"])
    right = reading + 6e-5 * tokens * hot
    assert np.allclose(steps["end_s"] - steps["start_s"], right, rtol=1e-9)
    assert len(simulate_run(SimulatedArm(server=SERVER), ALONE).experts_by_tokens()) == 0


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("budget", [16, 8192])
def test_preemption_loses_no_token(k, budget):
    server = dataclasses.replace(
        SERVER, kv_capacity_tokens=300, max_num_seqs=16, max_num_batched_tokens=budget
    )
    load = SimulatedLoad(
        concurrency=16,
        input_len_tokens=40,
        input_len_cv=0.3,
        output_len_tokens=60,
        output_len_cv=0.3,
        num_requests=500,
        keeps_arriving=False,
        warmup_requests=0,
    )
    run = simulate_run(drafting(k, 0.6 if k else 0.0, server), load)
    done = run.requests
    assert done["num_preemptions"].sum() > 50
    assert (done["emitted_tokens"] == done["output_len_tokens"]).all()
    emitted = done["num_prefills"] + done["num_steps"] + done["num_accepted_tokens"]
    assert (emitted - done["num_discarded_tokens"] == done["output_len_tokens"]).all()
    assert (done["num_prefills"] <= 1 + done["num_preemptions"]).all()
    assert done["num_discarded_tokens"].between(0, k).all()
    assert run.steps["context_tokens"].max() <= 300
    # The engine computes every prompt, and again what it had to throw away.
    assert run.steps["prefill_tokens"].sum() > done["input_len_tokens"].sum()
    free = dataclasses.replace(server, kv_capacity_tokens=None)
    roomy = simulate_run(drafting(k, 0.6 if k else 0.0, free), load)
    assert roomy.requests["num_preemptions"].sum() == 0
    assert roomy.steps["prefill_tokens"].sum() == done["input_len_tokens"].sum()
    assert roomy.requests["end_s"].max() < done["end_s"].max()
