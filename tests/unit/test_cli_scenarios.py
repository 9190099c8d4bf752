"""``--scenarios FILE``: a row of the file gives what its options give, named; mistakes are told."""

import json

import pytest

from bayes_sd import cli
from bayes_sd.storage import save
from tests.fake_fit import FORCED, fake_fit

pytestmark = pytest.mark.filterwarnings("ignore::bayes_sd.exceptions.ExtrapolationWarning")
HEAD = "name,pair,request_rate_rps,num_speculative_tokens,acceptance"
ROWS = [HEAD, "one,quick,4,3,", f"two,sharp,4,3,{FORCED}", "three,quick,4,0,"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("scenarios")
    save(fake_fit(draws=200, spread=0.02), made / "good.nc")
    (made / "asked.csv").write_text("\n".join(ROWS))
    (made / "wrong.csv").write_text("\n".join([HEAD, "one,quick,four,3,"]))
    (made / "open.csv").write_text("name,num_speculative_tokens\noff,0\nthree,3\n")
    return made


@pytest.fixture
def bayes_sd(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)

    def call(line: str, *more: str) -> tuple[int, str, str]:
        status = cli.run([*line.split(), *more])
        return status, *capsys.readouterr()

    return call


def rows_of(bayes_sd, line, *more):
    status, out, err = bayes_sd(f"{line} --json", *more)
    assert status == 0, err
    document = json.loads(out)
    return document, {row["name"]: row for row in document.get("scenarios", [])}


def test_predict_gives_each_row_what_the_options_give(bayes_sd):
    document, rows = rows_of(bayes_sd, "predict good.nc --scenarios asked.csv")
    assert (document["command"], document["converged"]) == ("predict", True)
    assert list(rows) == ["one", "two", "three"]
    alone, _ = rows_of(bayes_sd, "predict good.nc --pair quick --rate 4 -k 3")
    told = alone["predictions"][0]
    for name in ("median_e2e_s", "low_e2e_s", "high_e2e_s", "status"):
        if name in told:
            assert rows["one"][name] == told[name]
    assert rows["one"] != rows["two"]


def test_choose_gives_each_row_its_decision(bayes_sd):
    _, rows = rows_of(bayes_sd, "choose good.nc --scenarios asked.csv")
    alone, _ = rows_of(bayes_sd, "choose good.nc --pair quick --rate 4")
    assert rows["one"]["choice"] == alone["decision"]["choice"]
    assert rows["one"]["verdict"] == alone["decision"]["verdict"]
    assert rows["three"]["choice"] == rows["one"]["choice"], "the row's own k is not used"


def test_capacity_takes_rows_without_a_load(bayes_sd):
    more = ("--pair", "quick", "--slo", "e2e_mean <= 1.0")
    document, rows = rows_of(bayes_sd, "capacity good.nc --scenarios open.csv", *more)
    assert document["slo"] == "e2e_mean <= 1.0"
    alone, _ = rows_of(bayes_sd, "capacity good.nc -k 0 -k 3", *more)
    assert [row["rate"] for row in rows.values()] == [row["rate"] for row in alone["max_rate"]]


def test_compare_takes_the_rows_as_candidates(bayes_sd):
    document, _ = rows_of(bayes_sd, "compare good.nc --scenarios asked.csv")
    assert [row["candidate"] for row in document["rows"]] == ["one", "two", "three"]
    best = [row["probability_best"] for row in document["rows"]]
    assert sum(best) == pytest.approx(1)
    more, _ = rows_of(bayes_sd, "compare good.nc --scenarios asked.csv --rate 1 --rate 2")
    assert len(more["rows"]) == 6


def test_policy_has_the_loads_of_the_options_for_each_row(bayes_sd):
    status, out, err = bayes_sd("policy good.nc --scenarios asked.csv --rate 2 --rate 6 --json")
    assert status == 0, err
    rows = json.loads(out)["scenarios"]
    assert [row["name"] for row in rows] == ["one", "one", "two", "two", "three", "three"]
    assert [row["request_rate_rps"] for row in rows] == [2.0, 6.0] * 3


@pytest.mark.parametrize(
    "line",
    [
        "predict good.nc --scenarios asked.csv",
        "choose good.nc --scenarios asked.csv",
        "compare good.nc --scenarios asked.csv",
        "policy good.nc --scenarios asked.csv --rate 2",
    ],
)
def test_tables_name_the_row(bayes_sd, line):
    status, out, err = bayes_sd(line)
    assert status == 0, err
    assert all(name in out for name in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("predict good.nc --scenarios wrong.csv",
         "wrong.csv, line 2, column request_rate_rps: it must be a number. Got 'four'"),
        ("choose good.nc --scenarios absent.csv", "absent.csv is not a file"),
        ("predict good.nc --scenarios asked.csv --rate 4", "must come without --rate"),
        ("predict good.nc --scenarios asked.csv -k 3", "must come without --draft-length"),
        ("choose good.nc --scenarios asked.csv --break-even 3", "must come without --break-even"),
        ("compare good.nc --scenarios asked.csv --pair quick", "must come without --pair"),
        ("policy good.nc --scenarios asked.csv --rate 2 --export vllm", "without --export"),
        ("policy good.nc --scenarios asked.csv", "policy needs loads"),
        ("choose good.nc --scenarios open.csv --pair quick", "open.csv, line 2: a scenario must"),
        ("capacity good.nc --scenarios open.csv", "capacity needs an objective"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_and_status_2(bayes_sd, line, words):
    status, out, err = bayes_sd(line)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("bayes-sd:") == 1
