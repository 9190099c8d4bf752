"""Simulated days of a live server, clean and with a change injected: what check_drift says.

Truth is one draw of the posterior for each day, with its misfit, and a boot of its own. Windows
of five minutes have Poisson arrivals at a rate that swings over the day, latency at the batch that
Little's law gives, a gauge sampled every five seconds, and accepted drafts that follow a beta
variable of the window. A change comes at noon. Run: python -m benchmarks.drift_days
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import xarray as xr

from bayes_sd.drift_watch import BOOT_TOLD_SD, STREAMS, Batch, DriftWatch
from bayes_sd.live_reference import LiveReference
from bayes_sd.scenario import Scenario
from tests.fake_fit import fake_fit

WINDOW_S = 300.0
WINDOWS = 288
NOON = WINDOWS // 2
GAUGE_EVERY_S = 5.0
SWING = 0.2  # of the rate about its mean, over the day
K = 3
RUN_SD, REQUEST_SD = 0.02, 0.3  # logit
FALSE_ALARM = 0.05
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Change:
    """What is done at noon."""

    name: str
    part: str
    acceptance: float = 1.0
    is_slower: bool = False
    boot_sds: float | None = None  # None: no restart
    load: float = 1.0


CLEAN = Change("clean", "")
CHANGES = (
    Change("acceptance -15 %", "acceptance", acceptance=0.85),
    Change("verify cost +10 %", "cost", is_slower=True),
    Change("restart, boot 2 sd", "boot", boot_sds=2.0),
    Change("rate doubled", "load", load=2.0),
)


def a_fit() -> xr.DataTree:
    """Return a made-up fit: costs known to 3 %, acceptance to 0.03 of the logit."""
    tree = fake_fit(draws=400, spread=0.03)
    shape = tree["posterior"]["acceptance_request_sd"].shape
    posterior = (
        tree["posterior"]
        .to_dataset()
        .assign(
            acceptance_request_sd=(("chain", "draw"), np.full(shape, REQUEST_SD)),
            acceptance_run_sd=(("chain", "draw"), np.full(shape, RUN_SD)),
        )
    )
    tree["posterior"] = xr.DataTree(posterior)
    return tree


def slower(tree: xr.DataTree, factor: float = 1.1) -> xr.DataTree:
    """Return a fit whose verification costs so many times as much."""
    posterior = tree["posterior"].to_dataset()
    names = ("verify_fixed_s", "verify_per_request_s", "knee_s_per_token")
    copied = tree.copy()
    copied["posterior"] = xr.DataTree(posterior.assign({n: posterior[n] * factor for n in names}))
    return copied


class Days:
    """Many days of one kind, window by window."""

    def __init__(
        self, tree: xr.DataTree, scenario: Scenario, change: Change, count: int, seed: int
    ) -> None:
        self.change, self.count = change, count
        self.rng = np.random.default_rng(seed)
        self.references = [LiveReference.of(t, scenario) for t in (tree, slower(tree))]
        here = self.references[0]
        self.rate = float(scenario.request_rate_rps or 0.0)
        self.draw = self.rng.integers(len(here.log_latency), size=count)
        self.boot = here.boot_sd * self.rng.standard_normal(count)
        table = tree["posterior"]["conditional_acceptance_rate"].values[:, :, 0, :K]
        chosen = self.rng.integers(table.shape[0] * table.shape[1], size=count)
        self.rates = table.reshape(-1, K)[chosen]

    def window(self, number: int) -> Batch:
        """Return one window of all days."""
        after = number >= NOON
        change, rng = self.change, self.rng
        fresh = np.zeros(self.count, dtype=bool)
        if number == NOON and change.boot_sds is not None:
            fresh[:] = True
            sign = rng.choice([-1.0, 1.0], self.count)
            self.boot = self.boot + sign * change.boot_sds * self.references[0].boot_sd
        here = self.references[int(after and change.is_slower)]
        rate = self.rate * (1 + SWING * np.sin(2 * np.pi * number / WINDOWS))
        rate *= change.load if after else 1.0
        arrivals = rng.poisson(rate * WINDOW_S, self.count).astype(float)
        drafts, accepted = self._accepted(arrivals, change.acceptance if after else 1.0)
        length = 1 + accepted.sum(axis=1) / drafts
        batch = np.full(self.count, 5.0)
        for _ in range(200):
            latency = np.exp(here.of_draws(self.draw, batch, length) + self.boot)
            batch = 0.5 * batch + 0.5 * np.clip(arrivals / WINDOW_S * latency, 0.1, 256.0)
        samples = WINDOW_S / GAUGE_EVERY_S
        gauge = rng.poisson(batch * samples) / samples
        noise = here.request_cv / np.sqrt(arrivals) * rng.standard_normal(self.count)
        return Batch(
            np.full(self.count, WINDOW_S),
            arrivals,
            arrivals,
            latency * np.exp(noise),
            gauge,
            np.full(self.count, samples),
            drafts,
            length,
            fresh,
        )

    def _accepted(self, arrivals: np.ndarray, factor: float) -> tuple[np.ndarray, np.ndarray]:
        drafts = np.rint(arrivals * 200 / 2.5)
        sd = np.sqrt(RUN_SD**2 + REQUEST_SD**2 / arrivals)
        shift = sd * self.rng.standard_normal(self.count)
        left, found = drafts.astype(int), []
        for rate in self.rates.T:
            odds = rate * factor / (1 - rate * factor) * np.exp(shift)
            left = self.rng.binomial(left, odds / (1 + odds))
            found.append(left)
        return drafts, np.stack(found, axis=1).astype(float)


def watch(tree: xr.DataTree, scenario: Scenario, change: Change, count: int, seed: int) -> dict:
    """Return when each part was told on each day (-1: never)."""
    days = Days(tree, scenario, change, count, seed)
    seen = DriftWatch(days.references[0], count, WINDOW_S, FALSE_ALARM, 1.5)
    told = {part: np.full(count, -1) for part in (*STREAMS, "boot")}
    for number in range(WINDOWS):
        _, scores = seen.see(days.window(number))
        hits = {part: scores[part] >= seen.threshold for part in STREAMS}
        hits["boot"] = (seen.boot_z >= BOOT_TOLD_SD) & (told["cost"] < 0)
        for part, hit in hits.items():
            told[part][hit & (told[part] < 0)] = number
    return told


def summary(change: Change, told: dict) -> dict:
    """Return how often the right part was named, and how soon."""
    times = np.stack([told[part] for part in told])
    names = np.array(list(told))
    late = np.where(times >= NOON, times, 10**6)
    early = ((times >= 0) & (times < NOON)).any(axis=0)
    first = np.where(late.min(axis=0) < 10**6, names[late.argmin(axis=0)], "none")
    right = (first == change.part) & ~early
    delay = told[change.part][right] - NOON + 1
    return {
        "change": change.name,
        "right": float(right.mean()),
        "named_first": {str(n): float((first == n).mean()) for n in np.unique(first)},
        "alarm_before": float(early.mean()),
        "alarms_too": {
            part: float((told[part] >= NOON).mean()) for part in told if part != change.part
        },
        "median_delay_windows": float(np.median(delay)) if right.any() else None,
    }


def main() -> None:
    """Write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, default=1000)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    tree = a_fit()
    scenario = Scenario("quick", request_rate_rps=4.0, num_speculative_tokens=K)
    clean = watch(tree, scenario, CLEAN, given.days, 1)
    alarms = {part: float((clean[part] >= 0).mean()) for part in STREAMS}
    any_alarm = float(np.mean([any(clean[p][d] >= 0 for p in STREAMS) for d in range(given.days)]))
    restarted = watch(tree, scenario, replace(CLEAN, boot_sds=1.0), given.days, 2)
    after = float(np.mean([any(restarted[p][d] >= 0 for p in STREAMS) for d in range(given.days)]))
    rows = [
        summary(change, watch(tree, scenario, change, given.days, 10 + i))
        for i, change in enumerate(CHANGES)
    ]
    document = {
        "days": given.days,
        "false_alarm_stated": FALSE_ALARM,
        "false_alarm_found": any_alarm,
        "false_alarm_by_part": alarms,
        "false_alarm_with_restart": after,
        "changes": rows,
    }
    given.output.mkdir(parents=True, exist_ok=True)
    (given.output / "drift_days.json").write_text(json.dumps(document, indent=2) + "\n")
    (given.output / "drift_days.md").write_text(_text(document))
    print(_text(document))


def _text(document: dict) -> str:
    lines = [
        "# Drift on simulated days",
        "",
        f"{document['days']} days of each kind, 288 windows of 5 minutes, a change at noon; a "
        "made-up posterior of costs known to 3 %, not a fit of real runs.",
        "",
        f"False alarms on clean days: {document['false_alarm_found']:.1%} of days (stated: at most "
        f"{document['false_alarm_stated']:.0%}); with a restart at noon by one standard deviation "
        f"of boots {document['false_alarm_with_restart']:.1%}.",
        "",
        "| change | right part named first, no alarm before | named first | told besides, by the "
        "end of the day | windows to detect, median |",
        "|---|---|---|---|---|",
    ]
    for row in document["changes"]:
        named = ", ".join(f"{name} {share:.1%}" for name, share in row["named_first"].items())
        besides = row["alarms_too"].items()
        too = ", ".join(f"{name} {share:.1%}" for name, share in besides if share)
        lines.append(
            f"| {row['change']} | {row['right']:.1%} | {named} | {too or 'nothing'} | "
            f"{row['median_delay_windows']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
