"""The competitors by name: each a function from a fold to draws of log latency."""

from dataclasses import dataclass

from benchmarks.accuracy_law import law_per_sweep, linear_bootstrap, pooled_law
from benchmarks.accuracy_learners import gaussian_process, quantile_trees
from benchmarks.accuracy_rules import division_by_length, goodput
from benchmarks.accuracy_task import Method

OURS = "bayes_sd"


@dataclass(frozen=True)
class Competitor:
    """A method of the table.

    Attributes
    ----------
    draw : callable
        From a `Task` to draws, (draw, asked).
    modules : tuple of str
        Where its code begins: a change there, or in what it imports, makes stored results stale.
    has_density : bool
        Whether a log predictive density is its own; else it is left blank, and the pinball loss
        and the CRPS stand for it.
    note : str
        How it was tuned, for the page.
    """

    draw: Method
    modules: tuple[str, ...]
    has_density: bool
    note: str


COMPETITORS = {
    "law per sweep": Competitor(
        law_per_sweep,
        ("benchmarks.accuracy_law",),
        True,
        "published law by `curve_fit` for each sweep, relative errors, parameters drawn from its "
        "covariance; only where the sweep was seen",
    ),
    "pooled law": Competitor(
        pooled_law,
        ("benchmarks.accuracy_law",),
        True,
        "least squares on log latency given the rate, with length trends and expert coverage "
        "where there are any, residual bootstrap; a new verifier by lines over size",
    ),
    "linear law": Competitor(
        linear_bootstrap,
        ("benchmarks.accuracy_law",),
        True,
        "the same columns by non-negative least squares at the measured batch, residual bootstrap "
        "inside B = rate x L",
    ),
    "division by E": Competitor(
        division_by_length,
        ("benchmarks.accuracy_rules",),
        True,
        "latency at the nearest loads divided by the mean acceptance length, with its residuals",
    ),
    "goodput": Competitor(
        goodput,
        ("benchmarks.accuracy_rules",),
        True,
        "step time of TurboSpec's rule at the batch of the nearest loads, with its residuals",
    ),
    "Gaussian process": Competitor(
        gaussian_process,
        ("benchmarks.accuracy_learners",),
        True,
        "scikit-learn, one per verifier; kernel by inner cross-validation",
    ),
    "quantile trees": Competitor(
        quantile_trees,
        ("benchmarks.accuracy_learners",),
        False,
        "LightGBM quantile regression over all verifiers; leaves, least leaf and rate by inner "
        "cross-validation",
    ),
}
