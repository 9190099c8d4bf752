"""Ways to hold runs out: each is a function of the data that returns its folds.

A fold says which runs are learnt from and which are asked for. No run is both; no sweep is both
but in `highest_loads`, whose point is a server that was seen at low load.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from benchmarks.accuracy_data import load_of_runs, usable
from benchmarks.folds import NUM_FOLDS, fold_of_runs

type Mask = NDArray[np.bool_]
type Split = Callable[[xr.Dataset], list["Fold"]]

FEW_RUNS = (4, 8, 16)
FEW_REPEATS = 2
MIN_SWEEP = 4  # a sweep of fewer loads has no two highest
MAX_BOOT_FOLDS = 3
SEED = 17


@dataclass(frozen=True)
class Fold:
    """Runs to learn from and runs to ask for, masks over runs.

    Attributes
    ----------
    name : str
        What is held out.
    train, tested : array of bool, (run,)
        Runs at a cap are never asked for; a method may learn from them.
    scope : array of bool, (run,) or None
        Runs that a model may have in its data set, those of ``train`` and perhaps others with
        weight 0; None for all. It says what can be compiled once, not what is learnt from.
    """

    name: str
    train: Mask
    tested: Mask
    scope: Mask | None = None


def sweeps(data: xr.Dataset) -> list[Fold]:
    """Hold out whole sweeps, four folds over those of each verifier (`benchmarks.folds`)."""
    fold = fold_of_runs(data)
    return [
        Fold(f"fold {number}", fold != number, (fold == number) & usable(data))
        for number in range(NUM_FOLDS)
    ]


def is_highest(data: xr.Dataset) -> Mask:
    """Mark the two highest loads of each sweep with four or more: rates, or requests in flight."""
    is_open, is_usable = data["control"].values == "open", usable(data)
    sweep = data["sweep_of_run"].values
    has_open = pd.Series(is_open & is_usable).groupby(sweep).transform("any").to_numpy()
    counts = is_usable & (is_open | ~has_open)
    load = pd.Series(np.where(counts, load_of_runs(data), np.nan))
    rank = load.groupby(sweep).rank(ascending=False, method="first").to_numpy()
    size = pd.Series(is_usable).groupby(sweep).transform("sum").to_numpy()
    return np.asarray((rank <= 2) & (size >= MIN_SWEEP))


def highest_loads(data: xr.Dataset) -> list[Fold]:
    """Hide the two highest loads of every sweep, and runs at a cap; the sweeps themselves are seen.

    It is the one split in which a law of the single sweep has a word.
    """
    highest = is_highest(data)
    return [Fold("two highest loads", ~highest & usable(data), highest)]


def highest_loads_new_sweep(data: xr.Dataset) -> list[Fold]:
    """Ask for the two highest loads of held-out sweeps when no such load was seen anywhere."""
    highest, fold = is_highest(data), fold_of_runs(data)
    return [
        Fold(
            f"fold {number}",
            (fold != number) & ~highest & usable(data),
            (fold == number) & highest,
        )
        for number in range(NUM_FOLDS)
        if ((fold == number) & highest).any()
    ]


def _some(values: NDArray[np.float64]) -> list[float]:
    """Return lowest, middle and highest of some levels; all if there are three or fewer."""
    levels = np.unique(values[np.isfinite(values)])
    chosen = levels if len(levels) <= 3 else levels[[0, len(levels) // 2, -1]]
    return [float(level) for level in chosen]


def draft_lengths(data: xr.Dataset) -> list[Fold]:
    """Hold out a draft length: lowest, middle, highest; of pairs that were seen at another one."""
    drafts, pair = data["num_speculative_tokens"].values, data["pair_of_run"].values
    folds = []
    for level in _some(drafts[drafts > 0].astype(float)):
        train = drafts != level
        seen = np.isin(pair, pair[train & (drafts > 0)])
        tested = ~train & seen & usable(data)
        if tested.any():
            folds.append(Fold(f"k = {level:.0f}", train, tested))
    return folds


def acceptance(data: xr.Dataset) -> list[Fold]:
    """Hold out a level of acceptance: a forced rate, or the drafter of a base with several."""
    known, pair = data["known_acceptance_rate"].values, data["pair_of_run"].values
    levels = _some(known)
    if len(levels) > 1:
        return [
            Fold(f"acceptance {level:g}", known != level, (known == level) & usable(data))
            for level in levels
        ]
    folds = []
    for number in range(data.sizes["pair"]):
        same = [
            other
            for other in range(data.sizes["pair"])
            if other != number
            and data["base_of_pair"].values[other] == data["base_of_pair"].values[number]
            and data["method"].values[other] == data["method"].values[number]
        ]
        if same:
            held = pair == number
            name = f"drafter {data['drafter'].values[number]}"
            folds.append(Fold(name, ~held, held & usable(data)))
    return folds


def length_groups(data: xr.Dataset) -> NDArray[np.int_]:
    """Return the number of each run's pair of lengths: the mean ones of its sweep.

    Lengths with no gap of more than a fifth between them are one.
    """
    sweep, keys = data["sweep_of_run"].values, []
    for kind in ("input", "output"):
        log = np.log(pd.Series(data[f"{kind}_len_tokens"].values).groupby(sweep).mean())
        known = np.unique(log)
        number = np.concatenate([[0], np.cumsum(np.diff(known) > np.log(1.2))])
        keys.append(number[np.searchsorted(known, log)])
        places = log.index
    group = np.unique(np.column_stack(keys), axis=0, return_inverse=True)[1].reshape(-1)
    return np.asarray(group[np.searchsorted(places, sweep)])


def lengths(data: xr.Dataset) -> list[Fold]:
    """Hold out each pair of prompt and answer lengths, of bases that were seen at another one."""
    group, base = length_groups(data), data["base_of_run"].values
    folds = []
    for number in np.unique(group):
        train = group != number
        tested = ~train & np.isin(base, base[train]) & usable(data)
        if tested.any():
            at = np.flatnonzero(tested)[0]
            prompt, answer = (data[f"{n}_len_tokens"].values[at] for n in ("input", "output"))
            folds.append(Fold(f"{prompt:.0f} in, {answer:.0f} out", train, tested))
    return folds


def verifiers(data: xr.Dataset) -> list[Fold]:
    """Hold out each verifier whole, where at least four of known size share one deployment."""
    size, place = data["verifier_params_b"].values, data["deployment_of_base"].values
    if data.sizes["base"] < 4 or np.isnan(size).any() or len(np.unique(place)) > 1:
        return []
    base = data["base_of_run"].values
    return [
        Fold(
            str(data["base"].values[number]),
            base != number,
            (base == number) & usable(data),
            base != number,
        )
        for number in range(data.sizes["base"])
    ]


def boots(data: xr.Dataset) -> list[Fold]:
    """Hold out a server start of configurations that were started several times."""
    table = pd.DataFrame(
        {
            "base": data["base_of_run"].values,
            "pair": data["pair_of_run"].values,
            "k": data["num_speculative_tokens"].values,
            "acceptance": np.nan_to_num(data["known_acceptance_rate"].values),
            "lengths": length_groups(data),
            "sweep": data["sweep"].values[data["sweep_of_run"].values],
        }
    )
    key = ["base", "pair", "k", "acceptance", "lengths"]
    order = table.groupby(key)["sweep"].rank(method="dense").to_numpy().astype(int) - 1
    count = table.groupby(key)["sweep"].transform("nunique").to_numpy()
    repeated = count > 1
    if not repeated.any():
        return []
    number_of_folds = min(int(count.max()), MAX_BOOT_FOLDS)
    sweep, folds = data["sweep_of_run"].values, []
    for number in range(number_of_folds):
        held = repeated & (order % number_of_folds == number)
        hidden = np.isin(sweep, sweep[held])  # a sweep is hidden whole, whatever else it ran
        folds.append(Fold(f"start {number}", ~hidden, held & usable(data)))
    return [fold for fold in folds if fold.tested.any()]


def few_runs(data: xr.Dataset, number: int) -> list[Fold]:
    """Learn from a few runs of one pair, drawn at random from half of its sweeps; ask for the rest.

    One pair for each base, that of most runs, with the base's runs without speculation; two draws
    of runs where there are one or two bases. Fewer runs are the first of those of more. Nothing
    of other verifiers is seen.
    """
    folds = []
    pair, drafts = data["pair_of_run"].values, data["num_speculative_tokens"].values
    is_usable, sweep = usable(data), data["sweep_of_run"].values
    is_counted = np.isnan(data["known_acceptance_rate"].values)
    for base in range(data.sizes["base"]):
        of_base = (data["base_of_run"].values == base) & is_usable
        pairs, counts = np.unique(pair[of_base & (pair >= 0)], return_counts=True)
        chosen = pairs[counts.argmax()] if len(pairs) else -1
        mine = of_base & np.isin(pair, [chosen, -1])
        own = np.unique(sweep[mine])
        for repeat in range(FEW_REPEATS if data.sizes["base"] <= 2 else 1):
            rng = np.random.default_rng([SEED, base, repeat])
            half = rng.permutation(own)[: len(own) // 2]
            pool = np.flatnonzero(mine & np.isin(sweep, half))
            tested = mine & ~np.isin(sweep, half)
            if len(pool) < number or not tested.any():
                continue
            order = _with_drafts_first(rng.permutation(pool), drafts)
            train, scope = np.zeros((2, len(pair)), dtype=bool)
            train[order[:number]] = True
            scope[order[: min(max(FEW_RUNS), len(order))]] = True
            if is_counted[mine & (drafts > 0)].any():  # acceptance of the others is counted
                scope |= tested
            name = f"{data['base'].values[base]}, draw {repeat}"
            folds.append(Fold(name, train, tested, scope))
    return folds


def _with_drafts_first(order: NDArray[np.int_], drafts: NDArray[np.int_]) -> NDArray[np.int_]:
    """Move a run with drafts to the front, if there is one: else nothing is known of drafting."""
    at = np.flatnonzero(drafts[order] > 0)
    if not len(at):
        return order
    return np.concatenate([[order[at[0]]], np.delete(order, at[0])])


def _few(number: int) -> Split:
    return lambda data: few_runs(data, number)


SPLITS: dict[str, Split] = {
    "sweeps": sweeps,
    "highest loads": highest_loads,
    "highest loads, new sweep": highest_loads_new_sweep,
    "draft length": draft_lengths,
    "acceptance": acceptance,
    "lengths": lengths,
    "verifier": verifiers,
    "boot": boots,
    **{f"{number} runs": _few(number) for number in FEW_RUNS},
}
EXTRAPOLATING = (
    "highest loads",
    "highest loads, new sweep",
    "draft length",
    "acceptance",
    "lengths",
    "verifier",
    *(f"{number} runs" for number in FEW_RUNS),
)
