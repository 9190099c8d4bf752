"""bayes_sd as one of the methods: mean latency alone, fitted to the training runs of a fold.

A prediction is that of a fresh benchmark run, ``kind="run"``: a new boot, also where the sweep was
seen. A data set is compiled once and its folds are weights 0 and 1 (`Fold.scope` says what a
model may hold); a verifier that was not seen is drawn from the population, ``allow_new=True``.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from bayes_sd.fitting import complete_tree
from bayes_sd.predict import predict_latency
from bayes_sd.priors import default_priors
from bayes_sd.sampling import CompiledModel, compile_blocks, sample
from bayes_sd.scenario import Scenario
from benchmarks.accuracy_data import Case
from benchmarks.accuracy_splits import Fold
from benchmarks.accuracy_task import Floats, Ints
from benchmarks.heldout import scenario_of_run
from benchmarks.new_verifier import sized

MODULES = ("benchmarks.accuracy_bayes", "bayes_sd.fitting", "bayes_sd.predict")
NEVER_LOG_S = 30.0  # log of a latency past all: infinite draws, which the ceiling then cuts


@dataclass
class Sampler:
    """Fits by fold; keeps the last compiled data set, for folds of one scope come in a row.

    Attributes
    ----------
    draws, tune, chains : int
        Of nutpie.
    """

    draws: int = 1000
    tune: int = 500
    chains: int = 2
    _key: tuple[str, bytes] | None = field(default=None, init=False)
    _kept: Any = field(default=None, init=False)

    @property
    def settings(self) -> dict[str, int]:
        """Return what the draws hang on besides code and data."""
        return {"draws": self.draws, "tune": self.tune, "chains": self.chains}

    def predict(self, case: Case, fold: Fold, asked: Ints, seed: int) -> tuple[Floats, dict]:
        """Return draws of log latency, (draw, asked), and how the sampling went.

        Parameters
        ----------
        case : Case
            The data set.
        fold : Fold
            What is learnt from.
        asked : array of int
            Runs to predict.
        seed : int
            Of sampling and prediction.
        """
        within, part, compiled = self._compiled(case, fold)
        train = fold.train[within]
        tree = sample(
            compiled,
            score_weight=train.astype(float),
            random_seed=seed,
            progressbar=False,
            **self.settings,
        )
        whole = complete_tree(tree, part.data, seed)
        constant = whole["constant_data"].to_dataset().isel(run=np.flatnonzero(train))
        seen = xr.DataTree.from_dict(
            {
                "posterior": whole["posterior"].to_dataset(),
                "constant_data": constant,
                "/": xr.Dataset(attrs=whole.attrs),
            }
        )
        scenarios = [_scenario(case, part, within, int(run)) for run in asked]
        found = predict_latency(seen, scenarios, "run", allow_new=True, random_seed=seed)
        draws = np.minimum(np.log(found["e2e_s"].values), NEVER_LOG_S)
        how = {
            "passed": int(whole.attrs["passed"]),
            "verdict": str(whole.attrs["verdict"]),
            "status": json.dumps([str(s) for s in found["status"].values]),
        }
        return draws, how

    def _compiled(self, case: Case, fold: Fold) -> tuple[Any, Case, list[CompiledModel]]:
        scope = np.ones(len(case.frame), dtype=bool) if fold.scope is None else fold.scope
        key = (case.name, scope.tobytes())
        if self._key != key:
            part = case if scope.all() else case.part(scope)
            priors = default_priors(part.data)
            self._kept = (part, compile_blocks(part.data, priors, responses=()))
            self._key = key
        return scope, *self._kept


def _scenario(case: Case, part: Case, within: Any, run: int) -> Scenario:
    """Return what is known of a run before it starts, under the labels of the fitted part."""
    if within[run]:
        return scenario_of_run(part.data, int(np.flatnonzero(within).searchsorted(run)))
    verifier = case.frame["verifier"].iloc[run]
    if verifier in set(part.frame["verifier"]):  # a run of the one fitted pair, or its base
        scenario = scenario_of_run(case.data, run)
        pairs = part.data["pair"].values
        return scenario.with_(pair=str(pairs[0] if len(pairs) else part.data["base"].values[0]))
    home = str(case.data["deployment"].values[0])
    return sized(case.data, run, home if home in part.data["deployment"].values else None)
