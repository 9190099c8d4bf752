"""Speedup against load, and where each draft length stops paying."""

import numpy as np
from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.speedup import plot_speedup

tree = shared_fit()
off = bs.Scenario(PAIR, request_rate_rps=0.1)
loads = np.linspace(0.5, 14.0, 19).tolist()
speedups, turns = {}, {}
for k in (1, 3, 5):
    on = off.with_(num_speculative_tokens=k)
    found = bs.compare_pairs(tree, {"off": off, "on": on}, loads=loads)
    speedups[k] = found.difference("off", "on")
    turn = bs.break_even_rate(tree, PAIR, num_speculative_tokens=k, scenario=off)
    if turn.p_crosses > 0.5:
        turns[k] = turn.interval()
save_figure(plot_speedup(speedups, turns=turns), "speedup")
