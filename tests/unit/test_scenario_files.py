"""Scenarios from a file: what is read, and the message for each mistake."""

import pytest

from bayes_sd.exceptions import ArgumentError, BayesSdError, FormatError, SchemaError
from bayes_sd.scenario import Scenario
from bayes_sd.scenario_files import FIELDS, read_scenarios


@pytest.fixture
def file(tmp_path):
    """Return a function that writes lines to a file."""

    def write(*lines: str, name: str = "asked.csv"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


def test_each_row_is_a_scenario_and_blank_cells_are_defaults(file):
    path = file(
        "name,pair,request_rate_rps,concurrency,num_speculative_tokens,acceptance,drafter_loaded",
        "idle,quick,0.5,,3,0.8;0.7;0.6,",
        "",
        ",sharp,,16,0,,yes",
    )
    assert read_scenarios(path) == {
        "idle": Scenario(
            "quick",
            request_rate_rps=0.5,
            num_speculative_tokens=3,
            acceptance=(0.8, 0.7, 0.6),
        ),
        "line 4": Scenario("sharp", concurrency=16.0, drafter_loaded=True),
    }


def test_every_field_can_be_a_column(file):
    values = {
        "pair": "quick", "request_rate_rps": 2.0, "concurrency": None, "arrivals": "bursty",
        "input_len_tokens": 100.0, "output_len_tokens": 50.0, "num_speculative_tokens": 4,
        "drafter_loaded": True, "acceptance": None, "mean_acceptance_length": 2.5,
        "num_draft_steps": 3.0, "num_verified_tokens": 6.0, "num_requests": 40,
        "max_num_seqs": 64, "verifier": "v", "deployment": "d", "verifier_params_b": 8.0,
        "verifier_active_params_b": 3.0, "drafter_params_b": 0.5,
    }  # fmt: skip
    assert set(values) == set(FIELDS), "a new field of Scenario must be read, too"
    cells = ["" if value is None else str(value) for value in values.values()]
    path = file(",".join(values), ",".join(cells))
    assert read_scenarios(path) == {"line 2": Scenario(**values)}


def test_defaults_fill_what_a_row_leaves_open(file):
    path = file("request_rate_rps,concurrency,arrivals", "2,,", ",4,", ",,constant")
    rows = read_scenarios(
        path, defaults={"pair": "quick", "request_rate_rps": 9.0, "verifier": None}
    )
    assert list(rows.values()) == [
        Scenario("quick", request_rate_rps=2.0),
        Scenario("quick", concurrency=4.0),
        Scenario("quick", request_rate_rps=9.0, arrivals="constant"),
    ]


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        (["pair,rate", "a,1"], SchemaError, r"line 1, column 2: .*Got 'rate'.*take it out"),
        (["pair,request_rate", "a,1"], SchemaError, r"Did you mean 'request_rate_rps'"),
        (["pair,pair", "a,b"], SchemaError, r"line 1: .*unique. Got 'pair' more than once"),
        (["pair,concurrency", "a,1", "b,x"], ArgumentError,
         r"line 3, column concurrency: it must be a number. Got 'x'.*leave it blank"),
        (["pair,concurrency,num_speculative_tokens", "a,1,2.5"], ArgumentError,
         r"column num_speculative_tokens: it must be a whole number. Got '2.5'"),
        (["pair,concurrency,drafter_loaded", "a,1,maybe"], ArgumentError, r"true or false"),
        (["pair,concurrency,acceptance", "a,1,high"], ArgumentError, r"several joined by ';'"),
        (["pair,concurrency,acceptance", "a,1,0.8,0.7"], FormatError,
         r"line 2: a row must have 3 cells.*Got 4.*';'"),
        (["pair,concurrency", "a,0.5"], ArgumentError,
         r"asked.csv, line 2: concurrency must be at least 1"),
        (["pair,request_rate_rps,concurrency", "a,1,1"], ArgumentError, r"line 2: .*one of them"),
        (["concurrency", "1"], ArgumentError, r"line 2: column pair must name .* give --pair"),
        (["name,pair,concurrency", "x,a,1", "x,a,2"], ArgumentError,
         r"line 3, column name: .*'x' again, as in line 2"),
        (["pair,concurrency"], FormatError, r"has no scenarios"),
        (['pair,concurrency', 'a"b,"1'], FormatError, r"cannot be read as CSV"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_and_column(file, lines, error, words):
    with pytest.raises(error, match=words) as caught:
        read_scenarios(file(*lines))
    assert "asked.csv" in str(caught.value)
    assert isinstance(caught.value, BayesSdError)


def test_other_files_are_refused(file, tmp_path):
    with pytest.raises(FormatError, match="is not a file"):
        read_scenarios(tmp_path / "absent.csv")
    with pytest.raises(FormatError, match=r"must be a CSV file. Got one that ends in '.yaml'"):
        read_scenarios(file("a: 1", name="asked.yaml"))
    (tmp_path / "bytes.csv").write_bytes(b"pair,concurrency\n\xff\xfe,1\n")
    with pytest.raises(FormatError, match="cannot be read as CSV"):
        read_scenarios(tmp_path / "bytes.csv")
