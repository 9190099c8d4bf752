"""Reports whose answer needs no fit: acceptance (C7, C15, C20, C21) and experts (C8, C9, C10)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bayes_sd.data import to_dataset
from bayes_sd.exceptions import SchemaError
from bayes_sd.percentile_ratios import expected_levels
from bayes_sd.physics.acceptance import mean_acceptance_length, unconditional_acceptance
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.experts import expert_coverage
from bayes_sd.physics.step_time import step_time
from tests.fake_fit import KNOWN

pytestmark = pytest.mark.filterwarnings("ignore::bayes_sd.exceptions.AssumptionWarning")
RUN = {
    "run_id": "a",
    "sweep_id": "a",
    "verifier": "v",
    "drafter": "d",
    "method": "ngram",
    "num_speculative_tokens": 3,
    "load_kind": "closed",
    "concurrency": 400,
    "input_len_tokens": 500.0,
    "output_len_tokens": 200.0,
    "num_requests": 1000,
    "mean_e2e_s": 9.0,
}
NGRAM = (0.54, 0.36, 0.26)  # github.com/vllm-project/vllm/issues/19254, unconditional
VERIFY_MS = {1: 8.47, 2: 13.49, 3: 15.64, 5: 20.67, 8: 28.13}  # waybarrios/vllm-mlx/issues/699
SPARSE_FRACTION = 8 / 128


def conditional_of(**told):
    data = to_dataset(pd.DataFrame([RUN | told]))
    accepted, trials = (
        data[f"{name}_at_position"].values[0].astype(float) for name in ("accepted", "trials")
    )
    return accepted / trials


def test_c7_unconditional_rates_are_read_as_the_rising_conditional_ones():
    """github.com/vllm-project/vllm/issues/19254: 0.54, 0.36, 0.26 by position."""
    told = conditional_of(acceptance_per_position=";".join(map(str, NGRAM)))
    np.testing.assert_allclose(told, [0.54, 0.67, 0.72], atol=0.005)
    assert (np.diff(told) > 0).all()
    np.testing.assert_allclose(unconditional_acceptance(list(told)), NGRAM, atol=1e-3)
    with pytest.raises(SchemaError, match="Conditional rates do not belong here"):
        conditional_of(acceptance_per_position="0.54;0.67;0.72")


@pytest.mark.parametrize(("batch", "pays"), [(1, True), (337, False), (629, False)])
def test_c7_drafts_that_cost_nothing_still_pay_verification(batch, pays):
    """337 to 629 requests running: n-gram drafts are free, and slow the step all the same."""
    free = replace(
        KNOWN.costs("big", "quick"),
        draft_fixed_s=0.0,
        draft_per_request_s=0.0,
        verify_per_request_s=1e-5,
        knee_tokens=300.0,
    )
    length = mean_acceptance_length([0.54, 0.67, 0.72], 3)
    at = {"requests_per_step": batch, "context_tokens": 600}
    on, off = (step_time(free, num_speculative_tokens=k, **at) for k in (3, 0))
    assert on > off
    assert (on / length < off) == pays


def counts_of(rates, steps=100_000):
    return np.round(steps * np.cumprod([1.0, *rates])).astype(int)


def test_c21_rate_counts_histogram_and_length_of_one_drafter_agree():
    """github.com/vllm-project/vllm/issues/42508: 3 by one tool and 5.5 by another."""
    rates = [0.8, 0.75, 0.7]
    counts = counts_of(rates)
    steps, accepted = counts[0], counts[1:]
    histogram = np.append(counts[:-1] - counts[1:], counts[-1])
    joined = {
        "accepted_per_position": ";".join(map(str, accepted)),
        "accepted_length_counts": ";".join(map(str, histogram)),
        "acceptance_per_position": ";".join(str(a / steps) for a in accepted),
    }
    for name, text in joined.items():
        drafts = {} if name == "accepted_length_counts" else {"num_drafts": int(steps)}
        np.testing.assert_allclose(conditional_of(**{name: text}, **drafts), rates, atol=1e-4)
    length = 1 + accepted.sum() / steps
    assert length == pytest.approx(mean_acceptance_length(rates, 3), rel=1e-4)
    totals = (
        {"mean_acceptance_length": length},
        {"num_accepted_tokens": int(accepted.sum()), "num_drafts": int(steps)},
        {"draft_acceptance_rate": accepted.sum() / (3 * steps)},
    )
    for told in totals:
        data = to_dataset(pd.DataFrame([RUN | told]))
        assert float(data["accepted_per_step"].values[0]) == pytest.approx(length - 1, rel=1e-4)


def test_c21_a_length_that_no_draft_length_can_give_is_refused():
    """5.5 tokens per step with k = 3 counts something else: the message says what is meant."""
    with pytest.raises(SchemaError, match="Its 1 is the verifier's own token"):
        conditional_of(mean_acceptance_length=5.5)


def smallest_run(level, miss=0.0079):
    """Return the requests from which on the sample's range holds a quantile, but for a chance."""
    n = np.arange(1, 2000)
    return int(n[np.argmax(level**n + (1 - level) ** n <= miss)])


def test_c15_a_percentile_of_too_few_requests_is_not_taken_at_its_word():
    """github.com/awslabs/llmeter/pull/85: 8 requests for p50, 46 for p90, 482 for p99."""
    assert [smallest_run(level) for level in (0.5, 0.9, 0.99)] == [8, 46, 482]
    levels = expected_levels([0.5, 0.9, 0.99], [8, 46, 482, 5000])
    assert levels[0, 0] == pytest.approx(0.5)
    assert levels[1, 1] == pytest.approx(0.9, abs=0.02)
    assert levels[2, 2] == pytest.approx(0.99, abs=0.002)
    few = expected_levels([0.99], [8, 46])[:, 0]
    assert (few < [0.93, 0.985]).all(), "the p99 of 8 requests is a quantile far lower"
    # github.com/vllm-project/guidellm/issues/243: the p99 of 71 requests is their maximum.
    largest = (71 - 0.375) / (71 + 0.25)  # level of the largest of n, Blom (1958)
    assert expected_levels([0.99], [71])[0, 0] == pytest.approx(largest, abs=0.01)


def test_c20_break_even_length_is_the_ratio_of_step_times():
    """github.com/Tanguille/cluster/pull/4910: 50 ms per step against 32 ms per token."""
    step_s, token_s = 0.050, 0.032
    needed = step_s / token_s
    assert round(needed, 2) == 1.56
    rate = needed - 1  # of k = 1
    assert step_s / mean_acceptance_length([rate], 1) == pytest.approx(token_s)


def fitted(column, seconds):
    """Fit a line in one column; return the largest relative error."""
    design = np.column_stack([np.ones(len(column)), column])
    weights, *_ = np.linalg.lstsq(design / seconds[:, None], np.ones(len(column)), rcond=None)
    return float(np.max(abs(design @ weights / seconds - 1)))


def test_c8_verification_grows_as_experts_are_touched():
    """github.com/waybarrios/vllm-mlx/issues/699: 8.47 ms for one token, 28.13 ms for eight."""
    tokens, ms = (np.array(x, dtype=float) for x in (list(VERIFY_MS), list(VERIFY_MS.values())))
    of_experts = fitted(expert_coverage(tokens, SPARSE_FRACTION, 0.0), ms)
    assert of_experts < 0.1
    assert of_experts < fitted(tokens, ms), "better than a line in tokens"
    assert ms[-1] / ms[0] > 3, "a dense model reads its weights once, whatever the width"


def test_c9_experts_touched_grow_less_than_tokens():
    """github.com/vllm-project/vllm/issues/46295: 3.2 times the experts at k = 4, 1.3 at k = 1.

    Coverage is concave in tokens and 0 at none. So 3.2 at five tokens allows no less than 1.55 at
    two: the 1.3 of k = 1 must be of other steps, and is not asked for.
    """
    fractions = np.linspace(0.01, 0.5, 200)
    growth = expert_coverage(5, fractions, 0.0) / expert_coverage(1, fractions, 0.0)
    fraction = float(np.interp(-3.2, -growth, fractions))
    assert 0.1 < fraction < 0.3
    at_two = expert_coverage(2, fraction, 0.0) / expert_coverage(1, fraction, 0.0)
    assert 1.55 < at_two < 2
    imbalanced = expert_coverage(5, fraction, 1.5) / expert_coverage(1, fraction, 1.5)
    assert imbalanced < 3.2, "an unbalanced router touches fewer"


MOE = CostCoefficients(
    prefill_fixed_s=0.01,
    prefill_per_token_s=1e-5,
    prefill_stall_per_token_s=1e-5,
    verify_fixed_s=0.016,
    verify_per_request_s=3e-5,
    verify_growth_per_draft=0.02,
    context_per_token_s=1e-8,
    draft_fixed_s=8e-4,
    draft_per_request_s=2e-6,
    knee_s_per_token=1e-6,
    knee_tokens=400.0,
    knee_width_tokens=100.0,
    expert_share=0.85,
    experts_fraction=SPARSE_FRACTION,
)


def gain(costs, batch, k, length):
    at = {"requests_per_step": batch, "context_tokens": 500}
    off, on = (step_time(costs, num_speculative_tokens=d, **at) for d in (0, k))
    return length * off / on


def test_c9_a_small_k_pays_where_a_larger_one_does_not():
    """k = 1: +10 %. k = 4: 3.2 times the experts, verification 1.9 times, and -15 %.

    The drafter's pass, a fifth of a step, and 0.6 accepted are ours.
    """
    costs = replace(MOE, experts_fraction=0.2, expert_share=0.75, verify_per_request_s=0.0)
    touched = expert_coverage(5, 0.2, 0.0) / expert_coverage(1, 0.2, 0.0)
    assert touched == pytest.approx(3.2, rel=0.1)
    free = replace(costs, draft_fixed_s=0.0)
    off, verify = (step_time(free, 1, k, 500) for k in (0, 4))
    assert verify / off == pytest.approx(1.9, rel=0.05)
    costs = replace(costs, draft_fixed_s=off / 5)
    gains = {k: gain(costs, 1, k, float(mean_acceptance_length([0.6] * k, k))) for k in (1, 4)}
    assert gains[1] == pytest.approx(1.10, abs=0.05)
    assert gains[4] == pytest.approx(0.85, abs=0.05)
    dense = replace(costs, expert_share=0.0, experts_fraction=1.0, draft_fixed_s=off / 5)
    assert gain(dense, 1, 4, float(mean_acceptance_length([0.6] * 4, 4))) > 1, "not without experts"


def test_c10_a_sparse_model_loses_alone_and_gains_where_experts_are_touched_anyway():
    """github.com/sgl-project/sglang/issues/14824: slower at batch 1, faster at 64."""
    assert gain(MOE, 1, 4, 2.5) < 1 < gain(MOE, 64, 4, 2.5)
    dense = replace(MOE, expert_share=0.0, experts_fraction=1.0)
    assert gain(dense, 1, 4, 2.5) > 1, "a dense one gains alone"
