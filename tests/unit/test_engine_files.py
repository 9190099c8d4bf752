"""Policies as engine files: ranges that cover every batch once, refusals, and the way back."""

import json

import pandas as pd
import pytest

from bayes_sd.engine_files import (
    batch_ranges,
    check_engine_file,
    export_policy,
    import_policy,
    turns_of,
)
from bayes_sd.exceptions import ArgumentError, FormatError
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from tests.fake_fit import fake_fit


def policy_of(lengths, batches, most=64):
    policy = pd.DataFrame(
        {
            "num_speculative_tokens": pd.array(lengths, dtype="Int64"),
            "effective_batch": batches,
        },
        index=pd.Index(range(1, len(lengths) + 1), name="request_rate_rps"),
    )
    policy.attrs["max_num_seqs"] = most
    return policy


def test_turns_lie_halfway_and_ranges_cover_every_batch_once():
    ranges = batch_ranges(policy_of([5, 5, 3, 1], [1.0, 3.0, 10.0, 30.0]))
    assert ranges == [(1, 6, 5), (7, 20, 3), (21, 64, 1)]
    covered = [b for first, last, _ in ranges for b in range(first, last + 1)]
    assert covered == list(range(1, 65))


def test_batches_that_fall_are_taken_in_order_and_empty_ranges_left_out():
    assert batch_ranges(policy_of([5, 3, 1], [0.4, 0.5, 0.3])) == [(1, 64, 1)]
    assert batch_ranges(policy_of([5, 3], [90.0, 120.0])) == [(1, 64, 5)]


def test_loads_past_capacity_keep_the_last_draft_length():
    ranges = batch_ranges(policy_of([3, 1, None], [2.0, 8.0, float("nan")]))
    assert ranges == [(1, 5, 3), (6, 64, 1)]


def test_vllm_file_has_the_ceiling_and_comes_back(tmp_path):
    document = export_policy(policy_of([5, 3, 0], [1.0, 10.0, 30.0]), "vllm", tmp_path / "p.json")
    assert document["num_speculative_tokens"] == 5
    assert json.loads((tmp_path / "p.json").read_text()) == document
    back = import_policy(document, "vllm")
    assert back.values.tolist() == document["num_speculative_tokens_per_batch_size"]


def test_schedule_of_the_documentation_is_read():
    """`draft_len_schedule` {4: 4, 8: 2, 32: 1}: github.com/NVIDIA/TensorRT-LLM/pull/10860."""
    back = import_policy({"draft_len_schedule": {4: 4, 8: 2, 32: 1}}, "tensorrt-llm")
    assert back.values.tolist() == [[1, 4, 4], [5, 8, 2], [9, 32, 1]]


def test_tensorrt_file_ends_where_drafting_ends():
    document = export_policy(policy_of([5, 3, 0], [1.0, 10.0, 30.0]), "tensorrt-llm")
    assert document == {"max_draft_len": 5, "draft_len_schedule": {"5": 5, "20": 3}}
    for lengths in ([0, 3], [1, 3]):
        with pytest.raises(ArgumentError, match="draft more at a larger batch"):
            export_policy(policy_of(lengths, [1.0, 10.0]), "tensorrt-llm")


def test_sglang_gets_one_candidate_from_each_turn_on_and_comes_back():
    document = export_policy(policy_of([5, 3, 0], [1.0, 10.0, 30.0]), "sglang")
    assert document == {
        "1": {"candidate_steps": [5]},
        "6": {"candidate_steps": [3]},
        "21": {"candidate_steps": [0]},
    }
    back = import_policy(document, "sglang")
    assert back["first_batch"].tolist() == [1, 6, 21]
    assert back["last_batch"].tolist() == [5, 20, pd.NA]
    assert back["num_speculative_tokens"].tolist() == [5, 3, 0]


def test_sglang_counts_the_first_slot_below_its_key_and_settings_apart():
    document = {"8": {"candidate_steps": [2]}, "4": {"candidate_steps": [3, 3]}, "ema_alpha": 0.2}
    back = import_policy(document, "sglang")
    assert back[["first_batch", "num_speculative_tokens"]].values.tolist() == [[1, 3], [8, 2]]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "must be an object"),
        ({}, "a batch size as a key"),
        ({"ema_alpha": 0.2}, "a batch size as a key"),
        ({"1": {}}, "candidate_steps must be a list"),
        ({"1": [3]}, "candidate_steps must be a list"),
        ({"1": {"candidate_steps": []}}, "candidate_steps must be a list"),
        ({"1": {"candidate_steps": [-1]}}, "at least 0"),
        ({"1": {"candidate_steps": [1, 3]}}, "the engine chooses among them"),
        ({"strategy": "throughput_aware", "1": {"candidate_steps": [3]}}, "must be 'ema'"),
    ],
)
def test_bad_sglang_files_are_refused(document, words):
    with pytest.raises(FormatError, match=words):
        check_engine_file(document, "sglang")


@pytest.mark.parametrize(
    "document",
    [
        {"max_draft_len": 5, "draft_len_schedule": {"4": 4, "8": 2}},
        {"draft_len_schedule": {"4": 1, "8": 2}},
    ],
)
def test_a_tensorrt_schedule_starts_at_its_longest_draft(document):
    with pytest.raises(FormatError, match=r"max_draft_len.*at its smallest batch, 4"):
        check_engine_file(document, "tensorrt-llm")


def test_a_row_that_is_mostly_past_capacity_has_no_end():
    assert batch_ranges(policy_of([3, 1], [2.0, float("inf")])) == [(1, 33, 3), (34, 64, 1)]


def test_turns_come_with_their_intervals():
    policy = policy_of([5, 5, 1], [1.0, 4.0, 10.0])
    policy["low_effective_batch"] = [0.9, 3.0, 8.0]
    policy["high_effective_batch"] = [1.1, 6.0, 14.0]
    (turn,) = turns_of(policy).to_dict(orient="records")
    assert turn == {
        "before": 5,
        "after": 1,
        "last_load": 2,
        "first_load": 3,
        "low_batch": 5.5,
        "median_batch": 7.0,
        "high_batch": 10.0,
    }
    assert turns_of(policy.iloc[:2]).empty


def test_policy_of_a_fit_goes_through():
    tree = fake_fit(draws=100, spread=0.05)
    scenario = Scenario("big + draft_model (sharp)", request_rate_rps=1.0, acceptance=0.7)
    policy = draft_length_policy(tree, scenario, [0.5, 2.0, 5.0, 8.0])
    ranges = import_policy(export_policy(policy))
    assert ranges["last_batch"].iloc[-1] == 256
    assert ranges["num_speculative_tokens"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (policy_of([0, 0], [1.0, 2.0]), "never does"),
        (policy_of([None], [float("nan")]), "past capacity"),
        (pd.concat({1: policy_of([1], [1.0])}), "one prompt length"),
        (pd.DataFrame({"a": [1]}), "result of draft_length_policy"),
    ],
)
def test_policies_that_make_no_file_are_refused(policy, words):
    with pytest.raises(ArgumentError, match=words):
        export_policy(policy)


def test_engine_and_folder_must_exist(tmp_path):
    policy = policy_of([3], [1.0])
    with pytest.raises(ArgumentError, match="engine must be"):
        export_policy(policy, "vlm")
    with pytest.raises(FormatError, match="cannot be written"):
        export_policy(policy, path=tmp_path / "no" / "p.json")


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        (None, "must be a list"),
        ([], "must be a list"),
        ([[1, 4]], "first, last, k"),
        ([[1, 4, 2.5]], "whole numbers"),
        ([[2, 4, 2]], "first must be 1"),
        ([[1, 4, 2], [4, 8, 1]], "at least 5"),
        ([[1, 4, 2], [8, 6, 1]], "last not below"),
        ([[1, 4, 9]], "at most"),
        ([[1, 4, -1]], "whole numbers"),
    ],
)
def test_bad_vllm_files_say_where(ranges, words):
    document = {"num_speculative_tokens": 3, "num_speculative_tokens_per_batch_size": ranges}
    with pytest.raises(FormatError, match=words):
        check_engine_file(document)


@pytest.mark.parametrize("found", [None, {}, {"x": 1}, {"0": 1}, {"4": -1}, {"4": "2"}, [4, 4]])
def test_bad_tensorrt_files_are_refused(found):
    with pytest.raises(FormatError, match="draft_len_schedule"):
        check_engine_file({"draft_len_schedule": found}, "tensorrt-llm")


def test_a_ceiling_is_needed():
    with pytest.raises(FormatError, match="at least 1"):
        check_engine_file({"num_speculative_tokens_per_batch_size": [[1, 4, 2]]})
