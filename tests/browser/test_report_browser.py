"""The report in a real headless Chromium: numbers, keyboard, requests, accessibility."""

import json
import os
import shutil
import warnings
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

import pytest

import bayes_sd as bs
from bayes_sd.exceptions import BayesSdError, BayesSdWarning
from bayes_sd.report import write_report
from tests.edited_fit import FIRST_TOKEN, edited_fit
from tests.fake_fit import fake_fit
from tests.report_page import ABOUT, CHOOSE, EVIL, WAIT, evil_fit

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER) and not os.environ.get("CI"),
        reason="needs chromium and chromium-driver (where CI is set they must be there)",
    ),
    pytest.mark.filterwarnings("default"),
]


def axe():
    """Return the text of axe-core, which the package axe-selenium-python brings."""
    if "AXE_JS" in os.environ:
        return Path(os.environ["AXE_JS"]).read_text(encoding="utf-8")
    package = resources.files("axe_selenium_python")
    return package.joinpath("node_modules", "axe-core", "axe.min.js").read_text(encoding="utf-8")


def open_browser(*arguments):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", *arguments):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_window_size(1280, 1000)
    return driver


@pytest.fixture(scope="module")
def browser():
    driver = open_browser()
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def tree():
    return edited_fit(fake_fit(spread=0.1), **FIRST_TOKEN)


@pytest.fixture(scope="module")
def page(tree, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        return write_report(tree, tmp_path_factory.mktemp("report") / "report.html")


def ready(browser, page):
    browser.get(page.as_uri())
    browser.execute_async_script(WAIT)


def problems(browser):
    return [line for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]


def test_sliders_show_what_the_library_gives(browser, page, tree):
    ready(browser, page)
    settings = browser.execute_script(ABOUT)
    compared = 0
    for number, setting in enumerate(settings):
        about = setting["about"]
        template = bs.Scenario(request_rate_rps=1.0, **about)
        for load_at in (0, 3, 7, 9):
            for kind, statistic in (("mean", "e2e_p95"), ("run", "e2e_mean")):
                draft_at = compared % len(setting["draft_lengths"])
                limit_at = (5 * compared) % len(setting["statistics"][statistic]["limits_s"])
                utility = ("mean", "p95", "cvar")[compared % 3]
                picked = {"pair": setting["pair"], "setting": number, "load": load_at}
                picked |= {"utility": utility}
                picked |= {"draft": draft_at, "statistic": statistic, "kind": kind}
                got = browser.execute_script(CHOOSE, picked | {"limit": limit_at})
                k, rate = setting["draft_lengths"][draft_at], setting["loads"][load_at]
                here = template.with_(num_speculative_tokens=k, request_rate_rps=rate)
                slo = f"{statistic} <= {setting['statistics'][statistic]['limits_s'][limit_at]}"
                p_met = bs.slo_attainment(tree, here, slo, kind).p_slo_met[0]
                if statistic == "e2e_mean":
                    draws = bs.predict_latency(tree, here, kind)["e2e_s"]
                else:
                    draws = bs.predict_quantiles(tree, here, [0.95], kind)[..., 0]
                median = float(draws.quantile(0.5, method="inverted_cdf"))
                decision = bs.choose_draft_length(tree, here, utility=utility)
                assert float(got["cards"]["P(within limit)"]) == pytest.approx(p_met, abs=1e-12)
                shown = next(v for n, v in got["cards"].items() if n.startswith("Latency"))
                assert float(shown.replace("Infinity", "inf")) == pytest.approx(median, rel=1e-9)
                choice = "null" if decision.choice is None else str(decision.choice)
                assert got["cards"]["Draft length to run"] == choice
                best = [float(row[5]) for row in got["rows"]]
                assert best == pytest.approx(decision.probability_best, abs=1e-12)
                compared += 1
    assert compared >= 10
    assert problems(browser) == []


@pytest.mark.parametrize(
    "slo",
    [
        "e2e_p95 <= 1.3",
        "p99.9 E2E ≤ 1.9 s",
        "e2e_mean < 700 ms",
        "ttft_p90 <= 90ms, e2e_p95 <= 1.3",
        "tpot_p75 <= 5.2e0 ms, e2e_mean <= 0.9",
        "e2e_p50 <= 0.001",
    ],
)
def test_a_typed_objective_gives_what_the_library_gives(browser, page, tree, slo):
    ready(browser, page)
    python = slo.replace("p99.9 E2E", "e2e_p99.9")
    settings = browser.execute_script(ABOUT)
    seen = set()
    for number, setting in enumerate(settings):
        template = bs.Scenario(request_rate_rps=1.0, **setting["about"])
        for load_at in (1, 6, 9, 11):
            utility = ("slo", "goodput")[load_at % 2]
            draft_at = (number + load_at) % len(setting["draft_lengths"])
            picked = {"pair": setting["pair"], "setting": number, "load": load_at, "slo": slo}
            got = browser.execute_script(CHOOSE, picked | {"draft": draft_at, "utility": utility})
            assert got["told"]["slo-message"] == ""
            k, rate = setting["draft_lengths"][draft_at], setting["loads"][load_at]
            here = template.with_(num_speculative_tokens=k, request_rate_rps=rate)
            found = bs.slo_attainment(tree, here, python)
            seen.add(found.p_slo_met[0])
            cards, row = got["cards"], found.to_frame().iloc[0]
            assert float(cards["P(SLO met)"]) == pytest.approx(found.p_slo_met[0], abs=1e-12)
            for name, title in (("share", "Requests within the SLO"), ("goodput_rps", "Goodput")):
                shown = [float(each) for each in cards[title].split()]
                own = [row[f"{end}_{name}"] for end in ("low", "median", "high")]
                assert shown == pytest.approx(own, rel=1e-5, abs=1e-9)  # 32-bit means and spreads
            decision = bs.choose_draft_length(tree, here, utility=utility, slo=python)
            choice = "null" if decision.choice is None else str(decision.choice)
            assert cards["Draft length to run"] == choice
            assert got["told"]["choice-text"] == f"{decision.verdict}: {decision.reason}."
            best, regret = ([float(line[at]) for line in got["rows"]] for at in (5, 6))
            assert best == pytest.approx(decision.probability_best, abs=1e-12)
            assert regret == pytest.approx(decision.expected_regret, rel=1e-4, abs=1e-7)
    assert len(seen) > 2 or seen == {0.0}
    assert problems(browser) == []


@pytest.mark.parametrize(
    ("slo", "words"),
    [
        ("", "must have a name"),
        ("e2e_p95", "must have a name, <= or <"),
        ("e2e_p95 >= 2", "must be an upper limit"),
        ("latency_p95 <= 2", "one of e2e, ttft, tpot"),
        ("e2e_p42 <= 2", "from p50 to p99.9"),
        ("e2e_p95 <= two", "a number of seconds above 0"),
        ("e2e_p95 <= 0", "above 0"),
        ("e2e_p95 <= 1, e2e_p95 <= 2", "one limit for e2e_p95"),
        ("<img src=x onerror=alert(1)> <= 1", "one of e2e, ttft, tpot"),
    ],
)
def test_an_objective_that_cannot_be_read_is_told_and_changes_nothing(browser, page, slo, words):
    with pytest.raises(BayesSdError):
        bs.Slo(slo)
    ready(browser, page)
    before = browser.execute_script(CHOOSE, {"slo": "e2e_p95 <= 1.3", "utility": "goodput"})
    after = browser.execute_script(CHOOSE, {"slo": slo})
    assert after["invalid"] == "true"
    assert words in after["told"]["slo-message"]
    assert "The page still shows e2e_p95 <= 1.3 s." in after["told"]["slo-message"]
    assert (after["cards"], after["rows"]) == (before["cards"], before["rows"])
    again = browser.execute_script(CHOOSE, {"slo": "e2e_p95 <= 1.3"})
    assert (again["invalid"], again["told"]["slo-message"]) == ("false", "")


def test_a_fit_without_percentiles_offers_objectives_on_means_alone(browser, tmp_path):
    tree = fake_fit(spread=0.1, percentiles=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        page = write_report(tree, tmp_path / "means.html", loads=[1.0, 4.0], draft_lengths=[0, 3])
    ready(browser, page)
    got = browser.execute_script(CHOOSE, {"slo": "e2e_p95 <= 2"})
    assert "e2e_p95 is not known" in got["told"]["slo-message"]
    got = browser.execute_script(CHOOSE, {"slo": "e2e_mean <= 0.7", "load": 1, "utility": "slo"})
    setting = browser.execute_script(ABOUT)[0]
    here = bs.Scenario(request_rate_rps=4.0, **setting["about"])
    decision = bs.choose_draft_length(
        tree, here, utility="slo", slo="e2e_mean <= 0.7", candidates=[0, 3]
    )
    best = [float(line[5]) for line in got["rows"]]
    assert best == pytest.approx(decision.probability_best, abs=1e-12)


def test_no_request_leaves_the_page_and_nothing_is_logged(browser, page):
    browser.get_log("performance")
    ready(browser, page)
    browser.execute_script(CHOOSE, {"load": 5, "kind": "run", "limit": 3})
    sent = [
        message["params"]["request"]["url"]
        for message in (json.loads(e["message"])["message"] for e in browser.get_log("performance"))
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in sent if url != page.as_uri()] == []
    assert problems(browser) == []
    blocked = browser.execute_async_script(
        "const done = arguments[0]; fetch('https://example.org/').then(() => done('sent'), "
        "() => done('blocked'))"
    )
    assert blocked == "blocked"
    assert any("Content Security Policy" in line["message"] for line in browser.get_log("browser"))


def test_it_opens_within_two_seconds_and_works_by_keyboard(browser, page):
    ready(browser, page)
    took = browser.execute_script("return performance.now()")
    assert took < 2000  # ms, as promised
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    load = browser.find_element(By.ID, "load")
    before = browser.find_element(By.ID, "load-text").text
    load.send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element(By.ID, "load-text").text != before
    button = browser.find_element(By.CSS_SELECTOR, "#drafts th:nth-child(5) button")
    column = (
        "return [...document.querySelectorAll('#drafts td:nth-child(5)')]"
        ".map((cell) => Number(cell.dataset.value))"
    )
    button.send_keys(Keys.ENTER)
    up = browser.execute_script(column)
    assert up == sorted(up)
    browser.find_element(By.CSS_SELECTOR, "#drafts th:nth-child(5) button").send_keys(Keys.ENTER)
    assert browser.execute_script(column) == sorted(up, reverse=True)


def test_names_from_the_data_do_nothing(browser, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        page = write_report(evil_fit(), tmp_path / "evil.html", title=EVIL)
    ready(browser, page)
    assert browser.execute_script("return window.pwned === undefined")
    assert EVIL in browser.execute_script("return document.getElementById('pair').textContent")
    assert browser.title.strip() == EVIL
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    assert problems(browser) == []


@pytest.mark.parametrize("width", [1280, 360])
def test_a_narrow_window_does_not_scroll_sideways(browser, page, width):
    devices = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", devices)
    try:
        ready(browser, page)
        inner, outer = browser.execute_script(
            "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert inner <= outer
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.skipif(
    not (find_spec("axe_selenium_python") or "AXE_JS" in os.environ or os.environ.get("CI")),
    reason="needs axe-selenium-python, or AXE_JS set to axe.min.js",
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser, page, scheme):
    scheme = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    try:
        ready(browser, page)
        browser.execute_script(
            "document.querySelectorAll('details').forEach(d => { d.open = true })"
        )
        browser.execute_script(axe())
        found = browser.execute_async_script(
            "const done = arguments[0]; axe.run().then((r) => done(r.violations.map("
            "(v) => [v.impact, v.id, v.nodes.map((n) => n.html).slice(0, 3)])))"
        )
        assert [v for v in found if v[0] in ("serious", "critical")] == []
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
