"""Metrics pages of a vLLM server, before and after a run.

What the counters gained between two pages is a run: `bayes_sd.readers.scrapes`. The pages are two
files whose names differ by ``before`` and ``after`` (or ``start`` and ``end``), or stand in one
file under lines ``# before`` and ``# after``, each of which may end in the Unix time of its page.
"""

import re
from collections.abc import Collection
from pathlib import Path

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers.content import Content
from bayes_sd.readers.metrics_page import MetricsPage, parse_page
from bayes_sd.readers.reading import Cells, Reading
from bayes_sd.readers.scrapes import difference

MARK = re.compile(
    r"^#[ \t]*(?P<word>before|after)[ \t]*(?P<time>\d+(?:\.\d*)?)?[ \t]*\r?$",
    re.MULTILINE | re.IGNORECASE,
)
PAGE_LINE = re.compile(
    r"^(?:# (?:TYPE|HELP) [a-zA-Z_:][a-zA-Z0-9_:]*[ \t]|(?:vllm|sglang):[a-zA-Z0-9_:]+[ \t{])",
    re.MULTILINE,
)
WORDS = {"before": "after", "start": "end"}
WORD = re.compile(r"(?<![a-z])(before|after|start|end)(?![a-z])", re.IGNORECASE)
REMEDY = (
    "Counters of one page are of all that the server ever did, not of a run. Give the page before "
    "and the page after it: as NAME.before.txt and NAME.after.txt, beside a result file called "
    "NAME.json if there is one."
)


def recognises_text(head: str) -> bool:
    """Tell whether a text begins as a metrics page does."""
    return PAGE_LINE.search(head) is not None


def read(content: Content) -> Reading:
    """Read a file that holds the pages before and after a run, or one whose partner is beside it.

    Parameters
    ----------
    content : Content
        The file. A page whose name tells that it is the one before or after is read together with
        its partner in the same folder.
    """
    reading = Reading()
    try:
        cells, notes = read_pair(content)
        if not cells.get("num_requests", 0) > 0:
            raise FormatError(
                "no request finished between the pages (vllm:request_success_total), so they say "
                "nothing of latency. Take the second page after the run."
            )
    except BayesSdError as error:
        reading.skipped.append(str(error))
        return reading
    for message in notes:
        reading.note(message)
    reading.add(cells)
    return reading


def read_pair(
    content: Content, after: Content | None = None, *, silent_on: Collection[str] = ()
) -> tuple[Cells, list[str]]:
    """Return what a server did between two pages.

    Parameters
    ----------
    content : Content
        The page before, or a file that holds both.
    after : Content, optional
        The page after. By default it is in the same file, or in the file beside it.
    silent_on : collection of str
        As of `bayes_sd.readers.scrapes.difference`.

    Returns
    -------
    cells : dict
        As of `bayes_sd.readers.scrapes.difference`.
    notes : list of str
        What was assumed, or looks wrong.

    Raises
    ------
    FormatError
        If there is one page only, or two that are not of one server.
    """
    if after is not None:
        return difference(*_pages(content, after), silent_on=silent_on)
    text = content.text()
    pages = split_pages(text)
    if pages is not None:
        return difference(*pages, silent_on=silent_on)
    other = partner(content.path)
    if other is None:
        parse_page(text, "")  # whatever is wrong with it is told first
        raise FormatError(f"the file holds one metrics page. {REMEDY}")
    is_second = word_of(content.path.name) in WORDS.values()
    ends = (Content(other), content) if is_second else (content, Content(other))
    cells, notes = difference(*_pages(*ends), silent_on=silent_on)
    return cells, [f"read together with {other.name}, the page at the run's other end.", *notes]


def split_pages(text: str) -> tuple[MetricsPage, MetricsPage] | None:
    """Return the pages under ``# before`` and ``# after``; None if the text is one page.

    Raises
    ------
    FormatError
        If the lines stand otherwise than once each, in this order, or a page is none of vLLM.
    """
    marks = list(MARK.finditer(text))
    words = [mark["word"].lower() for mark in marks]
    if words in ([], ["before"]):
        return None
    if words not in (["before", "after"], ["after"]):
        raise FormatError(
            "the file must have one line '# before' and below it one line '# after'. Got "
            f"{len(words)} such lines ({', '.join(words[:6])}) instead. Give one file for each run."
        )
    first = (
        text[marks[0].end() : marks[-1].start()] if len(marks) == 2 else text[: marks[0].start()]
    )
    before, after = parse_page(first, "before"), parse_page(text[marks[-1].end() :], "after")
    for page, mark in ((before, marks[0]), (after, marks[-1])):
        if mark["time"] and mark["word"].lower() == page.place:
            page.time_s = float(mark["time"])
    return before, after


def word_of(name: str) -> str:
    """Return the word of a page's name that says which end of the run it is of; empty if none.

    Examples
    --------
    >>> word_of("rate2_metrics_before.txt"), word_of("calendar.txt")
    ('before', '')
    """
    found = WORD.findall(name)
    return found[-1].lower() if found else ""


def partner(path: Path) -> Path | None:
    """Return the page of the run's other end, which has the same name but for one word."""
    words = list(WORD.finditer(path.name))
    if not words:
        return None
    last = words[-1]
    others = WORDS | {end: start for start, end in WORDS.items()}
    word = others[last[0].lower()]
    word = word.upper() if last[0].isupper() else word.capitalize() if last[0].istitle() else word
    other = path.with_name(path.name[: last.start()] + word + path.name[last.end() :])
    return other if other.is_file() else None


def _pages(before: Content, after: Content) -> tuple[MetricsPage, MetricsPage]:
    return parse_page(before.text(), before.name), parse_page(after.text(), after.name)
