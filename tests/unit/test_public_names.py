"""The package's top: its four lists of names agree, and each name is what it says."""

import ast
import importlib
import inspect
import pkgutil
from importlib.metadata import version
from pathlib import Path

import pytest

import bayes_sd

MODULE_OF = bayes_sd._MODULE_OF
TOP = ast.parse(Path(bayes_sd.__file__).read_text(encoding="utf-8"))


def names_for_type_checkers() -> dict[str, str]:
    """Map each name imported under ``if TYPE_CHECKING`` to its module, as in ``_MODULE_OF``."""
    imports = (node for node in ast.walk(TOP) if isinstance(node, ast.ImportFrom))
    return {
        alias.name: node.module.removeprefix("bayes_sd.")
        for node in imports
        if node.module.startswith("bayes_sd.")
        for alias in node.names
    }


@pytest.fixture(params=sorted(MODULE_OF))
def public(request, monkeypatch):
    """Return a public name's module and object, loaded after the module, as a user's might be."""
    module = importlib.import_module(f"bayes_sd.{MODULE_OF[request.param]}")
    monkeypatch.delitem(vars(bayes_sd), request.param, raising=False)
    return module, request.param, getattr(bayes_sd, request.param)


def test_lists_of_names_agree():
    assert set(bayes_sd.__all__) == {*MODULE_OF, "__version__"}
    assert names_for_type_checkers() == MODULE_OF
    assert set(bayes_sd.__all__) <= set(dir(bayes_sd))
    assert len(bayes_sd.__all__) == len(set(bayes_sd.__all__))


def test_no_public_name_is_a_submodule():
    submodules = {module.name for module in pkgutil.iter_modules(bayes_sd.__path__)}
    assert "schema" in submodules
    assert not submodules & set(bayes_sd.__all__)


def test_public_name_is_its_modules_object(public):
    module, name, value = public
    assert value is getattr(module, name)
    assert not inspect.ismodule(value)
    assert value.__module__ == module.__name__


# Columns of the schema by name, and terms of an objective: any number, each checked by itself.
ANY_NUMBER = {("read_runs", "columns"), ("read_report", "columns"), ("Slo", "terms")}


def test_public_name_is_documented_without_catch_all_arguments(public):
    _, name, value = public
    page = inspect.getdoc(value)
    assert page, f"{name} has no docstring"
    for parameter in inspect.signature(value).parameters.values():
        if (name, parameter.name) in ANY_NUMBER:
            assert f"*{parameter.name}" in page
            continue
        assert parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD), (
            f"{name} takes {parameter}: name each argument"
        )
        assert parameter.name in page, f"{name} does not document {parameter.name}"


def test_version_is_the_installed_one():
    assert bayes_sd.__version__ == version("bayes_sd")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'bayes_sd' has no attribute 'predict_latencies'"):
        _ = bayes_sd.predict_latencies
