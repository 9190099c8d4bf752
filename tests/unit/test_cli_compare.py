"""Commands ``compare`` and ``next-run``, and ``choose`` with a utility."""

import json

import pytest

from bayes_sd import cli
from bayes_sd.storage import save
from tests.fake_fit import fake_fit


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fits")
    save(fake_fit(draws=400, spread=0.02), made / "good.nc")
    return made


@pytest.fixture
def bayes_sd(folder, monkeypatch, capsys):
    """Return a function that runs a command line in the folder: status, stdout, stderr."""
    monkeypatch.chdir(folder)

    def call(line: str, *more: str) -> tuple[int, str, str]:
        status = cli.run([*line.split(), *more])
        return status, *capsys.readouterr()

    return call


def test_compare_gives_probabilities_by_load(bayes_sd):
    line = "compare good.nc --rate 1 --rate 3 --acceptance 0.7 --json --pair"
    status, out, err = bayes_sd(line, "quick@3", "--pair", "quick@0")
    document = json.loads(out)
    assert (status, err) == (0, "")
    assert [row["rps"] for row in document["rows"]] == [1, 1, 3, 3]
    assert sum(row["probability_best"] for row in document["rows"]) == pytest.approx(2)
    status, out, err = bayes_sd("compare good.nc --rate 1 --pair", "quick@3", "--pair", "quick@1")
    assert status == 0
    assert "P(best)" in err


def test_next_run_names_a_run_or_says_that_none_is_needed(bayes_sd):
    status, out, _ = bayes_sd("next-run good.nc --pair quick --rate 1 --rate 3 --json")
    document = json.loads(out)
    assert status == 0
    assert len(document["runs_until_sure"]) == 2
    assert document["candidates"]
    assert bayes_sd("next-run good.nc --pair quick --rate 1")[0] == 0


def test_choose_takes_a_utility(bayes_sd):
    status, out, _ = bayes_sd(
        "choose good.nc --pair quick --rate 2 --json --utility slo --slo", "e2e_p95 <= 5"
    )
    assert status == 0
    assert json.loads(out)["decision"]["utility"] == "slo"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("compare good.nc --pair quick", "needs a load"),
        ("compare good.nc --pair quick@x --rate 1 --pair sharp", "whole number K"),
        ("compare good.nc --pair quick --rate 1", "at least two"),
        ("next-run good.nc --pair quick", "needs loads"),
        ("choose good.nc --pair quick --rate 1 --utility best", "utility must be"),
        ("choose good.nc --pair quick --rate 1 --rate 2 --utility p95", "one load"),
    ],
)
def test_mistakes_in_comparisons_are_one_message(bayes_sd, line, words):
    status, out, err = bayes_sd(line)
    assert status == 2
    assert words in err
    assert "Traceback" not in out + err


def test_policy_writes_the_file_of_an_engine(bayes_sd):
    line = "policy good.nc --pair sharp --acceptance 0.7 --rate 1 --rate 5 --export vllm"
    status, _, err = bayes_sd(line, "-o", "policy.json")
    assert (status, err.splitlines()[-1]) == (0, "vllm file written to policy.json")
    with open("policy.json") as file:
        document = json.load(file)
    assert document["num_speculative_tokens_per_batch_size"][0][0] == 1
    status, out, _ = bayes_sd(line, "--json")
    assert json.loads(out)["engine_file"] == document


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("policy good.nc --pair quick", "needs loads"),
        ("policy good.nc --pair quick --rate 1 -o p.json", "--export"),
        ("policy good.nc --pair quick --rate 1 --export triton", "engine must be"),
        ("policy good.nc --pair quick --rate 1 --export vllm -o no/p.json", "cannot be written"),
    ],
)
def test_mistakes_in_policies_are_one_message(bayes_sd, line, words):
    status, out, err = bayes_sd(line)
    assert status == 2
    assert words in err
    assert "Traceback" not in out + err
