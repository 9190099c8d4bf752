"""Results that are kept, so that a table which was interrupted goes on where it was.

One JSON file for each data set, split, fold and method. It holds a fingerprint of all that the
result hangs on: runs, masks, settings, versions, and the code that it was computed with. A file
whose fingerprint is another is computed again; a file is written whole or not at all.
"""

import ast
import hashlib
import json
import os
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OWN = ("bayes_sd", "benchmarks")
PACKAGES = ("numpy", "scipy", "pandas", "xarray", "pymc", "nutpie", "scikit-learn", "lightgbm")


def fingerprint(*parts: Any) -> str:
    """Return the SHA-256 of some values: text, numbers, bytes, dicts, lists.

    Examples
    --------
    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    >>> fingerprint({"draws": 500}) == fingerprint({"draws": 501})
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()


@cache
def code_fingerprint(modules: tuple[str, ...]) -> str:
    """Return a fingerprint of modules and of all of ours that they import, without docstrings.

    Parameters
    ----------
    modules : tuple of str
        Where to begin.
    """
    todo, seen = list(modules), {}
    while todo:
        name = todo.pop()
        path = _path(name)
        if name in seen or path is None:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        todo += _imported(tree)
        seen[name] = ast.dump(_without_docstrings(tree))
    return fingerprint({name: seen[name] for name in sorted(seen)})


def _path(name: str) -> Path | None:
    if name.split(".")[0] not in OWN:
        return None
    stem = ROOT.joinpath(*name.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file() and path != ROOT / "bayes_sd" / "__init__.py":
            return path
    return None


def _imported(tree: ast.Module) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
                node.body = body[1:]
    return tree


@cache
def versions() -> dict[str, str]:
    """Return the versions that results hang on; blank for a package that is not there."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


class Cache:
    """A folder of results.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, *key: str) -> Path:
        """Return the file of a result: data set, split, fold, method."""
        return self.folder.joinpath(
            *(re.sub(r"[^A-Za-z0-9.=]+", "-", part) for part in key[:-1])
        ) / (re.sub(r"[^A-Za-z0-9.=]+", "-", key[-1]) + ".json")

    def read(self, key: tuple[str, ...], mark: str) -> dict[str, Any] | None:
        """Return a kept result of this fingerprint, or None."""
        path = self.path(*key)
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError:  # not written by `write`: computed again
            return None
        return found["result"] if found.get("fingerprint") == mark else None

    def write(self, key: tuple[str, ...], mark: str, result: dict[str, Any]) -> None:
        """Keep a result: a new file takes the place of the old one in one step."""
        path = self.path(*key)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"key": list(key), "fingerprint": mark, "result": result}
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(whole, default=float), encoding="utf-8")
        os.replace(temporary, path)

    def get(
        self, key: tuple[str, ...], mark: str, compute: Callable[[], dict[str, Any]]
    ) -> tuple[dict[str, Any], bool]:
        """Return a result, and whether it was kept from before; compute and keep it if not."""
        found = self.read(key, mark)
        if found is not None:
            return found, True
        self.write(key, mark, compute())
        again = self.read(key, mark)
        if again is None:
            raise OSError(f"{self.path(*key)} must hold what was just written to it.")
        return again, False
