"""Colour, marker and name of a draft length, the same in every plot."""

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb

OFF_COLOR = "#000000"
LONGEST = 12  # draft length from which on all have the lightest colour
LIGHTEST = 0.88
MARKERS = "osD^vP*Xhp<>d"
FIGURE_SIZE_INCHES = (7.0, 4.4)
ROW_INCHES = 0.52  # of a bar with two lines of text


def axes_or_new(ax: Axes | None, *, rows: int = 0) -> Axes:
    """Return the Axes given, or those of a new figure, high enough for so many rows of bars."""
    if ax is not None:
        return ax
    width, height = FIGURE_SIZE_INCHES
    height = max(height, 1.0 + ROW_INCHES * rows)
    _, made = plt.subplots(figsize=(width, height), layout="constrained")
    return made


def colors_of(draft_lengths: Sequence[int]) -> dict[int, str]:
    """Return a colour for each draft length: black for off, then from dark to light.

    A draft length has the same colour in every plot. The order of the colours is that of k, to
    readers with any colour vision and in grey print.

    Parameters
    ----------
    draft_lengths : sequence of int
        Draft lengths.

    Returns
    -------
    dict of int to str

    Examples
    --------
    >>> colors_of([0, 1, 3])
    {0: '#000000', 1: '#440154', 3: '#2b758e'}
    """
    scale = plt.get_cmap("viridis")
    places = {k: LIGHTEST * min(math.log(k) / math.log(LONGEST), 1.0) for k in draft_lengths if k}
    return {k: to_hex(scale(places[k])) if k else OFF_COLOR for k in draft_lengths}


def text_color_on(color: str) -> str:
    """Return black or white, whichever reads better on a colour.

    Examples
    --------
    >>> text_color_on("#440154"), text_color_on("#a2da37")
    ('white', 'black')
    """
    red, green, blue = to_rgb(color)
    return "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"


def markers_of(draft_lengths: Sequence[int]) -> dict[int, str]:
    """Return a marker for each draft length, the same in every plot."""
    return {k: MARKERS[k % len(MARKERS)] for k in draft_lengths}


def name_of(draft_length: int) -> str:
    """Name a draft length.

    Examples
    --------
    >>> name_of(0), name_of(3)
    ('off (k = 0)', 'k = 3')
    """
    return "off (k = 0)" if draft_length == 0 else f"k = {draft_length}"


def load_label(name: str) -> str:
    """Return the label of a load axis, with its unit.

    Examples
    --------
    >>> load_label("request_rate_rps")
    'Request rate (requests/s)'
    """
    if name == "request_rate_rps":
        return "Request rate (requests/s)"
    return "Concurrency (requests in flight)"
