"""What the tests of readers share: damaged copies of results, and the check of what was read."""

import copy
import json
import math
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from bayes_sd.frames import check_runs
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Cells, Reading
from bayes_sd.schema import column_names

ODD = (None, True, "", "x", "inf", "NaN", "1e999", -1, 0, 1, 0.5, 1e308, -1e308, 1e-320, 2**63)
SCALARS = st.sampled_from(ODD) | st.integers() | st.floats() | st.text(max_size=6)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
SIDE_INFORMATION = {
    "verifier": "V",
    "method": "other",
    "num_speculative_tokens": 15,
    "num_requests": 40,
}


@st.composite
def damaged(draw: Any, sample: Any) -> Any:
    """Return a copy of a parsed result with some of its values replaced or taken out."""
    found = copy.deepcopy(sample)
    for _ in range(draw(st.integers(1, 4))):
        node = found
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not places:
                break
            place = draw(st.sampled_from(places))
            inner = node[place]
            if isinstance(inner, dict | list) and inner and draw(st.booleans()):
                node = inner
                continue
            if draw(st.integers(0, 4)) == 0:
                del node[place]
            else:
                node[place] = draw(VALUES)
            break
    return found


def written(path: Path, *results: Any) -> Path:
    """Write results to a file, one a line, with the bare tokens that tools write."""
    path.write_text("".join(json.dumps(result) + "\n" for result in results), encoding="utf-8")
    return path


def read(reader: Any, path: Path, *results: Any) -> Reading:
    """Write results to a file and read it with a reader that must know it."""
    content = Content(written(path, *results))
    assert reader.recognises(content.sample)
    reading: Reading = reader.read(content)
    assert len(reading.runs) == len(reading.requests)
    return reading


def checked(runs: list[Cells]) -> pd.DataFrame:
    """Add side information to what was read, and check it as a fit does."""
    rows = []
    for number, run in enumerate(runs):
        cells = {name: value for name, value in run.items() if not name.startswith("_")}
        assert set(cells) <= set(column_names())
        rows.append({"run_id": str(number), "sweep_id": str(number), **SIDE_INFORMATION, **cells})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return check_runs(pd.DataFrame(rows))


def are_sound(runs: list[Cells]) -> bool:
    """Tell whether all cells are of the schema, or for joining, and hold one value that can be."""
    return all(
        (name.startswith("_") or name in column_names())
        and isinstance(value, str | bool | int | float)
        and (isinstance(value, str) or math.isfinite(value))
        for run in runs
        for name, value in run.items()
    )
