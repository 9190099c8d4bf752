"""`bayes-sd drift` as it is run: without end, its own metrics scraped, stopped by Ctrl-C."""

import json
import math
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest

from bayes_sd.live_export import GAUGES, PREFIX
from bayes_sd.storage import save
from tests.fake_fit import fake_fit
from tests.live_server import Engine, serving

parser = pytest.importorskip("prometheus_client.parser")

RATE_RPS = 15.0  # nine requests in a window: fewer than five say nothing of cost
LONGEST_S = 300  # on a busy machine the libraries alone take a minute to load
# A shell that starts tests in the background hands down an ignored SIGINT.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from bayes_sd.cli import main
main()
"""


class Running:
    """A running command, its two outputs and its log."""

    def __init__(self, folder, process):
        self.folder, self.process = folder, process

    def text(self, name):
        return (self.folder / name).read_text()

    def log(self):
        return [json.loads(line) for line in self.text("log.jsonl").splitlines()]

    def until(self, found):
        """Wait until something is found, and return it."""
        end = time.monotonic() + LONGEST_S
        while not (value := found()):
            assert self.process.poll() is None, self.text("stderr")
            assert time.monotonic() < end, self.text("stdout") + self.text("stderr")
            time.sleep(0.1)
        return value

    def scraped(self):
        """Return families of the command's own metrics by name, as a Prometheus server reads it."""
        address = re.search(r"own metrics at (\S+)", self.text("stderr"))[1]
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")
            text = answer.read().decode()
        return {f.name: f for f in parser.text_string_to_metric_families(text)}

    def interrupted(self):
        """Press Ctrl-C, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LONGEST_S)


@contextmanager
def watching(folder, address, *options):
    """Run the command against an engine's page until the end of the block."""
    save(fake_fit(draws=50, spread=0.02), folder / "fit.nc")
    (folder / "log.jsonl").touch()
    command = [sys.executable, "-c", COMMAND, "drift", "fit.nc", "--metrics", address]
    command += ["--pair", "quick", "-k", "3", "--window", "0.6", "--log", "log.jsonl", *options]
    with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as err:
        process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err)
        try:
            yield Running(folder, process)
        finally:
            process.kill()
            process.wait()


def playing(begun, is_up):
    def answer(path, query):
        engine = Engine(begun, RATE_RPS, mean_e2e_s=0.8, running=0.8 * RATE_RPS)
        return (200, engine.page(time.time() - begun)) if is_up[0] else (503, "down")

    return answer


def values(family):
    """Return a family's values by its one label, or by nothing."""
    return {next(iter(s.labels.values()), ""): s.value for s in family.samples}


def test_an_endless_watch_is_scraped_survives_its_server_and_ends_at_ctrl_c(tmp_path):
    is_up = [True]
    options = ("--rate", str(RATE_RPS), "--slo", "e2e_p95 <= 2", "--serve-metrics", "0")
    with (
        serving(playing(time.time() - 1000.0, is_up)) as address,
        watching(tmp_path, address, *options) as running,
    ):
        running.until(lambda: len(running.log()) >= 2)
        assert_page_says_what_the_log_says(running)
        is_up[0] = False
        running.until(lambda: values(running.scraped()["bayes_sd_source_up"])[""] == 0)
        assert values(running.scraped()["bayes_sd_source_failures"])[""] >= 1
        is_up[0] = True
        before = len(running.log())
        running.until(lambda: len(running.log()) > before)
        assert values(running.scraped()["bayes_sd_source_up"])[""] == 1
        assert running.interrupted() == 130
        count = len(running.log())  # whole lines, or they could not be parsed
        lines = running.text("stdout").splitlines()
        assert f"{count} windows" in lines[-1]
        assert lines[-1].startswith("Nothing moved") or " moved (told at " in lines[-1]
        assert lines[-2].startswith(f"window {count}; ")
        said = running.text("stderr")
        assert said.splitlines()[-1] == f"bayes-sd: stopped after {count} windows."
        assert "Trying again" in said
        assert "Traceback" not in said


def assert_page_says_what_the_log_says(running):
    """Compare a page with the line of the log of the same window."""

    def both():
        page = running.scraped()
        end_s = values(page["bayes_sd_window_end_seconds"])[""]
        lines = [line for line in running.log() if line["end_s"] == end_s]
        return lines and (page, lines[0])

    page, line = running.until(both)
    assert {PREFIX + name for name in GAUGES} <= set(page)
    assert all(page[PREFIX + name].documentation == text for name, (text, _) in GAUGES.items())
    assert all(page[PREFIX + name].type == "gauge" for name in GAUGES)
    assert page["bayes_sd_windows"].type == "counter"
    assert values(page["bayes_sd_windows"])[""] == line["num_windows"]
    scores, ratios = (values(page[f"bayes_sd_drift_{name}"]) for name in ("score", "ratio"))
    assert set(scores) == {"acceptance", "cost", "load"}
    for part, score in scores.items():
        assert math.isfinite(score)
        assert score == line[f"{part}_score"]
        assert ratios[part] == line[f"{part}_ratio"]
    alarms = values(page["bayes_sd_drift_alarm"])
    assert alarms == {part: float(part in line["moved"]) for part in (*scores, "boot")}
    assert values(page["bayes_sd_draft_tokens"]) == {"": 3.0}
    assert values(page["bayes_sd_slo_probability"])[""] == line["p_slo_met"]
    assert values(page["bayes_sd_recommended_draft_tokens"])[""] == line["recommended_draft_length"]
    assert values(page["bayes_sd_latency_share"]) == line["shares"]
    batch = values(page["bayes_sd_effective_batch_requests"])[""]
    assert batch == line["effective_batch_requests"]


def test_ctrl_c_before_the_first_window_ends_it_too(tmp_path):
    with (
        serving(playing(time.time() - 1000.0, [True])) as address,
        watching(tmp_path, address, "--window", "3600", "--serve-metrics", "0") as running,
    ):
        running.until(lambda: "own metrics" in running.text("stderr"))
        page = running.scraped()
        assert math.isnan(values(page["bayes_sd_window_end_seconds"])[""])
        assert values(page["bayes_sd_windows"]) == {"": 0.0}
        assert running.interrupted() == 130
    assert running.log() == []
    said = running.text("stderr")
    assert said.splitlines()[-1] == "bayes-sd: stopped after 0 windows."
    assert "Traceback" not in said
