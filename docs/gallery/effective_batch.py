"""How many requests the server holds at each rate."""

import numpy as np
import pandas as pd
from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.effective_batch import plot_effective_batch

tree = shared_fit()
loads = np.linspace(0.5, 14.0, 24)
at = bs.Scenario(PAIR, request_rate_rps=0.1)
tables = {}
for k in (0, 1, 5):
    asked = [at.with_(num_speculative_tokens=k, request_rate_rps=rate) for rate in loads]
    draws = bs.effective_batch(tree, asked).values
    ends = np.quantile(draws, [0.05, 0.5, 0.95], axis=0, method="inverted_cdf").T
    index = pd.Index(loads, name="request_rate_rps")
    tables[k] = pd.DataFrame(ends, index, columns=["low", "median", "high"])
save_figure(plot_effective_batch(tables), "effective_batch")
