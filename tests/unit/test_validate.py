"""Checks of arguments and of tables: each mistake gets its own words, rows and repair."""

import re

import numpy as np
import pandas as pd
import pytest

from bayes_sd.datasets import load_scaling_study
from bayes_sd.exceptions import (
    ArgumentError,
    AssumptionWarning,
    DataError,
    LittlesLawWarning,
    SchemaError,
    UnitError,
    UnitWarning,
    UnknownColumnWarning,
)
from bayes_sd.frames import check_runs
from bayes_sd.validate import (
    finite_number,
    name_rows,
    not_negative,
    one_of,
    positive,
    probability,
    whole_number,
)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: one_of("men", ("mean", "run"), "kind"),
         "kind must be one of 'mean', 'run'. Got 'men' instead. Did you mean 'mean'?"),
        (lambda: one_of(True, (1, 2), "k"), "k must be one of 1, 2. Got True instead."),
        (lambda: positive(0, "slo_s", unit="seconds"),
         "slo_s must be a finite number above 0 seconds. Got 0.0 instead."),
        (lambda: positive(np.nan, "x"), "x must be a finite number above 0. Got nan instead."),
        (lambda: positive("3", "x"), "x must be a finite number above 0. Got '3' instead."),
        (lambda: not_negative(-1, "x"),
         "x must be a finite number of at least 0. Got -1.0 instead."),
        (lambda: finite_number(True, "x"), "x must be a finite number. Got True instead."),
        (lambda: probability(95, "certainty"),
         "certainty must be a probability from 0 to 1. Got 95.0 instead. For 95 % write 0.95."),
        (lambda: probability(1, "q", ends=False),
         "q must be a probability above 0 and below 1. Got 1.0 instead."),
        (lambda: whole_number(2.5, "draws"),
         "draws must be a whole number of at least 1. Got 2.5 instead."),
        (lambda: whole_number(9, "chains", maximum=8),
         "chains must be a whole number from 1 to 8. Got 9 instead."),
    ],
)  # fmt: skip
def test_argument_messages(call, words):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value) == words


def test_arguments_that_pass():
    assert whole_number(np.int64(4), "draws") == 4
    assert type(whole_number(4.0, "draws")) is int
    assert positive(np.float32(0.5), "x") == 0.5
    assert probability(1, "p") == 1.0
    assert one_of("run", ("mean", "run"), "kind") == "run"


def test_rows_are_named_up_to_ten():
    assert name_rows(["a"]) == "row a"
    assert name_rows(list(range(13))).endswith("8, 9 and 3 more")


@pytest.fixture
def frame() -> pd.DataFrame:
    """Three open-loop runs that nothing is wrong with; labels are not 0, 1, 2."""
    return pd.DataFrame(
        {
            "run_id": ["a", "b", "c"],
            "sweep_id": "s",
            "verifier": "V",
            "method": "eagle",
            "num_speculative_tokens": 2,
            "load_kind": "open",
            "arrivals": "poisson",
            "request_rate_rps": [1.0, 2.0, 4.0],
            "input_len_tokens": 100.0,
            "output_len_tokens": 51.0,
            "num_requests": 200,
            "mean_e2e_s": [0.6, 0.7, 0.9],
            "mean_ttft_s": [0.1, 0.1, 0.1],
            "mean_tpot_s": [0.010, 0.012, 0.016],
            "mean_in_system_requests": [0.6, 1.4, 3.6],
        },
        index=[10, 20, 30],
    )


def test_a_sound_table_passes_in_any_column_order(frame):
    clean = check_runs(frame[frame.columns[::-1]])
    assert clean.index.tolist() == [10, 20, 30]
    assert clean["mean_e2e_s"].tolist() == frame["mean_e2e_s"].tolist()
    assert clean["hardware"].tolist() == ["", "", ""]
    assert clean["p99_e2e_s"].isna().all()
    assert clean["num_requests"].dtype == "int64"
    assert "source_id" not in frame  # the caller's table is not touched


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("mean_e2e_s", 0.0, "'mean_e2e_s' must be above 0 s. Got 0.0 instead (row 20)"),
        ("mean_e2e_s", -1.0, "must be above 0 s. Got -1.0 instead (row 20)"),
        ("mean_e2e_s", np.inf, "must be above 0 s. Got inf instead"),
        ("mean_e2e_s", "fast", "must be above 0 s. Got 'fast' instead (row 20)"),
        ("output_len_tokens", np.nan, "'output_len_tokens' is blank in row 20; it must be"),
        ("output_len_tokens", np.nan, "frame = frame.drop(index=[20])"),
        ("verifier", None, "'verifier' is blank in row 20"),
        ("num_speculative_tokens", -1, "must be a whole number at least 0 tokens. Got -1 instead"),
        ("num_requests", 2.5, "must be a whole number at least 1 requests. Got 2.5 instead"),
        ("method", "eagel3", "Got 'eagel3' instead (row 20). Did you mean 'eagle3'?"),
        ("method", "none", "method 'none' has num_speculative_tokens above 0 (row 20)"),
        ("draft_acceptance_rate", 65, "Got 65 instead (row 20). If these are percentages: frame["),
        ("mean_acceptance_length", 3.2, "must be from 1 to num_speculative_tokens + 1 (row 20"),
        ("mean_acceptance_length", 0.7, "must be at least 1 tokens/step. Got 0.7"),
        ("accepted_per_position", "5;x", "joined by ';', each at least 0 tokens. Got '5;x'"),
        ("accepted_per_position", "5", "must have as many numbers as num_speculative_tokens"),
        ("accepted_per_position", "5;8", "must not rise from one position to the next (row 20"),
        ("acceptance_per_position", "0.5;1.5", "each from 0 to 1. Got '0.5;1.5' instead"),
        ("request_rate_rps", np.nan, "open-loop runs lack request_rate_rps (row 20)"),
        ("request_rate_rps", np.inf, "A rate of inf is a burst"),
        ("load_kind", "closed", "closed-loop runs lack concurrency (row 20)"),
        ("arrivals", "closed", "open-loop runs have arrivals 'closed' (row 20)"),
        ("run_id", "a", "run_id must be unique within its source_id (rows 10, 20"),
        ("verifier", "W", "sweep_id joins runs with different verifier (rows 10, 20, 30)"),
        ("hardware", "H100", "sweep_id joins runs with different hardware"),
        ("is_throughput_test", "maybe", "must be true or false. Got 'maybe' instead"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_words(frame, column, value, words):
    filled = frame[column].tolist() if column in frame else [None] * 3
    filled[1] = value
    frame[column] = pd.Series(filled, frame.index, dtype=object)
    with pytest.raises(SchemaError, match=re.escape(words)) as caught:
        check_runs(frame)
    assert 20 in caught.value.rows


def test_pairs_of_columns_that_contradict_each_other(frame):
    frame["accepted_per_position"] = "70;40"
    frame["num_accepted_tokens"] = [110, 111, 110]
    frame["num_drafts"] = [100, 100, 60]
    frame["num_draft_tokens"] = [200, 90, 200]
    frame["p50_e2e_s"], frame["p95_e2e_s"], frame["p99_e2e_s"] = 0.6, [0.8, 0.5, 0.8], 0.9
    frame["verifier_params_b"] = [8.0, 8.0, 8.2]
    with pytest.raises(SchemaError) as caught:
        check_runs(frame)
    text = str(caught.value)
    assert text.startswith("the table of runs has 5 problems:\n- ")
    for words in (
        "does not add up to num_accepted_tokens (row 20)",
        "starts above num_drafts (row 30)",
        "num_accepted_tokens is above num_draft_tokens (row 20)",
        "percentiles of e2e are out of order (row 20)",
        "verifier_params_b differs between rows of the same verifier (rows 10, 20, 30)",
    ):
        assert words in text
    assert len(caught.value.problems) == 5


def test_missing_columns_are_listed_with_what_they_may_be_called(frame):
    frame = frame.rename(columns={"input_len_tokens": "isl", "num_requests": "num_request"})
    with pytest.raises(SchemaError) as caught:
        check_runs(frame.drop(columns="verifier"))
    text = str(caught.value)
    assert "lacks 3 required columns: verifier, input_len_tokens, num_requests" in text
    line = text.split("If they mean it: ")[1]
    assert eval(line.split("columns=")[1][:-1]) == {
        "isl": "input_len_tokens", "num_request": "num_requests",
    }  # fmt: skip


def test_completed_rate_is_refused_as_arrival_rate(frame):
    frame = frame.rename(columns={"request_rate_rps": "completed_rate_rps"})
    with pytest.raises(SchemaError, match="completed_rate_rps must never stand in for it"):
        check_runs(frame)


def test_unknown_columns_are_set_aside_with_a_warning(frame):
    with pytest.warns(UnknownColumnWarning, match=r"not used: colour, tp\..*tensor_parallel_size"):
        clean = check_runs(frame.assign(colour="red", tp=1))
    assert "colour" not in clean


def test_unsaid_arrivals_are_taken_for_poisson_with_a_warning(frame):
    with pytest.warns(AssumptionWarning, match=r"arrivals is blank .*rows 10, 20, 30.*poisson"):
        clean = check_runs(frame.drop(columns="arrivals"))
    assert set(clean["arrivals"]) == {"poisson"}


def test_what_is_not_a_table_or_is_empty(frame):
    with pytest.raises(ArgumentError, match=r"must be a pandas DataFrame\. Got list instead"):
        check_runs([1])
    with pytest.raises(DataError, match="has no rows"):
        check_runs(frame.iloc[:0])
    with pytest.raises(SchemaError, match="Got run_id more than once"):
        check_runs(pd.concat([frame, frame[["run_id"]]], axis=1))


LATENCY = ["mean_e2e_s", "mean_ttft_s", "mean_tpot_s"]


@pytest.mark.parametrize(
    ("in_milliseconds", "words"),
    [
        (["mean_ttft_s"], "mean_e2e_s is below mean_ttft_s"),
        (["mean_tpot_s"], "more than 50 times mean_e2e_s"),
        (["mean_e2e_s"], "The end-to-end time seems to be in milliseconds"),
        (LATENCY, "The latencies seem to be in milliseconds"),
    ],
)
@pytest.mark.parametrize("rows", [[10, 20, 30], [20]])
def test_milliseconds_are_found_and_the_line_repairs_them(frame, in_milliseconds, words, rows):
    sound = frame.copy()
    frame.loc[rows, in_milliseconds] *= 1000
    with pytest.raises(UnitError, match=re.escape(words)) as caught:
        check_runs(frame)
    assert caught.value.rows == rows
    exec(str(caught.value).split("): ")[-1], {"frame": frame})
    pd.testing.assert_frame_equal(check_runs(frame), check_runs(sound))


def test_milliseconds_without_a_number_in_system(frame):
    frame[LATENCY] *= 1000
    with pytest.raises(UnitError, match="can be in the system"):
        check_runs(frame.drop(columns="mean_in_system_requests"))
    closed = frame.drop(columns=["mean_in_system_requests", "arrivals", "request_rate_rps"])
    closed = closed.assign(load_kind="closed", concurrency=4)
    with pytest.warns(UnitWarning, match=r"mean_tpot_s is above 1 s per token.*/= 1000"):
        check_runs(closed)


def test_percentiles_in_milliseconds(frame):
    with pytest.raises(UnitError, match="p50_e2e_s is more than 100 times mean_e2e_s"):
        check_runs(frame.assign(p50_e2e_s=600.0))


def test_a_rate_per_millisecond(frame):
    with pytest.raises(UnitError, match="1/1000 of the number in the system"):
        check_runs(frame.assign(request_rate_rps=frame["request_rate_rps"] / 1000))


def test_time_per_step_in_place_of_time_per_token_is_suspected(frame):
    frame["mean_tpot_s"] *= 2.4  # one delivery holds 2.4 tokens
    with pytest.warns(UnitWarning, match="per step"):
        check_runs(frame)


def test_a_rate_that_breaks_littles_law_is_suspected(frame):
    frame.loc[30, "mean_in_system_requests"] = 8.0
    with pytest.warns(LittlesLawWarning, match=r"\(row 30; the ratio is 0\.45"):
        check_runs(frame)


def test_numbers_written_as_text_are_read():
    text = load_scaling_study().astype({"num_requests": "str", "mean_e2e_s": "str"})
    assert check_runs(text)["mean_e2e_s"].dtype == float
