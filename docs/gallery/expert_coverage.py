"""Experts that a step touches, by its tokens."""

import numpy as np
import pandas as pd
from shared_fit import save_figure, shared_fit

from bayes_sd.physics.experts import expert_coverage
from bayes_sd.plots.experts import plot_expert_coverage

tree = shared_fit()
runs = tree["constant_data"].to_dataset()
base = int(np.argmax(runs["num_experts"].values))
fraction = float(runs["experts_per_token"][base] / runs["num_experts"][base])
cv = tree["posterior"]["expert_load_cv"].isel(base=base).values.ravel()
tokens = pd.Index(np.geomspace(1, 256, 50), name="tokens")
draws = expert_coverage(tokens.to_numpy()[:, None], fraction, cv)
ends = np.quantile(draws, [0.05, 0.5, 0.95], axis=1).T
table = pd.DataFrame(ends, tokens, columns=["low", "median", "high"])
balanced = pd.Series(expert_coverage(tokens.to_numpy(), fraction, 0.0), tokens)
marks = {"alone, k = 3": 4, "16 in flight, off": 16, "16 in flight, k = 3": 64}
save_figure(plot_expert_coverage(table, balanced=balanced, marks=marks), "expert_coverage")
