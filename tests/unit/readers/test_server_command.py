"""Commands of vLLM servers in the spellings of its releases."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import server_command
from bayes_sd.readers.content import Content
from bayes_sd.schema import column_names
from tests.damaged_results import VALUES, damaged

FILES = Path(__file__).parents[2] / "files" / "joined"
MTP = {"method": "mtp", "num_speculative_tokens": 2}


def told(*words):
    return server_command.cells_of_command(["vllm", "serve", "big/model", *words])


def test_real_commands():
    cells, notes = server_command.read(Content(FILES / "dense_a60_k3" / "rep5_server.json"))
    assert notes == []
    assert cells == {
        "engine": "vllm",
        "verifier": "verifier-dense",
        "_served_names": ("m",),
        "max_num_seqs": 64,
        "tensor_parallel_size": 1,
        "method": "draft_model",
        "drafter": "drafter-a60",
        "num_speculative_tokens": 3,
    }
    cells, _ = server_command.read(Content(FILES / "dense_a85_dyn" / "rep0_server.json"))
    assert cells["num_speculative_tokens"] == 5
    assert cells["num_speculative_tokens_schedule"] == "[[1, 8, 5], [9, 24, 3], [25, 64, 1]]"
    cells, _ = server_command.read(Content(FILES / "moe_k0" / "rep5_server.json"))
    assert (cells["method"], cells["num_speculative_tokens"]) == ("none", 0)
    assert cells["verifier"] == "verifier-moe"
    cells, _ = server_command.read(Content(FILES / "guidellm" / "rep0_sweep.server.json"))
    assert cells["drafter"] == "drafter-a85"


@pytest.mark.parametrize(
    "words",
    [
        ["--speculative-config", json.dumps(MTP)],
        [f"--speculative-config={json.dumps(MTP)}"],
        ["--speculative_config", json.dumps(MTP)],
        ["-sc", json.dumps(MTP)],
        ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens=2"],
        ["--speculative_config.method=mtp", "--speculative_config.num-speculative-tokens", "2"],
        ["--spec-method", "mtp", "--spec-tokens", "2"],
        ["--spec-method=mtp", "--spec-tokens=2", "--spec-model=big/model"],
        ["--speculative-config", json.dumps({**MTP, "method": "deepseek_mtp"})],
    ],
)
def test_spellings_of_the_speculative_configuration(words):
    for more in ([], ["--enforce-eager"], ["-O3"]):
        cells, notes = told(*more, *words, "--port", "8000")
        assert (cells["method"], cells["num_speculative_tokens"]) == ("mtp", 2)
        assert "drafter" not in cells
        assert notes == []


@pytest.mark.parametrize(
    ("setup", "method", "drafter"),
    [
        ({"model": "AngelSlim/Qwen3-8B_eagle3"}, "eagle3", "AngelSlim/Qwen3-8B_eagle3"),
        ({"model": "yuhuili/EAGLE-LLaMA3-8B"}, "eagle", "yuhuili/EAGLE-LLaMA3-8B"),
        ({"model": "deepseek-ai/dspark_qwen3_8b_block7"}, "dspark", "..."),
        ({"model": "z-lab/Qwen3-8B-DFlash"}, "dflash", "..."),
        ({"model": "[ngram]", "prompt_lookup_max": 3}, "ngram", None),
        ({"method": "ngram_gpu"}, "ngram", None),
        ({"method": "suffix"}, "suffix", None),
        ({"method": "draft_model", "model": "small"}, "draft_model", "small"),
        ({"method": "qwen3_next_mtp"}, "mtp", None),
        ({"method": "medusa", "model": "heads"}, "other", "heads"),
        ({"model": "small"}, None, "small"),
    ],
)
def test_methods(setup, method, drafter):
    cells, notes = told("--speculative-config", json.dumps({**setup, "num_speculative_tokens": 4}))
    assert cells.get("method") == method
    assert cells.get("drafter") == (setup["model"] if drafter == "..." else drafter)
    assert cells["num_speculative_tokens"] == 4
    assert bool(notes) == (method in (None, "other"))


def test_limits_type_and_devices():
    cells, notes = told("--max-num-seqs", "256", "-tp", "8", "--dtype", "bfloat16", "-dp", "2")
    assert (cells["max_num_seqs"], cells["tensor_parallel_size"]) == (256, 8)
    assert cells["dtype"] == "bf16"
    assert any("2 data-parallel engines" in note for note in notes)
    cells, _ = told("--tensor-parallel-size=4", "--dtype=auto", "--quantization", "fp8")
    assert (cells["tensor_parallel_size"], cells["dtype"]) == (4, "fp8")
    cells, _ = told()
    assert cells["tensor_parallel_size"] == 1
    assert "dtype" not in cells
    assert "max_num_seqs" not in cells


def test_names_of_the_model():
    assert told("--served-model-name", "a", "b")[0]["_served_names"] == ("a", "b")
    assert told()[0]["_served_names"] == ("big/model",)
    words = ["vllm", "serve", "--port", "8000", "big/model", "--max-num-seqs", "4"]
    assert server_command.cells_of_command(words)[0]["verifier"] == "big/model"
    words = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "big/model"]
    assert server_command.cells_of_command(words)[0]["verifier"] == "big/model"
    old = [*words, "--speculative-model", "small", "--num-speculative-tokens", "5"]
    cells, _ = server_command.cells_of_command(old)
    assert (cells["drafter"], cells["num_speculative_tokens"]) == ("small", 5)


def test_what_a_command_does_not_tell():
    cells, notes = told("--config", "serve.yaml")
    assert "method" not in cells
    assert "tensor_parallel_size" not in cells
    assert any("options in a file (--config)" in note for note in notes)
    words = ["vllm", "serve", "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"]
    cells, notes = server_command.cells_of_command(words)
    assert "method" not in cells
    assert any("its own drafter" in note for note in notes)


def test_forced_acceptance():
    setup = {"method": "eagle3", "model": "h", "num_speculative_tokens": 3}
    setup["rejection_sample_method"] = "synthetic"
    rates = {"synthetic_acceptance_rates": [0.8, 0.64, 0.512]}
    cells, _ = told("-sc", json.dumps(setup | rates))
    assert cells["forced_acceptance_rate"] == 0.8
    for other in ({"synthetic_acceptance_rates": [0.9, 0.5, 0.2]}, {}, rates | {"x": 1}):
        given_rates = other | {"num_speculative_tokens": 4} if "x" in other else other
        cells, notes = told("-sc", json.dumps(setup | given_rates))
        assert "forced_acceptance_rate" not in cells
        assert any("not one rate at every position" in note for note in notes)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--max-num-seqs", "many"], "max-num-seqs must be a number. Got 'many' instead"),
        (["-sc", "{method"], "--speculative-config is no JSON"),
        (["-sc", "[1]"], "must be a JSON object"),
        (["--spec-tokens", "2.5", "--spec-method", "mtp"], "must be a whole number"),
        (
            ["-sc", json.dumps({**MTP, "num_speculative_tokens_per_batch_size": [[1, 2]]})],
            "a list of [first size, last size, tokens]",
        ),
    ],
)
def test_values_that_cannot_be(words, reason):
    with pytest.raises(FormatError) as caught:
        told(*words)
    assert reason in str(caught.value)
    assert "the server's command" in str(caught.value)


@pytest.mark.parametrize(
    ("sample", "is_one"),
    [
        ({"command": ["vllm", "serve", "x"]}, True),
        ({"server": "vllm serve x --port 1"}, True),
        ({"argv": ["python", "-m", "vllm.entrypoints.openai.api_server"]}, True),
        ({"command": ["vllm", "bench", "serving"]}, False),
        ({"command": ["vllm", "bench"]}, False),
        ({"command": "vllm serve 'x"}, False),
        ({"server": ["sglang", "serve", "x"]}, False),
        ({"args": {"model": "x"}}, False),
        ({"command": [1, 2]}, False),
        ([], False),
        (None, False),
    ],
)
def test_what_is_recognised(sample, is_one):
    assert server_command.recognises(sample) is is_one


REAL = json.loads((FILES / "dense_a85_dyn" / "rep0_server.json").read_text())
WORDS = st.sampled_from(
    ["--spec-tokens", "-sc", "{}", '{"method": 1}', "--max-num-seqs", "1e999", "--", "=", "-", "é"]
)


@given(sample=damaged(REAL), words=st.lists(WORDS | st.text(max_size=8), max_size=6))
@settings(max_examples=100, deadline=None)
def test_damage_ends_in_cells_or_a_typed_error(tmp_path_factory, sample, words):
    path = tmp_path_factory.mktemp("x") / "server.json"
    for found in (sample, REAL | {"command": [*REAL["command"], *words]}):
        path.write_text(json.dumps(found))
        try:
            cells, _ = server_command.read(Content(path))
        except BayesSdError:
            continue
        assert set(cells) - {"_served_names"} <= set(column_names())


@given(VALUES)
@settings(max_examples=50, deadline=None)
def test_anything_may_be_asked_about(sample):
    assert server_command.recognises({"command": sample}) in (True, False)
    assert server_command.recognises(sample) in (True, False)
