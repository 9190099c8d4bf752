"""From what happened to each request of a simulated run to a row of the table of runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayes_sd.simulate_arm import SimulatedArm
from bayes_sd.simulate_load import SimulatedLoad

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """One run of the simulator: every request and every step.

    Attributes
    ----------
    arm, load : SimulatedArm, SimulatedLoad
        What was run.
    requests : pandas.DataFrame, one row per request
        In the order in which they were sent, those before and after the measured ones too
        (``is_measured``). Times in s since the start: ``sent_s``, ``admitted_s`` (into the batch),
        ``first_token_s``, ``end_s``, NaN where it did not happen. ``input_len_tokens``,
        ``output_len_tokens``; ``emitted_tokens`` so far; ``num_prefills`` (each emits a token: 1
        and one for each time that it was computed again), ``num_steps``, ``num_drafts`` (steps
        that drafted), ``num_draft_tokens``, ``num_accepted_tokens``, ``num_discarded_tokens``
        (emitted by the last step beyond the answer's length), ``num_preemptions``. In a request
        that has ended, prefills + steps + accepted - discarded = output_len_tokens.
    accepted_at_position : array[request, position] of int
        Accepted drafts.
    steps : pandas.DataFrame, one row per step
        ``start_s``, ``end_s``, ``running_requests`` (in the batch), ``scheduled_requests`` (with
        tokens in this step), ``decoding_requests``, ``drafted_tokens``, ``prefill_tokens``,
        ``context_tokens`` (in the KV cache), ``expert_coverage`` (share of experts touched; 1 if
        dense) and ``shard_imbalance`` (largest / mean load of a shard).
    """

    arm: SimulatedArm
    load: SimulatedLoad
    requests: pd.DataFrame
    accepted_at_position: NDArray[np.int32]
    steps: pd.DataFrame

    @property
    def window_s(self) -> tuple[float, float]:
        """Start and end of the measured window, s.

        From the first measured request's sending to the last one's; to the end of the last if
        requests stop arriving.
        """
        is_measured = self.requests["is_measured"].to_numpy()
        sent_s, end_s = (
            self.requests[name].to_numpy()[is_measured] for name in ("sent_s", "end_s")
        )
        end = sent_s[-1] if self.load.keeps_arriving else end_s.max()
        return float(sent_s[0]), float(end)

    def experts_by_tokens(self) -> pd.DataFrame:
        """Return measured expert counts, one row per number of tokens in a step.

        Returns
        -------
        pandas.DataFrame
            ``tokens``, ``num_steps``, ``mean_distinct_experts`` (of a layer) and
            ``mean_shard_imbalance``; no rows for a dense model.
        """
        experts, steps = self.arm.server.experts, self.steps
        count = 0 if experts is None else experts.num_experts
        tokens = steps["decoding_requests"] + steps["drafted_tokens"] + steps["prefill_tokens"]
        table = pd.DataFrame(
            {
                "tokens": tokens.astype(np.int64),
                "mean_distinct_experts": steps["expert_coverage"] * count,
                "mean_shard_imbalance": steps["shard_imbalance"],
            }
        )
        groups = table[: len(table) if count else 0].groupby("tokens")
        return groups.mean().assign(num_steps=groups.size()).reset_index()

    def summary(self) -> dict[str, Any]:
        """Return the run as a row of the table of runs, without its names.

        Rates, counts and latencies are of the measured requests. ``request_rate_rps`` is the
        measured requests less one, over the time between the first's sending and the last's.
        ``completed_rate_rps`` is completions per second of the window, whoever completed; if
        requests stop arriving, the measured ones over a duration that contains the drain.
        ``mean_in_system_requests`` and ``mean_running_requests`` integrate over the window what
        was in flight and in the batch, warm-up and later requests among them.
        """
        start, end = self.window_s
        requests = {name: cells.to_numpy() for name, cells in self.requests.items()}
        is_measured = requests["is_measured"]
        measured = {str(name): cells[is_measured] for name, cells in requests.items()}
        count, is_open = int(is_measured.sum()), self.load.kind == "open"
        done = is_measured
        if self.load.keeps_arriving:
            done = (requests["end_s"] > start) & (requests["end_s"] <= end)
        in_system_s = _overlap(requests["sent_s"], requests["end_s"], start, end).sum()
        steps = {name: cells.to_numpy() for name, cells in self.steps.items()}
        running_s = (
            _overlap(steps["start_s"], steps["end_s"], start, end) @ steps["running_requests"]
        )
        sent_for_s = measured["sent_s"][-1] - measured["sent_s"][0]
        return {
            "num_speculative_tokens": self.arm.num_speculative_tokens,
            "load_kind": self.load.kind,
            "arrivals": self.load.arrivals if is_open else "closed",
            "input_len_tokens": float(measured["input_len_tokens"].mean()),
            "output_len_tokens": float(measured["output_len_tokens"].mean()),
            "num_requests": count,
            "request_rate_rps": (count - 1) / sent_for_s if is_open else np.nan,
            "target_rate_rps": self.load.request_rate_rps if is_open else np.nan,
            "completed_rate_rps": done.sum() / (end - start),
            "concurrency": np.nan if is_open else self.load.concurrency,
            "client_cap": self.load.client_cap if self.load.client_cap else np.nan,
            "max_num_seqs": self.arm.server.max_num_seqs,
            "is_throughput_test": False,
            "mean_in_system_requests": in_system_s / (end - start),
            "mean_running_requests": running_s / (end - start),
            "output_tokens_per_s": requests["output_len_tokens"][done].sum() / (end - start),
            **_latencies(measured),
            **self._acceptance(measured),
        }

    def _acceptance(self, measured: Mapping[str, Any]) -> dict[str, Any]:
        drafter, drafts = self.arm.drafter, measured["num_drafts"].sum()
        if self.arm.num_speculative_tokens == 0 or drafter is None or drafts == 0:
            return {"forced_acceptance_rate": np.nan, "accepted_per_position": ""}
        counts = self.accepted_at_position[self.requests["is_measured"].to_numpy()].sum(axis=0)
        drafted, accepted = (
            measured["num_draft_tokens"].sum(),
            measured["num_accepted_tokens"].sum(),
        )
        passes = drafted / measured["num_steps"].sum() if self.arm.draft_length_schedule else np.nan
        return {
            "num_draft_steps": passes,  # blank for a chain
            "forced_acceptance_rate": drafter.acceptance if drafter.is_forced else np.nan,
            "draft_acceptance_rate": accepted / drafted,
            "mean_acceptance_length": 1 + accepted / measured["num_steps"].sum(),
            "num_drafts": int(drafts),
            "num_draft_tokens": int(drafted),
            "num_accepted_tokens": int(accepted),
            "accepted_per_position": ";".join(str(count) for count in counts),
        }


def _overlap(begin_s: Any, end_s: Any, window_start_s: float, window_end_s: float) -> Any:
    """Return how long each of several spans lies in the window; an end of NaN is still to come."""
    last = np.fmin(end_s, window_end_s)
    return np.maximum(last - np.maximum(begin_s, window_start_s), 0.0)


def _latencies(measured: Mapping[str, Any]) -> dict[str, float]:
    """Return mean and percentiles (linear between order statistics) of the latencies."""
    decode = measured["end_s"] - measured["first_token_s"]
    more = measured["output_len_tokens"] - 1
    latencies = {
        "e2e": measured["end_s"] - measured["sent_s"],
        "ttft": measured["first_token_s"] - measured["sent_s"],
        "tpot": decode[more > 0] / more[more > 0],
    }
    row: dict[str, float] = {}
    for name, values in latencies.items():
        if len(values):
            row[f"mean_{name}_s"] = float(values.mean())
            found = np.percentile(values, PERCENTILES)
            row |= {f"p{p}_{name}_s": float(v) for p, v in zip(PERCENTILES, found, strict=True)}
    deliveries = (measured["num_steps"] + measured["num_prefills"] - 1).sum()
    if deliveries > 0:
        row["mean_itl_s"] = float(decode.sum() / deliveries)
    return row
