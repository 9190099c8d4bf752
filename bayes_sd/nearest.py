"""What a user may have meant: of the names that are allowed the nearest first, then all others."""

import difflib
import re
from collections.abc import Iterable, Sequence

ALIKE = 0.6  # similarity (twice the letters in common / all letters) of what may have been meant
LONGEST = 200  # letters of a name that are looked at
_WORD = re.compile(r"[^\W_]+")


def nearest_names(
    name: str, candidates: Iterable[str], limit: int = 3, *, parts: bool = False
) -> list[str]:
    """Return the candidates that are spelled most like a name, best first.

    Parameters
    ----------
    name : str
        What was written.
    candidates : iterable of str
        What could have been meant.
    limit : int, default 3
        At most so many names.
    parts : bool, default False
        Whether a part of a candidate, as many words as the name has, may be what is alike. A
        label is long, and people write one word of it.

    Returns
    -------
    list of str
        Empty if none is alike.

    Examples
    --------
    >>> nearest_names("eagel3", ["eagle", "eagle3", "mtp"], limit=2)
    ['eagle3', 'eagle']
    >>> nearest_names("qwen3-9b", ["Qwen3-8B + eagle3 (drafter)", "Llama + mtp"], parts=True)
    ['Qwen3-8B + eagle3 (drafter)']
    """
    wanted = str(name)[:LONGEST].lower()
    scores: dict[str, tuple[float, float]] = {}
    for candidate in candidates:
        text = str(candidate).lower()
        whole = _similarity(wanted, text)
        best = max([whole, *(_similarity(wanted, part) for part in _parts(wanted, text) if parts)])
        if best >= ALIKE:
            scores[str(candidate)] = (best, whole)
    return sorted(scores, key=lambda each: scores[each], reverse=True)[:limit]


def nearest_first(name: object, allowed: Iterable[str]) -> list[str]:
    """Return all that is allowed, what a name is most like in front.

    Parameters
    ----------
    name : object
        What was written; only text is like anything.
    allowed : iterable of str
        What is allowed.

    Examples
    --------
    >>> nearest_first("rnu", ["mean", "run", "request"])
    ['run', 'mean', 'request']
    """
    listed = list(allowed)
    near = nearest_names(name, listed, parts=True) if isinstance(name, str) else []
    return [*near, *(each for each in listed if each not in near)]


def did_you_mean(name: object, allowed: Iterable[str], limit: int = 1) -> str:
    """Return the question after the nearest names; empty if none is near.

    Parameters
    ----------
    name : object
        What was written; only text is like anything.
    allowed : iterable of str
        What is allowed.
    limit : int, default 1
        At most so many names.

    Examples
    --------
    >>> did_you_mean("rnu", ["mean", "run", "request"])
    "Did you mean 'run'?"
    """
    near = nearest_names(name, allowed, limit, parts=True) if isinstance(name, str) else []
    return f"Did you mean {' or '.join(map(repr, near))}?" if near else ""


def unknown_label(what: str, name: str, labels: Sequence[str], known: str) -> str:
    """Return the message about a label that fits none of those known, or several.

    Parameters
    ----------
    what : str
        What the label names, such as ``"pair"``.
    name : str
        What was written: a label, or a part of one.
    labels : sequence of str
        Those known. The nearest are named first, then all others.
    known : str
        What they are, such as ``"the fitted pairs"``.

    Returns
    -------
    str

    Examples
    --------
    >>> print(unknown_label("pair", "samll", ["big + mtp", "small + mtp"], "the fitted pairs"))
    pair 'samll' is unknown. Did you mean 'small + mtp'? It must be one of the fitted pairs:
    'small + mtp'; 'big + mtp'.
    """
    several = [label for label in labels if name.lower() in label.lower()]
    if len(several) > 1:
        listed = "; ".join(map(repr, several))
        return f"{what} {name!r} fits several of {known}: {listed}. Write more of the one meant."
    listed = "; ".join(map(repr, nearest_first(name, labels))) or "there are none"
    asked = f" {did_you_mean(name, labels, 3)}".rstrip()
    return f"{what} {name!r} is unknown.{asked} It must be one of {known}: {listed}."


def _similarity(wanted: str, text: str) -> float:
    matcher = difflib.SequenceMatcher(None, text, wanted)
    if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
        return 0.0
    return matcher.ratio()


def _parts(wanted: str, text: str) -> Iterable[str]:
    """Yield each run of so many words of a text as a name has."""
    count = len(_WORD.findall(wanted))
    words = list(_WORD.finditer(text))
    for first, last in zip(words, words[count - 1 :], strict=False) if count else ():
        yield text[first.start() : last.end()]
