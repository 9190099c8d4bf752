"""From table to labelled arrays: nothing lost, nothing guessed, the same for any order."""

import numpy as np
import pandas as pd
import pytest

from bayes_sd.data import data_hash, to_dataset
from bayes_sd.datasets import load_atom_moe, load_h200_70b, load_scaling_study, load_vllm_cpu
from bayes_sd.exceptions import AssumptionWarning, DataError, UnusedRunsWarning
from bayes_sd.frames import check_runs


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two sweeps of one verifier: off, and a draft model with k = 2."""
    return pd.DataFrame(
        {
            "run_id": ["off-1", "off-2", "on-1", "on-2"],
            "sweep_id": ["off", "off", "on", "on"],
            "verifier": "V",
            "method": ["none", "none", "eagle", "eagle"],
            "num_speculative_tokens": [0, 0, 2, 2],
            "drafter": ["", "", "E", "E"],
            "load_kind": ["open", "open", "open", "closed"],
            "arrivals": ["poisson", "poisson", "poisson", "closed"],
            "request_rate_rps": [1.0, 4.0, 1.0, np.nan],
            "concurrency": [np.nan, np.nan, np.nan, 3],
            "input_len_tokens": 100.0,
            "output_len_tokens": 50.0,
            "num_requests": 200,
            "mean_e2e_s": [1.0, 2.0, 0.6, 0.8],
            "num_drafts": [np.nan, np.nan, 100, 80],
            "accepted_per_position": ["", "", "70;40", "60;30"],
        }
    )


def test_dims_labels_and_places(frame):
    data = to_dataset(frame)
    assert dict(data.sizes) == {
        "run": 4, "sweep": 2, "base": 1, "pair": 1, "deployment": 1, "acceptance_group": 1,
        "position": 2, "quantile": 4,
    }  # fmt: skip
    assert data["base"].values.tolist() == ["V"]
    assert data["pair"].values.tolist() == ["V + eagle"]
    assert data["acceptance_group"].values.tolist() == ["E for V"]
    assert data["deployment"].values.tolist() == ["unknown"]
    assert data["position"].values.tolist() == [1, 2]
    assert data["sweep_of_run"].values.tolist() == [0, 0, 1, 1]
    assert data["pair_of_run"].values.tolist() == [-1, -1, 0, 0]
    assert data["group_of_run"].values.tolist() == [-1, -1, 0, 0]
    assert data["base_of_sweep"].values.tolist() == [0, 0]
    assert data["is_speculation_loaded"].values.tolist() == [False, False, True, True]
    assert (data["drafter"].item(), data["method"].item()) == ("E", "eagle")


def test_trials_are_the_accepted_of_the_position_before(frame):
    data = to_dataset(frame)
    assert data["accepted_at_position"].values.tolist() == [[0, 0], [0, 0], [70, 40], [60, 30]]
    assert data["trials_at_position"].values.tolist() == [[0, 0], [0, 0], [100, 70], [80, 60]]
    assert data["accepted_at_position"].dtype == np.int64


def test_control_and_batch(frame):
    frame["client_cap"] = [np.nan, 8, 2, np.nan]
    frame["max_num_seqs"] = [16, 64, 64, 64]
    data = to_dataset(frame)
    # lambda L = 1, 8, 0.6: the second is above 0.9 of its cap of 8.
    assert data["control"].values.tolist() == ["open", "cap", "open", "closed"]
    assert data["cap_requests"].values.tolist() == [16, 8, 2, 64]
    assert data["effective_batch_observed"].values.tolist() == [1.0, 8.0, 0.6, 3.0]
    assert np.isnan(data["request_rate_rps"].values[3])
    assert np.isnan(data["concurrency"].values[:3]).all()


def test_concurrency_above_the_batch_limit_is_said(frame):
    frame["max_num_seqs"] = [64, 64, 64, 2]
    with pytest.warns(
        AssumptionWarning, match=r"more requests in flight than max_num_seqs \(row 3"
    ):
        to_dataset(frame)


def test_loaded_but_off_is_not_off(frame):
    frame.loc[2, ["num_speculative_tokens", "num_drafts", "accepted_per_position"]] = [0, 0, ""]
    data = to_dataset(frame)
    assert data["pair_of_run"].values.tolist() == [-1, -1, 0, 0]
    assert data["group_of_run"].values.tolist() == [-1, -1, -1, 0]
    assert bool(data["is_speculation_loaded"][2])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"acceptance_per_position": "0.704;0.396", "num_drafts": 100}, [70, 40]),
        ({"acceptance_per_position": "0.7;0.4", "num_draft_tokens": 200}, [70, 40]),
    ],
)
def test_counts_from_rates_and_drafts(frame, given, expected):
    frame.loc[2, ["num_drafts", "accepted_per_position"]] = [np.nan, ""]
    for name, value in given.items():
        frame[name] = frame[name] if name in frame else pd.Series([None] * 4, dtype=object)
        frame.loc[2, name] = value
    data = to_dataset(frame)
    assert data["accepted_at_position"].values[2].tolist() == expected
    assert data["trials_at_position"].values[2].tolist() == [100, 70]


@pytest.mark.parametrize(
    "given",
    [
        {"num_accepted_tokens": 65},
        {"draft_acceptance_rate": 0.65},
        {"mean_acceptance_length": 1.65},
    ],
)
def test_totals_are_enough_for_one_draft(frame, given):
    frame.loc[2, ["num_speculative_tokens", "accepted_per_position"]] = [1, ""]
    for name, value in given.items():
        frame[name] = [np.nan, np.nan, value, np.nan]
    data = to_dataset(frame)
    assert data["accepted_at_position"].values[2].tolist() == [65, 0]
    assert data["trials_at_position"].values[2].tolist() == [100, 0]


def test_forced_acceptance_takes_the_place_of_counts(frame):
    frame["forced_acceptance_rate"] = [np.nan, np.nan, 0.8, np.nan]
    data = to_dataset(frame)
    assert data["group_of_run"].values.tolist() == [-1, -1, -1, 0]
    assert data["trials_at_position"].values[2].tolist() == [0, 0]
    assert data["forced_acceptance_rate"].values[2] == 0.8


def test_unused_runs_are_named_with_the_reason(frame):
    frame.loc[2, "accepted_per_position"] = ""
    frame["workload"] = ["", "", "another", ""]  # so that run 2 shares its acceptance with none
    frame.loc[1, "mean_e2e_s"] = np.nan
    frame["is_throughput_test"] = [True, False, False, False]
    with pytest.warns() as caught:
        data = to_dataset(frame)
    text = str(caught[0].message)
    assert [w.category for w in caught] == [UnusedRunsWarning, AssumptionWarning]
    assert "2 of 4 runs are left out" in text
    assert "1 throughput tests (is_throughput_test)" in text
    assert "1 without mean_e2e_s" in text
    assert "1 runs draft, and no run of their drafter" in str(caught[1].message)
    assert "(row 2)" in str(caught[1].message)
    assert data["run"].values.tolist() == ["on-1", "on-2"]
    assert data.attrs["num_runs"] == 2


def test_latency_follows_from_first_token_and_time_per_token():
    frame = load_atom_moe()
    with pytest.warns() as caught:
        data = to_dataset(frame)
    assert {w.category for w in caught} == {AssumptionWarning}
    assert any("137 runs draft, and no run" in str(w.message) for w in caught)
    assert data.sizes["run"] == 422
    assert not data["trials_at_position"].any()
    assert set(data["num_experts"].values) == {256, 384, 512}
    row = frame[frame["run_id"] == str(data["run"].values[0])].iloc[0]
    told = row["mean_ttft_s"] + (row["output_len_tokens"] - 1) * row["mean_tpot_s"]
    assert float(data["mean_e2e_s"][0]) == pytest.approx(told, rel=1e-12)


def test_no_usable_run_is_an_error_that_says_why():
    frame = load_atom_moe().drop(columns="mean_ttft_s")
    with pytest.raises(DataError, match="none of the 422 runs can be used") as caught:
        to_dataset(frame)
    assert "422 without mean_e2e_s, and without the mean_ttft_s and mean_tpot_s" in str(
        caught.value
    )


def test_hash_is_of_the_content_and_not_of_the_order(frame):
    digest = to_dataset(frame).attrs["data_hash"]
    shuffled = frame.sample(frac=1, random_state=3)[sorted(frame.columns, reverse=True)]
    assert to_dataset(shuffled).attrs["data_hash"] == digest
    assert data_hash(check_runs(frame.assign(note=""))) == digest
    changed = frame.assign(mean_e2e_s=[1.0, 2.0, 0.6, 0.8000001])
    assert to_dataset(changed).attrs["data_hash"] != digest
    assert len(digest) == 64


def test_numbers_of_groups_do_not_depend_on_the_order_of_rows(frame):
    forward, backward = to_dataset(frame), to_dataset(frame[::-1])
    for dim in ("sweep", "base", "pair", "acceptance_group"):
        assert forward[dim].values.tolist() == backward[dim].values.tolist()
    assert backward["sweep_of_run"].values.tolist() == [1, 1, 0, 0]


def test_labels_grow_only_where_needed(frame):
    other = frame.assign(sweep_id=frame["sweep_id"] + "-b", run_id=frame["run_id"] + "-b")
    h100 = pd.concat([frame.assign(hardware="A"), other.assign(hardware="B")], ignore_index=True)
    data = to_dataset(h100)
    assert data["base"].values.tolist() == ["V on A", "V on B"]
    assert data["pair"].values.tolist() == ["V + eagle on A", "V + eagle on B"]
    assert data["acceptance_group"].values.tolist() == ["E for V"]  # not of the hardware
    drafters = pd.concat([frame, other.assign(drafter=["", "", "F", "F"])], ignore_index=True)
    assert to_dataset(drafters)["pair"].values.tolist() == ["V + eagle (E)", "V + eagle (F)"]
    sources = pd.concat([frame.assign(source_id="x"), frame.assign(source_id="y")])
    data = to_dataset(sources.reset_index(drop=True))
    assert data["run"].values[:2].tolist() == ["x|off-1", "x|off-2"]
    assert data.sizes["sweep"] == 4


def test_without_speculation_the_dims_of_drafting_are_empty():
    frame = load_h200_70b()
    data = to_dataset(frame[frame["method"] == "none"])
    assert (data.sizes["pair"], data.sizes["position"], data.sizes["acceptance_group"]) == (0, 0, 0)
    assert data["accepted_at_position"].shape == (64, 0)
    assert data["e2e_quantile_s"].dims == ("run", "quantile")
    assert np.isnan(data["e2e_quantile_s"].sel(quantile=0.9)).all()  # p90 is not in the source
    assert "itl_quantile_s" not in data


def test_bundled_data_as_arrays():
    with pytest.warns(UnusedRunsWarning, match="240 of 2400 runs are left out"):
        scaling = to_dataset(load_scaling_study())
    assert scaling.sizes["run"] == 2160
    assert scaling.sizes["sweep"] == 240
    assert scaling["pair"].values[-1] == "Qwen/Qwen3-8B + eagle"
    assert (scaling["group_of_run"] == -1).all()
    assert (scaling["control"] == "closed").sum() == 240
    by_size = scaling["verifier_active_params_b"].values.tolist()
    assert by_size == [0.6, 1.7, 14.8, 32.8, 8.2]
    with pytest.warns() as caught:
        cpu = to_dataset(load_vllm_cpu("all"))
    assert any("draft passes of 5 runs whose draft length" in str(w.message) for w in caught)
    assert cpu.sizes["run"] == 162 - 22
    assert cpu["verifier_active_params_b"].values.tolist() == [0.134, 0.0285]
    names = ["accepted_at_position", "trials_at_position"]
    counts = [
        cpu[names].isel(position=0).where(cpu["group_of_run"] == group, 0).sum() for group in (0, 1)
    ]
    measured = [float(c[names[0]] / c[names[1]]) for c in counts]
    assert measured == pytest.approx([0.60, 0.85], abs=0.01)  # what the drafters were built for


def test_every_variable_says_its_unit_and_meaning(frame):
    for name, variable in to_dataset(frame).data_vars.items():
        assert "units" in variable.attrs, name
        assert variable.attrs["long_name"], name
    assert to_dataset(frame)["mean_e2e_s"].attrs["units"] == "s"
