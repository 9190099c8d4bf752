"""A fit on disk: the same when read back, whole or not at all, and nothing else passes for one."""

import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

from bayes_sd.exceptions import FitFileError
from bayes_sd.predict import predict_latency
from bayes_sd.scenario import Scenario
from bayes_sd.storage import FORMAT, load, save
from tests.fake_fit import fake_fit

# Ends the process as a kill would, with the file half written.
KILLED = """
import os, sys
import xarray as xr
from bayes_sd.storage import save
from tests.fake_fit import fake_fit

write = xr.DataTree.to_netcdf

def half(self, path, *args, **kwargs):
    write(self, path, *args, **kwargs)
    os.truncate(path, os.path.getsize(path) // 2)
    os._exit(9)

xr.DataTree.to_netcdf = half
save(fake_fit(draws=4, random_seed=2), sys.argv[1])
"""


@pytest.fixture(scope="module")
def tree():
    return fake_fit(draws=60, spread=0.05)


def same(one, other):
    assert set(one.groups) == set(other.groups)
    for group in one.groups:
        xr.testing.assert_identical(one[group].to_dataset(), other[group].to_dataset())
    assert dict(one.attrs) == dict(other.attrs)


def test_a_fit_is_the_same_when_read_back(tree, tmp_path):
    path = save(tree, tmp_path / "fit.nc")
    assert path == tmp_path / "fit.nc"
    back = load(str(path))
    same(back, tree)
    for group in tree.groups:
        for name, values in tree[group].data_vars.items():
            assert back[group][name].dtype.kind == values.dtype.kind, name
    scenario = Scenario("quick", request_rate_rps=3.0, num_speculative_tokens=3)
    xr.testing.assert_identical(
        predict_latency(back, scenario, "run"), predict_latency(tree, scenario, "run")
    )


def test_a_fit_that_was_read_can_be_saved_again_over_itself(tree, tmp_path):
    path = save(tree, tmp_path / "fit.nc")
    save(load(path), path)
    same(load(path), tree)
    assert os.listdir(tmp_path) == ["fit.nc"]


def test_a_file_is_readable_by_those_who_may_read_the_folder(tree, tmp_path):
    umask = os.umask(0o022)
    try:
        path = save(tree, tmp_path / "fit.nc")
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("where", ["write", "move"])
def test_a_failure_in_the_middle_leaves_the_old_file_whole(tree, tmp_path, monkeypatch, where):
    path = save(tree, tmp_path / "fit.nc")
    before = path.read_bytes()

    def fail(*args, **kwargs):
        if where == "write":
            with open(args[1], "wb") as file:
                file.write(b"half")
        raise OSError("no space left on device")

    if where == "write":
        monkeypatch.setattr(xr.DataTree, "to_netcdf", fail)
    else:
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FitFileError, match=r"no space left"):
        save(fake_fit(draws=4), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["fit.nc"]


def test_a_kill_in_the_middle_leaves_the_old_file_whole(tree, tmp_path):
    path = save(tree, tmp_path / "fit.nc")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 9, done.stderr
    same(load(path), tree)
    left = [name for name in os.listdir(tmp_path) if name != "fit.nc"]
    assert len(left) == 1  # the half file: it shows that the kill came in the middle
    assert left[0].endswith(".part")
    with pytest.raises(FitFileError):
        load(tmp_path / left[0])
    save(fake_fit(draws=4), path)
    assert load(path)["posterior"].sizes["draw"] == 4


def test_a_missing_folder_is_said(tree, tmp_path):
    with pytest.raises(FitFileError, match=r"cannot be written: folder .*nowhere.* does not exist"):
        save(tree, tmp_path / "nowhere" / "fit.nc")


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(FitFileError, match=r"absent\.nc is not a file\. Write one with save\(fit"):
        load(tmp_path / "absent.nc")
    with pytest.raises(FitFileError, match=r"is not a file"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"run_id,verifier\n", b"\x89HDF\r\n\x1a\n" + b"\0" * 99])
def test_a_file_of_another_kind_is_said(tmp_path, content):
    path = tmp_path / "fit.nc"
    path.write_bytes(content)
    with pytest.raises(FitFileError, match=r"fit\.nc cannot be read as NetCDF"):
        load(path)


def test_a_file_that_holds_no_fit_is_said(tree, tmp_path):
    path = tmp_path / "other.nc"
    xr.DataTree.from_dict({"/a": xr.Dataset({"x": ("i", np.arange(3))})}).to_netcdf(
        path, engine="h5netcdf"
    )
    with pytest.raises(FitFileError, match=r"must be a fit of this library .*Got format None"):
        load(path)
    older = tree.copy()
    older.attrs["format"] = "bayes_sd fit 0"
    with pytest.raises(FitFileError, match=r"Got format 'bayes_sd fit 0' instead: fit the data"):
        load(save(older, path))
    assert tree.attrs["format"] == FORMAT
