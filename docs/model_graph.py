"""Draw the graph of the model from the model itself: python docs/model_graph.py.

Variables are put into groups; a variable without a group is an error, and the arrows are those that
the model's own graph has, so the figure cannot show a dependence that is not there.
"""

import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from pymc.model_graph import ModelGraph

import bayes_sd as bs

FILE = Path(__file__).parent / "model-graph.png"
WIDTH, HEIGHT = 2.15, 0.92
# Group: place, pattern of its variables, what is written into it, and its dims.
GROUPS = {
    "population": (
        (0, 3.1),
        r"log_(verifier|drafter)_level|.*_size_exponent|.*_group_sd(?<!acceptance_group_sd)",
        "population of costs\nlevel, size law, spread",
        "deployment, cost",
    ),
    "experts": (
        (2.45, 1.55),
        r"(log_)?expert_.*|(log_)?hot_expert.*",
        "mixture of experts\nshare, imbalance",
        "base",
    ),
    "acceptance": (
        (7.35, 3.1),
        r"acceptance_(logit|.*_sd|decay|drafter|workload|sampling).*",
        "acceptance: drafter,\nworkload, sampling",
        "",
    ),
    "errors": (
        (4.9, 1.55),
        r"boot_sd|discrepancy_sd|load_discrepancy_sd|request_cv"
        r"|extrapolation_sd",
        "boots and misfit\nof the law",
        "deployment, base",
    ),
    "costs": (
        (0, 1.55),
        r"log_(verifier_cost|load_cost|prefill|draft_fixed|knee.*|idle.*)|context_.*|knee_.*"
        r"|jump_.*|prefill_.*|verify_.*|mixed_step_s|idle_.*|draft_.*",
        "costs\nprefill, verify, draft",
        "base, pair",
    ),
    "rates": (
        (7.35, 1.55),
        r"acceptance_coordinate|conditional_acceptance_rate",
        "acceptance by position\nand steps per request",
        "drafter × workload",
    ),
    "latency": (
        (2.45, 0),
        r"log_latency|latency_log_density|boot_mean|boot_scale",
        "mean latency\ngiven the control",
        "run",
    ),
    "accepted": ((5.3, 0), r"accepted|mean_accepted", "accepted drafts", "count"),
    "ttft": (
        (7.75, 0),
        r"log_(mean_)?ttft(_own)?|ttft_(fixed|per_token)_s|first_wait.*|ttft_discrepancy_sd",
        "time to first token\nwith its own costs",
        "run",
    ),
    "percentiles": (
        (10.2, 0),
        r"(ttft_|tpot_)?(spread_.*|backlog_s|percentile_.*|load_factor|excess_misfit)",
        "percentiles / mean\nof e2e, ttft, tpot",
        "run, level",
    ),
}
OBSERVED = ("latency", "accepted", "ttft", "percentiles")


def group_of(name: str) -> str:
    """Return the one group of a variable."""
    found = [g for g, (_, pattern, _, _) in GROUPS.items() if re.fullmatch(pattern, name)]
    if len(found) != 1:
        raise LookupError(f"variable {name!r} is in {found or 'no group'}: mend GROUPS.")
    return found[0]


def arrows() -> set[tuple[str, str]]:
    """Return pairs of groups between which the model has a dependence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs that are left out
        frame = bs.load_vllm_cpu("moe", quiet_only=True)
        model = bs.build_model(frame[~frame["is_throughput_test"]])
    graph = ModelGraph(model).make_compute_graph()
    parents = {k: v - {"score_weight"} for k, v in graph.items() if k != "score_weight"}
    pairs = {(group_of(p), group_of(name)) for name, of in parents.items() for p in of}
    return {(a, b) for a, b in pairs if a != b}


def reduced(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Leave out an arrow from one group to another where a way over a third says the same."""
    over = {(a, d) for a, b in pairs for c, d in pairs if b == c}
    return pairs - over


def draw(ax: Axes, pairs: set[tuple[str, str]]) -> None:
    """Draw groups and arrows."""
    centers = {g: (x + WIDTH / 2, y + HEIGHT / 2) for g, ((x, y), *_) in GROUPS.items()}
    for start, end in sorted(reduced(pairs)):
        (x0, y0), (x1, y1) = centers[start], centers[end]
        aside = max(-0.35, min(0.35, (x0 - x1) / 8)) * WIDTH
        ax.annotate(
            "",
            xy=(x1 + aside, y1 + HEIGHT / 2 + 0.05),
            xytext=(x0 - aside * 0.4, y0 - HEIGHT / 2 - 0.03),
            arrowprops={"arrowstyle": "-|>", "color": "0.35", "linewidth": 1.2},
            zorder=1,
        )
    for group, ((x, y), _, text, dims) in GROUPS.items():
        seen = group in OBSERVED
        ax.add_patch(
            FancyBboxPatch(
                (x, y),
                WIDTH,
                HEIGHT,
                boxstyle="round,pad=0.03",
                facecolor="#dce9f5" if seen else "white",
                edgecolor="#0b3c6f" if seen else "0.4",
                linewidth=2.4 if seen else 1.0,
                zorder=2,
            )
        )
        middle = x + WIDTH / 2
        ax.text(middle, y + 0.6, text, ha="center", va="center", fontsize=9.5, zorder=3)
        ax.text(middle, y + 0.12, dims, ha="center", va="center", fontsize=8, color="0.3", zorder=3)
    ax.set(xlim=(-0.2, 12.5), ylim=(-0.2, 4.2))
    ax.axis("off")


def main() -> None:
    """Write the figure beside this script."""
    figure, ax = plt.subplots(figsize=(12, 4.6))
    draw(ax, arrows())
    figure.savefig(FILE, dpi=130, bbox_inches="tight")


if __name__ == "__main__":
    main()
