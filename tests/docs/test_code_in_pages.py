"""Code in README and in the pages of the site: names, arguments and commands exist."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import bayes_sd
from bayes_sd import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path, language):
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def calls_of(code):
    """Yield (name, keywords) of every use of ``bs.<name>`` in Python code."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "bs":
            yield node.attr, ()
        if (
            isinstance(node, ast.Call)
            and getattr(getattr(node.func, "value", None), "id", "") == "bs"
        ):
            yield node.func.attr, [k.arg for k in node.keywords if k.arg]


def unknown(code):
    """Return what a piece of Python code uses that the package does not have."""
    missing = set()
    for name, keywords in calls_of(code):
        if name not in bayes_sd.__all__:
            missing.add(f"bs.{name}")
            continue
        takes = inspect.signature(getattr(bayes_sd, name)).parameters if keywords else {}
        anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        missing |= {f"bs.{name}({k}=)" for k in keywords if k not in takes and not anything}
    return missing


def commands():
    import typer

    return set(typer.main.get_command(cli.app).commands)


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_python_uses_only_what_there_is(path):
    assert [unknown(code) for code in blocks(path, "python") if unknown(code)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_shell_uses_only_commands_that_there_are(path):
    text = (
        "\n".join(blocks(path, "bash"))
        + "\n"
        + "\n".join(re.findall(r"`([^`\n]+)`", path.read_text()))
    )
    used = set(re.findall(r"(?:^|[\s(])bayes-sd ([a-z][a-z-]*)", text, re.MULTILINE))
    assert used <= commands()


def test_names_of_the_readme_table_exist():
    text = (ROOT / "README.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    named = {n for line in table for n in re.findall(r"`([a-z_]+)(?:\(|`)", line) if "_" in n}
    assert named - set(bayes_sd.__all__) == set()


def test_the_check_can_fail():
    assert unknown("import bayes_sd as bs\nbs.fitt(1)\nbs.fit(1, drawz=3)") == {
        "bs.fitt",
        "bs.fit(drawz=)",
    }
