"""The server's own account in results of SGLang's bench_serving: methods and shapes of drafts.

Launch arguments as SGLang resolves them, put into a built result.
"""

import json
from pathlib import Path

import pytest

from bayes_sd.readers import sglang
from tests.damaged_results import checked, read

FILES = Path(__file__).parents[2] / "files" / "sglang"
OPEN, CLOSED, _ = (
    json.loads(line) for line in (FILES / "built_2026.jsonl").read_text().splitlines()
)
EAGLE3 = CLOSED["server_info"]


@pytest.fixture
def run_of(tmp_path):
    """Read one result with another account of its server; return its run and the reading."""

    def of(base, **changes):
        result = {k: v for k, v in (base | changes).items() if v != "absent"}
        reading = read(sglang, tmp_path / "a.jsonl", result)
        return reading.runs[0], reading

    return of


SERVERS = {
    "EAGLE3": ({}, {"method": "eagle3", "num_speculative_tokens": 3}),
    "EAGLE with a head": (
        {"speculative_algorithm": "EAGLE"},
        {"method": "eagle", "num_speculative_tokens": 3},
    ),
    "EAGLE without a path is MTP": (
        {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": None},
        {"method": "mtp", "num_speculative_tokens": 3, "drafter": None},
    ),
    "EAGLE with the model's own path is MTP": (
        {"speculative_algorithm": "EAGLE", "speculative_draft_model_path": EAGLE3["model_path"]},
        {"method": "mtp", "drafter": None},
    ),
    "frozen MTP": ({"speculative_algorithm": "FROZEN_KV_MTP"}, {"method": "mtp"}),
    "draft model": ({"speculative_algorithm": "STANDALONE"}, {"method": "draft_model"}),
    "lower case": ({"speculative_algorithm": "eagle3"}, {"method": "eagle3"}),
    "unknown": (
        {"speculative_algorithm": "PLD", "speculative_num_draft_tokens": 6},
        {"method": "other", "num_speculative_tokens": 5},
    ),
    "chain of n-grams": (
        {
            "speculative_algorithm": "NGRAM",
            "speculative_num_steps": 12,
            "speculative_num_draft_tokens": 12,
        },
        {"method": "ngram", "num_speculative_tokens": 11, "num_draft_steps": None},
    ),
    "tree of n-grams": (
        {
            "speculative_algorithm": "NGRAM",
            "speculative_num_steps": 1,
            "speculative_eagle_topk": 10,
            "speculative_num_draft_tokens": 12,
        },
        {"method": "ngram", "num_speculative_tokens": 11, "num_draft_steps": None},
    ),
    "DFlash: a block in one pass, one of it the last accepted": (
        {
            "speculative_algorithm": "DFLASH",
            "speculative_num_steps": 1,
            "speculative_num_draft_tokens": 16,
        },
        {"method": "dflash", "num_speculative_tokens": 15, "num_draft_steps": None},
    ),
    "DFlash tree": (
        {
            "speculative_algorithm": "DFLASH",
            "speculative_num_steps": 1,
            "speculative_eagle_topk": 4,
            "speculative_num_draft_tokens": 29,
        },
        {"num_speculative_tokens": 28, "num_draft_steps": 7, "num_verified_tokens": 29},
    ),
    "DSpark: gamma and 1": (
        {
            "speculative_algorithm": "DSPARK",
            "speculative_num_steps": 1,
            "speculative_num_draft_tokens": 8,
        },
        {"method": "dspark", "num_speculative_tokens": 7, "num_draft_steps": None},
    ),
    "a tree of fewer tokens than levels": (
        {"speculative_num_steps": 5, "speculative_eagle_topk": 4},
        {"num_speculative_tokens": 3, "num_draft_steps": 3, "num_verified_tokens": 4},
    ),
    "adaptive": (
        {"speculative_adaptive": True, "max_speculative_num_draft_tokens": 8},
        {"num_speculative_tokens": 7, "num_speculative_tokens_schedule": "adaptive"},
    ),
    "off": (
        {"speculative_algorithm": None},
        {"method": "none", "num_speculative_tokens": 0, "mean_acceptance_length": None},
    ),
    "two ranks": ({"dp_size": 2}, {"method": "eagle3"}),
}


@pytest.mark.parametrize("name", SERVERS)
def test_methods_and_shapes(run_of, name):
    changes, expected = SERVERS[name]
    run, reading = run_of(CLOSED, server_info=EAGLE3 | changes)
    assert {key: run.get(key) for key in expected} == expected
    checked(reading.runs)


def test_a_router_before_separate_pools(run_of):
    run, reading = run_of(CLOSED, server_info={"decode": [EAGLE3], "prefill": [{}]})
    assert run["method"] == "eagle3"
    assert any("separate servers" in note for note in reading.notes)


@pytest.mark.parametrize("server", [None, {}, "absent", {"model_path": "m"}])
def test_without_the_servers_account_nothing_is_guessed(run_of, server):
    run, reading = run_of(OPEN, server_info=server)
    assert "method" not in run
    assert "num_speculative_tokens" not in run
    assert any("accept_length is null" in note for note in reading.notes)
    assert not any("itl" in name for name in run)
