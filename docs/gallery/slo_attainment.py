"""Up to which load an objective is met, by draft length."""

import numpy as np
import pandas as pd
from shared_fit import PAIR, save_figure, shared_fit

import bayes_sd as bs
from bayes_sd.plots.objective import plot_slo_attainment

tree = shared_fit()

slo = "e2e_mean <= 2.5"
loads = np.linspace(0.2, 14.0, 60)
at = bs.Scenario(PAIR, request_rate_rps=0.1)
limits = {k: bs.max_rate(tree, at.with_(num_speculative_tokens=k), slo) for k in (0, 1, 3, 5)}
table = pd.DataFrame(
    {k: limit.probability_met(loads) for k, limit in limits.items()},
    index=pd.Index(loads, name="request_rate_rps"),
)
rates = {k: limit.rate for k, limit in limits.items()}
save_figure(plot_slo_attainment(table, max_rates=rates, slo=f"{slo} s"), "slo_attainment")
