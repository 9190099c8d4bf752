"""Docstrings of public names, by numpydoc's own checks, as the reference shows them."""

import inspect

import pytest

import bayes_sd

validate = pytest.importorskip("numpydoc.validate", reason="the group docs is not installed")

# Codes of numpydoc.validate: sections and their order, the summary, parameters, returns.
CHECKED = {
    "GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09",
    "SS01", "SS02", "SS03", "SS04", "SS05", "SS06",
    "PR01", "PR02", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10",
    "RT01", "RT03", "RT04", "RT05", "YD01",
}  # fmt: skip
PUBLIC = sorted(set(bayes_sd.__all__) - {"__version__"})


def faults(name: str) -> set[str]:
    """Return codes and messages; fields of a value may stand under Attributes."""
    value = getattr(bayes_sd, name)
    found = validate.validate(f"bayes_sd.{name}")["errors"]
    if inspect.isclass(value) and "Attributes\n" in (inspect.getdoc(value) or ""):
        found = [(code, said) for code, said in found if code != "PR01"]
    return {f"{code} {said}" for code, said in found if code in CHECKED}


@pytest.mark.parametrize("name", PUBLIC)
def test_docstring_has_its_sections(name):
    assert not faults(name)


@pytest.mark.parametrize("name", [n for n in PUBLIC if inspect.isclass(getattr(bayes_sd, n))])
def test_every_field_of_a_value_is_explained(name):
    value = getattr(bayes_sd, name)
    page = inspect.getdoc(value)
    for field in getattr(value, "__dataclass_fields__", {}):
        assert field.startswith("_") or field in page, f"{name}.{field}"


@pytest.mark.parametrize("name", [n for n in PUBLIC if inspect.isroutine(getattr(bayes_sd, n))])
def test_a_function_has_an_example(name):
    assert ">>>" in inspect.getdoc(getattr(bayes_sd, name))


def test_the_check_can_fail(monkeypatch):
    def bare(x):
        """Return nothing of note"""
        return x

    monkeypatch.setattr(bayes_sd, "fit", bare)
    assert {fault[:4] for fault in faults("fit")} >= {"SS03", "PR01"}
