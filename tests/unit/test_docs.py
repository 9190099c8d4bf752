"""The documentation site: every public name has its place in the reference, and links are checked.

The site itself is built by `docs/build.py`, a step of the whole check.
"""

import sys
from pathlib import Path

import pytest

import bayes_sd

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def site(monkeypatch):
    """Let the modules of the site's builder be imported as they are by `docs/build.py`."""
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] == "sitebuild"]:
        del sys.modules[name]


def test_the_reference_names_each_public_name_once(site):
    from sitebuild.api_groups import grouped_names

    assert sorted(grouped_names()) == sorted(set(bayes_sd.__all__) - {"__version__"})


def test_a_broken_link_and_a_missing_picture_are_found(site, tmp_path):
    from sitebuild.links import check_site

    (tmp_path / "index.html").write_text('<html><body><a href="index.html">x</a></body></html>')
    assert check_site(tmp_path) == []
    (tmp_path / "other.html").write_text(
        '<html><body><a href="gone.html">x</a><img src="gone.png" alt="x"></body></html>'
    )
    faults = check_site(tmp_path)
    assert any("gone.html" in f for f in faults)
    assert any("gone.png" in f for f in faults)
