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
from bayes_sd.exceptions import BayesSdWarning
from bayes_sd.report import write_report
from tests.fake_fit import fake_fit
from tests.report_page import EVIL, evil_fit

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
    return fake_fit(spread=0.1)


@pytest.fixture(scope="module")
def page(tree, tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BayesSdWarning)
        return write_report(tree, tmp_path_factory.mktemp("report") / "report.html")


CHOOSE = """
for (const [id, value] of Object.entries(arguments[0])) {
  const control = document.getElementById(id);
  control.value = String(value);
  control.dispatchEvent(new Event('input', {bubbles: true}));
}
const cards = Object.fromEntries(
  [...document.querySelectorAll('#answers dd')].map((d) => [d.dataset.name, d.dataset.value]));
const rows = [...document.querySelectorAll('#drafts tbody tr')].map(
  (line) => [...line.cells].map((cell) => cell.dataset.value));
return {cards, rows};
"""
ABOUT = "return settings"
WAIT = """
const done = arguments[0];
started.then(() => Promise.all([...shown.values()].map((c) => c.ready))).then(() => done(true));
"""


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
                assert float(got["cards"]["P(objective met)"]) == pytest.approx(p_met, abs=1e-12)
                shown = next(v for n, v in got["cards"].items() if n.startswith("Latency"))
                assert float(shown.replace("Infinity", "inf")) == pytest.approx(median, rel=1e-9)
                choice = "null" if decision.choice is None else str(decision.choice)
                assert got["cards"]["Draft length to run"] == choice
                best = [float(row[5]) for row in got["rows"]]
                assert best == pytest.approx(decision.probability_best, abs=1e-12)
                compared += 1
    assert compared >= 10
    assert problems(browser) == []


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
