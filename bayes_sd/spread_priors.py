"""Priors of how single requests spread about the mean of their run, for each kind of latency."""

from bayes_sd.prior import Prior

# Parameters of one latency are named by its prefix.
PREFIX = {"e2e": "", "ttft": "ttft_", "tpot": "tpot_"}


def spread_priors() -> dict[str, Prior]:
    """Return the priors of the spread of requests by name.

    Examples
    --------
    >>> spread_priors()["ttft_spread_heterogeneity"].center
    0.1
    """
    shared = {
        "spread_heterogeneity": Prior(
            "lognormal", 0.03, 1.0, "1", "lengths and prompts of one workload: 1 to 16 %"
        ),
        "spread_skew": Prior("normal", 0.0, 0.1, "1", "of log latency; 0 is log-normal"),
        "backlog_s": Prior(
            "lognormal", 0.1, 1.2, "s", "a burst of requests, as at a run's start: 0.01 to 0.7 s"
        ),
        "load_factor": Prior("lognormal", 1.0, 0.3, "1", "how far the wandering batch is right"),
        "percentile_misfit_sd": Prior(
            "lognormal", 0.008, 0.7, "1", "0.3 to 2.5 % of a percentile, whatever the requests"
        ),
        "excess_misfit": Prior(
            "lognormal", 0.2, 0.5, "1", "p99 misses by a fifth of the backlog's excess"
        ),
        "percentile_dof": Prior(
            "gamma", 4.0, 2.0, "1", "degrees of freedom above 1; some runs stall"
        ),
        "percentile_top_dof": Prior(
            "gamma", 3.0, 2.0, "1", "the same of p99, which one stall moves"
        ),
    }
    of_ttft = {
        "spread_heterogeneity": Prior(
            "lognormal", 0.1, 1.0, "1", "prompts, and prefills that collide: 2 to 50 %"
        ),
        "spread_skew": Prior(
            "normal", 0.0, 0.2, "1", "-0.2 is a uniform wait, above 0 a queue with a tail"
        ),
        "load_factor": Prior(
            "lognormal", 1.0, 0.3, "1", "how far the wait for the running step is uniform on it"
        ),
        "percentile_misfit_sd": Prior(
            "lognormal", 0.02, 0.7, "1", "0.6 to 6 %: queueing of prefills is not in the law"
        ),
    }
    every = {
        f"{prefix}{name}": prior for prefix in PREFIX.values() for name, prior in shared.items()
    }
    return every | {f"{PREFIX['ttft']}{name}": prior for name, prior in of_ttft.items()}
