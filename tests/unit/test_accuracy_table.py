import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.accuracy_bayes import Sampler
from benchmarks.accuracy_cache import Cache, code_fingerprint, fingerprint
from benchmarks.accuracy_data import lawful_world
from benchmarks.accuracy_floors import FLOORS, LAW, missed
from benchmarks.accuracy_models import OURS
from benchmarks.accuracy_page import accuracy_section, write_section
from benchmarks.accuracy_plots import LEVELS, coverage_curve, save_plots
from benchmarks.accuracy_run import run_table
from benchmarks.accuracy_score import score_rows, sign_rows
from benchmarks.accuracy_table import figures, paired, r_squared, standing

LAWFUL = {"c1p": 0.08, "c1v": 0.011, "c1d": 6e-4, "c2p": 0.02, "c2v": 1.5e-4, "c2d": 2e-5}
CHEAP = ["linear law", "division by E"]


def rows_of(**columns):
    size = len(next(iter(columns.values())))
    usual = {
        "data": "d",
        "split": "sweeps",
        "fold": "0",
        "method": OURS,
        "run": np.arange(size),
        "base": 0,
        "sweep": np.arange(size) // 2,
        "batch": np.linspace(1, 9, size),
        "measured_s": 1.0,
        "predicted_s": 1.0,
        "error": 1.0,
        "log_score": 0.0,
        "crps_log": 1.0,
        "pinball": 1.0,
        "in_50": 1.0,
        "in_90": 1.0,
        "width_90": 5.0,
        "pit": 0.5,
    }
    return pd.DataFrame(usual | columns, index=range(size))


NO_SIGNS = pd.DataFrame(
    columns=["data", "split", "fold", "method", "run", "partner", "faster", "p"]
)


def test_a_result_is_computed_once_and_kept(tmp_path):
    cache, calls = Cache(tmp_path), []

    def compute():
        calls.append(1)
        return {"value": len(calls)}

    key = ("d", "s", "0", "m")
    assert cache.get(key, "mark", compute) == ({"value": 1}, False)
    assert cache.get(key, "mark", compute) == ({"value": 1}, True)
    assert cache.get(key, "another", compute) == ({"value": 2}, False)
    assert len(calls) == 2


def test_a_file_that_was_cut_off_is_computed_again(tmp_path):
    cache, key = Cache(tmp_path), ("d", "s", "0", "m")
    cache.write(key, "mark", {"value": 1})
    path = cache.path(*key)
    path.write_text(path.read_text()[:20])
    assert cache.read(key, "mark") is None
    assert not list(tmp_path.rglob("*.tmp"))


def test_an_interrupted_table_goes_on_where_it_was(tmp_path):
    case, lines = lawful_world(LAWFUL, noise=0.02), []
    settings = {"methods": CHEAP, "splits": ["sweeps"], "say": lines.append}
    first = run_table([case], Cache(tmp_path), Sampler(), fold_limit=2, **settings)
    again = run_table([case], Cache(tmp_path), Sampler(), **settings)
    assert sum("kept" in line for line in lines) == 4
    assert len(again.rows) == 2 * len(first.rows)
    both = again.rows.merge(first.rows, on=["fold", "method", "run"])
    np.testing.assert_array_equal(both["crps_log_x"], both["crps_log_y"])


def test_other_latencies_are_not_taken_for_the_kept_ones(tmp_path):
    lines = []
    settings = {"methods": CHEAP, "splits": ["sweeps"], "say": lines.append}
    run_table([lawful_world(LAWFUL)], Cache(tmp_path), Sampler(), **settings)
    run_table([lawful_world(LAWFUL, noise=0.1)], Cache(tmp_path), Sampler(), **settings)
    assert not any("kept" in line for line in lines)


def test_settings_of_the_sampler_are_in_the_fingerprint():
    assert fingerprint(Sampler(draws=500).settings) != fingerprint(Sampler(draws=501).settings)
    assert fingerprint(b"ab", b"c") != fingerprint(b"a", b"bc")


def test_code_fingerprint_sees_code_that_is_imported_and_not_docstrings(tmp_path, monkeypatch):
    import benchmarks.accuracy_cache as module

    (tmp_path / "bayes_sd").mkdir()
    first, second = tmp_path / "bayes_sd" / "one.py", tmp_path / "bayes_sd" / "two.py"
    first.write_text('"""Doc."""\nfrom bayes_sd.two import f\n')
    second.write_text("def f():\n    return 1\n")
    monkeypatch.setattr(module, "ROOT", tmp_path)

    def mark():
        code_fingerprint.cache_clear()
        return code_fingerprint(("bayes_sd.one",))

    before = mark()
    first.write_text('"""Another."""\n# comment\nfrom bayes_sd.two import f\n')
    assert mark() == before
    second.write_text("def f():\n    return 2\n")
    assert mark() != before
    code_fingerprint.cache_clear()


def test_rows_are_cut_at_the_ceiling_and_leave_out_what_has_no_word():
    data = lawful_world(LAWFUL).data
    draws = np.full((50, 3), np.inf)
    draws[:, 1] = np.nan
    draws[:, 2] = np.log(data["mean_e2e_s"].values[2])
    rows = score_rows(data, np.array([0, 1, 2]), draws, has_density=True)
    assert rows["run"].tolist() == [0, 2]
    cap, rate = data["cap_requests"].values[0], data["request_rate_rps"].values[0]
    assert rows["predicted_s"][0] == pytest.approx(cap / rate)
    assert rows["error"][1] == pytest.approx(0, abs=1e-9)


def test_probability_of_a_sign_counts_ties_as_half():
    asked = pd.DataFrame({"run": [4, 5], "partner": [7, 7], "faster": [True, False]})
    draws = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    found = sign_rows(asked, np.array([4, 5, 7]), draws)
    assert found["p"].tolist() == [0.75, 0.25]


def test_paired_error_is_that_of_means_over_sweeps(rng):
    number = 60
    ours = rows_of(crps_log=rng.normal(size=number))
    apart = rng.normal(1.0, 0.5, size=number)
    other = rows_of(crps_log=ours["crps_log"] + apart, method=np.repeat("law", number))
    mean, error = paired(other, ours, "crps_log")
    by_sweep = apart.reshape(-1, 2).mean(axis=1)
    assert mean == pytest.approx(by_sweep.mean())
    assert error == pytest.approx(by_sweep.std(ddof=1) / np.sqrt(len(by_sweep)))


def test_a_higher_log_density_of_the_other_counts_against_ours():
    ours, other = rows_of(log_score=np.zeros(6)), rows_of(log_score=np.ones(6))
    assert paired(other, ours, "log_score")[0] == pytest.approx(-1)


def test_r_squared_is_the_mean_over_verifiers():
    rows = rows_of(
        measured_s=[1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
        predicted_s=[1.0, 2.0, 3.0, 2.0, 2.0, 2.0],
        base=[0, 0, 0, 1, 1, 1],
    )
    assert r_squared(rows) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("split", "lead", "holds"),
    [
        ("verifier", -0.1, False),
        ("verifier", 0.1, True),
        ("sweeps", -0.1, True),
        ("sweeps", -9, False),
    ],
)
def test_ours_must_lead_where_it_extrapolates_and_keep_up_elsewhere(rng, split, lead, holds):
    noise = rng.normal(size=40)
    noise -= noise.mean()
    ours = rows_of(crps_log=np.full(40, 20.0), split=np.repeat(split, 40))
    other = ours.assign(crps_log=ours["crps_log"] + lead + noise, method="law")
    table = figures(pd.concat([ours, other]), NO_SIGNS)
    line = standing(table, ("verifier",)).iloc[0]
    assert line["crps_log_rival"] == "law"
    assert line["crps_log_holds"] == holds


def test_floors_catch_each_way_of_falling_below_them():
    floor = FLOORS[0]
    good = {"data": floor.data, "split": floor.split, "error": 1.0, "in_90": 90.0, "in_50": 50.0}
    law = good | {"method": LAW, "crps_log": 2.0}

    def faults(**changed):
        ours = good | {"method": OURS, "crps_log": 1.0} | changed
        return missed(pd.DataFrame([ours, law]), (floor,))

    assert faults() == []
    assert "error" in faults(error=2 * floor.error)[0]
    assert "error" in faults(error=np.nan)[0]
    assert "90 %" in faults(in_90=40.0)[0]
    assert "50 %" in faults(in_50=5.0)[0]
    assert "CRPS" in faults(crps_log=2.0 * floor.crps_ratio + 0.1)[0]
    assert "no figures" in missed(pd.DataFrame([law]), (floor,))[0]


def test_a_section_takes_the_place_of_its_older_self_only(tmp_path):
    page = tmp_path / "results.md"
    write_section("one", "first", page)
    write_section("two", "second \\1", page)
    write_section("one", "first again", page)
    text = page.read_text()
    assert text.count("first") == 1
    assert "first again" in text
    assert "second \\1" in text
    assert text.index("first again") < text.index("second")


def test_coverage_curve_of_uniform_ranks_is_the_level():
    ranks = (np.arange(20_000) + 0.5) / 20_000
    np.testing.assert_allclose(coverage_curve(ranks), LEVELS, atol=1e-3)


def test_page_and_plots_of_a_small_table(tmp_path):
    case = lawful_world(LAWFUL, noise=0.02)
    found = run_table(
        [case], Cache(tmp_path), Sampler(), methods=CHEAP, splits=["sweeps"], say=lambda _: None
    )
    rows = pd.concat([found.rows, found.rows[found.rows["method"] == LAW].assign(method=OURS)])
    table = figures(rows, found.signs)
    files = save_plots(rows, found.signs, ("verifier",), tmp_path)
    assert all((tmp_path / name).stat().st_size > 1000 for name in files.values())
    text = accuracy_section(table, standing(table, ()), found.folds, files, "1 draw")
    assert "division by E" in text
    json.dumps(table.to_dict("records"))
