"""Fits of a fleet: what is kept, what is fitted again, and what failures and kills leave behind.

Fits are fakes here, made in a moment; `tests/model/test_fleet_fit.py` has real ones.
"""

import threading

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayes_sd import fleet, fleet_cluster, fleet_store, fleet_task
from bayes_sd.exceptions import (
    ArgumentError,
    BayesSdWarning,
    ConvergenceWarning,
    DataError,
    FitFileError,
)
from bayes_sd.fleet import fit_many
from bayes_sd.fleet_fits import load_fleet
from bayes_sd.fleet_groups import POOLED
from tests.fake_fit import simulated_frame

distributed = pytest.importorskip("distributed")


def fake_runs(frame, settings, random_seed, said):
    """Return a tree of a few draws that hang on the seed and the data, as a fit's do."""
    if (frame["mean_e2e_s"] < 0).any():
        raise DataError("mean_e2e_s is below 0.")
    if (frame["workload"] == "odd").any():
        raise RuntimeError("boom")
    said.append("something was assumed")
    calls.append(str(frame["verifier"].iloc[0]))
    draws = np.random.default_rng(random_seed).normal(frame["mean_e2e_s"].mean(), size=(2, 3))
    stamp = {"format": fleet_store.FORMAT, "passed": int(settings.draws > 10), "verdict": "said"}
    posterior = xr.Dataset({"cost": (("chain", "draw"), draws)})
    return xr.DataTree.from_dict({"posterior": posterior, "/": xr.Dataset(attrs=stamp)})


calls: list[str] = []


@pytest.fixture(scope="module")
def client():
    options = {"processes": False, "dashboard_address": ":0", "set_as_default": False}
    with distributed.Client(n_workers=1, threads_per_worker=2, **options) as made:
        yield made


@pytest.fixture
def fit(client, monkeypatch, tmp_path):
    """Return a function that fits a table by verifier with the fake, and the groups it fitted."""
    monkeypatch.setattr(fleet_task, "fit_runs", fake_runs)

    def run(frame, **options):
        calls.clear()
        options = {"by": "verifier", "folder": tmp_path / "fleet", "client": client} | options
        return fit_many(frame, progressbar=False, **options), sorted(calls)

    return run


@pytest.fixture(scope="module")
def frame():
    return simulated_frame()


def draws_of(fits, group):
    return fits.load(group)["posterior"]["cost"].values


def test_each_group_has_a_row_and_a_file(fit, frame):
    fits, fitted = fit(frame, pooled=True)
    assert fitted == ["big", "big", "small"]
    table = fits.groups.set_index("group")
    assert list(table.index) == [POOLED, "big", "small"]
    assert list(table["status"]) == ["fitted"] * 3
    assert list(table["num_runs"]) == [50, 35, 15]
    assert table["converged"].all()
    assert set(table["verdict"]) == {"said"}
    assert set(table["warnings"]) == {"something was assumed"}
    assert table.loc["big", "verifier"] == "big"
    assert draws_of(fits, "big").shape == (2, 3)
    assert fits.sentence() == "3 of 3 groups have a fit; 0 failed, and 0 did not converge."


def test_several_columns_make_a_group_whatever_their_order(fit, frame):
    fits, _ = fit(frame, by=["verifier", "drafter"])
    assert "big | quick" in list(fits.groups["group"])
    again, fitted = fit(frame, by=["drafter", "verifier"])
    assert fitted == []
    assert "quick | big" in list(again.groups["group"])


def test_a_second_call_fits_nothing_again(fit, frame):
    first, _ = fit(frame)
    again, fitted = fit(frame.sample(frac=1, random_state=1))
    assert fitted == []
    assert list(again.groups["status"]) == ["kept", "kept"]
    assert "(2 of them kept from an earlier call)" in again.sentence()
    np.testing.assert_array_equal(draws_of(first, "big"), draws_of(again, "big"))


def test_only_groups_whose_runs_changed_are_fitted_again(fit, frame):
    first, _ = fit(frame)
    small = frame["verifier"] == "small"
    changed = frame.assign(mean_e2e_s=frame["mean_e2e_s"].where(~small, 1.01 * frame["mean_e2e_s"]))
    again, fitted = fit(changed)
    assert fitted == ["small"]
    assert list(again.groups["status"]) == ["kept", "fitted"]
    assert (draws_of(first, "small") != draws_of(load_fleet(first.folder), "small")).size == 6
    _, fitted = fit(changed[changed["verifier"] == "small"].iloc[:-1])
    assert fitted == ["small"]


@pytest.mark.parametrize(
    "setting",
    [{"draws": 20}, {"chains": 3}, {"responses": ()}, {"random_seed": 1}, {"target_accept": 0.9}],
)
def test_other_settings_are_fitted_again(fit, frame, setting):
    fit(frame)
    _, fitted = fit(frame, **setting)
    assert fitted == ["big", "small"]


def test_what_does_not_change_the_posterior_is_not_fitted_again(fit, frame):
    fit(frame)
    _, fitted = fit(frame, share_compilation=False)
    assert fitted == []


def test_another_version_of_the_library_is_fitted_again(fit, frame, monkeypatch):
    fit(frame)
    monkeypatch.setattr("bayes_sd.fleet_groups.version", lambda name: "999")
    _, fitted = fit(frame)
    assert fitted == ["big", "small"]


def test_a_group_that_fails_is_told_and_the_rest_complete(fit, frame):
    broken = frame.assign(mean_e2e_s=frame["mean_e2e_s"].where(frame["verifier"] == "small", -1.0))
    with pytest.warns(BayesSdWarning, match=r"1 of 2 groups failed: big\. The first error: mean"):
        fits, fitted = fit(broken)
    assert fitted == ["small"]
    table = fits.groups.set_index("group")
    assert table.loc["big", "status"] == "failed"
    assert table.loc["big", "error"] == "mean_e2e_s is below 0."
    assert table.loc["big", "path"] == ""
    assert pd.isna(table.loc["big", "converged"])
    assert table.loc["small", "status"] == "fitted"
    with pytest.raises(FitFileError, match=r"group 'big' has no fit, for it failed: mean_e2e_s"):
        fits.load("big")
    mended, fitted = fit(frame)
    assert fitted == ["big"]
    assert list(mended.groups["status"]) == ["fitted", "kept"]
    assert not list(fits.folder.glob("*.failed.json"))


def test_an_unforeseen_error_says_its_kind_and_place(fit, frame):
    odd = frame.assign(workload="odd")
    with pytest.warns(BayesSdWarning, match=r"2 of 2 groups failed"):
        fits, _ = fit(odd)
    assert fits.groups["error"].iloc[0].startswith("RuntimeError: boom (test_fleet.py, line ")


def test_a_failure_leaves_the_fit_of_other_data_and_going_back_finds_it(fit, frame):
    first, _ = fit(frame)
    with pytest.warns(BayesSdWarning, match="failed"):
        broken, _ = fit(frame.assign(mean_e2e_s=-1.0))
    assert list(broken.groups["status"]) == ["failed", "failed"]
    assert list(load_fleet(first.folder).groups["status"]) == ["failed", "failed"]
    back, fitted = fit(frame)
    assert fitted == []
    assert list(back.groups["status"]) == ["kept", "kept"]
    assert list(load_fleet(first.folder).groups["status"]) == ["fitted", "fitted"]


def test_runs_that_the_schema_refuses_fail_their_group_alone(client, frame, tmp_path):
    """The real fit: it fails before anything is compiled."""
    one = frame[frame["verifier"] == "small"].assign(request_rate_rps="fast")
    with pytest.warns(BayesSdWarning, match="failed"):
        fits = fit_many(one, "verifier", tmp_path, client=client, progressbar=False)
    assert "request_rate_rps" in fits.groups["error"].iloc[0]


def test_a_fit_that_did_not_converge_is_kept_and_told(fit, frame):
    with pytest.warns(ConvergenceWarning, match=r"2 of 2 fits did not converge.*: big, small\."):
        fits, _ = fit(frame, draws=5)
    assert not fits.groups["converged"].any()
    assert "2 did not converge" in fits.sentence()


def test_the_table_is_made_again_of_the_files(fit, frame):
    fits, _ = fit(frame)
    table = fits.folder / "groups.csv"
    before = table.read_text()
    assert "big" in before
    table.unlink()
    loaded = load_fleet(fits.folder)
    pd.testing.assert_frame_equal(loaded.groups, fits.groups)
    _, fitted = fit(frame)
    assert fitted == []
    assert table.read_text() == before


def test_a_damaged_file_is_fitted_again(fit, frame):
    fits, _ = fit(frame)
    path = fits.groups.set_index("group").loc["big", "path"]
    with open(path, "r+b") as opened:
        opened.truncate(100)
    _, fitted = fit(frame)
    assert fitted == ["big"]


def test_what_is_done_is_on_disk_when_the_fleet_is_stopped(fit, frame, monkeypatch):
    written = threading.Event()

    def stop(record):
        written.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet, "_progress", lambda *a, **k: Stopper(stop))
    with pytest.raises(KeyboardInterrupt):
        fit(frame)
    assert written.is_set()
    monkeypatch.undo()
    monkeypatch.setattr(fleet_task, "fit_runs", fake_runs)
    fits, fitted = fit(frame)
    assert len(fitted) == 1
    assert sorted(fits.groups["status"]) == ["fitted", "kept"]


class Stopper:
    def __init__(self, stop):
        self.stop = stop

    def __enter__(self):
        return self.stop

    def __exit__(self, *_):
        return False


def test_silent_without_a_progress_bar_and_a_line_each_with_one(fit, frame, capsys):
    fit(frame)
    assert capsys.readouterr() == ("", "")
    fit_many(frame, "verifier", "unused", client=None, progressbar=False) if False else None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "verifer"}, r"by must name columns of the table\. Got 'verifer'.*'verifier'\?"),
        ({"by": []}, r"by must name at least one column"),
        ({"draws": 1}, r"draws must be a whole number of at least 2"),
        ({"responses": ["itl"]}, r"responses must be one of 'ttft'"),
        ({"workers": 2}, r"workers must be left out where a client is given"),
        ({"workers": 0, "client": None}, r"workers must be a whole number of at least 1"),
        ({"client": "tcp://x"}, r"client must be a distributed\.Client"),
        ({"priors": {}}, r"priors must be those of default_priors"),
    ],
)
def test_a_wrong_argument_is_refused(fit, frame, options, words):
    with pytest.raises(ArgumentError, match=words):
        fit(frame, **options)


def test_a_table_without_rows_and_what_is_no_table_are_refused(fit, frame):
    with pytest.raises(DataError, match="no rows"):
        fit(frame.iloc[:0])
    with pytest.raises(ArgumentError, match="must be a table of runs"):
        fit({"verifier": ["a"]})


def test_a_folder_that_is_a_file_or_holds_nothing_is_refused(fit, frame, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FitFileError, match="must be a folder for the fits"):
        fit(frame, folder=tmp_path / "file")
    with pytest.raises(FitFileError, match="must be a folder that fit_many wrote to"):
        load_fleet(tmp_path / "none")


def test_a_group_that_is_not_there_is_named(fit, frame):
    fits, _ = fit(frame)
    with pytest.raises(ArgumentError, match=r"Got 'bog' instead\. Did you mean 'big'\?"):
        fits.load("bog")


def test_without_dask_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with (
        pytest.raises(ArgumentError, match=r'pip install "bayes_sd\[fleet\]"'),
        fleet_cluster.client_of(None, 1),
    ):
        pass
