"""Two drafters of one verifier, over load."""

import numpy as np
from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.comparison import plot_comparison

tree = shared_fit()
first = bs.Scenario(PAIR, request_rate_rps=0.1, num_speculative_tokens=3)
candidates = {"a85": first, "a60": first.with_(pair=PAIR.replace("a85", "a60"))}
found = bs.compare_pairs(tree, candidates, loads=np.linspace(1.0, 13.0, 9).tolist())
ax = plot_comparison(
    found.difference("a85", "a60"), found.probability_faster("a85", "a60"), names=("a85", "a60")
)
save_figure(ax, "comparison")
