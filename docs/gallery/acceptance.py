"""Acceptance by position: posterior and counts."""

from shared_fit import save_figure, shared_fit

from bayes_sd.plots.acceptance import plot_acceptance

tree = shared_fit()
runs = tree["constant_data"].to_dataset()
group = [str(g) for g in runs["acceptance_group"].values].index(
    next(str(g) for g in runs["acceptance_group"].values if "a60" in str(g))
)
at = runs["group_of_run"].values == group
accepted = runs["accepted_at_position"].values[at].sum(axis=0)
trials = runs["trials_at_position"].values[at].sum(axis=0)
rates = tree["posterior"]["conditional_acceptance_rate"].isel(acceptance_group=group)
rates = rates.stack(sample=("chain", "draw"))
ax = plot_acceptance(rates, accepted, trials)
ax.set_title(str(runs["acceptance_group"].values[group]), loc="left", fontsize=9)
save_figure(ax, "acceptance")
