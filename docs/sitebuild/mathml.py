"""Formulas as MathML, by the converter that docutils brings.

Browsers draw MathML by themselves, so a page needs no script and no request, and a screen reader
can read the formula. MathJax would have to be loaded from a network or kept in this repository;
images of formulas need LaTeX at build time.
"""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


def convert(latex: str, *, block: bool) -> str:
    r"""Return a formula as a MathML element.

    Parameters
    ----------
    latex : str
        The formula, without dollar signs.
    block : bool
        Whether it stands on lines of its own.

    Raises
    ------
    docutils.utils.math.MathError
        If the converter does not know a command.

    Examples
    --------
    >>> "<msup>" in convert("x^2", block=False)
    True
    """
    return str(tex2mathml(latex, as_block=block))


def _write(translator: Any, node: nodes.Element, *, block: bool) -> None:
    try:
        translator.body.append(convert(node.astext(), block=block))
    except MathError as problem:
        _LOGGER.warning("formula not understood: %s", problem, location=node)
        translator.body.append(f"<code>{translator.encode(node.astext())}</code>")
    raise nodes.SkipNode


def _visit_inline(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, block=False)


def _visit_block(translator: Any, node: nodes.Element) -> None:
    _write(translator, node, block=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``, for `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
