"""The report page: what it holds, that it is safe, and that its numbers are the library's."""

import base64
import re
import warnings

import numpy as np
import pytest
import xarray as xr

import bayes_sd as bs
from bayes_sd import report, report_requests
from bayes_sd.exceptions import (
    ArgumentError,
    BayesSdWarning,
    ConvergenceWarning,
    DataError,
    UnknownPairError,
)
from bayes_sd.report import embedded_json, write_report
from bayes_sd.report_grid import settings_of
from bayes_sd.report_requests import page_draws, requests_of
from bayes_sd.shares import SHARES
from tests.fake_fit import fake_fit
from tests.report_page import EVIL, embedded, evil_fit, page_of

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")


def quiet(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        return function(*arguments, **options)


@pytest.fixture(scope="module")
def tree():
    return fake_fit(spread=0.1)


@pytest.fixture(scope="module")
def html(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    return quiet(write_report, tree, path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def settings(html):
    return embedded(html)


def scenarios_of(settings, number=12):
    """Return scenarios spread over the settings, draft lengths and loads, with their places."""
    rng = np.random.default_rng(3)
    for i in range(number):
        setting = settings[i % len(settings)]
        k_at = int(rng.integers(len(setting["draft_lengths"])))
        load_at = int(rng.integers(len(setting["loads"])))
        scenario = bs.Scenario(
            num_speculative_tokens=setting["draft_lengths"][k_at],
            **{setting["load_name"]: setting["loads"][load_at]},
            **setting["about"],
        )
        yield setting, k_at, load_at, scenario


def test_the_policy_forbids_requests_and_the_page_names_no_outside_address(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1)
    assert "default-src &#39;none&#39;" in policy or "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert "http" not in policy
    outside = r'(?:src|href|action|poster|data)\s*=\s*["\']?(?:https?:)?//'
    markup = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(outside, markup)
    assert not re.search(r"<(link|iframe|object|embed|img|base)\b", markup)
    assert "@import" not in markup
    assert "url(" not in markup


def test_the_page_is_small(html):
    assert len(html.encode()) < 5e6


def test_predictions_and_objectives_are_the_library_s(tree, settings):
    for i, (setting, k_at, load_at, scenario) in enumerate(scenarios_of(settings)):
        kind = ("mean", "run")[i % 2]
        for statistic in ("e2e_mean", "e2e_p95"):
            shown = setting["statistics"][statistic]
            if statistic == "e2e_mean":
                draws = bs.predict_latency(tree, scenario, kind)["e2e_s"].values
            else:
                draws = bs.predict_quantiles(tree, scenario, [0.95], kind).values
            ends = np.quantile(draws.ravel(), [0.05, 0.5, 0.95], method="inverted_cdf")
            got = [float(shown[kind][n][k_at][load_at]) for n in ("low", "median", "high")]
            np.testing.assert_allclose(got, ends, rtol=1e-9)
            counts = shown[kind]["within"][k_at][load_at]
            for at in (0, len(shown["limits_s"]) // 2, -1):
                slo = f"{statistic} <= {shown['limits_s'][at]!r}"
                p_met = quiet(bs.slo_attainment, tree, scenario, slo, kind).p_slo_met[0]
                assert counts[at] / setting["num_draws"] == pytest.approx(p_met, abs=1e-12)


def test_decisions_shares_and_states_are_the_library_s(tree, settings):
    for setting, k_at, load_at, scenario in scenarios_of(settings):
        assert {"mean", "cvar", "p95"} <= set(setting["decisions"])
        for utility, decisions in setting["decisions"].items():
            decision = quiet(bs.choose_draft_length, tree, scenario, utility=utility)
            shown = decisions[load_at]
            assert (shown["choice"], shown["verdict"]) == (decision.choice, decision.verdict)
            assert shown["reason"] == decision.reason
            assert shown["probability_best"] == pytest.approx(decision.probability_best)
            assert shown["expected_regret"] == pytest.approx(decision.expected_regret, abs=1e-9)
        drawn = bs.predict_latency(tree, scenario)
        assert setting["status"][k_at][load_at] == str(drawn["status"].values[0])
        assert setting["outside"][k_at][load_at] == str(drawn["outside"].values[0])
        parts = bs.latency_shares(tree, scenario).values[..., 0]
        for name, values in zip(SHARES, parts, strict=True):
            got = float(setting["shares"][name][k_at][load_at])
            assert got == pytest.approx(
                values[np.isfinite(values)].mean() if len(values[np.isfinite(values)]) else np.nan,
                nan_ok=True,
            )


def test_break_even_and_capacity_are_the_library_s(tree, settings):
    for setting in settings:
        template = bs.Scenario(request_rate_rps=1.0, **setting["about"])
        for shown in setting["break_even"]:
            k = shown["num_speculative_tokens"]
            turn = quiet(
                bs.break_even_rate,
                tree,
                setting["pair"],
                num_speculative_tokens=k,
                scenario=template,
            )
            assert shown["statement"] == turn.statement()
            assert shown["p_crosses"] == turn.p_crosses
            asked = template.with_(num_speculative_tokens=k)
            limit = quiet(bs.max_rate, tree, asked, "e2e_mean <= 1000")
            own = np.quantile(limit.capacity, 0.5, method="inverted_cdf")
            at = setting["draft_lengths"].index(k)
            assert float(setting["capacity"][at][1]) == pytest.approx(own, rel=0.02)


def test_names_from_the_data_are_escaped(tmp_path):
    page = quiet(write_report, evil_fit(), tmp_path / "evil.html", title=EVIL)
    html = page.read_text(encoding="utf-8")
    assert EVIL not in html
    markup = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert "<img" not in markup
    assert "&lt;script&gt;window.pwned=1" in html
    assert re.findall(r"<script[^>]*>", markup) == [
        '<script type="application/gzip;base64" id="report-data">'
    ]
    assert any(EVIL in setting["pair"] for setting in embedded(html))
    assert "49" not in re.search(r"<title>(.*?)</title>", html).group(1)  # no template in a name


def test_text_in_json_cannot_end_the_script():
    text = embedded_json({"a": "</script><!--&", "b": float("inf"), "c": np.float64("nan")})
    assert not set("<>&") & set(text)
    assert '"inf"' in text
    assert '"nan"' in text


def test_a_fit_that_did_not_converge_is_said_first(tmp_path):
    tree = fake_fit(passed=False)
    with pytest.warns(ConvergenceWarning):
        page = write_report(tree, tmp_path / "r.html", loads=[1.0, 2.0], draft_lengths=[0, 1])
    html = page.read_text(encoding="utf-8")
    assert "Diagnostics not passed." in html
    assert html.index("NOT CONVERGED") < html.index("<main>")
    assert embedded(html)[0]["loads"] == [1.0, 2.0]


def test_a_closed_loop_has_requests_in_flight_and_no_capacity(tree, tmp_path):
    asked = [bs.Scenario("small", concurrency=4)]
    path = quiet(write_report, tree, tmp_path / "r.html", scenarios=asked, loads=[1, 4])
    (setting,) = embedded(path.read_text(encoding="utf-8"))
    assert setting["load_name"] == "concurrency"
    assert set(setting["capacity"]) == {None}
    scenario = bs.Scenario(
        concurrency=4, num_speculative_tokens=setting["draft_lengths"][1], **setting["about"]
    )
    draws = bs.predict_latency(tree, scenario)["e2e_s"].values.ravel()
    own = np.quantile(draws, 0.5, method="inverted_cdf")
    assert setting["statistics"]["e2e_mean"]["mean"]["median"][1][1] == pytest.approx(own)


def test_a_large_fit_gives_the_page_as_many_draws_as_it_has_room_for(tree, monkeypatch):
    shown, _ = settings_of(tree)
    assert page_draws(tree, shown) is tree
    arms = sum(len(s.draft_lengths) * len(s.loads) for s in shown)
    monkeypatch.setattr(report_requests, "MAX_NUMBERS", 6 * arms * 125)
    few = page_draws(tree, shown)
    assert few.attrs["packed_draws"] == 124
    found = quiet(requests_of, few, shown[0])
    mean = np.frombuffer(base64.b64decode(found["latencies"]["e2e"]["mean_s"]), dtype="<f4")
    scenario = shown[0].scenario(shown[0].draft_lengths[1], shown[0].loads[2])
    own = bs.predict_latency(few, scenario)["e2e_s"].values[:, 0]
    at = len(shown[0].loads) + 2
    np.testing.assert_allclose(mean.reshape(-1, found["num_draws"])[at], own, rtol=1e-6)


def test_the_objective_that_the_page_begins_with(tree, tmp_path):
    def begun(tree, **options):
        options |= {"loads": [1.0, 4.0], "draft_lengths": [0, 3]}
        path = quiet(write_report, tree, tmp_path / "r.html", **options)
        return page_of(path.read_text(encoding="utf-8"))["objective"]

    assert begun(tree, slo="e2e_p90 <= 300 ms") == "e2e_p90 <= 0.3"
    assert re.fullmatch(r"e2e_p95 <= [\d.]+", begun(tree))
    means = fake_fit(spread=0.1, percentiles=False)
    assert re.fullmatch(r"e2e_mean <= [\d.]+", begun(means))
    with pytest.raises(DataError, match="percentiles of e2e are not known"):
        begun(means, slo="e2e_p95 <= 2")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slo": "e2e_p95 >= 2"}, "must be an upper limit"),
        ({"loads": []}, "loads must be positive and increasing"),
        ({"loads": [2.0, 1.0]}, "loads must be positive and increasing"),
        ({"loads": [-1.0]}, "loads must be"),
        ({"scenarios": []}, "at least one Scenario"),
        ({"scenarios": ["small"]}, "must be a Scenario"),
        ({"draft_lengths": [-1]}, "candidates"),
        ({"random_seed": -1}, "random_seed"),
        ({"scenarios": [bs.Scenario("nobody", request_rate_rps=1.0)]}, "nobody"),
    ],
)
def test_mistakes_are_told(tree, tmp_path, options, words):
    with pytest.raises((ArgumentError, UnknownPairError), match=words):
        quiet(write_report, tree, tmp_path / "r.html", **options)
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_told(tree, tmp_path):
    with pytest.raises(ArgumentError, match="it is a folder"):
        write_report(tree, tmp_path)
    with pytest.raises(ArgumentError, match="does not exist"):
        write_report(tree, tmp_path / "none" / "r.html")
    with pytest.raises(ArgumentError, match="result of fit"):
        write_report(xr.DataTree(), tmp_path / "r.html")


def test_missing_libraries_are_told_in_one_message(tree, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    with pytest.raises(ArgumentError, match=re.escape("pip install 'bayes_sd[report]'")):
        write_report(tree, tmp_path / "r.html")
    assert report.INSTALL.count("\n") == 0


def test_what_is_left_out_is_said(tree):
    settings, left_out = settings_of(tree)
    assert {s.pair for s in settings} == set(bs.fitted_pairs(tree))
    assert left_out == []
    runs = tree["constant_data"].to_dataset()
    many = tree.copy(deep=True)
    lengths = np.arange(runs.sizes["run"]) % 7 * 16.0 + 256
    many["constant_data"].dataset = runs.assign(input_len_tokens=("run", lengths))
    _, left_out = quiet(settings_of, many)
    assert any("more combinations of lengths" in each for each in left_out)
