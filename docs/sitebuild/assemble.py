"""Gather the sources of the site in one folder, from wherever they live in the repository.

Links between Markdown files are kept: a link to a file that is on the site leads to its page, one
to any other file of the repository becomes its path, as code.
"""

import json
import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
_OF_DOCS = ("*.md", "*.png", "*.svg", "gallery/*.py", "gallery/*.png", "api/*.md")
_OF_ROOT = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "data/README.md",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
    "benchmarks/results/*.png",
    "notebooks/*.ipynb",
)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def sources(root: Path = ROOT) -> dict[Path, Path]:
    """Map each file of the site, relative to the repository, to its place among the sources."""
    found = {}
    for top, patterns in (("docs", _OF_DOCS), ("", _OF_ROOT)):
        for pattern in patterns:
            for path in sorted((root / top).glob(pattern)):
                found[path.relative_to(root)] = path.relative_to(root / top)
    return found


def assemble(target: Path, root: Path = ROOT) -> dict[Path, Path]:
    """Fill a folder with the sources of the site; return what `sources` says.

    Parameters
    ----------
    target : pathlib.Path
        Folder to write; what it held is removed.
    root : pathlib.Path
        Top of the repository.
    """
    shutil.rmtree(target, ignore_errors=True)
    found = sources(root)
    for origin, place in found.items():
        path = target / place
        path.parent.mkdir(parents=True, exist_ok=True)
        if origin.suffix == ".md":
            text = (root / origin).read_text(encoding="utf-8")
            path.write_text(rewrite_links(text, origin, found, root), encoding="utf-8")
        elif origin.suffix == ".ipynb":
            path.write_text(_notebook(origin, found, root), encoding="utf-8")
        else:
            shutil.copyfile(root / origin, path)
    return found


def rewrite_links(text: str, origin: Path, found: dict[Path, Path], root: Path) -> str:
    """Return Markdown whose links fit the site.

    Parameters
    ----------
    text : str
        Markdown.
    origin : pathlib.Path
        Its file, relative to the repository.
    found : dict of pathlib.Path
        See `sources`.
    root : pathlib.Path
        Top of the repository.
    """

    def fitting(match: re.Match[str]) -> str:
        mark, shown, link = match.groups()
        address, _, anchor = link.partition("#")
        if not address or re.match(r"[a-z]+:", address):
            return match.group(0)
        file = Path(os.path.normpath(origin.parent / address))
        here = found[origin].parent
        for page in (file, file / "README.md"):
            if page in found:
                way = os.path.relpath(found[page], here)
                return f"{mark}[{shown}]({way}{'#' + anchor if anchor else ''})"
        if (root / file).exists():
            return f"`{file}`" if shown in (str(file), address) else f"{shown} (`{file}`)"
        return match.group(0)  # Sphinx says that it leads nowhere

    return _LINK.sub(fitting, text)


def _notebook(origin: Path, found: dict[Path, Path], root: Path) -> str:
    book = json.loads((root / origin).read_text(encoding="utf-8"))
    for cell in book["cells"]:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            cell["source"] = rewrite_links(text, origin, found, root)
    return json.dumps(book)
