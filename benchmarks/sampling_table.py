"""The tables of `sampling`: against the textbook form, and the bundled data against a minute."""

from typing import Any

import pandas as pd

from benchmarks.folds import markdown

BAR_S = 60.0


def textbook_text(found: dict[str, Any]) -> str:
    """Return the comparison with the textbook form."""
    columns: dict[str, list[float]] = {}
    for name in ("library", "textbook"):
        one = found[name]
        whole = one["compile_s"] + one["sampling_s"]
        rows: dict[str, float] = {
            "parameters": one["num_parameters"],
            "compile, s": one["compile_s"],
            "sampling, s": one["sampling_s"],
            "gradients, thousands": one["gradients"] / 1e3,
            "one gradient, us": one["gradient_s"] * 1e6,
            "divergences": one["costs"]["divergences"],
        }
        for kind, label in (("costs", "costs"), ("shared", "all shared")):
            of = one[kind]
            ess = of["smallest_ess"]
            rows |= {
                f"{label}: worst R-hat": of["r_hat"],
                f"{label}: smallest bulk ESS": of["ess_bulk"],
                f"{label}: smallest tail ESS": of["ess_tail"],
                f"{label}: smallest ESS per s of sampling": ess / one["sampling_s"],
                f"{label}: the same per s, compilation counted": ess / whole,
                f"{label}: the same per 1,000 gradients": 1e3 * ess / one["gradients"],
            }
        for label, value in rows.items():
            columns.setdefault(label, []).append(value)
    table = pd.DataFrame(
        [
            {
                "": label,
                "library": f"{a:.4g}",
                "textbook": f"{b:.4g}",
                "ratio": f"{a / b:.3g}" if b else "",
            }
            for label, (a, b) in columns.items()
        ]
    )
    worst = ", ".join(
        f"{name} {found[name]['costs']['worst_ess_bulk']}" for name in ("library", "textbook")
    )
    return (
        "## Against the textbook form\n\n"
        f"The mean latency of {found['num_runs']} runs, {found['num_sweeps']} sweeps, of "
        f"{' and '.join(found['verifiers'])}: the same data, law, likelihood (the batch integrated "
        "out in both) and priors but for half-normal scales; see `textbook_model.py`. Draws, "
        "tuning steps and chains are alike. The library compiles first, and with it what both "
        "share. The number of sweeps was chosen by time alone. "
        f"Costs are the {found['num_costs']} of `CostCoefficients`; all shared are "
        f"{found['num_shared']} quantities, with scales, levels, exponents and boots.\n\n"
        f"{markdown(table)}\n\n"
        f"Smallest bulk ESS of a cost: {worst}. Posterior means of log costs differ most in "
        f"{found['cost_of_largest_gap']}, by {found['largest_gap']:.2f} posterior standard "
        "deviations (chance and the other scales' priors)."
    )


def default_text(found: dict[str, Any]) -> str:
    """Return how long the bundled data take with defaults, against the bar."""
    converged = found["verdict"]["passed"]
    met = converged and found["fit_s"] <= BAR_S
    rows = {
        "compile, s": f"{found['compile_s']:.1f}",
        "compile once more, cached, s": f"{found['compile_again_s']:.1f}",
        "sampling, s": f"{found['sampling_s']:.1f}",
        "compile + sampling, s": f"{found['fit_s']:.1f}",
        "judging and packing, s": f"{found['judging_s']:.1f}",
        "gradients, thousands": f"{found['gradients'] / 1e3:.0f}",
        "one gradient alone, us": f"{found['gradient_s'] * 1e6:.0f}",
        f"one gradient, {found['cores']} at once, us": f"{found['gradient_together_s'] * 1e6:.0f}",
        "share of sampling in gradients, alone": f"{found['gradient_share']:.0%}",
        f"the same, {found['cores']} at once": f"{found['gradient_share_together']:.0%}",
    }
    table = pd.DataFrame({"": list(rows), "value": list(rows.values())})
    return (
        "## The bundled data with defaults\n\n"
        f"{found['num_runs']} runs, all responses, {found['num_parameters']} parameters.\n\n"
        f"{markdown(table)}\n\n{found['sentence']}\n\n"
        f"Bar: converged within {BAR_S:.0f} s, compilation counted: "
        f"{'met' if met else 'NOT met'}."
    )
