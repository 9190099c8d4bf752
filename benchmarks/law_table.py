"""The published law on the scaling study: the errors that the model has to beat.

As published: past its capacity the law predicts an infinite latency. (`heldout.py` sets that to
what the limit on requests in flight allows, for law and model alike, which flatters the law.)

    python benchmarks/law_table.py
"""

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.baselines import fit_law, law_demands, predict_law
from benchmarks.folds import (
    NUM_FOLDS,
    fold_of_runs,
    load_data,
    markdown,
    short_name,
    stamp,
    two_highest,
    write_results,
)
from benchmarks.scores import absolute_percentage_error

COLUMNS = {
    "all": "all loads seen",
    "highest": "same, two highest loads",
    "highest_unseen": "two highest loads unseen: error on them",
    "given_batch": "given the measured batch",
}


def law_errors(data: xr.Dataset) -> pd.DataFrame:
    """Return the median error of held-out runs per base, %; columns as ``COLUMNS``."""
    fold, highest = fold_of_runs(data), two_highest(data)
    usable = data["control"].values != "cap"
    measured = data["mean_e2e_s"].values
    batch = data["effective_batch_observed"].values
    predicted = {name: np.full(len(measured), np.nan) for name in COLUMNS}
    for number in range(NUM_FOLDS):
        out = fold == number
        law = fit_law(data, ~out)
        c1, c2 = law_demands(law, data)
        predicted["all"][out] = predict_law(law, data)[out]
        predicted["given_batch"][out] = (c1 + batch * c2)[out]
        low_loads = fit_law(data, ~out & ~highest)
        predicted["highest_unseen"][out] = predict_law(low_loads, data)[out]
    predicted["highest"] = predicted["all"]
    rows = {}
    for number, base in enumerate(data["base"].values):
        at = usable & (data["base_of_run"].values == number)
        rows[short_name(base)] = {
            name: float(
                np.median(absolute_percentage_error(values, measured)[at & highest])
                if name.startswith("highest")
                else np.median(absolute_percentage_error(values, measured)[at])
            )
            for name, values in predicted.items()
        }
    return pd.DataFrame(rows).T


def main() -> None:
    """Print the table and write it to ``results/law_table``."""
    errors = law_errors(load_data("scaling-study"))
    shown = errors.rename(columns=COLUMNS).map("{:.1f}".format)
    shown.insert(0, "verifier", shown.index)
    text = "# The pooled law on held-out sweeps\n\nMedian absolute percentage error of the mean "
    text += f"latency.\n\n{markdown(shown)}\n\n{stamp()}\n"
    print(text)
    write_results("law_table", text, {"stamp": stamp(), "errors": errors.to_dict("index")})


if __name__ == "__main__":
    main()
