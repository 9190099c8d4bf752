"""A report: one page that shows a fit to somebody who will never install the library."""

import base64
import gzip
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.decide import convergence_note, warn_first
from bayes_sd.exceptions import ArgumentError, BayesSdError
from bayes_sd.report_grid import settings_of
from bayes_sd.report_numbers import numbers_of
from bayes_sd.report_provenance import provenance_of
from bayes_sd.report_requests import RULES, objective_of, page_draws, requests_of
from bayes_sd.scenario import Scenario
from bayes_sd.slo import Slo, as_slo
from bayes_sd.validate import whole_number
from bayes_sd.whole_file import whole_file

INSTALL = (
    "A report needs Jinja2 and vl-convert-python. Install them: pip install 'bayes_sd[report]'"
)
TITLE = "Latency of speculative decoding"


def write_report(
    tree: xr.DataTree,
    path: str | Path,
    *,
    scenarios: Sequence[Scenario] | None = None,
    loads: Sequence[float] | None = None,
    draft_lengths: Sequence[int] | None = None,
    slo: Slo | str | None = None,
    title: str = TITLE,
    random_seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write a fit as one interactive page that needs no network and no server.

    The page holds predictions on a grid of loads, computed here; its sliders move from one point
    of the grid to the next, and nothing is interpolated. Probabilities that a limit is met are
    shares of all draws, at the limits that its slider offers. An objective of one's own may be
    typed: P(SLO met), the share of requests that meet it, goodput, and the draft length for them
    are worked out on the page, from as many draws of the fit as it has room for.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    path : str or Path
        File to write, usually ``*.html``.
    scenarios : sequence of Scenario, optional
        What to show: pair, lengths, acceptance, arrivals. Their draft length and load are not
        used. By default the lengths and acceptance that most runs of each pair had.
    loads : sequence of float, optional
        Requests per second (in flight for a closed loop), increasing; by default a grid up to a
        little above capacity.
    draft_lengths : sequence of int, optional
        By default 0 (off) and those measured with the pair.
    slo : Slo or str, optional
        The objective that the page begins with, such as ``"e2e_p95 <= 2.0"``; its reader may type
        another. By default one on p95 of the first pair.
    title : str
        Heading of the page.
    random_seed : int
        Seed of the predictions; the same call of the library with it gives the page's numbers.
    progress : callable, optional
        Called with one line of text per setting.

    Returns
    -------
    pathlib.Path
        The file written: one page of HTML.

    Raises
    ------
    ArgumentError, UnknownPairError, DataError
        As `predict_latency` and `slo_attainment`; or if the file cannot be written, or a library
        is missing.

    Warns
    -----
    ConvergenceWarning
        If the fit did not pass `diagnose`; the page says so first, too.

    Examples
    --------
    >>> write_report(tree, "report.html")  # doctest: +SKIP
    PosixPath('report.html')
    """
    whole_number(random_seed, "random_seed", minimum=0)
    if not isinstance(tree, xr.DataTree) or "constant_data" not in tree.children:
        raise ArgumentError(f"tree must be the result of fit. Got {type(tree).__name__} instead.")
    target = Path(path)
    if target.is_dir():
        raise ArgumentError(f"{target} cannot be written: it is a folder. Name a file in it.")
    if not target.parent.is_dir():
        raise ArgumentError(
            f"{target} cannot be written: folder {str(target.parent)!r} does not exist. "
            "Make it first."
        )
    _libraries()
    asked = None if slo is None else as_slo(slo)
    warn_first(tree)
    settings, left_out = settings_of(tree, scenarios, loads, draft_lengths, random_seed=random_seed)
    numbers, few = [], page_draws(tree, settings)
    for i, setting in enumerate(settings):
        if progress is not None:
            progress(f"{i + 1} of {len(settings)}: {setting.pair}, {setting.label}")
        found = numbers_of(tree, setting, random_seed=random_seed)
        numbers.append(found | {"requests": requests_of(few, setting, random_seed=random_seed)})
    about = provenance_of(tree) | {"left_out": left_out, "random_seed": random_seed}
    objective = objective_of(tree, settings, numbers, asked)
    page = render_page(numbers, about, convergence_note(tree), objective, title)
    with whole_file(target, BayesSdError) as part:
        part.write_text(page, encoding="utf-8", newline="\n")
    return target


def render_page(
    settings: list[dict[str, Any]],
    about: dict[str, Any],
    note: str,
    objective: str,
    title: str = TITLE,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    settings : list of dict
        Results of `bayes_sd.report_numbers.numbers_of`, with ``requests``.
    about : dict
        Result of `bayes_sd.report_provenance.provenance_of`, with ``left_out`` and
        ``random_seed``.
    note : str
        What must be said first about the fit; empty if it passed.
    objective : str
        The objective that the page begins with.
    title : str
        Heading.

    Notes
    -----
    Text of the data reaches the page in two ways only: through Jinja2, which escapes it, and
    inside a packed block of JSON, whose signs are letters, digits, ``+``, ``/`` and ``=``. The
    page's policy lets no script run but those whose hash it names, and no request leave.
    """
    jinja2, vl_convert = _libraries()
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    scripts = [
        f"(() => {{\n{bundle}\n}})();",  # its names are its own
        _asset("charts.js"),
        _asset("tables.js"),
        _asset("objective.js"),
        _asset("report.js"),
    ]
    scripts = [text.replace("</script", "<\\/script") for text in scripts]
    hashes = " ".join(f"'sha256-{_sha256(text)}'" for text in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    safe = jinja2.utils.markupsafe.Markup
    return str(
        environment.from_string(_asset("page.html")).render(
            title=title,
            note=note,
            about=about,
            policy=policy,
            version=_version(),
            style=safe(_asset("style.css")),
            scripts=[safe(text) for text in scripts],
            data=packed_json({"settings": settings, "objective": objective, "rules": RULES}),
        )
    )


def embedded_json(document: Any) -> str:
    r"""Return JSON that may stand inside a script element of a page.

    Parameters
    ----------
    document : object
        Plain values and arrays. Numbers have ten significant digits; those that are not finite
        become text, such as ``"inf"``.

    Examples
    --------
    >>> print(embedded_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(_plain(document), separators=(",", ":"), allow_nan=False)
    for sign, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(sign, escape)
    return text


def packed_json(document: Any) -> str:
    """Return JSON as the page holds it: gzip, then base64.

    Parameters
    ----------
    document : object
        As `embedded_json`.
    """
    text = embedded_json(document).encode("utf-8")
    return base64.b64encode(gzip.compress(text, 9, mtime=0)).decode("ascii")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return value


def _libraries() -> tuple[Any, Any]:
    """Return Jinja2 and vl-convert, or say what to install."""
    try:
        import jinja2
        import vl_convert
    except ImportError as error:
        raise ArgumentError(f"{INSTALL} ({error.name} is missing.)") from error
    return jinja2, vl_convert


def _asset(name: str) -> str:
    return files("bayes_sd").joinpath("report_page", name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _version() -> str:
    try:
        return version("bayes_sd")
    except PackageNotFoundError:
        return "unknown"
