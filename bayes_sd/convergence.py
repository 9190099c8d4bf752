"""Whether a fit may be trusted: one verdict, naming the worst parameter."""

import json
import warnings
from dataclasses import asdict, dataclass

import arviz as az
import numpy as np
import xarray as xr

from bayes_sd.exceptions import ArgumentError, ConvergenceWarning

MAX_R_HAT = 1.01
MIN_ESS = 400
MIN_E_BFMI = 0.3
DERIVED = ("latency_log_density", "boot_mean", "boot_scale")
PACKED = "verdict_of_fit"  # attribute of a thinned fit: its few draws cannot tell of themselves


@dataclass(frozen=True)
class Verdict:
    """Result of `diagnose`.

    Attributes
    ----------
    passed : bool
        Whether every check holds.
    r_hat, ess_bulk, ess_tail : float
        The worst over all parameters (R-hat must be at most 1.01, both ESS at least 400).
    worst_r_hat, worst_ess_bulk, worst_ess_tail : str
        The parameters that they belong to.
    divergences : int
        Divergent transitions; must be 0.
    e_bfmi : float
        The lowest over chains; must be at least 0.3.
    """

    passed: bool
    r_hat: float
    worst_r_hat: str
    ess_bulk: float
    worst_ess_bulk: str
    ess_tail: float
    worst_ess_tail: str
    divergences: int
    e_bfmi: float

    def sentence(self) -> str:
        """Return the verdict in words, with what to do if it is bad."""
        figures = (
            f"R-hat {self.r_hat:.3f} ({self.worst_r_hat}), bulk ESS {self.ess_bulk:.0f} "
            f"({self.worst_ess_bulk}), tail ESS {self.ess_tail:.0f} ({self.worst_ess_tail}), "
            f"{self.divergences} divergences, E-BFMI {self.e_bfmi:.2f}"
        )
        if self.passed:
            return f"Converged. The worst of all parameters: {figures}."
        return (
            f"NOT CONVERGED, do not decide on this fit. The worst of all parameters: {figures}. "
            f"Allowed: R-hat up to {MAX_R_HAT}, ESS from {MIN_ESS}, no divergences, E-BFMI from "
            f"{MIN_E_BFMI}. {self.advice()}"
        )

    def advice(self) -> str:
        """Return what to do about the checks that failed; empty if none did."""
        needs, settings = [], []
        if not _has_mixed(self.r_hat, self.ess_bulk, self.ess_tail, self.e_bfmi):
            needs.append("more draws")
            settings += ["draws=2000", "tune=1000"]
        if self.divergences:
            needs.append("smaller steps")
            settings.append("target_accept=0.99")
        if not needs:
            return ""
        return f"Fit again with {' and '.join(needs)}, e.g. fit(data, {', '.join(settings)})."

    def to_dict(self) -> dict[str, object]:
        """Return the fields as plain values."""
        return asdict(self)


def _has_mixed(r_hat: float, bulk: float, tail: float, e_bfmi: float) -> bool:
    """Tell whether every check but that of divergences holds."""
    return r_hat <= MAX_R_HAT and min(bulk, tail) >= MIN_ESS and e_bfmi >= MIN_E_BFMI


def _worst(values: xr.Dataset, *, highest: bool) -> tuple[float, str]:
    """Return the extreme value over all variables and the element it belongs to."""
    best, label = (-np.inf if highest else np.inf), ""
    for name, array in values.data_vars.items():
        flat = array.values.ravel()
        if np.isnan(flat).all():
            continue
        at = int(np.nanargmax(flat) if highest else np.nanargmin(flat))
        if (flat[at] > best) if highest else (flat[at] < best):
            place = np.unravel_index(at, array.shape)
            where = ", ".join(
                str(array[d].values[i]) for d, i in zip(array.dims, place, strict=True)
            )
            best, label = float(flat[at]), f"{name}[{where}]" if where else str(name)
    return best, label


def _e_bfmi(energy: np.ndarray) -> float:
    """Return the lowest E-BFMI over chains, from energies (chain, draw)."""
    return float(((np.diff(energy, axis=1) ** 2).mean(axis=1) / energy.var(axis=1)).min())


def diagnose(tree: xr.DataTree, *, warn: bool = True) -> Verdict:
    """Judge the sampling of a fit by R-hat, ESS, divergences and E-BFMI.

    Of a fit packed by `bayes_sd.thin_for_queries`, the verdict on all its draws is returned.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    warn : bool
        Whether a bad verdict also warns.

    Returns
    -------
    Verdict
        Whether it passed, and the worst figure of each check with its parameter.

    Raises
    ------
    ArgumentError
        If the tree has no posterior and sample statistics, or one chain only.

    Warns
    -----
    ConvergenceWarning
        If the verdict is bad.

    References
    ----------
    .. [1] Vehtari et al. (2021). Rank-normalization, folding, and localization: an improved R-hat
       for assessing convergence of MCMC. Bayesian Analysis 16(2). For R-hat and ESS.
    .. [2] Betancourt (2016). Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
       Carlo. arXiv:1604.00695. For E-BFMI.

    Examples
    --------
    >>> diagnose(tree).passed  # doctest: +SKIP
    True
    """
    if PACKED in tree.attrs:
        return _spoken(Verdict(**json.loads(str(tree.attrs[PACKED]))), warn)
    if "posterior" not in tree.children or "sample_stats" not in tree.children:
        raise ArgumentError("tree must be the result of fit, with posterior and sample_stats.")
    posterior = tree["posterior"].to_dataset().drop_vars(DERIVED, errors="ignore")
    if posterior.sizes["chain"] < 2:
        raise ArgumentError("diagnose needs at least 2 chains. Got 1 instead: fit with chains=4.")
    stats = tree["sample_stats"].to_dataset()
    # A parameter that never moves has no figures, unless it is the chains that cannot agree.
    constant = (posterior == posterior.isel(chain=0, draw=0)).all(("chain", "draw"))
    with np.errstate(invalid="ignore"):
        r_hats = az.rhat(posterior).fillna(np.inf).where(~constant)
        bulks = az.ess(posterior, method="bulk").fillna(0.0).where(~constant)
        tails = az.ess(posterior, method="tail").fillna(0.0).where(~constant)
    r_hat, worst_r_hat = _worst(r_hats, highest=True)
    bulk, worst_bulk = _worst(bulks, highest=False)
    tail, worst_tail = _worst(tails, highest=False)
    if not worst_r_hat:
        r_hat, worst_r_hat = np.inf, "no parameter moves"
    divergences = int(stats["diverging"].sum())
    energies = [n for n in map(str, stats) if n == "energy" or n.startswith("energy_of_")]
    e_bfmi = min(_e_bfmi(stats[name].values) for name in energies)  # blocks are sampled apart
    passed = _has_mixed(r_hat, bulk, tail, e_bfmi) and divergences == 0
    verdict = Verdict(
        bool(passed), r_hat, worst_r_hat, bulk, worst_bulk, tail, worst_tail, divergences, e_bfmi
    )
    return _spoken(verdict, warn)


def _spoken(verdict: Verdict, warn: bool) -> Verdict:
    """Warn of a bad verdict at the caller of `diagnose`; return it."""
    if warn and not verdict.passed:
        warnings.warn(verdict.sentence(), ConvergenceWarning, stacklevel=3)
    return verdict
