"""A packed fit answers as the whole one within Monte Carlo error, and knows its verdict."""

import json
import warnings

import numpy as np
import pytest
import typer
import xarray as xr
from typer.testing import CliRunner

from bayes_sd.acceptance_update import update_acceptance
from bayes_sd.break_even import break_even_rate
from bayes_sd.cli_pack import pack
from bayes_sd.convergence import diagnose
from bayes_sd.decide import choose_draft_length, convergence_note
from bayes_sd.drift import check_drift
from bayes_sd.exceptions import ArgumentError, BayesSdWarning, ConvergenceWarning
from bayes_sd.live_counts import AcceptCounts
from bayes_sd.live_reference import LiveReference
from bayes_sd.live_window import LiveWindow
from bayes_sd.packing import queried, thin_for_queries
from bayes_sd.predict import predict_latency
from bayes_sd.report_provenance import provenance_of
from bayes_sd.scenario import Scenario
from bayes_sd.storage import load, save
from tests.fake_fit import fake_fit

CHAINS, LENGTH = 4, 500
DRAWS = CHAINS * LENGTH
SCENARIO = Scenario("quick", request_rate_rps=4.0, num_speculative_tokens=3)
MOST_ERRORS = 4.0  # standard errors; of some 45 independent numbers one is beyond in 1 in 350


def drifting_fit(drift=0.3):
    """A fit whose chains wander, apart from each other: where draws are taken from matters."""
    tree = fake_fit(draws=LENGTH, chains=CHAINS, spread=0.05)
    posterior = tree["posterior"].to_dataset()
    way = np.linspace(-1, 1, LENGTH) + np.linspace(-0.5, 0.5, CHAINS)[:, None]
    factor = xr.DataArray(np.exp(drift * way), dims=("chain", "draw"))
    rng = np.random.default_rng(1)
    scale = xr.DataArray(np.exp(0.1 * rng.normal(size=way.shape)), dims=("chain", "draw"))
    changed = {name: posterior[name] * factor for name in ("verify_fixed_s", "draft_fixed_s")}
    changed["draft_fixed_s"] = changed["draft_fixed_s"] * factor  # moves what pays, too
    changed["acceptance_request_sd"] = 0.3 * scale
    changed["acceptance_run_sd"] = 0.02 * scale
    of_dims = {n: v.transpose("chain", "draw", ...) for n, v in changed.items()}
    tree["posterior"] = xr.DataTree(posterior.assign(of_dims))
    return tree


@pytest.fixture(scope="module")
def tree():
    return drifting_fit()


@pytest.fixture(scope="module")
def packed(tree):
    return thin_for_queries(tree, draws=400)


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        return function(*arguments, **options)


def answers(tree):
    """Return numbers of each kind, and the standard deviation of the draws behind each."""
    found = {}
    draws = predict_latency(tree, [SCENARIO.with_(request_rate_rps=r) for r in (1.0, 4.0, 6.0)])
    log_latency = np.log(draws["e2e_s"].values)
    for i, values in enumerate(log_latency.T):
        found[f"latency {i}"] = values.mean(), values.std()
    for rate in (1.0, 12.0):
        decision = quiet(choose_draft_length, tree, SCENARIO.with_(request_rate_rps=rate))
        for k, p in zip(decision.candidates, decision.probability_best, strict=True):
            found[f"P(k = {k} best) at {rate}"] = float(p), float(np.sqrt(p * (1 - p)))
    turn = quiet(break_even_rate, tree, "quick", num_speculative_tokens=3, acceptance=0.4)
    crossed = turn.rate[np.isfinite(turn.rate)]
    found["break-even"] = np.log(crossed).mean(), np.log(crossed).std()
    reference = LiveReference.of(tree, SCENARIO)
    spread = reference.log_latency.std(axis=0)
    for at in np.ndindex(reference.mean[::13, ::6].shape):
        place = 13 * at[0], 6 * at[1]
        found[f"drift {place}"] = reference.mean[place], spread[place]
    acceptance = reference.acceptance
    found["tokens per step"] = acceptance.log_length, acceptance.log_length_sd
    return found


def errors(tree, few):
    """Return the difference of each answer in standard errors of the smaller sample."""
    whole, part = answers(tree), answers(few)
    assert whole.keys() == part.keys()
    sizes = [each["posterior"].sizes for each in (tree, few)]
    all_draws, n = (s["chain"] * s["draw"] for s in sizes)
    share = np.sqrt(1 / n - 1 / all_draws)
    return {
        name: abs(part[name][0] - value) / max(share * sd, 0.5 / n)
        for name, (value, sd) in whole.items()
    }


def test_answers_are_those_of_the_whole_fit_within_monte_carlo_error(tree, packed):
    found = errors(tree, packed)
    assert max(found.values()) < MOST_ERRORS, found


def test_the_first_draws_of_one_chain_would_not_do(tree):
    few = tree.copy()
    few["posterior"] = xr.DataTree(tree["posterior"].to_dataset().isel(chain=[0], draw=slice(400)))
    found = errors(tree, few)
    for kind in ("latency", "P(k", "break-even", "drift"):
        assert max(v for name, v in found.items() if name.startswith(kind)) > 2 * MOST_ERRORS, kind


def test_draws_are_spread_evenly_over_every_chain(tree, packed):
    kept = packed["posterior"]["draw"].values
    assert packed["posterior"].sizes["chain"] == CHAINS
    assert len(kept) == 100
    assert set(np.diff(kept)) == {5}
    assert kept[0] == LENGTH - 1 - kept[-1] == 2
    uneven = thin_for_queries(tree, draws=4 * 300)["posterior"]["draw"].values
    assert len(set(uneven)) == 300
    assert set(np.diff(uneven)) == {1, 2}


def test_values_are_those_of_the_fit_to_seven_digits(tree, packed):
    whole, part = tree["posterior"].to_dataset(), packed["posterior"].to_dataset()
    assert set(part.data_vars) == set(whole.data_vars) & queried()
    for name, values in part.data_vars.items():
        taken = whole[name].sel(draw=part["draw"])
        np.testing.assert_allclose(values, taken, rtol=2.0**-24, err_msg=name)
        if values.dtype.kind == "f":
            assert values.dtype == float
            assert (values.values.astype(np.float32) == values.values).all()


def test_a_value_that_32_bits_cannot_hold_stays_as_it_is(tree):
    edited = tree.copy()
    posterior = tree["posterior"].to_dataset()
    tiny = posterior["knee_s_per_token"] * 1e-43
    edited["posterior"] = xr.DataTree(posterior.assign(knee_s_per_token=tiny))
    part = thin_for_queries(edited)["posterior"]["knee_s_per_token"]
    assert (part > 0).all()
    np.testing.assert_array_equal(part, tiny.sel(draw=part["draw"]))


def test_a_packed_file_is_small_and_answers_the_same(tree, packed, tmp_path):
    path = save(packed, tmp_path / "small.nc")
    assert path.stat().st_size < 0.4 * save(tree, tmp_path / "fit.nc").stat().st_size
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        assert opened["posterior"]["verify_fixed_s"].dtype == np.float32
    back = load(path)
    for group in packed.groups:
        xr.testing.assert_identical(back[group].to_dataset(), packed[group].to_dataset())
    assert back["posterior"]["verify_fixed_s"].dtype == float
    assert dict(back.attrs) == dict(packed.attrs)
    xr.testing.assert_identical(
        predict_latency(back, SCENARIO, "run"), predict_latency(packed, SCENARIO, "run")
    )


def test_by_default_a_file_is_within_five_megabytes(tmp_path):
    large = fake_fit(draws=3000, chains=4, spread=0.05)
    packed = thin_for_queries(large)
    assert packed.attrs["packed_draws"] == 1000
    assert save(packed, tmp_path / "a.nc").stat().st_size < 5e6
    fewer = thin_for_queries(large, size_mb=0.3)
    assert 100 <= fewer.attrs["packed_draws"] < 1000
    assert save(fewer, tmp_path / "b.nc").stat().st_size < 0.3e6


def test_the_verdict_is_that_of_the_whole_fit(tree, packed):
    assert diagnose(packed, warn=False) == diagnose(tree, warn=False)
    assert convergence_note(packed) == convergence_note(tree)
    with pytest.warns(ConvergenceWarning, match=r"^NOT CONVERGED"):
        assert not diagnose(packed).passed
    good = fake_fit(draws=LENGTH, chains=CHAINS, spread=0.05)
    posterior = good["posterior"].to_dataset()
    moving = [str(n) for n, v in posterior.items() if float(v.std()) > 0]
    good["posterior"] = xr.DataTree(posterior[moving])
    few = thin_for_queries(good, draws=200)
    assert diagnose(few) == diagnose(good)
    assert diagnose(few).passed
    alone = xr.DataTree.from_dict(
        {"posterior": few["posterior"].to_dataset(), "sample_stats": good["sample_stats"].dataset}
    )
    assert not diagnose(alone, warn=False).passed  # 200 draws of their own could not pass
    again = thin_for_queries(few, draws=100)
    assert diagnose(again) == diagnose(good)
    assert again.attrs["packed_of_draws"] == DRAWS


def test_provenance_and_support_are_kept(tree, packed):
    whole, part = provenance_of(tree), provenance_of(packed)
    assert part["groups"] == whole["groups"]
    assert part["verdict"] == whole["verdict"]
    assert [f for f in part["facts"] if f[0] != "Draws"] == [
        f for f in whole["facts"] if f[0] != "Draws"
    ]
    for rate, lengths in ((4.0, 1000.0), (4.0, 9000.0)):
        asked = SCENARIO.with_(request_rate_rps=rate, input_len_tokens=lengths)
        assert predict_latency(packed, asked).attrs.get("support") == predict_latency(
            tree, asked
        ).attrs.get("support")


def test_a_report_drift_and_an_update_can_be_had(packed, tmp_path):
    window = LiveWindow(
        300.0,
        num_requests=1200.0,
        mean_e2e_s=float(np.median(predict_latency(packed, SCENARIO)["e2e_s"])),
        num_drafts=60000,
        accepted=(42000.0, 30000.0, 20000.0),
    )
    assert quiet(check_drift, packed, [window], SCENARIO) is not None
    updated = update_acceptance(
        packed, AcceptCounts((140, 96, 63), num_drafts=200, num_requests=80), "quick", min_ess=20
    )
    assert updated["posterior"].sizes == packed["posterior"].sizes
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    from bayes_sd.report import write_report

    page = quiet(write_report, packed, tmp_path / "a.html", scenarios=[SCENARIO], loads=[1.0, 4.0])
    assert page.stat().st_size > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"draws": 3}, r"draws must be a whole number of at least 4\. Got 3"),
        ({"draws": 2001}, r"draws must be at most 2000, those that the fit has\. Got 2001"),
        ({"size_mb": 0.01}, r"size_mb must hold 100 draws, .* Got 0\.01 instead: allow more"),
        ({"size_mb": -1.0}, r"size_mb must be"),
    ],
)
def test_what_cannot_be_is_refused(tree, options, words):
    with pytest.raises(ArgumentError, match=words):
        thin_for_queries(tree, **options)


def test_a_tree_that_is_no_fit_is_refused():
    with pytest.raises(ArgumentError, match=r"must be the result of fit"):
        thin_for_queries(xr.DataTree())


def test_the_command_writes_a_file_and_says_its_size(tree, tmp_path):
    save(tree, tmp_path / "fit.nc")
    app = typer.Typer()
    app.command()(pack)
    small = tmp_path / "small.nc"
    line = [str(tmp_path / "fit.nc"), "-o", str(small), "--draws", "200"]
    said = CliRunner().invoke(app, line)
    assert said.exit_code == 0, said.output
    assert "200 of 2000 draws" in said.output
    document = json.loads(CliRunner().invoke(app, [*line, "--json"]).stdout)
    assert document["size_bytes"] == small.stat().st_size
    assert document["draws"] == 200
    assert load(small)["posterior"].sizes["draw"] == 50
