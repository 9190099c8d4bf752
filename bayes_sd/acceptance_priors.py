"""Priors of acceptance: logits of drafters, workloads and sampling settings, and their spreads."""

from bayes_sd.prior import Prior


def acceptance_priors() -> dict[str, Prior]:
    """Return the priors of the acceptance hierarchy by name.

    Returns
    -------
    dict of str to Prior
        All on the logit scale. A difference of 0.5 in the logit is 0.11 in a rate of 0.7.

    Examples
    --------
    >>> acceptance_priors()["acceptance_request_sd"].interval()
    (0.19, 1.3)
    """

    def spread(center: float, width: float, reason: str) -> Prior:
        return Prior("lognormal", center, width, "logit", reason)

    return {
        "acceptance_logit": Prior("normal", 0.8, 1.0, "logit", "rates of 0.3 to 0.92"),
        "acceptance_drafter_sd": spread(0.5, 0.5, "a good drafter against a poor one"),
        "acceptance_workload_sd": spread(0.4, 0.5, "code is easier than chat, for all drafters"),
        "acceptance_sampling_sd": spread(0.2, 0.5, "temperature lowers it, by less"),
        "acceptance_group_sd": spread(0.5, 0.5, "drafters and workloads differ"),
        "acceptance_decay": Prior(
            "normal", 0.0, 0.3, "logit", "either sign: survivors are easier, later drafts harder"
        ),
        "acceptance_decay_sd": spread(0.1, 0.5, "drafters differ in it by a third of that"),
        "acceptance_request_sd": spread(
            0.5, 0.6, "prompts of one workload differ about as much as workloads do"
        ),
        "acceptance_run_sd": spread(
            0.03, 0.7, "what differs between runs whatever the number of requests: under 1 %"
        ),
    }
