"""Tables of runs in text: by the schema, and what of them is skipped and why."""

import gzip
import time
import warnings

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayes_sd.datasets import load_vllm_cpu
from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.frames import check_runs
from bayes_sd.readers import tidy
from bayes_sd.readers.content import Content
from bayes_sd.readers.rows import table
from bayes_sd.schema import column, column_names

HEADER = (
    "run_id,sweep_id,verifier,method,num_speculative_tokens,load_kind,concurrency,"
    "input_len_tokens,output_len_tokens,num_requests,mean_e2e_s"
)
ROW = "a,s,Qwen/Qwen3-8B,none,0,closed,4,512,128,300,1.5"


@pytest.fixture
def write(tmp_path):
    """Write a text to a file and return its content."""

    def written(text, name="runs.csv"):
        path = tmp_path / name
        opened = gzip.open(path, "wt", encoding="utf-8") if name.endswith(".gz") else None
        if opened is None:
            path.write_text(text, encoding="utf-8", newline="")
        else:
            with opened as file:
                file.write(text)
        return Content(path)

    return written


@pytest.fixture
def read(write):
    return lambda text, name="runs.csv": tidy.read(write(text, name))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_schema_table_comes_back_as_it_is(tmp_path, delimiter, ending):
    frame = load_vllm_cpu().head(12)
    path = tmp_path / f"runs.{ending}"
    frame.to_csv(path, index=False, sep=delimiter)
    content = Content(path)
    assert tidy.recognises_text(content.head)
    reading = tidy.read(content)
    assert (reading.skipped, reading.notes) == ([], [])
    assert [run["_entry"] for run in reading.runs[:2]] == ["line 2", "line 3"]
    pd.testing.assert_frame_equal(check_runs(table(reading.runs)), check_runs(frame))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (HEADER, True),
        (f"\n\n{HEADER}\r\n{ROW}", True),
        (HEADER.replace(",", '","').join('""'), True),
        ("num_requests;input_len_tokens;output_len_tokens\n1;2;3", True),
        # Columns of other tables: acceptance lengths, pairs of sweeps, and other tools' own.
        ("source_id,model,drafter,method,dataset,k,mean_accept_len,output_tok_s,note", False),
        ("source_id,family_id,off_sweep_id,verifier,hardware,method,k,load_kind", False),
        ("config,rep,verifier,method,k,isl,osl,n_requests,achieved_rps,output_tokens_per_s", False),
        ("Metric,avg,min,max,p99,p90\nRequest Latency (ms),1,2,3,4,5", False),
        ("concurrency,run_id,date,method", False),
        ("INFO 12-01 07:05:54 loggers.py: Running: 3 reqs", False),
        ('{"run_id": 1, "sweep_id": 2, "num_requests": 3}', False),
        ("# HELP vllm:num_requests_running", False),
        ("", False),
        ("\0" * 9, False),
        ('"' * 99, False),
    ],
)
def test_recognises_only_tables_of_runs(head, expected):
    assert tidy.recognises_text(head) is expected


def test_row_that_cannot_be_read_is_skipped_and_the_others_kept(read):
    reading = read(
        "\n".join(
            (
                HEADER,
                ROW,
                ROW.replace("1.5", "fast").replace("a,", "b,", 1),
                "c,s",
                "",
                ROW.replace("300", "1_000"),
                ROW.replace("1.5", "inf"),
                ROW.replace("a,", "d,", 1),
                ",,,,,,,,,,",
            )
        )
    )
    assert [run["run_id"] for run in reading.runs] == ["a", "d"]
    assert reading.skipped == [
        "line 3: mean_e2e_s must be above 0 s. Got 'fast' instead.",
        "line 4 must have 11 cells, as the first line has. Got 2 instead.",
        "line 6: num_requests must be a whole number at least 1 requests. Got '1_000' instead.",
        "line 7: mean_e2e_s must be above 0 s. Got 'inf' instead.",
    ]


def test_cells_out_of_range_pass_for_the_check_to_judge(read):
    reading = read("\n".join((HEADER, ROW.replace("1.5", "-2").replace("none", "medusa"))))
    assert reading.skipped == []
    assert reading.runs[0]["mean_e2e_s"] == -2.0
    assert reading.runs[0]["method"] == "medusa"


def test_blank_words_are_blank_and_none_is_a_method(read):
    (run,) = read(
        "method,drafter,num_requests,mean_e2e_s,sweep_id,hardware\nnone,nan,None,NaN,s, \n"
    ).runs
    assert run == {"_entry": "line 2", "method": "none", "sweep_id": "s"}


def test_open_quotation_mark_names_the_lines_it_took(read):
    reading = read("\n".join((HEADER, '"a,s,v', ROW, ROW)))
    assert reading.runs == []
    (message,) = reading.skipped
    assert message.startswith("lines 2 to 4 must have 11 cells")
    assert "close it" in message


def test_text_in_quotes_may_hold_anything_and_becomes_one_line(read):
    (run,) = read(f'{HEADER},note\n{ROW},"two, ""and""\nlines\x07; end"\n').runs
    assert run["note"] == 'two, "and" lines ; end'


def test_header_that_comes_again_is_no_row(read):
    reading = read("\n".join((HEADER, ROW, HEADER, ROW)))
    assert (len(reading.runs), reading.skipped) == (2, [])


def test_columns_that_are_not_used_are_named_with_what_they_may_mean(read):
    (note,) = read(f",k,mean_e2_s,latency,{HEADER}\n0,3,1,2,{ROW}\n").notes
    assert note == (
        "columns that are not in the schema are not used: column 1 (without a name), 'k', "
        "'mean_e2_s', 'latency'."
    )
    (note,) = read("k,load_kind,num_requests,isl,concurency\n3,closed,9,5,4\n").notes
    assert "'k' (perhaps num_speculative_tokens)" in note
    assert "'isl' (perhaps input_len_tokens)" in note
    assert "'concurency' (perhaps concurrency)" in note


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{HEADER},run_id\n{ROW},b\n", "names of columns must be unique. Got run_id"),
        ("name,latency\na,1\n", "the first line must name columns of bayes_sd.schema"),
        ("a\n", "Got 'a' instead"),
    ],
)
def test_table_that_cannot_be_read_as_a_whole_is_refused(read, text, words):
    with pytest.raises(FormatError, match=r"runs\.csv: ") as caught:
        read(text)
    assert words in str(caught.value)


def test_acceptance_lists_and_truth_values(read):
    head = "num_requests;sweep_id;load_kind;is_throughput_test;accepted_per_position\n"
    reading = read(f'{head}1;s;open;Yes;"8; 5;2"\n1;s;open;;""\n1;s;open;perhaps;\n1;s;open;no;x\n')
    assert reading.runs[0]["accepted_per_position"] == "8;5;2"
    assert reading.runs[0]["is_throughput_test"] is True
    assert "accepted_per_position" not in reading.runs[1]
    assert reading.skipped == [
        "line 4: is_throughput_test must be true or false. Got 'perhaps' instead.",
        "line 5: accepted_per_position must be numbers joined by ';', each at least 0 tokens. "
        "Got 'x' instead.",
    ]


def test_a_megabyte_is_read_within_a_second(read):
    text = "\n".join([HEADER + ",note", *[f"{ROW},{'x' * 60}"] * 8_000])
    start = time.perf_counter()
    assert len(read(text).runs) == 8_000
    assert time.perf_counter() - start < len(text) / 1e6 + 1


words = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "nan", "-1", "1e999", "1;2;x", '"', ";", "\t", "0", "none", "true", "\r"]),
    st.floats().map(str),
    st.integers().map(str),
)
table_text = st.lists(st.lists(words, min_size=1, max_size=12).map(",".join), max_size=8)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    names=st.lists(st.sampled_from([*column_names(), "k", "isl", ""]), min_size=1, max_size=12),
    rows=table_text,
)
def test_any_table_ends_in_runs_or_an_error_of_the_library(tmp_path_factory, names, rows):
    path = tmp_path_factory.mktemp("any") / "runs.csv"
    path.write_text("\n".join([",".join(names), *rows]), encoding="utf-8", newline="")
    try:
        content = Content(path)
        tidy.recognises_text(content.head)
        reading = tidy.read(content)
    except BayesSdError:
        return
    assert all(isinstance(run, dict) for run in reading.runs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_runs(table(reading.runs))
        except BayesSdError:
            return


def test_every_column_of_the_schema_is_read(read):
    examples = {"str": "x", "int": "3", "float": "0.5", "bool": "true", "floats": "1;0"}
    names = column_names()
    cells = [examples[column(name).dtype] for name in names]
    (run,) = read(",".join(names) + "\n" + ",".join(cells) + "\n").runs
    assert set(names) <= set(run)
