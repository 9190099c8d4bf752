"""Reports about decisions (C2, C16 to C20, C22, C23), on a made-up posterior about a known law."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from bayes_sd.attainment import slo_attainment
from bayes_sd.break_even import break_even_rate
from bayes_sd.capacity import max_rate
from bayes_sd.exceptions import ArgumentError
from bayes_sd.length_needed import break_even_length
from bayes_sd.policy import draft_length_policy
from bayes_sd.predict import predict_latency, predict_quantiles
from bayes_sd.replicas import replicas_needed
from bayes_sd.scenario import Scenario
from tests.edited_fit import edited_fit
from tests.fake_fit import BIG, FORCED, KNOWN, fake_fit, simulated_frame, true_latency

pytestmark = pytest.mark.filterwarnings("ignore::bayes_sd.exceptions.ExtrapolationWarning")
SILENT = {"boot_sd": 0.0, "discrepancy_sd": 0.0, "request_cv": 0.0, "extrapolation_sd": 0.0}
QUICK = Scenario("quick", request_rate_rps=1.0, num_speculative_tokens=3)


def law_with(pair=("big", "quick"), base=None, **drafting):
    """Return the known law with other costs of one pair and its verifier."""
    of_pair = dict(KNOWN.of_pair) | {pair: dict(KNOWN.of_pair[pair]) | drafting}
    of_base = dict(KNOWN.of_base) | {"big": BIG | (base or {})}
    return replace(KNOWN, of_base=of_base, of_pair=of_pair)


@pytest.fixture(scope="module")
def wide():
    return fake_fit(draws=200, spread=0.03, discrepancy_sd=0.01)


def test_c2_the_turn_comes_earlier_with_a_larger_k():
    """github.com/vllm-project/vllm/issues/17984: 1B for a 70B reverses near batch 32."""
    law = law_with(
        ("big", "sharp"),
        {"verify_per_request_s": 4e-4, "knee_s_per_token": 3e-4},
        draft_fixed_s=1e-3,
        draft_per_request_s=1.2e-4,
    )
    tree = fake_fit(draws=100, spread=0.02, coefficients=law, frame=simulated_frame(law))
    at = Scenario("sharp", concurrency=1, acceptance=0.7)
    turns = {}
    for k in (1, 3, 5):
        found = break_even_rate(tree, "sharp", num_speculative_tokens=k, scenario=at)
        turns[k] = found.interval()[1]

        def gap(batch, k=k):
            on = true_latency(law.costs("big", "sharp"), (0.7,) * k, k, batch, arrivals="closed")
            return on - true_latency(law.costs("big"), (), 0, batch, arrivals="closed")

        grid = np.geomspace(1, 256, 4000)
        first = grid[np.argmax([gap(b) > 0 for b in grid])]
        assert turns[k] == pytest.approx(first, rel=0.05), k
    assert turns[1] > turns[3] > turns[5]
    assert 8 < turns[3] < 64


def test_c16_a_p99_is_a_distribution():
    """github.com/vllm-project/vllm/pull/7062: 533, 741 and 597 ms in three runs."""
    three = np.array([0.533, 0.741, 0.597])
    tree = edited_fit(fake_fit(draws=400, boot_sd=0.03), spread_heterogeneity=0.5)
    at = QUICK.with_(num_requests=100)
    run, mean = (
        predict_quantiles(tree, at, [0.99], kind).values[:, 0, 0] for kind in ("run", "mean")
    )
    low, high = np.quantile(run / np.median(run), [0.05, 0.95])
    reported = three / np.median(three)
    assert ((low <= reported) & (reported <= high)).all(), "one run's p99 moves that much"
    calm = np.quantile(mean / np.median(mean), [0.05, 0.95])
    assert not ((calm[0] <= reported) & (reported <= calm[1])).all()
    more = predict_quantiles(tree, at.with_(num_requests=10_000), [0.99], "run").values[:, 0, 0]
    assert np.log(more).std() < 0.5 * np.log(run).std()


def test_c17_an_objective_on_the_mean_and_one_on_the_median_disagree():
    """github.com/vllm-project/vllm/issues/51454: the mean rises eightfold, the median by half."""
    even = edited_fit(fake_fit(draws=50), spread_heterogeneity=0.05)
    heavy = edited_fit(fake_fit(draws=50), spread_heterogeneity=1.2)
    at = QUICK.with_(request_rate_rps=4.0)
    mean = float(predict_latency(heavy, at)["e2e_s"].median())
    terms = [f"e2e_mean <= {0.8 * mean}", f"e2e_p50 <= {0.8 * mean}"]
    of_mean, of_median = (slo_attainment(heavy, at, term).p_slo_met[0] for term in terms)
    assert (of_mean, of_median) == (0.0, 1.0)
    of_mean, of_median = (slo_attainment(even, at, term).p_slo_met[0] for term in terms)
    assert (of_mean, of_median) == (0.0, 0.0), "without a tail they agree"
    quantiles = predict_quantiles(heavy, at, [0.5, 0.99]).median("sample").values[0]
    scaled = predict_quantiles(even, at, [0.5, 0.99]).median("sample").values[0]
    assert quantiles[1] / quantiles[0] > 3 * scaled[1] / scaled[0], "not a scaled mean"


def test_c18_the_peak_rate_comes_with_an_interval_and_the_next_rate_to_measure(wide):
    """github.com/vllm-project/guidellm/issues/197: find the peak rate under an objective."""
    found = max_rate(wide, QUICK, "e2e_p95 <= 1.1")
    low, middle, high = found.interval()
    assert found.rate <= low * 1.001 < middle < high, "0.95 sure: the low end of the 90 % interval"
    assert found.next_rate == middle
    at_next = slo_attainment(wide, QUICK.with_(request_rate_rps=middle), "e2e_p95 <= 1.1")
    assert at_next.p_slo_met[0] == pytest.approx(0.5, abs=0.05), "where it is least known"


def test_c19_replicas_stay_clear_of_the_knee(wide):
    """github.com/llm-d/llm-d-autoscaling/issues/1499: from 136 ms to 18.8 s past 2 requests/s."""
    slo = "e2e_p99 <= 1.5"
    capacity = max_rate(wide, QUICK, slo).capacity
    past = float(np.quantile(capacity, 0.95)) * 1.05
    before = float(np.quantile(capacity, 0.05)) * 0.5
    p_met = {
        rate: slo_attainment(wide, QUICK.with_(request_rate_rps=rate), slo).p_slo_met[0]
        for rate in (before, past)
    }
    assert p_met[before] > 0.95
    assert p_met[past] < 0.05
    traffic = [0.5 * past, 2 * past, 4 * past]
    found = replicas_needed(wide, QUICK, slo, traffic, 0.95)
    limit = found.per_replica
    np.testing.assert_array_equal(found.replicas, np.ceil(np.array(traffic) / limit.rate))
    assert (found.p_slo_met >= 0.95).all()
    assert (found.p_one_fewer[found.replicas > 1] < 0.95).all(), "the fewest"
    low, middle, high = limit.room()
    assert 1 < low < middle < high, "distance to the knee, in times the rate"


def c20_fit(**about):
    """Return a box whose step takes 32 ms without and 50 ms with two drafts, whatever the load."""
    base = dict.fromkeys(BIG, 1e-12) | {"verify_fixed_s": 0.032}
    base |= {"knee_tokens": 1e6, "knee_width_tokens": 10.0}
    law = law_with(
        base=base, draft_fixed_s=0.009, draft_per_request_s=1e-12, verify_growth_per_draft=1e-12
    )
    return fake_fit(coefficients=law, frame=simulated_frame(), **about)


def test_c20_the_break_even_length_of_a_flat_step():
    """github.com/Tanguille/cluster/pull/4910: 50 ms per step, 32 ms per token: 1.56."""
    at = Scenario("quick", concurrency=1, num_speculative_tokens=2, output_len_tokens=20_000)
    silent = break_even_length(c20_fit(draws=2, **SILENT), at)
    np.testing.assert_allclose(silent.length, 50 / 32, rtol=2e-3)
    wide = break_even_length(c20_fit(draws=300, spread=0.05, **SILENT), at)
    low, middle, high = wide.interval()
    assert low < 1.53 < 50 / 32 < 1.6 < high
    assert middle == pytest.approx(50 / 32, rel=0.02)
    assert wide.probability_pays(1.3) < 0.01 < 0.99 < wide.probability_pays(1.9)
    assert "pays from 1.5" in wide.statement()
    assert wide.to_dict()["median_length"] == middle


def test_c20_agrees_with_predictions_at_that_length():
    at = QUICK.with_(request_rate_rps=6.0)
    tree = fake_fit(draws=2, chains=1, **SILENT)
    length = float(break_even_length(tree, at).length[0])
    on = predict_latency(tree, at.with_(mean_acceptance_length=length))["e2e_s"].values
    off = predict_latency(tree, at.with_(num_speculative_tokens=0))["e2e_s"].values
    np.testing.assert_allclose(on, off, rtol=2e-3)


def test_c20_bad_input_and_no_answer():
    tree = fake_fit(draws=5, **SILENT)
    with pytest.raises(ArgumentError, match="at least 1 for a break-even length"):
        break_even_length(tree, QUICK.with_(num_speculative_tokens=0))
    past = break_even_length(tree, QUICK.with_(request_rate_rps=400.0))
    assert "past capacity" in past.statement()
    assert past.to_dict()["median_length"] is None
    dear = fake_fit(draws=5, coefficients=law_with(draft_fixed_s=1.0), **SILENT)
    assert "does not pay even with 4" in break_even_length(dear, QUICK).statement()


def test_c22_half_the_offline_throughput_is_expected_at_a_full_batch():
    """github.com/vllm-project/vllm/issues/49369: healthy acceptance, half the throughput.

    One run at 200 in flight is judged by the share of fresh runs that would be as slow.
    """
    law = law_with(("big", "sharp"), draft_per_request_s=2.2e-4)
    wide = fake_fit(draws=200, spread=0.03, coefficients=law, frame=simulated_frame(law))
    at = Scenario("sharp", concurrency=200, num_speculative_tokens=5, acceptance=FORCED)
    off = at.with_(num_speculative_tokens=0)
    throughput = {s: 200 / predict_latency(wide, s, "run")["e2e_s"].values[:, 0] for s in (at, off)}
    ratio = throughput[at] / throughput[off]
    assert 0.05 < (ratio <= 0.5).mean() < 0.95, "half is expected here: nothing need be wrong"
    assert (ratio < 1).mean() > 0.95
    alone = {s: predict_latency(wide, s.with_(concurrency=1.0))["e2e_s"].values for s in (at, off)}
    assert (alone[at] < alone[off]).mean() > 0.9, "and the same drafter is healthy alone"
    assert (throughput[at] < 0.3 * np.median(throughput[at])).mean() == 0.0, "that would be wrong"


def test_c23_a_policy_has_two_axes(wide):
    """github.com/vllm-project/vllm/issues/48627: k by context length as well as batch."""
    at = Scenario("sharp", concurrency=1, acceptance=FORCED)
    lens, loads = [256.0, 8192.0], [1.0, 8.0, 64.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = draft_length_policy(wide, at, concurrencies=loads, input_lens=lens)
    assert policy.index.names == ["input_len_tokens", "concurrency"]
    assert len(policy) == len(lens) * len(loads)
    for tokens in lens:
        chosen = policy.loc[tokens, "num_speculative_tokens"].astype(int)
        assert (chosen.diff().dropna() <= 0).all()
        assert policy.loc[tokens, "probability_best"].between(0, 1).all()
        alone = draft_length_policy(wide, at.with_(input_len_tokens=tokens), concurrencies=loads)
        assert chosen.tolist() == alone["num_speculative_tokens"].tolist()
    regret = policy.filter(like="regret_k").to_numpy(dtype=float)
    assert not np.allclose(regret[:3], regret[3:]), "context matters"
