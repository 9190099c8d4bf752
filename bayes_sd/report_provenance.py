"""Where a report's numbers come from: the fit, its verdict, and the runs that it was fitted to."""

from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.posterior import fitted_bases, fitted_pairs

NO_VERDICT = "This fit carries no convergence verdict."


def provenance_of(tree: xr.DataTree) -> dict[str, Any]:
    """Return the verdict of a fit and the provenance of its data.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.

    Returns
    -------
    dict
        ``passed``, ``verdict``, ``facts`` (pairs of text: name and value) and ``groups``, one row
        per base and pair with its number of runs and the range of its loads and draft lengths.
    """
    attrs = {str(name): value for name, value in tree.attrs.items()}
    runs = tree["constant_data"].to_dataset()
    posterior = tree["posterior"].sizes
    facts = [
        ("Runs", f"{runs.sizes['run']}"),
        ("Deployments", ", ".join(str(d) for d in runs["deployment"].values)),
        ("Draws", f"{posterior['chain']} chains of {posterior['draw']}"),
        ("Fingerprint of the data", str(attrs.get("data_hash", "not recorded"))),
        ("Random seed of the fit", str(attrs.get("random_seed", "not recorded"))),
    ]
    facts += [
        (name.removeprefix("version_").replace("_", " ") + " (version of the fit)", str(value))
        for name, value in sorted(attrs.items())
        if name.startswith("version_")
    ]
    return {
        "passed": bool(attrs.get("passed", False)) and "verdict" in attrs,
        "verdict": str(attrs.get("verdict", NO_VERDICT)),
        "facts": facts,
        "groups": _groups(tree, runs),
    }


def _groups(tree: xr.DataTree, runs: xr.Dataset) -> list[dict[str, Any]]:
    """Return a row per base without speculation and per pair."""
    pair_of_run, base_of_run = runs["pair_of_run"].values, runs["base_of_run"].values
    chosen = [
        (f"{label} (off)", (base_of_run == i) & (pair_of_run < 0))
        for i, label in enumerate(fitted_bases(tree))
    ] + [(label, pair_of_run == i) for i, label in enumerate(fitted_pairs(tree))]
    rows = []
    for label, mask in chosen:
        if not mask.any():
            continue
        here = {
            name: runs[name].values[mask]
            for name in (
                "request_rate_rps",
                "concurrency",
                "num_speculative_tokens",
                "input_len_tokens",
                "output_len_tokens",
            )
        }
        rows.append(
            {
                "label": label,
                "num_runs": int(mask.sum()),
                "draft_lengths": ", ".join(
                    str(int(k)) for k in np.unique(here["num_speculative_tokens"])
                ),
                "rates_rps": _range(here["request_rate_rps"]),
                "concurrencies": _range(here["concurrency"]),
                "input_len_tokens": _range(here["input_len_tokens"]),
                "output_len_tokens": _range(here["output_len_tokens"]),
            }
        )
    return rows


def _range(values: np.ndarray) -> str:
    """Return the range of numbers as text; a dash if there is none."""
    known = values[np.isfinite(values)]
    if not len(known):
        return "–"
    low, high = float(known.min()), float(known.max())
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
