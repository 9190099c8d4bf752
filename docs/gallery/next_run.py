"""Which benchmark run to make next."""

from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.next_run import plot_next_run

tree = shared_fit()
runs = [
    bs.Scenario(PAIR, request_rate_rps=rate, num_speculative_tokens=k)
    for rate in (6.0, 9.0, 12.0)
    for k in (0, 1, 3, 5)
]
found = bs.next_run(tree, runs)
save_figure(plot_next_run(found.to_frame()), "next_run")
