"""Latency of a request, what it meets, and how strongly load feeds back."""

import numpy as np
import pytest

from bayes_sd.physics.experts import expert_coverage
from bayes_sd.physics.latency import (
    latency_elasticity,
    latency_slope,
    met_by_arrivals,
    met_slopes,
    request_latency,
)
from bayes_sd.physics.mixed_step import mixed_step_slope, mixed_step_time
from bayes_sd.physics.step_time import step_time

LENGTHS = {
    "num_speculative_tokens": 3,
    "input_len_tokens": 512,
    "output_len_tokens": 256,
    "num_steps": 90.0,
}
BATCH = np.array([1e-6, 0.3, 0.9, 1.1, 5.0, 20.0, 100.0])
ARRIVALS = ["poisson", "constant", "closed", "bursty"]


def latency(costs, batch, arrivals, **changes):
    requests, others = met_by_arrivals(batch, arrivals)
    lengths = LENGTHS | changes
    return request_latency(costs, requests_per_step=requests, others=others, **lengths)


def slope_in_batch(costs, batch, arrivals):
    requests, others = met_by_arrivals(batch, arrivals)
    requests_slope, others_slope = met_slopes(batch, arrivals)
    return latency_slope(
        costs,
        requests_per_step=requests,
        others=others,
        requests_slope=requests_slope,
        others_slope=others_slope,
        **LENGTHS,
    )


@pytest.mark.parametrize(
    ("arrivals", "requests", "others"),
    [
        ("poisson", 1 + BATCH, BATCH),
        ("bursty", 1 + BATCH, BATCH),
        ("constant", np.maximum(BATCH, 1.0), BATCH),
        ("closed", BATCH, BATCH - 1),
    ],
)
def test_what_a_request_meets(arrivals, requests, others):
    got_requests, got_others = met_by_arrivals(BATCH, arrivals)
    np.testing.assert_allclose(got_requests, requests)
    np.testing.assert_allclose(got_others, others)


def test_unknown_arrivals_are_an_error_that_lists_the_known_ones(make_costs):
    words = "arrivals must be one of 'poisson', 'constant', 'closed', 'bursty'. Got 'uniform'"
    with pytest.raises(ValueError, match=words):
        met_by_arrivals(1.0, "uniform")
    with pytest.raises(ValueError, match=words):
        latency_elasticity(make_costs(), effective_batch=1.0, arrivals="uniform", **LENGTHS)


def test_latency_is_the_sum_of_its_parts(make_costs):
    c = make_costs()
    prompt = 512 * (c.prefill_per_token_s + 4 * c.prefill_stall_per_token_s)
    touched = expert_coverage(np.array([20, 532]), 4 / 32, 0.6)
    mixed = c.mixed_step_s + 0.8 * c.verify_fixed_s * (touched[1] - touched[0])
    step = step_time(c, 5, 3, 512 + 128) + (1 - np.exp(-4 / 90)) * mixed
    expected = c.prefill_fixed_s + prompt + 90 * step
    assert latency(c, 4, "poisson") == pytest.approx(expected)


def test_a_prefill_touches_experts_that_a_mixed_step_would_not(make_costs):
    """The rise of coverage against tokens that are routed one by one, evenly."""
    rng = np.random.default_rng(0)
    routed = np.argsort(rng.random((4000, 4, 32)))[..., :4]  # 4 of 32 experts, 4 tokens
    decoding = np.mean([len(np.unique(step)) for step in routed]) / 32
    c = make_costs(expert_load_cv=0.0)
    assert mixed_step_time(c, 4, 512) == pytest.approx(
        c.mixed_step_s + 0.8 * c.verify_fixed_s * (1 - decoding), rel=0.01
    )
    dense = make_costs(expert_share=0.0)
    assert mixed_step_time(dense, 4, 512) == dense.mixed_step_s
    assert mixed_step_slope(dense, 4, 512) == 0


def test_slope_of_a_mixed_step(make_costs):
    c, h = make_costs(), 1e-4
    rise = mixed_step_time(c, 8 + h, 64) - mixed_step_time(c, 8 - h, 64)
    assert mixed_step_slope(c, 8, 64) == pytest.approx(rise / (2 * h), rel=1e-6)


def test_a_tree_drafts_in_few_passes_and_verifies_many_tokens(make_costs):
    """Without bend and experts every part is linear in what the tree changes."""
    c = make_costs(knee_s_per_token=0.0, expert_share=0.0)
    chain = latency(c, 4, "poisson")
    same = latency(c, 4, "poisson", num_draft_steps=3, num_verified_tokens=4)
    assert same == pytest.approx(chain)
    tree = latency(c, 4, "poisson", num_speculative_tokens=15, num_draft_steps=3)
    wide = latency(c, 4, "poisson", num_draft_steps=3, num_verified_tokens=16)
    assert wide == pytest.approx(tree)  # 15 drafted tokens are 16 verified
    growth = c.verify_per_request_s * c.verify_growth_per_draft
    assert wide - chain == pytest.approx(90 * 5 * 12 * growth)
    passes = latency(c, 4, "poisson", num_draft_steps=2, num_verified_tokens=4)
    assert chain - passes == pytest.approx(90 * (c.draft_fixed_s + 5 * c.draft_per_request_s))


def test_slope_of_a_tree_is_the_derivative(make_costs):
    c, h = make_costs(), 1e-5
    shape = {"num_draft_steps": 2.4, "num_verified_tokens": 9.5}
    rise = latency(c, 5 + h, "poisson", **shape) - latency(c, 5 - h, "poisson", **shape)
    slope = latency_slope(
        c, requests_per_step=6, others=5, requests_slope=1, others_slope=1, **LENGTHS, **shape
    )
    assert slope == pytest.approx(rise / (2 * h), rel=1e-6)


def test_an_empty_system_still_holds_the_request_itself(make_costs):
    c = make_costs()
    alone = latency(c, 1.0, "closed")
    assert latency(c, 0.0, "poisson") == pytest.approx(alone)
    assert latency(c, 0.0, "constant") == pytest.approx(alone)


def test_a_closed_loop_of_n_is_poisson_with_one_less(make_costs):
    np.testing.assert_allclose(
        latency(make_costs(), BATCH + 1, "closed"), latency(make_costs(), BATCH, "poisson")
    )


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("k", [0, 3])
def test_elasticity_is_the_derivative_on_log_scales(make_costs, arrivals, k):
    h = 1e-5
    up = latency(make_costs(), BATCH * np.exp(h), arrivals, num_speculative_tokens=k)
    down = latency(make_costs(), BATCH * np.exp(-h), arrivals, num_speculative_tokens=k)
    slope = latency_elasticity(
        make_costs(),
        effective_batch=BATCH,
        arrivals=arrivals,
        **(LENGTHS | {"num_speculative_tokens": k}),
    )
    # A coverage is right to 1e-9 only, which a difference over 2e-5 shows.
    np.testing.assert_allclose(slope, np.log(up / down) / (2 * h), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_elasticity_vanishes_with_the_load(make_costs, arrivals):
    slope = latency_elasticity(make_costs(), effective_batch=0.0, arrivals=arrivals, **LENGTHS)
    assert slope == 0.0


def test_slope_of_the_linear_law_is_the_load_dependent_demand(linear_costs):
    c2 = latency(linear_costs, 1.0, "poisson") - latency(linear_costs, 0.0, "poisson")
    assert slope_in_batch(linear_costs, 7.0, "poisson") == pytest.approx(c2)


@pytest.mark.parametrize("arrivals", ARRIVALS)
def test_slope_is_the_derivative_in_the_batch(make_costs, arrivals):
    h = 1e-4
    batch = BATCH[1:]
    rise = latency(make_costs(), batch + h, arrivals) - latency(make_costs(), batch - h, arrivals)
    slope = slope_in_batch(make_costs(), batch, arrivals)
    np.testing.assert_allclose(slope, rise / (2 * h), rtol=1e-5)


def test_share_of_steps_with_a_prefill_against_draws(make_costs, rng):
    # Prefills that fall on 90 steps at random; the step itself costs nothing here.
    free = {name: 0.0 for name in vars(make_costs()) if name.endswith(("_s", "_per_token_s"))}
    free |= {"verify_per_request_s": 0.0, "knee_s_per_token": 0.0, "mixed_step_s": 1.0}
    hit = rng.poisson(30 / 90, size=(20_000, 90)) > 0
    expected = latency(make_costs(**free), 30.0, "poisson")
    assert expected == pytest.approx(hit.sum(axis=1).mean(), rel=0.01)


def test_an_answer_of_one_token_takes_no_step(make_costs):
    c = make_costs()
    prompt = 512 * (c.prefill_per_token_s + 4 * c.prefill_stall_per_token_s)
    got = latency(c, 4.0, "poisson", num_steps=0.0)
    assert got == pytest.approx(c.prefill_fixed_s + prompt)


def test_elasticity_of_the_linear_law(linear_costs):
    c1 = latency(linear_costs, 0.0, "poisson")
    c2 = latency(linear_costs, 1.0, "poisson") - c1
    slope = latency_elasticity(linear_costs, effective_batch=BATCH, arrivals="poisson", **LENGTHS)
    np.testing.assert_allclose(slope, c2 * BATCH / (c1 + c2 * BATCH))


def test_a_change_of_latency_is_amplified_through_littles_law(linear_costs):
    c1 = latency(linear_costs, 0.0, "poisson")
    c2 = latency(linear_costs, 1.0, "poisson") - c1
    rate, change = 0.9 / c2, 1e-6
    solved = c1 / (1 - rate * c2)
    slower = (1 + change) * c1 / (1 - rate * (1 + change) * c2)
    eps = latency_elasticity(
        linear_costs, effective_batch=rate * solved, arrivals="poisson", **LENGTHS
    )
    assert eps == pytest.approx(0.9)
    assert np.log(slower / solved) == pytest.approx(change / (1 - eps), rel=1e-3)


def test_change_of_variables_from_rate_to_batch(make_costs):
    def log_rate(log_batch):
        batch = np.exp(log_batch)
        return log_batch - np.log(latency(make_costs(), batch, "poisson"))

    at, h = np.log(12.0), 1e-4
    eps = latency_elasticity(make_costs(), effective_batch=12.0, arrivals="poisson", **LENGTHS)
    assert (log_rate(at + h) - log_rate(at - h)) / (2 * h) == pytest.approx(1 - eps, rel=1e-4)
