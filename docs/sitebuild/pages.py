"""Pages that are written by the build: reference, columns, priors, gallery, notebooks, results."""

import ast
import json
import re
from collections.abc import Iterable
from pathlib import Path

from sitebuild.api_groups import GROUPS
from sitebuild.names import PHYSICS_MODULES


def write_pages(target: Path) -> None:
    """Write the pages into the assembled sources.

    Parameters
    ----------
    target : pathlib.Path
        Folder that `sitebuild.assemble.assemble` filled.
    """
    _write(target / "api" / "index.md", api_page())
    for title, sentence, names in GROUPS:
        page = group_page(title, sentence, names)
        _write(target / "api" / f"{group_slug(title)}.md", page)
    _write(target / "api" / "formulas.md", formulas_page())
    _write(target / "columns.md", columns_page())
    _write(target / "priors.md", priors_page())
    _write(target / "gallery.md", gallery_page(target / "gallery"))
    _write(target / "notebooks" / "index.md", notebooks_page(target / "notebooks"))
    _write(target / "benchmarks" / "index.md", results_page(target / "benchmarks" / "results"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _linked(sentence: str) -> str:
    return re.sub(r"`(\w+)`", r"{py:obj}`~bayes_sd.\1`", sentence)


def _summary(names: Iterable[str], option: str) -> str:
    listed = "\n".join(f"   {name}" for name in names)
    return (
        "```{eval-rst}\n.. currentmodule:: bayes_sd\n\n"
        f".. autosummary::\n{option}   :nosignatures:\n\n{listed}\n```"
    )


def group_slug(title: str) -> str:
    """Return the name of a group's page."""
    return title.lower().replace(" ", "-")


def api_page() -> str:
    """Return the reference: every public name, by task."""
    parts = [
        "# Reference",
        "Everything that `import bayes_sd as bs` offers, in the order in which it is used. Values"
        " are small frozen dataclasses; most have `to_frame()`, `to_dict()` and `statement()`.",
    ]
    for title, sentence, names in GROUPS:
        parts.append(f"## {title}\n\n{_linked(sentence)}\n\n{_summary(names, '')}")
    pages = "\n".join([*(group_slug(title) for title, _, _ in GROUPS), "formulas", "errors"])
    parts.append(
        "## More\n\n- [Formulas](formulas.md): `bayes_sd.physics`, NumPy only.\n"
        "- [Errors and warnings](errors.md).\n"
        "- [Columns of a table of runs](../columns.md).\n\n"
        f"```{{toctree}}\n:hidden:\n\n{pages}\n```"
    )
    return "\n\n".join(parts) + "\n"


def group_page(title: str, sentence: str, names: Iterable[str]) -> str:
    """Return the page of one task, above the pages of its names."""
    summary = _summary(names, "   :toctree: generated\n")
    return f"# {title}\n\n{_linked(sentence)}\n\n{summary}\n"


def formulas_page() -> str:
    """Return the formulas of ``bayes_sd.physics``, module by module."""
    modules = "\n\n".join(
        f"{name.replace('_', ' ').capitalize()}\n{'-' * 30}\n\n"
        f".. automodule:: bayes_sd.physics.{name}\n   :members:"
        for name in PHYSICS_MODULES
    )
    return (
        "# Formulas\n\n`bayes_sd.physics` needs NumPy at most. Each formula is written once"
        " and runs"
        " on floats, NumPy arrays, labelled arrays and PyTensor variables.\n\n"
        f"````{{eval-rst}}\n{modules}\n````\n"
    )


def columns_page() -> str:
    """Return the columns of a table of runs, as the schema has them."""
    from bayes_sd.schema import COLUMNS

    rows = (
        (f"`{c.name}`", c.unit, c.allowed(), "yes" if c.required else "", c.meaning)
        for c in COLUMNS
    )
    return (
        "# Columns of a table of runs\n\nOne row is one benchmark run; times are seconds. "
        "A column that is not required may be missing, and its cells may be blank. "
        "This is the table of `bayes_sd.schema`; [reading files](reading.md) says how it is filled,"
        " [the glossary](glossary.md) what the words mean.\n\n"
        + _table(("column", "unit", "allowed", "required", "meaning"), rows)
    )


def priors_page() -> str:
    """Return every default prior with its unit and reason."""
    import bayes_sd

    priors = bayes_sd.default_priors()
    rows = (
        (f"`{name}`", p.family, f"{p.center:g}", f"{p.spread:g}", p.unit, p.reason)
        for name, p in priors.items()
    )
    return (
        "# Priors\n\nWhat the model believes before it has seen a run, by "
        "{py:obj}`~bayes_sd.default_priors`; give "
        "{py:obj}`~bayes_sd.build_model` your own where you know better. "
        "{py:obj}`~bayes_sd.prior_predictive_latency` shows what they imply, "
        "{py:obj}`~bayes_sd.prior_sensitivity` what hangs on them. Centers of costs are"
        " medians for a "
        "verifier of 8e9 parameters, a drafter of 0.5e9 and prompts of 512 tokens on a data-centre "
        "GPU; they go with size by the exponents below, and are moved for a CPU. The spread of a "
        "log-normal is that of the logarithm.\n\n"
        + _table(("prior", "family", "center", "spread", "unit", "reason"), rows)
    )


def gallery_page(folder: Path) -> str:
    """Return each figure with the script that draws it."""
    parts = [
        "# Gallery",
        "One figure per question. Each is drawn by the script below it from one fit, with "
        "`python docs/gallery/run_all.py`.",
    ]
    for script in sorted(folder.glob("*.py")):
        if not script.with_suffix(".png").exists():
            continue
        says = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem
        first, _, rest = says.partition("\n\n")
        title = " ".join(first.split()).rstrip(".")
        parts.append(
            f"## {title}\n\n{rest}\n\n![{title}](gallery/{script.stem}.png)\n\n"
            f"```{{literalinclude}} gallery/{script.name}\n:language: python\n```"
        )
    return "\n\n".join(parts) + "\n"


def notebooks_page(folder: Path) -> str:
    """Return the list of notebooks, each with its first words."""
    parts = [
        "# Notebooks",
        "One question each, shown with the outputs of a full run. They are in `notebooks/`; the "
        "tests run them with few draws.",
    ]
    names = []
    for path in sorted(folder.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = next("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        blocks = [b.strip() for b in text.split("\n\n") if b.strip()]
        title = blocks[0].lstrip("# ").strip()
        lead = " ".join(blocks[1].split()) if len(blocks) > 1 else ""
        parts.append(f"**[{title}]({path.name})**<br>{lead}")
        names.append(path.stem)
    listed = "\n".join(names)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{listed}\n```"]) + "\n"


def results_page(folder: Path) -> str:
    """Return the list of measured results, beside the commands that print them."""
    names = sorted(path.stem for path in folder.glob("*.md"))
    listed = "\n".join(f"results/{name}" for name in names)
    return (
        "# Benchmarks\n\nEvery figure is printed by a command of [the list of benchmarks]"
        "(README.md) and kept here as it was printed.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n\nREADME\n{listed}\n```\n"
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in r] for r in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
