"""Mixtures of experts in the graph: who has experts, and what counts per expert tell."""

import numpy as np
import pytest

from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.model import build_model
from bayes_sd.physics.experts import routed_load_cv


@pytest.fixture(scope="module")
def frame():
    frame = load_vllm_cpu("all", quiet_only=True)
    frame = frame[~frame["is_throughput_test"] & frame["num_speculative_tokens_schedule"].isna()]
    return frame.reset_index(drop=True)


def test_only_mixtures_have_experts(frame):
    model = build_model(to_dataset(frame), responses=())
    assert list(model.coords["expert_base"]) == ["verifier-moe"]
    dense = frame[frame["verifier"] == "verifier-dense"]
    names = {v.name for v in build_model(to_dataset(dense), responses=()).free_RVs}
    assert "log_expert_load_cv" not in names


def counted(frame, cv):
    """Give each run of the mixture counts of its 32 experts with this spread."""
    rng = np.random.default_rng(1)
    weights = 1 + cv * stretched(rng.standard_normal(32))
    text = ";".join(str(round(100_000 * w)) for w in weights)
    is_moe = frame["verifier"] == "verifier-moe"
    return frame.assign(expert_token_counts=np.where(is_moe, text, ""))


def stretched(values):
    return (values - values.mean()) / values.std(ddof=1)


def test_counts_per_expert_are_scored_once_for_a_server(frame):
    data = to_dataset(counted(frame, 0.25))
    at = data["base_of_run"].values == list(data["base"].values).index("verifier-moe")
    np.testing.assert_allclose(data["routed_load_cv"].values[at], 0.25, rtol=0.01)
    assert np.isnan(data["routed_load_cv"].values[~at]).all()
    model = build_model(data, responses=())
    variable = model["log_routed_load_cv"]
    score = model.compile_logp(vars=[variable], sum=False, mode="FAST_COMPILE")
    point = model.initial_point()
    fraction = float(data["experts_per_token"].max() / data["num_experts"].max())
    grid = np.geomspace(0.05, 3.0, 60)
    curve = [float(score(point | {"log_expert_load_cv": np.log([v])})[0].sum()) for v in grid]
    best = grid[int(np.argmax(curve))]
    assert routed_load_cv(fraction, best) == pytest.approx(0.25, rel=0.1)
    assert max(curve) - curve[-1] > 5  # another imbalance is ruled out
