"""What a report shows: its settings, each a pair with lengths and acceptance, and its loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayes_sd.capacity_draws import capacity_draws_rps
from bayes_sd.configuration import resolve
from bayes_sd.decide import draft_lengths as lengths_to_compare
from bayes_sd.exceptions import ArgumentError, DataError
from bayes_sd.posterior import find_cell, fitted_bases, fitted_pairs
from bayes_sd.scenario import Scenario
from bayes_sd.validate import positive

MAX_SETTINGS_PER_PAIR = 3
NUM_LOADS = 12
SNAP = 0.1  # a load of the grid this near to a measured one is moved there
LOWEST_LOAD, LOW_LOAD, HIGH_LOAD = 0.005, 0.05, 1.1  # as shares of the highest capacity

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A pair with lengths and acceptance, the draft lengths to compare and the loads to show."""

    template: Scenario
    pair: str
    draft_lengths: tuple[int, ...]
    loads: tuple[float, ...]
    input_len_tokens: float
    output_len_tokens: float

    @property
    def load_name(self) -> str:
        """Field of `Scenario` that the loads are values of."""
        return "request_rate_rps" if self.template.concurrency is None else "concurrency"

    def scenario(self, num_speculative_tokens: int, load: float) -> Scenario:
        """Return the scenario of one draft length at one load."""
        return self.template.with_(
            num_speculative_tokens=num_speculative_tokens, **{self.load_name: load}
        )

    @property
    def label(self) -> str:
        """Lengths, acceptance and arrivals in words."""
        given = self.template.acceptance
        rates = given if isinstance(given, tuple) else (given,)
        words = (
            "acceptance as counted"
            if given is None
            else "acceptance " + "/".join(f"{rate:g}" for rate in rates)
        )
        loop = (
            "closed loop"
            if self.load_name == "concurrency"
            else f"{self.template.arrivals.replace('poisson', 'Poisson')} arrivals"
        )
        return (
            f"{self.input_len_tokens:.0f} tokens in, {self.output_len_tokens:.0f} out; "
            f"{words}; {loop}"
        )


def settings_of(
    tree: xr.DataTree,
    scenarios: Sequence[Scenario] | None = None,
    loads: Sequence[float] | None = None,
    draft_lengths: Sequence[int] | None = None,
    *,
    random_seed: int = 0,
) -> tuple[list[Setting], list[str]]:
    """Return the settings of a report, and what was left out, one sentence each.

    Parameters
    ----------
    tree : xarray.DataTree
        Result of `fit`.
    scenarios : sequence of Scenario, optional
        Settings; their own draft length and load are not used. By default the lengths and
        acceptance that most runs of each pair had, `MAX_SETTINGS_PER_PAIR` of each pair.
    loads : sequence of float, optional
        Requests per second (in flight for a closed loop), increasing; by default `NUM_LOADS` of
        them, up to a little above the highest capacity.
    draft_lengths : sequence of int, optional
        By default 0 (off) and those measured with the pair.
    random_seed : int
        Seed of the capacity that the loads go up to.

    Returns
    -------
    settings : list of Setting
    left_out : list of str

    Raises
    ------
    ArgumentError, UnknownPairError
        If loads or draft lengths are out of range, or a pair was not fitted.
    DataError
        If the scenarios given need an acceptance that was not counted, or no setting is left.
    """
    given = None if loads is None else [positive(each, "loads") for each in loads]
    if given is not None and (not given or any(a >= b for a, b in pairwise(given))):
        raise ArgumentError(f"loads must be positive and increasing. Got {loads!r} instead.")
    if scenarios is not None and not len(scenarios):
        raise ArgumentError("scenarios must hold at least one Scenario. Got none instead.")
    left_out: list[str] = []
    templates = (
        _measured_templates(tree, left_out) if scenarios is None else _distinct(list(scenarios))
    )
    settings = []
    for template in templates:
        try:
            settings.append(_setting(tree, template, given, draft_lengths, random_seed))
        except (DataError, ArgumentError) as error:
            if scenarios is not None or given is not None or draft_lengths is not None:
                raise
            left_out.append(f"{template.pair}: {error}")
    if not settings:
        raise DataError("the report has nothing to show: " + " ".join(left_out))
    return settings, left_out


def _distinct(scenarios: list[Scenario]) -> list[Scenario]:
    """Keep one of scenarios that differ in nothing but draft length and load."""
    seen: dict[Scenario, Scenario] = {}
    for scenario in scenarios:
        if not isinstance(scenario, Scenario):
            raise ArgumentError(f"scenario must be a Scenario. Got {scenario!r} instead.")
        load = "request_rate_rps" if scenario.concurrency is None else "concurrency"
        seen.setdefault(scenario.with_(num_speculative_tokens=0, **{load: 1.0}), scenario)
    return list(seen.values())


def _setting(
    tree: xr.DataTree,
    template: Scenario,
    loads: list[float] | None,
    draft_lengths: Sequence[int] | None,
    random_seed: int,
) -> Setting:
    lengths = lengths_to_compare(tree, template, draft_lengths)
    arms = [resolve(tree, template.with_(num_speculative_tokens=k)) for k in lengths]
    if loads is None:
        measured = _measured_loads(tree, template)
        if template.concurrency is not None:
            loads = _closed_loads(measured, template.max_num_seqs)
        else:
            medians = [float(np.median(capacity_draws_rps(tree, a, random_seed))) for a in arms]
            loads = _open_loads(measured, max(medians))
    found = arms[-1]
    return Setting(
        template,
        found.cell.label,
        tuple(lengths),
        tuple(loads),
        found.input_len,
        found.output_len,
    )


def _measured_templates(tree: xr.DataTree, left_out: list[str]) -> list[Scenario]:
    """Return the settings that most runs of each pair had."""
    runs = tree["constant_data"].to_dataset()
    pairs = fitted_pairs(tree)
    of_run = runs["pair_of_run" if pairs else "base_of_run"].values
    templates = []
    for number, label in enumerate(pairs or fitted_bases(tree)):
        of_pair = of_run == number
        columns = (
            np.round(runs["input_len_tokens"].values[of_pair]),
            np.round(runs["output_len_tokens"].values[of_pair]),
            np.nan_to_num(runs["forced_acceptance_rate"].values[of_pair], nan=-1.0),
        )
        kinds, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        closed = not np.isfinite(runs["request_rate_rps"].values[of_pair]).any()
        for at in order[:MAX_SETTINGS_PER_PAIR]:
            input_len, output_len, forced = (float(value) for value in kinds[at])
            templates.append(
                Scenario(
                    label,
                    request_rate_rps=None if closed else 1.0,
                    concurrency=1.0 if closed else None,
                    input_len_tokens=input_len,
                    output_len_tokens=output_len,
                    acceptance=None if forced < 0 else forced,
                )
            )
        rest = order[MAX_SETTINGS_PER_PAIR:]
        if len(rest):
            left_out.append(
                f"{label}: {len(rest)} more combinations of lengths and acceptance "
                f"({counts[rest].sum()} runs) are in the fit. Name the scenarios to see them."
            )
    return templates


def _measured_loads(tree: xr.DataTree, template: Scenario) -> Floats:
    """Return the loads of the runs of the scenario's verifier, sorted."""
    base, _ = find_cell(tree, template.pair, drafts=False)
    runs = tree["constant_data"].variables
    name = "request_rate_rps" if template.concurrency is None else "concurrency"
    values = runs[name].values[runs["base_of_run"].values == base]
    return np.unique(values[np.isfinite(values)])


def _open_loads(measured: Floats, capacity_rps: float) -> list[float]:
    low = LOW_LOAD * capacity_rps
    if len(measured):  # down to the lowest load that was measured, within reason
        low = min(low, max(float(measured.min()), LOWEST_LOAD * capacity_rps))
    return _snapped(np.geomspace(low, HIGH_LOAD * capacity_rps, NUM_LOADS), measured)


def _closed_loads(measured: Floats, max_num_seqs: int) -> list[float]:
    highest = min(2 * measured.max(), max_num_seqs) if len(measured) else max_num_seqs
    grid = np.unique(np.round(np.geomspace(1.0, max(highest, 1.0), NUM_LOADS)))
    return _snapped(grid, measured)


def _snapped(grid: Floats, measured: Floats) -> list[float]:
    """Round loads to three figures, and move those near a measured load onto it."""
    loads = set()
    for value in grid:
        near = measured[np.argmin(abs(measured - value))] if len(measured) else np.inf
        loads.add(float(near) if abs(near / value - 1) <= SNAP else float(f"{value:.3g}"))
    return sorted(loads)
