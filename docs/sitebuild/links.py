"""Check a built site: every link leads somewhere, and no page asks another host for anything."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, as opposed to what a reader may follow.
_LOADED = {"img": "src", "script": "src", "source": "src", "iframe": "src", "video": "src"}
_LOADED_REL = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"}
_CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class _Page(HTMLParser):
    followed: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag in _LOADED and given.get(_LOADED[tag]):
            self.loaded.append(given[_LOADED[tag]])
        if tag == "link" and "href" in given:
            is_loaded = _LOADED_REL & set(given.get("rel", "").split())
            (self.loaded if is_loaded else self.followed).append(given["href"])
        if tag == "a" and "href" in given:
            self.followed.append(given["href"])


def check_site(folder: Path) -> list[str]:
    """Return what is wrong with a built site, one sentence each; empty if nothing is.

    Links to other hosts are checked by their form only, for nothing is asked of a network.

    Parameters
    ----------
    folder : pathlib.Path
        Folder of the built pages.

    Raises
    ------
    FileNotFoundError
        If it holds no page.
    """
    pages = {
        path: _read(path)
        for path in sorted(folder.rglob("*.html"))
        if "_static" not in path.parts  # templates of the theme
    }
    if not pages:
        raise FileNotFoundError(f"{folder} holds no HTML page. Build the site first.")
    faults = []
    for path, page in pages.items():
        where = path.relative_to(folder)
        for link in page.loaded:
            if _is_remote(link):
                faults.append(f"{where} loads {link} from another host")
            elif not link.startswith("data:"):
                faults += _broken(path, link, pages, folder)
        for link in page.followed:
            if _is_remote(link) or urlsplit(link).scheme in ("mailto",):
                faults += [] if _well_formed(link) else [f"{where}: {link} is not an address"]
            else:
                faults += _broken(path, link, pages, folder)
    for sheet in sorted(folder.rglob("*.css")):
        text = sheet.read_text(encoding="utf-8", errors="replace")
        for found in _CSS_URL.finditer(text):
            target = found.group(1) or found.group(2)
            if _is_remote(target):
                faults.append(f"{sheet.relative_to(folder)} loads {target} from another host")
    return faults


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _is_remote(link: str) -> bool:
    return link.startswith("//") or urlsplit(link).scheme in ("http", "https", "ws", "wss")


def _well_formed(link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme == "mailto":
        return "@" in parts.path
    return bool(parts.hostname and "." in parts.hostname) and not re.search(r"[\s<>\"]", link)


def _broken(path: Path, link: str, pages: dict[Path, _Page], folder: Path) -> list[str]:
    parts = urlsplit(link)
    where = path.relative_to(folder)
    if parts.scheme:
        return [f"{where}: {link} has a scheme that no page should have"]
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return [f"{where}: {link} leads nowhere"]
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].ids:
        return [f"{where}: {link} has no such place on its page"]
    return []
