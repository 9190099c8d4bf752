"""Groups of a fleet: their seeds, their names, and files that are whole or not there."""

import os

import pandas as pd
import pytest

from bayes_sd import fleet_cluster, fleet_store
from bayes_sd.exceptions import FitFileError
from bayes_sd.fleet_groups import POOLED, FitSettings, seed_of, split_runs
from bayes_sd.whole_file import whole_file
from tests.fake_fit import simulated_frame

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def frame():
    return simulated_frame()


def test_seeds_hang_on_the_fleets_seed_and_the_group_alone(frame):
    settings = FitSettings()
    whole = {g.name: g.seed for g in split_runs(frame, "verifier", settings)}
    alone = split_runs(frame[frame["verifier"] == "small"], ["verifier"], settings)
    assert {g.name: g.seed for g in alone} == {"small": whole["small"]}
    assert len(set(whole.values())) == 2
    assert seed_of({"a": "1", "b": "2"}, 7) == seed_of({"b": "2", "a": "1"}, 7)
    assert 0 <= seed_of({}, 0) < 2**48


def test_a_group_is_the_same_whatever_the_order_of_the_table(frame):
    one, other = (
        split_runs(table, "verifier", FitSettings())
        for table in (frame, frame.sample(frac=1, random_state=2))
    )
    assert [g.fingerprint for g in one] == [g.fingerprint for g in other]
    for left, right in zip(one, other, strict=True):
        pd.testing.assert_frame_equal(
            left.frame.reset_index(drop=True), right.frame.reset_index(drop=True)
        )


def test_groups_of_a_column_of_ones_own_do_not_warn_of_it(frame):
    (group,) = split_runs(frame.assign(team="a"), "team", FitSettings())
    assert group.key == {"team": "a"}
    assert "team" not in group.frame


def test_names_that_would_fall_together_stay_apart(frame):
    rows = frame.iloc[:2].assign(workload=["a | b", "a"], sampling=["c", "b | c"])
    names = [g.name for g in split_runs(rows, ["workload", "sampling"], FitSettings())]
    assert len(set(names)) == 2
    (pooled, group) = split_runs(
        rows.assign(workload=POOLED), "workload", FitSettings(), pooled=True
    )
    assert pooled.name == POOLED != group.name
    stems = [
        g.stem for g in split_runs(rows.assign(workload=["a/b", "a:b"]), "workload", FitSettings())
    ]
    assert len(set(stems)) == 2
    assert not any("/" in stem for stem in stems)


def test_a_write_that_is_cut_off_leaves_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "fit.nc"
    path.write_bytes(b"whole")
    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, fails)
            with pytest.raises(FitFileError, match="an older file is as it was"):
                with whole_file(path) as part:
                    part.write_bytes(b"half")
        assert path.read_bytes() == b"whole"
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def fails(*_):
    raise OSError("no space left on device")


def test_unfinished_files_of_a_killed_process_are_cleared_when_old(tmp_path):
    old, fresh = tmp_path / ".a.nc.x.part", tmp_path / ".b.nc.y.part"
    for path in (old, fresh):
        path.touch()
    os.utime(old, (0, 0))
    fleet_store.open_folder(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [fresh.name]


def test_a_group_that_kills_every_worker_is_given_up(frame):
    (group, *_) = split_runs(frame, "verifier", FitSettings())
    error = distributed.KilledWorker("task", None, 5)
    outcome = fleet_cluster._outcome(Broken(error), group)
    assert outcome.content is None
    assert outcome.record.error.startswith("the worker that fitted it was killed 6 times")


class Broken:
    def __init__(self, error):
        self.error = error

    def result(self):
        raise self.error
