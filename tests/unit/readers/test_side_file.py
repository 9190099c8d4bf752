"""TOML files of side information that cannot be: refused, with the line and what to do."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayes_sd.exceptions import ArgumentError, BayesSdError, FormatError
from bayes_sd.readers.side_information import SideInformation


@pytest.fixture
def side(tmp_path):
    """Read side information from a text."""

    def read(text):
        path = tmp_path / "side.toml"
        path.write_text(text, encoding="utf-8")
        return SideInformation.from_arguments(path, {})

    return read


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("[runs\n", FormatError, "line 1"),
        ("[runs]\nverifier = Qwen\n", FormatError, "at line 2"),
        ('verifier = "a"\n', FormatError, "line 1: side information must stand under [runs]"),
        ('[run]\nverifier = "a"\n', FormatError, "Got 'run' instead"),
        ("runs = 3\n", FormatError, "runs must be a table"),
        ('[files]\nmatch = "a"\n', FormatError, "with two brackets"),
        ('[[files]]\nverifier = "a"\n', FormatError, "line 1: a section [[files]] must have match"),
        ("[[files]]\nmatch = 3\n", FormatError, "line 2: match must be a glob"),
        ('[[files]]\nmatch = ""\n', FormatError, "match must be a glob"),
        (
            "[[files]]\npattern = ['a']\n",
            FormatError,
            "line 2: pattern must be a regular expression",
        ),
        ("\n[[files]]\n\npattern = 'k(\\d'\n", FormatError, "line 4: pattern must be a regular"),
        ("[[files]]\npattern = 'a{99999999999}'\n", FormatError, "regular expression"),
        ("[[files]]\npattern = '" + "(" * 5000 + ")" * 5000 + "'\n", FormatError, "regular"),
        ("[runs]\nk = 3\n", ArgumentError, "line 2: side information must be columns"),
        ("[runs]\nk = 3\n", ArgumentError, "Did you mean num_speculative_tokens?"),
        ('[runs]\nmatch = "a"\n', ArgumentError, "Got 'match' instead"),
        ("[runs]\nengine_version = 0.10\n", ArgumentError, "Put it in quotes"),
        ("[runs]\nnum_requests = 0\n", ArgumentError, "line 2: num_requests must be"),
        ("[runs]\nnum_requests = {a = 1}\n", ArgumentError, "Got an object of 1"),
        ('[runs]\n"method" = "mpt"\n', ArgumentError, "line 2: method must be one of"),
        ("[runs]\nverifier = '{model}'\n", ArgumentError, "{model} must be a named group"),
        ("[runs]\nverifier = '{verifer}'\n", ArgumentError, "Did you mean {verifier}?"),
        ("[runs]\nverifier = '{'\n", ArgumentError, "braces must hold a name"),
        ("[runs]\nverifier = '{verifier.x}'\n", ArgumentError, "braces must hold a name"),
        ("[runs]\nverifier = '{drafter:>9}'\n", ArgumentError, "braces must hold a name"),
        ("[runs]\nverifier = '{}'\n", ArgumentError, "braces must hold a name"),
        (
            "[[files]]\npattern = '(?P<rep>a)'\nsweep_id = '{reo}'\n",
            ArgumentError,
            "line 3: {reo} must be a named group of the section's pattern (rep)",
        ),
        ("[runs]\nnum_requests = " + "9" * 5000, (FormatError, ArgumentError), ""),
        ("runs = " + "[" * 5000, FormatError, ""),
    ],
)
def test_toml_files_that_cannot_be(side, text, error, words):
    with pytest.raises(error, match=r"side\.toml") as caught:
        side(text)
    assert words in str(caught.value)


def test_toml_file_that_cannot_be_read(tmp_path):
    for name, content in (("none.toml", None), ("latin.toml", b"[runs]\nhardware = '\xe9'")):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(FormatError, match=name):
            SideInformation.from_arguments(path, {})
    with pytest.raises(FormatError, match="cannot be read"):
        SideInformation.from_arguments(tmp_path, {})


def test_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "side.toml"
    path.write_bytes(b"\xef\xbb\xbf[runs]\nhardware = 'L4'\n")
    found = SideInformation.from_arguments(path, {})
    assert found.cells(Path("a"), "", {})[0] == {"hardware": "L4"}


@given(st.text(max_size=80), st.sampled_from(["", "[runs]\n", "[[files]]\npattern = 'a'\n"]))
def test_any_toml_is_taken_or_refused(tmp_path_factory, text, start):
    path = tmp_path_factory.mktemp("any") / "side.toml"
    path.write_text(start + text, encoding="utf-8")
    try:
        SideInformation.from_arguments(path, {}).cells(Path("a"), "", {})
    except BayesSdError:
        return
