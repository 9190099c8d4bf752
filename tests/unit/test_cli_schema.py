"""Each command's JSON is what its schema says; a document that is not, is refused."""

import json
import time

import pytest

from bayes_sd import cli
from bayes_sd.cli_schema import COMMANDS, schema_of
from bayes_sd.storage import save
from tests.fake_fit import fake_fit, simulated_frame
from tests.live_server import Engine, prometheus, serving

jsonschema = pytest.importorskip("jsonschema")
pytestmark = pytest.mark.filterwarnings("ignore::bayes_sd.exceptions.BayesSdWarning")

LINES = [
    "check good.nc",
    "check bad.nc",
    "predict good.nc --pair quick --rate 4 --rate 500 -k 0 -k 3 --kind run",
    "predict good.nc --pair quick --concurrency 4",
    "predict bad.nc --scenarios asked.csv",
    "choose good.nc --pair quick --rate 4",
    "choose good.nc --pair quick --rate 4 --rate 500 --break-even 3",
    "choose good.nc --scenarios asked.csv",
    "policy good.nc --pair sharp --acceptance 0.7 --rate 1 --rate 5 --export vllm",
    "policy good.nc --scenarios asked.csv --rate 2",
    "capacity good.nc --pair quick --slo e2e_mean<=1 -k 0 -k 3 --rate 40",
    "capacity good.nc --scenarios asked.csv --slo e2e_mean<=1",
    "compare good.nc --pair quick@3 --pair quick@0 --rate 2",
    "next-run good.nc --pair quick --rate 1 --rate 3",
    "report good.nc -o r.html --pair quick --rate 1 -k 0 -k 3",
    "read runs.csv",
    "pack good.nc -o small.nc --draws 100",
    "pack bad.nc -o small.nc",
    "drift good.nc --prometheus URL --pair quick -k 3 --rate 4 --since 1200 --once",
    "drift bad.nc --prometheus URL --pair quick -k 3 --slo e2e_mean<=1 --since 1200 --once",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fits")
    save(fake_fit(draws=400, spread=0.02), made / "good.nc")
    save(fake_fit(draws=20, spread=0.02, passed=False), made / "bad.nc")
    simulated_frame().to_csv(made / "runs.csv", index=False)
    rows = ["name,pair,request_rate_rps,num_speculative_tokens", "one,quick,4,3", "two,quick,4,0"]
    (made / "asked.csv").write_text("\n".join(rows))
    return made


@pytest.fixture(scope="module")
def address():
    with serving(prometheus(Engine(start_s=time.time() - 7200))) as url:
        yield url


@pytest.mark.parametrize("line", LINES)
def test_json_is_as_its_schema_says(folder, address, monkeypatch, capsys, line):
    monkeypatch.chdir(folder)
    command = line.split()[0]
    status = cli.run([*line.replace("URL", address).split(), "--json", "--quiet"])
    assert status == (1 if line == "check bad.nc" else 0)
    document = json.loads(capsys.readouterr().out)
    validator = jsonschema.Draft202012Validator(schema_of(command))
    assert [error.message for error in validator.iter_errors(document)] == []
    assert not validator.is_valid(document | {"command": "other"})
    for name in validator.schema["required"]:
        assert not validator.is_valid({k: v for k, v in document.items() if k != name})


@pytest.mark.parametrize("command", COMMANDS)
def test_schemas_are_schemas_and_are_printed(capsys, command):
    jsonschema.Draft202012Validator.check_schema(schema_of(command))
    assert cli.run(["schema", command]) == 0
    assert json.loads(capsys.readouterr().out) == schema_of(command)


def test_every_command_with_json_has_a_schema():
    names = {c.__name__.replace("_", "-") for c in cli.COMMANDS} - {"schema"}
    assert names == set(COMMANDS)


def test_work_is_shown_on_a_terminal_and_not_if_quiet(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    line = ["predict", "good.nc", "--pair", "quick", "--rate", "4", "--json"]
    assert cli.run(line) == 0
    assert "Predicting." in capsys.readouterr().err
    assert cli.run([*line, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
