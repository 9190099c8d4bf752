"""Measured runs against their predictions, over load."""

import numpy as np
import pandas as pd
from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.residuals import plot_residuals

tree = shared_fit()
runs = tree["constant_data"].to_dataset()
pairs = [str(p) for p in runs["pair"].values]
pair = pairs.index(PAIR)
at = np.flatnonzero((runs["control"].values == "open") & (runs["pair_of_run"].values == pair))
asked = [
    bs.Scenario(
        PAIR,
        request_rate_rps=float(runs["request_rate_rps"][i]),
        input_len_tokens=float(runs["input_len_tokens"][i]),
        output_len_tokens=float(runs["output_len_tokens"][i]),
        num_speculative_tokens=int(runs["num_speculative_tokens"][i]),
        num_requests=int(runs["num_requests"][i]),
    )
    for i in at
]
draws = bs.predict_latency(tree, asked, "run")["e2e_s"].values
low, median, high = np.quantile(draws, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf")
table = pd.DataFrame(
    {
        "effective_batch": runs["effective_batch_observed"].values[at],
        "num_speculative_tokens": runs["num_speculative_tokens"].values[at],
        "observed_e2e_s": runs["mean_e2e_s"].values[at],
        "median_e2e_s": median,
        "low_e2e_s": low,
        "high_e2e_s": high,
    }
)
save_figure(plot_residuals(table), "residuals")
