"""Names between single backticks in docstrings: a link where the name has a page, else code."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import bayes_sd
from bayes_sd import physics

PHYSICS_MODULES = tuple(sorted(m.name for m in iter_modules(physics.__path__)))


def documented() -> dict[str, str]:
    """Map each short name that has a place in the reference to its full name.

    Examples
    --------
    >>> documented()["fit"]
    'bayes_sd.fit'
    """
    found = {}
    for name in PHYSICS_MODULES:
        path = f"bayes_sd.physics.{name}"
        found[path] = path
        module = vars(import_module(path))
        own = [k for k, v in module.items() if getattr(v, "__module__", None) == path]
        for each in own:
            if not each.startswith("_"):
                found[each] = found[f"{path}.{each}"] = f"{path}.{each}"
    for name in bayes_sd.__all__:
        if not name.startswith("_"):
            found[name] = found[f"bayes_sd.{name}"] = f"bayes_sd.{name}"
    return found


_DOCUMENTED = documented()


def name_role(
    role: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Turn a name between backticks into a link, or into code where nothing is to be linked."""
    del role, lineno, inliner
    shown = nodes.literal(rawtext, text.removeprefix("~"))
    target = _DOCUMENTED.get(text.removeprefix("~").removesuffix("()"))
    if target is None:
        return [shown], []
    kind = "mod" if target.removeprefix("bayes_sd.physics.") in PHYSICS_MODULES else "obj"
    return [pending_xref(rawtext, shown, refdomain="py", reftype=kind, reftarget=target)], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role ``name``, for `default_role`."""
    app.add_role("name", name_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
