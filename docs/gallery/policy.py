"""The draft length at each load, as steps."""

from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.policy_steps import plot_policy

tree = shared_fit()
at = bs.Scenario(PAIR, request_rate_rps=0.1)
loads = [1.0, 3.0, 5.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
save_figure(plot_policy(bs.draft_length_policy(tree, at, loads)), "policy")
