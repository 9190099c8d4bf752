"""Whether latency tells a drafter's cost of a draft from the verifier's cost of checking it.

    python benchmarks/identifiability.py           # five simulated cases, three measured ones
    python benchmarks/identifiability.py --quick   # the last case of each study; writes nothing

A step of n requests with k drafts pays n k (drafting + verifying): runs of one pair tell the sum,
and the prior divides it. Does the posterior say so, and what do draft lengths, runs and pairs add?
Here are the correlation of the logs of both costs, and how wide they, their sum and their ratio
are. Drafting is a cost of a pair, verifying one of the verifier and the same for all its pairs.

Truth is known where runs come from `bayes_sd.simulate`. Its server adds the time to compute tokens
to that of reading weights (``roofline_sharpness`` of 1): a step is linear in its tokens, and one
more draft has one cost. Loads stay low, for there is no bend here that the model's knee could find.
Cases of one study share a compiled model, in which other runs have weight 0 in the likelihood.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from matplotlib.figure import Figure

import bayes_sd as bs
from bayes_sd.convergence import MAX_R_HAT
from bayes_sd.sampling import compile_model, sample
from bayes_sd.start import starting_point
from benchmarks.folds import RESULTS, markdown, stamp, write_results

SERVER = bs.SimulatedServer(
    weights_s=8e-3,
    compute_per_token_s=2e-5,
    step_fixed_s=1e-3,
    roofline_sharpness=1.0,
    request_in_step_s=1e-4,
    context_per_token_s=1e-7,
    mixed_step_s=1e-3,
    request_start_s=0.02,
    step_noise_cv=0.05,
    verifier_params_b=8.0,
)
# 1e9 parameters, acceptance, s per pass, s per request and pass: they follow no exact law of size.
SIZES = ((0.1, 0.6, 5e-4, 6e-6), (0.5, 0.7, 1e-3, 2e-5), (2.0, 0.8, 2e-3, 6e-5))
DRAFTERS = {
    f"drafter-{size:g}b": bs.SimulatedDrafter(
        drafter=f"drafter-{size:g}b",
        drafter_params_b=size,
        acceptance=acceptance,
        acceptance_spread_logit=0.4,
        fixed_s=fixed,
        per_request_s=per_request,
    )
    for size, acceptance, fixed, per_request in SIZES
}
BOOT, BOOT_SD, REQUESTS, LENGTHS = "simulated, boot ", 0.01, 2000, ((1024, 128), (256, 256))
FULL, SHARES = 10, (0.15, 0.3, 0.45, 0.6, 0.8, 1.0)  # of what is completed with so many in flight
PARTS, WHERE = ("drafting", "verifying", "sum", "ratio"), ("OUTSIDE", "inside")
COSTS = ("draft_per_request_s", "verify_growth_per_draft", "verify_per_request_s")
DRAWS, QUICK = ({"draws": n, "tune": t, "chains": 4} for n, t in ((2000, 1500), (50, 100)))
TOLD = (0.25, 0.5)  # of the prior's width left: up to the first told, up to the second in part
ALIKE = 1.15  # widths within this factor of each other
THREE, ONE, CPU = tuple(DRAFTERS), ("drafter-0.5b",), ("drafter-a60", "drafter-a85")
# By name: study, drafters, and how many server starts of a draft length to learn from.
CASES: dict[str, tuple[str, tuple[str, ...], dict[int, int]]] = {
    "one pair, k = 3": ("one pair", ONE, {3: 8}),
    "one pair, k = 0, 3": ("one pair", ONE, {0: 2, 3: 6}),
    "one pair, k = 0, 1, 3, 5": ("one pair", ONE, {0: 2, 1: 2, 3: 2, 5: 2}),
    "one pair, 3 x drafting runs": ("one pair", ONE, {0: 2, 1: 6, 3: 6, 5: 6}),
    "three pairs, k = 0, 1, 3, 5": ("three pairs", THREE, {0: 2, 1: 2, 3: 2, 5: 2}),
    "measured, drafter-a60": ("measured", CPU[:1], {}),
    "measured, drafter-a85": ("measured", CPU[1:], {}),
    "measured, both": ("measured", CPU, {}),
}
NAMES = tuple(CASES)
# Cases before and after, and what differs.
STEPS = (
    (0, 1, "a quarter of the runs at k = 0 instead of 3"),
    (1, 2, "two thirds of the drafting runs at k = 1 and 5 instead of 3"),
    (2, 3, "three times the drafting runs of the same pair"),
    (2, 4, "as many runs of two further pairs"),
    (5, 7, "the runs of the other measured drafter"),
    (6, 7, "the runs of the other measured drafter"),
)


def runs_of(study: str) -> pd.DataFrame:
    """Return the runs of a study: simulated starts at rising loads, or dense ones on a CPU."""
    if study == "measured":
        frame = bs.load_vllm_cpu("dense")
        used = ~frame["is_throughput_test"] & frame["num_speculative_tokens_schedule"].isna()
        return frame[used].reset_index(drop=True)
    cases = [case[1:] for case in CASES.values() if case[0] == study]
    starts = {k: max(boots.get(k, 0) for _, boots in cases) for k in (0, 1, 3, 5)}
    arms = [bs.SimulatedArm(server=SERVER)]
    for drafter in (DRAFTERS[name] for name in cases[-1][0]):
        pair = bs.SimulatedArm(server=SERVER, drafter=drafter, num_speculative_tokens=5)
        arms += [replace(pair, num_speculative_tokens=k) for k in starts if k]
    base = bs.SimulatedLoad(request_rate_rps=1.0, num_requests=REQUESTS, warmup_requests=500)
    tables = []
    for arm in arms:
        small = replace(arm, server=replace(SERVER, max_num_seqs=FULL))
        for boot in range(starts[arm.num_speculative_tokens]):
            loads = []
            for i, share in enumerate(SHARES):
                prompt, answer = LENGTHS[(i + boot) % 2]  # they take turns
                load = replace(base, input_len_tokens=prompt, output_len_tokens=answer)
                rate = share * bs.simulated_capacity_rps(small, load)
                loads.append(replace(load, request_rate_rps=rate))
            seed = int.from_bytes(f"{arm.label} {boot}".encode(), "little")
            names = {"source_id": f"{BOOT}{boot}", "boot_sd": BOOT_SD}
            tables.append(bs.simulate_runs([arm], loads, **names, random_seed=seed))
    return pd.concat(tables, ignore_index=True)


def parts(drafting: Any, verifying: Any) -> dict[str, Any]:
    """Return both costs of one more draft of a request, s, their sum and their ratio."""
    both = (drafting + verifying, drafting / verifying)
    return dict(zip(PARTS, (drafting, verifying, *both), strict=True))


# The simulator's settings in the model's terms.
TRUTH = {name: parts(d.per_request_s, SERVER.compute_per_token_s) for name, d in DRAFTERS.items()}


def costs(draws: xr.Dataset, data: xr.Dataset) -> dict[str, dict[str, Any]]:
    """Return draws of the costs by drafter, (chain, draw)."""
    drafting, growth, request = (draws[name].values for name in COSTS)
    found = enumerate(zip(data["drafter"].values, data["base_of_pair"].values, strict=True))
    return {
        str(name): parts(drafting[..., i], growth[..., i] * request[..., base])
        for i, (name, base) in found
    }


def judge(draws: dict[str, Any], truth: dict[str, float]) -> dict[str, Any]:
    """Return the correlation, and width, interval and truth of each quantity."""
    logs = [np.log(draws[name]).ravel() for name in PARTS[:2]]
    found: dict[str, Any] = {"correlation": np.corrcoef(*logs)[0, 1]}
    for name, values in draws.items():
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        found[name] = {"sd": np.log(values).std(), "low": low, "median": middle, "high": high}
        if truth:
            found[name] |= {"truth": truth[name], "inside": bool(low <= truth[name] <= high)}
    return found


def fit_study(study: str, is_quick: bool) -> dict[str, dict[str, Any]]:
    """Fit the cases of a study; return figures and draws by case."""
    frame = runs_of(study)
    data = bs.to_dataset(frame)
    priors = bs.default_priors(data)
    model = bs.build_model(data, priors, responses=())
    tree = pm.sample_prior_predictive(4000, model=model, var_names=[*COSTS], random_seed=0)
    prior = costs(tree["prior"].dataset, data)
    compiled = compile_model(model, starting_point(data, priors))
    found = {}
    for name in [n for n in NAMES if CASES[n][0] == study][-1 if is_quick else 0 :]:
        (_, drafters, starts), k = CASES[name], frame["num_speculative_tokens"]
        used = frame["drafter"].isin(drafters) | (k == 0)
        if starts:
            boot = frame["source_id"].str.removeprefix(BOOT).astype(int)
            used &= boot < k.map(starts).fillna(0)
        weight, lengths = used.to_numpy(dtype=float), QUICK if is_quick else DRAWS
        tree = sample(compiled, score_weight=weight, progressbar=False, **lengths)
        every = costs(tree["posterior"].dataset, data)
        drawn = {d: every[d] for d in drafters}
        dims = ("chain", "draw")
        logs = {f"{d} {p}": (dims, np.log(drawn[d][p])) for d in drawn for p in PARTS}
        asked = {"posterior": xr.Dataset(logs), "sample_stats": tree["sample_stats"].dataset}
        own = bs.diagnose(xr.DataTree.from_dict(asked), warn=False)
        sizes = data["drafter_params_b"].values[np.isin(data["drafter"].values, drafters)]
        found[name] = {
            "runs": int(used.sum()),
            "verdict": bs.diagnose(tree, warn=False).sentence(),
            "sampled": f"{min(own.ess_bulk, own.ess_tail):.0f}, {own.r_hat:.3f}",
            "doubt": "" if own.r_hat <= MAX_R_HAT else " (NOT converged, proves nothing)",
            "sizes_b": dict(zip(drafters, sizes.tolist(), strict=True)),
            "posterior": {d: judge(draws, TRUTH.get(d, {})) for d, draws in drawn.items()},
            "prior": {d: judge(prior[d], {}) for d in drawn},
            "draws": drawn,
        }
        print(f"{name}: {found[name]['verdict']}", flush=True)
    return found


def tables(found: dict[str, dict[str, Any]]) -> str:
    """Return the table of widths and the table of costs, in microseconds."""
    widths, values = [], []
    for name, one in found.items():
        for drafter, own in one["posterior"].items():
            label = {"case": name, "drafter": f"{drafter}, {one['sizes_b'][drafter]:g} B"}
            known = {"pairs": len(one["posterior"]), "runs": one["runs"]}
            sd, cells = {"correlation": f"{own['correlation']:+.2f}"}, {}
            for p in PARTS:
                sd[p] = f"{own[p]['sd']:.2f} of {one['prior'][drafter][p]['sd']:.2f}"
                factor = 1.0 if p == "ratio" else 1e6
                at = {key: f"{factor * value:.3g}" for key, value in own[p].items()}
                cells[p] = f"{at['median']} ({at['low']} to {at['high']})"
                if "truth" in at:
                    cells[p] = f"{at['truth']}: {cells[p]}, {WHERE[own[p]['inside']]}"
            widths.append(label | known | sd | {"ESS, R-hat": one["sampled"]})
            values.append(label | cells)
    legend = "Costs in microseconds: truth where known, then median and 90 % interval."
    return f"{markdown(pd.DataFrame(widths))}\n\n{legend}\n\n{markdown(pd.DataFrame(values))}"


def change(found: dict[str, dict[str, Any]], before: int, after: int, what: str) -> str:
    """Say what differs between two cases, for the first drafter of the one before."""
    drafter = CASES[NAMES[before]][1][0]
    one, other = (found[NAMES[i]]["posterior"][drafter] for i in (before, after))
    said = [f"correlation {one['correlation']:+.2f} to {other['correlation']:+.2f}"]
    for part in PARTS:
        old, new = one[part]["sd"], other[part]["sd"]
        word = "narrower" if new * ALIKE < old else "wider" if new > old * ALIKE else "alike"
        said.append(f"{part} {old:.2f} to {new:.2f}, {word}")
    names = " → ".join(f"{NAMES[i]}{found[NAMES[i]]['doubt']}" for i in (before, after))
    return f"- {what} ({names}; {drafter}): {'; '.join(said)}."


def left(name: str, one: dict[str, Any]) -> str:
    """Say what a case tells, by the share of the prior's width that is left."""
    said = []
    for p in PARTS:
        widths = [(one["posterior"][d][p]["sd"], one["prior"][d][p]["sd"]) for d in one["prior"]]
        share = np.median([after / before for after, before in widths])
        word = ("told", "told in part", "hardly told")[np.searchsorted(TOLD, share)]
        said.append(f"{p} {word} ({share:.0%})")
    return f"- {name}{one['doubt']}: {', '.join(said)}."


def plot(found: dict[str, dict[str, Any]]) -> None:
    """Draw both costs of each case, the truth, and the line of the median sum."""
    figure = Figure(figsize=(15, 8), layout="constrained")
    axes = figure.subplots(2, 4)
    for ax, (name, one) in zip(axes.flat, found.items(), strict=True):
        for i, (drafter, draws) in enumerate(one["draws"].items()):
            x, y = (1e6 * draws[p].ravel()[:: draws[p].size // 500] for p in PARTS[:2])
            ax.scatter(x, y, s=5, alpha=0.35, color=f"C{i}", label=drafter)
            total, share = 1e6 * np.median(draws["sum"]), np.linspace(0.005, 0.995, 400)
            ax.plot(share * total, (1 - share) * total, color=f"C{i}", linewidth=1)
            if drafter in TRUTH:
                at = [1e6 * TRUTH[drafter][p] for p in PARTS[:2]]
                ax.plot(*at, "X", color=f"C{i}", markeredgecolor="black", markersize=11)
        ax.set(xscale="log", yscale="log", title=f"{name} ({one['runs']} runs)")
        ax.set(xlabel="drafting one draft (us)", ylabel="verifying one more draft (us)")
        ax.legend(markerscale=3, fontsize=8)
    figure.savefig(RESULTS / "identifiability.png", dpi=110)


def main() -> None:
    """Fit all cases, print the tables, and write them and the plot."""
    parser = argparse.ArgumentParser(description="A drafter's cost and the verifier's, apart.")
    parser.add_argument("--quick", action="store_true", help="smoke test; writes no file")
    is_quick = parser.parse_args().quick
    begun, found = time.perf_counter(), {}
    for study in dict.fromkeys(study for study, *_ in CASES.values()):
        found |= fit_study(study, is_quick)
    changes = [change(found, *step) for step in STEPS if NAMES[step[0]] in found]
    settings = "{draws} draws after {tune} in each of {chains} chains".format_map(
        QUICK if is_quick else DRAWS
    )
    text = f"""# A drafter's cost against the verifier's, per draft

Standard deviation of the logarithm of each cost of one more draft in a step, of their sum and of
their ratio: that of the posterior, of that of the prior. ESS and R-hat are the worst of these.

{tables(found)}

What differs when runs are changed or added (widths within a factor of {ALIKE:g} are called alike):

{"\n".join(changes)}

What the data tell and what they do not: the width that is left of the prior's, median of the
drafters; up to {TOLD[0]:.0%} is called told, more than {TOLD[1]:.0%} hardly told.

{"\n".join(left(*both) for both in found.items())}

Each dot is a draw, each line the pairs of costs whose sum is the median's, each cross the truth:

![Drafting against verifying](identifiability.png)

{"\n".join(f"- {name}: {one['verdict']}" for name, one in found.items())}

`python benchmarks/identifiability.py`: {settings}, mean latency alone (first tokens and percentiles
say nothing of costs in this model), {(time.perf_counter() - begun) / 60:.0f} min. {stamp()}"""
    print(text)
    if not is_quick:
        plot(found)
        figures = {n: {k: o[k] for k in o if k != "draws"} for n, o in found.items()}
        write_results("identifiability", text, {"stamp": stamp(), "cases": figures})


if __name__ == "__main__":
    main()
