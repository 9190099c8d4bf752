"""Sizes of models by name: the right one, or none."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_sd.datasets import load_atom_moe, load_h200_70b, load_scaling_study
from bayes_sd.readers.model_sizes import SIZES, cells, look_up
from bayes_sd.readers.side_cells import side_cell

COLUMNS = ("verifier_params_b", "verifier_active_params_b", "num_experts", "experts_per_token")


def size(*values):
    """Name the cells of a size, those of a dense model first."""
    return dict(zip(COLUMNS, values, strict=False))


# Typed in from the model cards, not from the table.
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Qwen/Qwen3-8B", size(8.2)),
        ("/models/Qwen3-8B/", size(8.2)),
        (r"C:\models\qwen3-8b", size(8.2)),
        ("Qwen/Qwen3-0.6B-GPTQ-Int8", size(0.6)),
        ("Qwen/Qwen3-4B-Instruct-2507-FP8", size(4.0)),
        ("Qwen/Qwen3-30B-A3B-Thinking-2507", size(30.5, 3.3, 128, 8)),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", size(235, 22, 128, 8)),
        ("nvidia/Qwen3-235B-A22B-NVFP4", size(235, 22, 128, 8)),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", size(80, 3, 512, 10)),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", size(480, 35, 160, 8)),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", size(7.61)),
        ("Qwen/Qwen2.5-7B-Instruct-1M", size(7.61)),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", size(32.5)),
        ("Qwen/Qwen3.5-397B-A17B-FP8", size(397, 17, 512, 10)),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", size(8.03)),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", size(8.03)),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", size(70.6)),
        ("amd/Llama-3.1-405B-Instruct-FP8-KV", size(405)),
        ("meta-llama/Llama-2-7b-chat-hf", size(6.74)),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", size(109, 17, 16, 1)),
        ("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", size(400, 17, 128, 1)),
        ("mistralai/Mistral-7B-Instruct-v0.3", size(7.25)),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", size(46.7, 12.9, 8, 2)),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", size(15.7, 2.4, 64, 6)),
        ("deepseek-ai/DeepSeek-V3-0324", size(671, 37, 256, 8)),
        ("deepseek-ai/DeepSeek-V3.1-Terminus", size(671, 37, 256, 8)),
        ("deepseek-ai/DeepSeek-V3.2-Exp", size(671, 37, 256, 8)),
        ("nvidia/DeepSeek-R1-0528-FP4-v2", size(671, 37, 256, 8)),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-8B", size(8.03)),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", size(8.2)),
        ("openai/gpt-oss-20b", size(20.9, 3.6, 32, 4)),
        ("gpt-oss-120b", size(116.8, 5.1, 128, 4)),
        ("moonshotai/Kimi-K2-Instruct-0905", size(1000, 32, 384, 8)),
        ("amd/Kimi-K2.5-MXFP4", size(1000, 32, 384, 8)),
        ("zai-org/GLM-4.5-Air-FP8", size(106, 12, 128, 8)),
        ("zai-org/GLM-4.6", size(355, 32, 160, 8)),
        ("zai-org/GLM-5-FP8", size(744, 40, 256, 8)),
        ("MiniMaxAI/MiniMax-M2", size(230, 10, 256, 8)),
        ("google/gemma-3-27b-it", size(27.4)),
        ("microsoft/Phi-3-mini-128k-instruct", size(3.8)),
        ("microsoft/Phi-3.5-MoE-instruct", size(41.9, 6.6, 16, 2)),
        ("facebook/opt-125m", size(0.125)),
        ("facebook/opt-6.7b", size(6.7)),
    ],
)
def test_known_models(name, expected):
    assert look_up(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "Qwen3-80B",
        "Qwen3-8B_eagle3",
        "Qwen3-8B-speculator.eagle3",
        "AngelSlim/Qwen3-8B_eagle3",
        "Qwen/Qwen3-VL-8B-Instruct",
        "Qwen/Qwen3-Embedding-8B",
        "z-lab/Qwen3-4B-DFlash-b16",
        "nvidia/gpt-oss-120b-Eagle3",
        "openai/gpt-oss-safeguard-20b",
        "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",
        "yuhuili/EAGLE-LLaMA3.1-Instruct-8B",
        "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
        "amd/DeepSeek-R1-0528-MXFP4-MTP-MoEFP4",
        "deepseek-ai/DeepSeek-V4-Pro-DSpark",
        "cloudyu/DeepSeek-V4-Flash-4Expert",
        "cerebras/Qwen3-Coder-REAP-363B-A35B-FP8",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-8B",
        "Qwen3-8B-abliterated",
        "my-Qwen3-8B",
        "Qwen3-8B-2layers",
        "google/gemma-3n-E4B-it",
        "zai-org/GLM-4.5V",
        "Qwen3",
        "verifier-dense",
        "/models/snapshots/9c925d64d72725edaf899c6cb9c377fd0709d9c5",
        "-instruct",
        "",
        "/",
        "x" * 10_000,
        "qwen3-8b" + "-fp8" * 1_000,
    ],
)
def test_anything_else_is_unknown(name):
    assert look_up(name) == {}


@given(st.text(max_size=60))
def test_any_name_is_known_or_not(name):
    assert set(look_up(name)) <= set(COLUMNS)


def test_table_holds_sizes_that_the_schema_allows():
    for name in SIZES:
        found = look_up(name)
        assert len(found) in (1, 4), name
        for cell, value in found.items():
            assert side_cell(cell, value) == value
        if len(found) == 4:
            assert found["verifier_active_params_b"] < found["verifier_params_b"], name
            assert found["experts_per_token"] < found["num_experts"], name


def test_names_say_the_size_that_the_table_has():
    for name, found in SIZES.items():
        for part in name.split("-"):
            if part.startswith(("a", "0", *"123456789")) and part[-1] in "bm" and "x" not in part:
                said = float(part.strip("abm")) * (1e-3 if part[-1] == "m" else 1.0)
                value = found.active_params_b if part[0] == "a" else found.params_b
                is_active = name.startswith("llama-4")  # 17B is what is active there
                value = found.active_params_b if is_active else value
                assert value == pytest.approx(said, rel=0.35), name


def test_sizes_are_those_of_the_bundled_tables():
    frame = pd.concat([load_scaling_study(), load_atom_moe(), load_h200_70b()])
    for verifier, rows in frame.groupby("verifier"):
        theirs = {name: rows[name].iloc[0] for name in COLUMNS if pd.notna(rows[name].iloc[0])}
        assert look_up(verifier) == theirs


def test_run_gets_what_it_lacks():
    run = {"verifier": "Qwen/Qwen3-30B-A3B", "verifier_params_b": 30.53, "method": "none"}
    found, notes = cells(run)
    assert found == {
        "verifier_active_params_b": 3.3,
        "num_experts": 128,
        "experts_per_token": 8,
    }
    assert notes == [
        "the size of 'Qwen/Qwen3-30B-A3B' is that of its model card: verifier_active_params_b 3.3, "
        "num_experts 128, experts_per_token 8."
    ]
    assert cells({**run, **found}) == ({}, [])


def test_model_whose_known_size_is_another_gets_nothing():
    found, notes = cells({"verifier": "Qwen3-30B-A3B", "verifier_params_b": 16.0})
    assert found == {}
    assert notes == [
        "verifier_params_b of 'Qwen3-30B-A3B' is 16.0, and 30.5 on its model card: nothing is "
        "taken from the card."
    ]


@pytest.mark.parametrize(
    ("method", "drafter", "expected"),
    [
        ("draft_model", "Qwen/Qwen3-0.6B", 0.6),
        ("", "Qwen/Qwen3-0.6B", 0.6),
        ("other", "Qwen/Qwen3-0.6B", 0.6),
        # Engines write the verifier's own name where a layer of it drafts.
        ("", "Qwen/Qwen3-32B", None),
        ("mtp", "Qwen/Qwen3-0.6B", None),
        ("eagle3", "Qwen/Qwen3-0.6B", None),
        ("draft_model", "Qwen3-0.6B-pruned", None),
        ("draft_model", "", None),
    ],
)
def test_drafter_that_is_a_model_gets_its_size(method, drafter, expected):
    found, notes = cells({"verifier": "Qwen/Qwen3-32B", "method": method, "drafter": drafter})
    assert found.get("drafter_params_b") == expected
    assert len(notes) == (2 if expected else 1)


@pytest.mark.parametrize(
    "run", [{}, {"verifier": None}, {"verifier": 3, "drafter": ["x"]}, {"verifier_params_b": "x"}]
)
def test_run_without_known_names_gets_nothing(run):
    assert cells(run) == ({}, [])
