"""The command ``capacity``: words, JSON, and mistakes."""

import json

import pytest

from bayes_sd.capacity import max_rate
from bayes_sd.cli_capacity import capacity
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.replicas import replicas_needed
from bayes_sd.scenario import Scenario
from bayes_sd.storage import load, save
from tests.fake_fit import fake_fit

QUICK = "big + draft_model (quick)"
AT = Scenario(QUICK, request_rate_rps=1.0, num_speculative_tokens=3)


@pytest.fixture(scope="module")
def fit_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("fits") / "good.nc"
    save(fake_fit(draws=100, spread=0.05), path)
    return path


def test_the_answer_is_that_of_the_library(fit_file, capsys):
    capacity(fit_file, ["e2e_p95 <= 1.2", "e2e_mean <= 1 s"], "quick", draft_length=[3], json=True)
    document = json.loads(capsys.readouterr().out)
    expected = max_rate(load(fit_file), AT, "e2e_p95 <= 1.2, e2e_mean <= 1.0")
    assert document["slo"] == "e2e_mean <= 1.0, e2e_p95 <= 1.2"
    assert document["max_rate"] == [{"num_speculative_tokens": 3, **expected.to_dict()}]
    assert document["converged"] is True
    assert "replicas" not in document


def test_rates_ask_for_replicas_of_each_draft_length(fit_file, capsys):
    options = {"rate": [40.0, 5.0], "draft_length": [3, 0], "cost": 2.0}
    capacity(fit_file, ["e2e_p95 <= 1.2"], "quick", json=True, **options)
    document = json.loads(capsys.readouterr().out)
    assert [row["num_speculative_tokens"] for row in document["replicas"]] == [0, 3]
    expected = replicas_needed(
        load(fit_file), AT, "e2e_p95 <= 1.2", [5.0, 40.0], cost_per_replica_hour=2.0
    )
    found = [row["replicas"] for row in document["replicas"][1]["rates"]]
    assert found == expected.replicas.tolist()
    assert document["replicas"][1]["cost"] == expected.cost


def test_tables_say_it_in_words(fit_file, capsys):
    options = {"rate": [40.0], "draft_length": [0, 3], "cost": 2.0}
    capacity(fit_file, ["e2e_p95 <= 0.9"], "quick", **options)
    out = capsys.readouterr().out
    assert "k = 3: e2e_p95 <= 0.9 is met up to" in out
    assert "none will do" in out  # off: an idle server takes longer
    assert "P(one fewer)" in out
    assert "cost per hour" in out


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"slo": None}, ArgumentError, r"needs an objective: --slo 'e2e_p95 <= 2\.0'"),
        ({"cost": 2.0}, ArgumentError, r"needs a traffic to serve\. Give it: --rate 40"),
        ({"slo": ["e2e_p95"]}, ArgumentError, r"must have a name, <= or <"),
        ({"slo": ["ttft_p99 <= 1"]}, DataError, r"no fitted run had a time to first token"),
        ({"certainty": 95}, ArgumentError, r"For 95 % write 0\.95"),
        ({"rate": [-1.0]}, ArgumentError, r"rates_rps must be finite and at least 0"),
        ({"pair": None}, ArgumentError, r"--pair must be given"),
    ],
)
def test_a_mistake_is_said(fit_file, options, error, words):
    arguments = {"slo": ["e2e_p95 <= 1.2"], "pair": "quick"} | options
    with pytest.raises(error, match=words):
        capacity(fit_file, **arguments)
