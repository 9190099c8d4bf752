"""Live metrics out of a real Prometheus server that scrapes a small exporter; needs its binary."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

from bayes_sd.exceptions import LiveSourceError
from bayes_sd.prometheus_api import pages_between
from bayes_sd.prometheus_windows import windows_of_pages
from tests.live_server import Engine, serving

BINARY = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    BINARY is None and not os.environ.get("CI"),
    reason="needs the binary of prometheus (where CI is set it must be there)",
)
SCRAPED_S = 20  # how long is scraped before windows are asked for
READY_S = 60
CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 900ms}}
scrape_configs:
  - job_name: vllm
    static_configs: [{{targets: ["{target}"]}}]
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def until(is_true, longest_s):
    """Wait until something is so, at most so many seconds."""
    end = time.monotonic() + longest_s
    while not is_true():
        assert time.monotonic() < end, f"not so within {longest_s} s"
        time.sleep(0.2)


@pytest.fixture
def scraped(tmp_path):
    """Addresses of a Prometheus server that scrapes an engine, after some seconds of it."""
    assert BINARY is not None, "CI must have prometheus on its PATH, or its place in PROMETHEUS"
    begun = time.time() - 1000.0
    port = free_port()
    with serving(lambda path, query: (200, Engine(begun).page(time.time() - begun))) as engine:
        config = tmp_path / "prometheus.yml"
        config.write_text(CONFIG.format(target=engine.removeprefix("http://")))
        command = [BINARY, f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data"]
        command.append(f"--web.listen-address=127.0.0.1:{port}")
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            until(lambda: answers(f"{url}/-/ready"), READY_S)
            time.sleep(SCRAPED_S)
            yield url
        finally:
            process.terminate()
            process.wait(20)


def test_windows_are_what_the_engine_does(scraped):
    now = time.time()
    pages = pages_between(scraped, now - 30, now, 1.0, labels={"job": "vllm"})
    windows, notes = windows_of_pages(pages, 5.0, 1.0)
    assert notes == []
    assert len(windows) >= 2
    for window in windows:
        assert window.request_rate_rps == pytest.approx(4.0, rel=0.3)
        assert window.mean_e2e_s == pytest.approx(0.65, rel=0.01)
        assert window.mean_running_requests == pytest.approx(2.6)
        assert window.acceptance_length == pytest.approx(2.49, abs=0.02)
        assert window.process_start_s > 0
    with pytest.raises(LiveSourceError, match="Got none"):
        pages_between(scraped, now - 30, now, 1.0, labels={"job": "other"})
    with pytest.raises(LiveSourceError, match="status 400"):
        pages_between(scraped, now, now - 30, 1.0)
