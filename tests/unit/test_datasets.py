"""Bundled data: figures of the sources, asserted, and the same files from any place."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.datasets import (
    load_atom_moe,
    load_h200_70b,
    load_scaling_study,
    load_vllm_cpu,
    load_vllm_cpu_windows,
)
from bayes_sd.exceptions import ArgumentError
from bayes_sd.frames import check_runs
from bayes_sd.live_window import windows_of
from bayes_sd.schema import column, column_names


@pytest.mark.parametrize(
    "load", [load_scaling_study, lambda: load_vllm_cpu("all"), load_atom_moe, load_h200_70b]
)
def test_bundled_files_pass_the_checks_without_a_warning(load):
    frame = load()
    assert set(frame.columns) <= set(column_names())
    assert set(column_names(required_only=True)) <= set(frame.columns)
    checked = check_runs(frame)
    assert len(checked) == len(frame)
    for name in frame.columns:
        numeric = column(name).dtype in ("int", "float")
        assert pd.api.types.is_numeric_dtype(frame[name]) == (
            numeric or column(name).dtype == "bool"
        ), name


def test_scaling_study_has_the_runs_of_its_source():
    frame = load_scaling_study()
    assert len(frame) == 2400
    assert frame["verifier"].value_counts().to_dict() == dict.fromkeys(
        [f"Qwen/Qwen3-{size}" for size in ("0.6B", "1.7B", "8B", "14B", "32B")], 480
    )
    assert frame["is_throughput_test"].sum() == 240
    assert frame["sweep_id"].nunique() == 240
    assert sorted(frame["num_speculative_tokens"].unique()) == [1, 2, 3, 4, 5, 6, 8, 10]
    assert sorted(frame["forced_acceptance_rate"].unique()) == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert (frame["client_cap"] == 128).all()


def test_scaling_study_rate_counts_the_requests_cut_off():
    frame = load_scaling_study(["Qwen/Qwen3-0.6B"]).set_index("run_id")
    run = frame.loc["Qwen3-0.6B_a0.50_k10_i2"]  # "319 done, 6 cut off at 90 s" in the source
    assert run["num_requests"] == 319
    assert run["request_rate_rps"] == pytest.approx((319 + 6) / 90, abs=1e-5)
    assert run["completed_rate_rps"] == pytest.approx(319 / 90, rel=0.01)
    assert run["arrivals"] == "constant"
    one = frame.loc["Qwen3-0.6B_a0.50_k10_i0"]
    assert (one["load_kind"], one["concurrency"], one["arrivals"]) == ("closed", 1, "closed")
    assert np.isnan(one["request_rate_rps"])
    closed = frame["load_kind"] == "closed"
    assert frame.loc[closed, "request_rate_rps"].isna().all()
    assert frame.loc[~closed, "request_rate_rps"].notna().all()
    assert frame[frame["is_throughput_test"]]["concurrency"].eq(128).all()


def test_scaling_study_takes_chosen_verifiers():
    frame = load_scaling_study(["Qwen/Qwen3-8B", "Qwen/Qwen3-32B"])
    assert sorted(frame["verifier"].unique()) == ["Qwen/Qwen3-32B", "Qwen/Qwen3-8B"]
    assert frame.index.tolist() == list(range(960))
    assert len(load_scaling_study("Qwen/Qwen3-8B")) == 480
    with pytest.raises(
        ArgumentError, match=r"one of 'Qwen/Qwen3-8B', .*Did you mean 'Qwen/Qwen3-8B'"
    ):
        load_scaling_study(["Qwen3-8B"])


def test_vllm_cpu_configurations():
    everything, dense, moe = (load_vllm_cpu(kind) for kind in ("all", "dense", "moe"))
    assert (len(everything), len(dense), len(moe)) == (162, 125, 37)
    assert load_vllm_cpu().equals(dense)
    assert everything["sweep_id"].nunique() == 22
    assert everything["is_throughput_test"].sum() == 22  # one burst per server start
    assert everything.loc[everything["is_throughput_test"], "request_rate_rps"].isna().all()
    assert set(moe["num_experts"]) == {32}
    assert dense["num_experts"].isna().all()
    assert (everything["num_speculative_tokens_schedule"].notna()).sum() == 5
    with pytest.raises(ArgumentError, match="kind must be one of 'dense', 'moe', 'all'"):
        load_vllm_cpu("mixtral")


def test_vllm_cpu_quiet_runs_reproduce_the_published_table():
    frame = load_vllm_cpu("all", quiet_only=True)
    assert set(frame["sweep_id"].str.split("_rep").str[1]) == {"5"}
    assert frame["sweep_id"].nunique() == 8
    latency = frame.pivot_table(index="sweep_id", columns="target_rate_rps", values="mean_e2e_s")
    assert latency.loc["dense_k0_rep5"].round(2).tolist() == [
        1.74, 1.96, 2.06, 2.37, 2.69, 3.30, 3.55,
    ]  # fmt: skip
    assert latency.loc["dense_a85_k3_rep5", [0.4, 10.0]].round(2).tolist() == [0.78, 1.76]
    assert latency.loc["moe_a85_k1_rep5", [0.4, 10.0]].round(2).tolist() == [0.56, 1.51]


def test_vllm_cpu_counts_are_those_of_the_server():
    frame = load_vllm_cpu().set_index("run_id")
    run = frame.loc["dense_a60_k1_rep0_rate0.4"]
    assert (run["num_drafts"], run["num_accepted_tokens"]) == (553, 336)
    assert run["accepted_per_position"] == "336"
    assert (run["drafter"], run["method"]) == ("drafter-a60", "draft_model")
    assert (run["request_rate_rps"], run["target_rate_rps"]) == (0.3726, 0.4)
    assert (run["mean_in_system_requests"], run["other_load_cores"]) == (0.603, 0.903)


def test_windows_of_live_metrics_are_those_of_the_runs():
    windows = load_vllm_cpu_windows()
    runs = load_vllm_cpu("all").set_index("run_id").loc[windows.index.get_level_values("run_id")]
    assert len(windows) == 136
    assert (windows["num_requests"].values == runs["num_requests"].values).all()
    assert np.array_equal(windows["num_drafts"].values, runs["num_drafts"].values, equal_nan=True)
    counts = [tuple(map(float, str(c).split(";"))) for c in runs["accepted_per_position"].dropna()]
    assert [c for c in windows["accepted"] if c] == counts
    # Two clocks: the server's latency leaves out the way to the client, short on one machine.
    way = runs["mean_e2e_s"].values / windows["mean_e2e_s"].values - 1
    assert ((way > 0) & (way < 0.1)).all()
    assert np.median(way) < 0.01
    # Little's law: the gauge leaves out the same way, and has about thirty samples.
    in_flight = windows["num_requests"] * windows["mean_e2e_s"] / windows["duration_s"]
    assert (windows["mean_running_requests"] / in_flight).median() == pytest.approx(1, abs=0.05)


def test_windows_of_live_metrics_are_taken_as_they_are():
    windows = load_vllm_cpu_windows()
    listed = windows_of(windows.loc["dense_a85_k3_rep5"])
    assert [len(window.accepted) for window in listed] == [3] * 7
    assert len({window.process_start_s for window in windows_of(windows)}) == 21


def test_vllm_cpu_active_size_follows_from_the_shape_of_the_model():
    hidden, layers, experts, width, vocabulary = 768, 8, 32, 256, 4096
    attention = 2 * hidden * 12 * 64 + 2 * hidden * 4 * 64
    router, expert = hidden * experts, 3 * hidden * width
    embeddings = 2 * vocabulary * hidden
    total = embeddings + layers * (attention + router + experts * expert)
    active = embeddings + layers * (attention + router + 2 * expert)
    run = load_vllm_cpu("moe").iloc[0]
    assert run["verifier_params_b"] == pytest.approx(total / 1e9, rel=0.002)
    assert run["verifier_active_params_b"] == pytest.approx(active / 1e9, rel=0.002)


def test_atom_moe_leaves_blank_what_the_source_does_not_give():
    frame = load_atom_moe()
    assert len(frame) == 422
    assert frame["sweep_id"].nunique() == 69
    assert "mean_e2e_s" not in frame
    assert frame["mean_acceptance_length"].notna().sum() == 59
    assert (frame["method"] == "none").sum() == 198
    assert set(frame["num_experts"]) == {256, 384, 512}
    assert frame["num_requests"].equals((10 * frame["concurrency"]).astype("int64"))


def test_h200_asked_rate_is_the_arrival_rate():
    frame = load_h200_70b()
    assert len(frame) == 72
    assert (frame["request_rate_rps"] == frame["target_rate_rps"]).all()
    assert set(frame["max_num_seqs"]) == {64, 128, 1024}
    # Run time beyond requests / rate is the drain: about one latency, never negative.
    sent_s = frame["num_requests"] / frame["request_rate_rps"]
    drain_s = frame["num_requests"] / frame["completed_rate_rps"] - sent_s
    drain = drain_s / frame["mean_e2e_s"]
    unqueued = frame["max_num_seqs"] > 64
    assert drain[unqueued].between(0.9, 2.1).all()


def test_a_missing_file_says_where_it_was_looked_for():
    from bayes_sd.datasets import _find
    from bayes_sd.exceptions import DataError

    with pytest.raises(
        DataError, match=r"'gone\.csv\.gz' must be in bayes_sd/_bundled or in data/"
    ):
        _find("gone.csv.gz")
