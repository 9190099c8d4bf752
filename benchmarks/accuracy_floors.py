"""The floors of the short mode, in one place, and why they stand where they do.

The short mode fits bayes_sd to one verifier of the scaling study and to the dense runs on a CPU,
one fold each of the sweeps and of the highest loads. A fold is few runs, so a floor is not what is
hoped for but what only a fault goes below: errors about twice what the full table has, and
coverage outside what five binomial standard errors at the number of sweeps allow. CRPS against the
linear law is the one relative bar: a model that loses to six coefficients fitted in closed form on
the data it was made for has broken.
"""

from dataclasses import dataclass

import pandas as pd

from benchmarks.accuracy_models import OURS

LAW = "linear law"


@dataclass(frozen=True)
class Floor:
    """Least that a cell of the short table must reach.

    Attributes
    ----------
    data, split : str
        The cell.
    error : float
        Largest median absolute percentage error, %.
    in_90, in_50 : tuple of float
        Least and most of runs in the central intervals, %.
    crps_ratio : float
        Largest CRPS of log latency, as a share of that of the linear law.
    """

    data: str
    split: str
    error: float
    in_90: tuple[float, float]
    in_50: tuple[float, float]
    crps_ratio: float


FLOORS = (
    # One verifier, a fold of 12 sweeps: the full study has 1.4 %, 91 and 57 %, CRPS 0.7 of the law.
    Floor("scaling-study", "sweeps", 4.0, (75.0, 100.0), (30.0, 85.0), 1.0),
    # Extrapolation in load: 4 % pooled, up to 17 % on one verifier, 82 % in 90 %.
    Floor("scaling-study", "highest loads, new sweep", 16.0, (50.0, 100.0), (15.0, 100.0), 1.1),
    # Four sweeps of a noisy machine whose repeats differ by 12 %: 8.4 %, 80 and 39 %.
    Floor("vllm-cpu", "sweeps", 16.0, (55.0, 100.0), (10.0, 90.0), 1.4),
    Floor("vllm-cpu", "highest loads, new sweep", 25.0, (50.0, 100.0), (0.0, 100.0), 1.6),
)


def missed(table: pd.DataFrame, floors: tuple[Floor, ...] = FLOORS) -> list[str]:
    """Return what a table misses, in words; a cell that it lacks is missed, too.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of `benchmarks.accuracy_table.figures`.
    floors : tuple of Floor
        What must be reached.
    """
    found = []
    for floor in floors:
        cell = table[(table["data"] == floor.data) & (table["split"] == floor.split)]
        ours, law = (cell[cell["method"] == name] for name in (OURS, LAW))
        where = f"{floor.data}, {floor.split}"
        if ours.empty or law.empty:
            found.append(f"{where}: no figures of {OURS} and the {LAW}")
            continue
        line = ours.iloc[0]
        ratio = line["crps_log"] / law["crps_log"].iloc[0]
        if not line["error"] <= floor.error:
            found.append(f"{where}: error {line['error']:.1f} % above {floor.error:g} %")
        for name, level in (("in_90", 90), ("in_50", 50)):
            low, high = getattr(floor, name)
            if not low <= line[name] <= high:
                text = f"{line[name]:.0f} % outside {low:g} to {high:g} %"
                found.append(f"{where}: {level} % intervals hold {text}")
        if not ratio <= floor.crps_ratio:
            found.append(f"{where}: CRPS {ratio:.2f} of the law's, above {floor.crps_ratio:g}")
    return found
