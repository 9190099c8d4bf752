"""The demo, from bundled runs to files, with a fake in place of sampling."""

import json

import pandas as pd
import pytest
from rich.console import Console

from bayes_sd import cli, demo
from bayes_sd.datasets import load_scaling_study, load_vllm_cpu
from bayes_sd.exceptions import AssumptionWarning, FitFileError
from bayes_sd.storage import load
from tests.fake_fit import Coefficients, fake_fit
from tests.simulated_runs import BIG, KNOWN

PLOTS = [
    f"{kind}-{name}.png"
    for name in ("qwen3-8b", "vllm-cpu")
    for kind in ("latency", "draft-length")
]


def some_of_the_study() -> pd.DataFrame:
    """Return the scaling study up to the longest draft that a fake fit has rates for."""
    frame = load_scaling_study()
    return frame[frame["num_speculative_tokens"] <= 5]


def fake_of_demo():
    """Return a fake fit of the demo's runs, every verifier with the same costs."""
    frame = pd.concat([some_of_the_study(), load_vllm_cpu("dense")], ignore_index=True)
    frame = frame[~frame["is_throughput_test"]].reset_index(drop=True)
    drafted = frame[frame["method"] != "none"][["verifier", "drafter"]].drop_duplicates()
    pairs = list(drafted.itertuples(index=False, name=None))
    law = Coefficients(
        of_base=dict.fromkeys(frame["verifier"], BIG),
        of_pair=dict.fromkeys(pairs, KNOWN.of_pair["big", "sharp"]),
        acceptance=dict.fromkeys(pairs, KNOWN.acceptance["big", "quick"]),
    )
    with pytest.warns(AssumptionWarning, match="draft passes of 4 runs"):
        return fake_fit(draws=20, spread=0.02, coefficients=law, frame=frame)


@pytest.fixture(scope="module")
def tree():
    return fake_of_demo()


@pytest.fixture
def fake_sampler(monkeypatch, tree):
    calls = []

    def fake(data, **given):
        calls.append(given)
        return tree

    monkeypatch.setattr(demo, "fit", fake)
    monkeypatch.setattr(demo, "load_scaling_study", some_of_the_study)
    return calls


def test_demo_writes_tables_plots_and_the_fit(fake_sampler, tree, tmp_path, capsys):
    status = cli.run(["demo", "--folder", str(tmp_path / "new" / "demo"), "--draws", "20"])
    out = capsys.readouterr().out
    assert status == 0
    assert fake_sampler == [
        {"draws": 20, "tune": 500, "chains": 4, "random_seed": 0, "progressbar": True}
    ]
    folder = tmp_path / "new" / "demo"
    assert sorted(path.name for path in folder.iterdir()) == sorted([*PLOTS, "fit.nc"])
    assert load(folder / "fit.nc").attrs["format"]
    for words in (
        f"{tree['constant_data'].sizes['run']} of {len(some_of_the_study()) + 125} runs are used",
        "6 verifiers, 7 pairs",
        "Left out: 167 throughput tests",
        "Qwen3-8B, acceptance 0.8",
        "vLLM on CPU, drafter-a85",
        "Best k of the other verifiers",
        "Qwen3-32B",
        "extrapolated to k = 0",
        "s in all",
    ):
        assert words in out
    checks = out.index("Checks of the sampling")
    assert checks < out.index("Qwen3-8B, acceptance 0.6")
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 10_000


def test_demo_json_is_alone_on_stdout(fake_sampler, tmp_path, capsys):
    assert cli.run(["demo", "--folder", str(tmp_path), "--draws", "20", "--json"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["converged"] is False  # 40 draws are too few
    assert "DO NOT TRUST THIS FIT" in err
    assert {name.rsplit("/", 1)[-1] for name in document["files"]} == {*PLOTS, "fit.nc"}
    assert len(document["break_even"]) == 9
    assert len(document["policies"]) == 9
    assert document["left_out"][0].startswith("167 throughput tests")


def test_demo_stopped_by_hand_writes_no_fit(fake_sampler, tmp_path, capsys):
    assert cli.run(["demo", "--folder", str(tmp_path), "--draws", "500"]) == 130
    assert list(tmp_path.iterdir()) == []


def test_demo_names_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FitFileError, match=r"folder .*file.inner cannot be made"):
        demo.run_demo(tmp_path / "file" / "inner", console=Console(quiet=True))
