"""What each part takes of the latency: off and on, idle and loaded."""

from shared_fit import MIXTURE, PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.shares import plot_latency_shares

tree = shared_fit()
asked = {}
for name, pair in (("dense", PAIR), ("mixture", MIXTURE)):
    for k in (0, 3):
        for in_flight in (1, 16):
            label = f"{name}, k = {k}, {in_flight} in flight"
            asked[label] = bs.Scenario(pair, concurrency=in_flight, num_speculative_tokens=k)
shares = bs.latency_shares(tree, list(asked.values()))
shares = shares.assign_coords(scenario=list(asked))
save_figure(plot_latency_shares(shares), "latency_shares")
