"""A fit in blocks is a fit of the whole model: the log densities add up."""

import numpy as np
import pytest

from bayes_sd.blocks import build_blocks
from bayes_sd.data import to_dataset
from bayes_sd.datasets import load_scaling_study, load_vllm_cpu
from bayes_sd.model import build_model
from bayes_sd.priors import default_priors
from bayes_sd.sampling import CompiledModel, compile_blocks, sample


def log_density(model, point):
    terms = model.compile_logp(sum=False, mode="FAST_COMPILE")(point)
    return float(sum(np.sum(term) for term in terms))


@pytest.fixture(scope="module")
def forced():
    frame = load_scaling_study(["Qwen/Qwen3-32B"])
    return to_dataset(frame[~frame["is_throughput_test"]].iloc[::12])


@pytest.fixture(scope="module")
def counted():
    frame = load_vllm_cpu("dense", quiet_only=True)
    return to_dataset(frame[~frame["is_throughput_test"]])


@pytest.mark.parametrize("name", ["forced", "counted"])
def test_log_densities_of_the_blocks_add_up_to_the_models(name, request):
    data = request.getfixturevalue(name)
    priors = default_priors(data)
    whole, blocks = build_model(data, priors), build_blocks(data, priors)
    rng = np.random.default_rng(1)
    start = whole.initial_point()
    point = {key: value + 0.1 * rng.standard_normal(value.shape) for key, value in start.items()}
    parts = {}
    for block, model in blocks.items():
        own = {key: point[key] for key in model.initial_point()}
        parts[block] = log_density(model, own)
    assert sum(parts.values()) == pytest.approx(log_density(whole, point), rel=1e-9)
    assert all(abs(part) > 1 for part in parts.values())
    names = [v.name for model in blocks.values() for v in model.free_RVs]
    assert sorted(names) == sorted(v.name for v in whole.free_RVs)  # each in one block only


def test_first_tokens_stay_with_steps_that_are_not_known(counted, forced):
    assert "ttft" in build_blocks(forced, default_priors(forced))
    blocks = build_blocks(counted, default_priors(counted))
    assert "ttft" not in blocks
    assert "log_ttft" in {v.name for v in blocks["latency"].observed_RVs}


def test_responses_not_wanted_have_no_block(forced):
    priors = default_priors(forced)
    assert list(build_blocks(forced, priors, responses=())) == ["latency"]
    assert list(build_blocks(forced, priors, responses=("ttft",))) == ["latency", "ttft"]


def test_draws_and_statistics_stand_side_by_side(forced):
    blocks = compile_blocks(forced, default_priors(forced), responses=("ttft",))
    tree = sample(blocks, draws=20, tune=30, chains=2, progressbar=False)
    posterior, stats = tree["posterior"], tree["sample_stats"]
    assert {"verify_fixed_s", "ttft_fixed_s"} <= set(posterior.data_vars)
    assert posterior.sizes["draw"] == 20
    assert {"energy", "energy_of_ttft", "diverging_of_ttft"} <= set(stats.data_vars)
    alone = sample(blocks[1], draws=20, tune=30, chains=2, random_seed=1, progressbar=False)
    np.testing.assert_array_equal(
        posterior["ttft_fixed_s"].values, alone["posterior"]["ttft_fixed_s"].values
    )
    either = (stats["diverging"].values | stats["diverging_of_ttft"].values).sum()
    assert stats["diverging"].values.sum() == either
    assert isinstance(blocks[0], CompiledModel)
