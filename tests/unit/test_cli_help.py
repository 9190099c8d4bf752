"""Help, version and entry point of the command line."""

import shlex
import subprocess
import sys
import time

import pytest
import typer

import bayes_sd
from bayes_sd import cli
from bayes_sd.cli_help import EXAMPLES

COMMANDS = tuple(c.__name__.replace("_", "-") for c in cli.COMMANDS)


@pytest.fixture
def call(capsys):
    """Return a function that runs a command line: status, stdout, stderr."""

    def run(line: str) -> tuple[int, str, str]:
        status = cli.run(line.split())
        return status, *capsys.readouterr()

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_an_example_and_json(call, command):
    status, out, _ = call(f"{command} --help")
    assert status == 0
    assert f"Examples:\n    bayes-sd {command}" in out
    assert ("--json" in out and "--quiet" in out) or command == "schema"
    assert "Exit status:" in out
    assert "list[" not in out.partition("Options:")[2]  # the words of Python's types


def test_top_help_lists_the_commands_in_full_sentences(call):
    status, out, _ = call("--help")
    assert status == 0
    listed = {words[0]: line for line in out.splitlines() if (words := line.split())}
    assert all(listed[name].endswith(".") and "..." not in listed[name] for name in COMMANDS)
    assert call("")[0] == 2


def test_version(call):
    assert call("--version") == (0, f"bayes-sd {bayes_sd.__version__}\n", "")


def test_main_exits_with_the_status(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bayes-sd", "check", "absent.nc"])
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    assert exit_info.value.code == 2
    assert issubclass(typer.BadParameter, cli.USAGE_ERROR)


def test_help_is_quick_and_loads_no_large_library():
    code = "import sys; from bayes_sd.cli import run; run(['--help']); print(*sys.modules)"
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert time.perf_counter() - begun < 5  # about 0.2 s; a busy machine gets the rest
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "pandas", "xarray", "pymc", "matplotlib", "nutpie", "scipy"}


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_examples_name_options_that_exist(line):
    words = shlex.split(line.split(" | ")[0].split(" > ")[0])[1:]
    root = typer.main.get_command(cli.app)
    command = root.commands[words[0]]
    context = command.make_context(words[0], words[1:])  # raises if an option is not known
    assert context.params


def test_completion_offers_commands_and_words(monkeypatch, call, capsys):
    monkeypatch.setenv("_BAYES_SD_COMPLETE", "complete_bash")
    for words, offered in (
        ("bayes-sd ch", {"check", "choose"}),
        ("bayes-sd predict fit.nc --kind r", {"run", "request"}),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        with pytest.raises(SystemExit, match="0"):
            call("")
        assert set(capsys.readouterr().out.split()) == offered
