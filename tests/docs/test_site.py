"""The documentation site: sources that fit, links that hold, every public name in its reference."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import bayes_sd

ROOT = Path(__file__).parents[2]
pytest.importorskip("sphinx", reason="the group docs is not installed")
sys.path.insert(0, str(ROOT / "docs"))

from docutils.utils.math import MathError  # noqa: E402
from sitebuild import api_groups, assemble, links, mathml, names, pages  # noqa: E402

GOOD = '<h1 id="top">Page</h1><a href="b.html#part">b</a><a href="https://arxiv.org/abs/1">x</a>'


@pytest.fixture
def site(tmp_path):
    """Return a site of two pages without a fault, and a way to add to the first."""
    (tmp_path / "b.html").write_text('<h2 id="part">Part</h2><img src="data:image/png;base64,">')

    def with_(html=""):
        (tmp_path / "a.html").write_text(GOOD + html)
        return links.check_site(tmp_path)

    return with_


def test_a_site_without_fault_has_none(site):
    assert site() == []


@pytest.mark.parametrize(
    ("html", "said"),
    [
        ('<a href="c.html">c</a>', "c.html leads nowhere"),
        ('<a href="b.html#other">b</a>', "no such place"),
        ('<a href="#bottom">b</a>', "no such place"),
        ('<img src="figure.png">', "figure.png leads nowhere"),
        ('<img src="https://example.org/x.png">', "from another host"),
        ('<script src="//cdn.example.org/m.js"></script>', "from another host"),
        ('<link rel="stylesheet" href="https://example.org/a.css">', "from another host"),
        ('<a href="https://nowhere">x</a>', "is not an address"),
        ('<a href="javascript:void(0)">x</a>', "scheme"),
    ],
)
def test_a_fault_is_found_and_named(site, html, said):
    (fault,) = site(html)
    assert said in fault
    assert fault.startswith("a.html")


def test_a_style_sheet_that_asks_another_host_is_a_fault(site, tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.org/f.woff2') }")
    assert site() == ["a.css loads https://example.org/f.woff2 from another host"]


def test_a_folder_without_pages_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no HTML page"):
        links.check_site(tmp_path)


def test_every_public_name_is_in_the_reference_once():
    listed = api_groups.grouped_names()
    assert sorted(listed) == sorted(set(bayes_sd.__all__) - {"__version__"})
    page = pages.api_page()
    assert [n for n in listed if not re.search(rf"^   {n}$", page, re.MULTILINE)] == []


def test_names_in_backticks_lead_to_what_they_name():
    known = names.documented()
    assert known["fit"] == "bayes_sd.fit"
    assert known["request_latency"] == "bayes_sd.physics.latency.request_latency"
    assert "np" not in known
    assert "Any" not in known


def test_links_follow_the_files_to_their_places():
    found = assemble.sources() | {Path("docs/results.md"): Path("results.md")}

    def moved(text, origin):
        return assemble.rewrite_links(text, Path(origin), found, ROOT)

    assert moved("[a](../ARCHITECTURE.md#how)", "docs/results.md") == "[a](ARCHITECTURE.md#how)"
    assert moved("[a](../docs/reading.md)", "data/README.md") == "[a](../reading.md)"
    assert moved("[b](../bayes_sd/model.py)", "docs/results.md") == "b (`bayes_sd/model.py`)"
    assert moved("[d](data)", "CHANGELOG.md") == "[d](data/README.md)"
    for kept in ("[c](#part)", "<x>", "[e](https://arxiv.org/abs/1)", "[f](nowhere.md)"):
        assert moved(kept, "docs/results.md") == kept


def test_formulas_of_the_pages_are_understood():
    text = "\n".join(p.read_text() for p in (ROOT / "docs").glob("*.md"))
    blocks = re.findall(r"\$\$(.*?)\$\$", text, re.DOTALL)
    inline = re.findall(r"(?<![\$\\])\$([^\$\n]+)\$(?!\$)", text)
    assert len(blocks) > 10
    assert all("<math" in mathml.convert(b.strip(), block=True) for b in blocks)
    assert all("<math" in mathml.convert(i, block=False) for i in inline)
    with pytest.raises(MathError):
        mathml.convert(r"\nosuchcommand{x}", block=False)


def test_the_columns_and_priors_are_those_of_the_library():
    from bayes_sd.schema import column_names

    page = pages.columns_page()
    assert all(f"| `{name}` |" in page for name in column_names())
    assert all(f"| `{name}` |" in pages.priors_page() for name in bayes_sd.default_priors())


def test_every_figure_of_the_gallery_has_its_script():
    page = pages.gallery_page(ROOT / "docs" / "gallery")
    for png in (ROOT / "docs" / "gallery").glob("*.png"):
        assert f"gallery/{png.stem}.png" in page
        assert f"gallery/{png.stem}.py" in page


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_without_a_network(tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "build.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "html" / "api" / "index.html").read_text()
    for name in api_groups.grouped_names():
        assert f'href="generated/bayes_sd.{name}.html#bayes_sd.{name}"' in page
