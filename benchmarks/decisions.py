"""Time and memory of decisions, after a fit is in memory.

    python benchmarks/decisions.py          # a minute
    python benchmarks/decisions.py --quick  # two repeats; writes nothing

The public functions, on a made-up fit of `tests.fake_fit`: a real tree with draws about a known
law, no sampling. Each call is repeated and its median given, by the clock and in seconds of
processor: the first depends on what else the machine does, and on two cores another job doubles
it. Nothing is kept from one call to the next. Four candidates are those of the fit's pair; sixteen
are given. The load of the policy runs from nearly idle to past the capacity of the long drafts.
"""

import argparse
import os
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from bayes_sd.decide import choose_draft_length
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from benchmarks.folds import markdown, stamp, write_results
from tests.fake_fit import FORCED, KNOWN, Coefficients, fake_fit

CHAINS = 4
SIZES = (1_000, 4_000)
SIXTEEN = tuple(range(16))
RATES = np.linspace(0.25, 12.5, 50)
ONE_RATE = 5.0
BARS_S = {"decision of 4, 1,000 draws": 5e-3, "decision of 4, 4,000 draws": 15e-3}
POLICY = "policy, 16 k x 50 rates, 4,000 draws"
BARS_S |= {POLICY: 0.3}
BAR_MB = 1_000.0
JUMPS = {"jump_64_s": 5e-4, "jump_128_s": 1e-3, "jump_256_s": 5e-4}
ASKED = Scenario("sharp", request_rate_rps=ONE_RATE, acceptance=FORCED)


def made_up_fit(draws: int, *, jumps: bool = False, spread: float = 0.02) -> xr.DataTree:
    """Return a fit of so many draws, its costs spread by 2 %."""
    law = KNOWN
    if jumps:
        of_base = {name: costs | JUMPS for name, costs in KNOWN.of_base.items()}
        law = Coefficients(of_base, KNOWN.of_pair, KNOWN.acceptance)
    return fake_fit(
        draws // CHAINS,
        CHAINS,
        spread,
        coefficients=law,
        discrepancy_sd=0.01,
        load_discrepancy_sd=0.01,
    )


def measured(call: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Return the medians of a call: seconds by the clock and of processor, and MB at its peak."""
    clock, processor = [], []
    call()
    for _ in range(repeats):
        begun, used = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - begun)
        processor.append(time.process_time() - used)
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "clock_s": float(np.median(clock)),
        "fastest_s": min(clock),
        "processor_s": float(np.median(processor)),
        "peak_mb": peak / 1e6,
        "repeats": repeats,
    }


def run(repeats: int) -> dict[str, dict[str, float]]:
    """Measure every question; the key is the question."""
    found = {}
    for draws in SIZES:
        fit = made_up_fit(draws)
        for candidates in (None, SIXTEEN):
            name = f"decision of {len(candidates or '0135')}, {draws:,} draws"
            found[name] = measured(
                lambda fit=fit, candidates=candidates: choose_draft_length(
                    fit, ASKED, candidates=candidates
                ),
                5 * repeats,
            )
    found[POLICY] = measured(lambda: _policy(fit, SIXTEEN), repeats)
    found["the same, 4 k"] = measured(lambda: _policy(fit, None), repeats)
    wide = made_up_fit(SIZES[-1], spread=0.1)
    found["the same, 16 k, costs spread by 10 %"] = measured(
        lambda: _policy(wide, SIXTEEN), repeats
    )
    jumping = made_up_fit(SIZES[-1], jumps=True)
    found["the same, 16 k, a law with jumps"] = measured(lambda: _policy(jumping, SIXTEEN), repeats)
    return found


def _policy(fit: xr.DataTree, candidates: tuple[int, ...] | None) -> pd.DataFrame:
    return draft_length_policy(fit, ASKED, RATES, candidates=candidates)


def table_of(found: dict[str, dict[str, float]]) -> pd.DataFrame:
    """Return the figures with the bars beside them, in ms."""
    rows = []
    for name, one in found.items():
        bar = BARS_S.get(name)
        met = "" if bar is None else "yes" if one["clock_s"] <= bar else "no"
        rows.append(
            {
                "question": name,
                "median, ms": f"{1e3 * one['clock_s']:.1f}",
                "fastest, ms": f"{1e3 * one['fastest_s']:.1f}",
                "processor, ms": f"{1e3 * one['processor_s']:.1f}",
                "bar, ms": "" if bar is None else f"{1e3 * bar:g}",
                "met": met,
                "peak, MB": f"{one['peak_mb']:.0f}",
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two repeats; writes nothing")
    parser.add_argument("--repeats", type=int, default=9, help="of a policy; decisions 5 times it")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    others = os.getloadavg()[0]
    found = run(2 if options.quick else options.repeats)
    busiest = max(one["peak_mb"] for one in found.values())
    text = (
        "# Time of decisions\n\n"
        "`choose_draft_length` and `draft_length_policy` on a made-up fit (`tests.fake_fit`: draws "
        "about a known law, in a real tree; nothing sampled), after loading. Medians of repeats, "
        "by the clock and of processor time on one core. Before the first call the machine had "
        f"{others:.1f} other jobs running on its {os.cpu_count()} cores.\n\n"
        f"{markdown(table_of(found))}\n\n"
        f"Memory that a call takes at most: {busiest:.0f} MB, allowed {BAR_MB:.0f}.\n\n{stamp()}\n"
    )
    print(text)
    if not options.quick:
        write_results("decisions", text, {"found": found, "other_jobs": others, "stamp": stamp()})


if __name__ == "__main__":
    main()
