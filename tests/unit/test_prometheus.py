"""Live metrics over HTTP: pages, range queries, and everything that goes wrong on the way."""

import json
import time

import pytest
import typer

from bayes_sd.cli_drift import drift
from bayes_sd.exceptions import ArgumentError, BayesSdError, FormatError, LiveSourceError
from bayes_sd.prometheus_api import page_at, pages_between
from bayes_sd.prometheus_windows import window_between, windows_of_pages
from bayes_sd.storage import save
from tests.fake_fit import fake_fit
from tests.live_server import Engine, prometheus, serving, slow

START = 1.7e9
LAST = START + 3600


def from_api(*engines, labels=None, timeout_s=5.0, **how):
    with serving(prometheus(*engines, **how)) as url:
        return pages_between(
            url, START + 600, START + 1200, 10.0, labels=labels, timeout_s=timeout_s
        )


def test_a_window_of_stored_pages_is_what_the_engine_did():
    windows, notes = windows_of_pages(from_api(Engine()), 300.0, 10.0)
    assert notes == []
    assert len(windows) == 2
    first = windows[0]
    assert first.duration_s == 300
    assert first.request_rate_rps == pytest.approx(4.0)
    assert first.mean_e2e_s == pytest.approx(0.65)
    assert first.mean_running_requests == pytest.approx(2.6)
    assert first.num_gauge_samples == 30
    assert first.process_start_s == START
    assert first.acceptance_length == pytest.approx(1 + 0.7 + 0.476 + 0.31416, abs=1e-3)


def test_an_engines_own_page_gives_the_same_window():
    now = [600.0]
    with serving(lambda path, query: (200, Engine().page(now[0]))) as url:
        before = page_at(url, START + 600)
        now[0] = 900.0
        after = page_at(f"{url}/metrics", START + 900)
    direct = window_between([before, after])
    stored = windows_of_pages(from_api(Engine()), 300.0, 10.0)[0][0]
    assert direct.accepted == stored.accepted
    assert direct.mean_e2e_s == pytest.approx(stored.mean_e2e_s)


def test_a_restart_costs_one_window_and_is_a_new_boot():
    windows, notes = windows_of_pages(from_api(Engine(), restart_s=START + 750), 60.0, 10.0)
    assert len(notes) == 1
    assert "started again" in notes[0]
    assert len(windows) == 9
    assert windows[2].end_s == START + 810  # a whole window from the first page after it on
    assert {w.process_start_s for w in windows} == {START, START + 750}


def test_a_gap_is_left_out():
    pages = from_api(Engine(), missing=[(START + 800, START + 900)])
    windows, notes = windows_of_pages(pages, 60.0, 10.0)
    assert len(notes) == 1
    assert "no metrics for 110 s" in notes[0]
    assert all(w.request_rate_rps == pytest.approx(4.0) for w in windows)


def test_two_engines_must_be_told_apart():
    engines = Engine(), Engine(rate_rps=9.0, instance="b:1")
    with pytest.raises(LiveSourceError, match=r"2 \(vllm/a:1, vllm/b:1\)"):
        from_api(*engines)
    windows, _ = windows_of_pages(from_api(*engines, labels={"instance": "b:1"}), 300.0, 10.0)
    assert windows[0].request_rate_rps == pytest.approx(9.0)


def test_wrong_labels_are_said():
    with pytest.raises(LiveSourceError, match='with job="other"'):
        from_api(Engine(), labels={"job": "other"})


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, json.dumps({"status": "error", "error": "bad step"}), "status 400: bad step"),
        (500, "<html>", "status 500"),
        (200, "<html>", "as Prometheus"),
        (200, "[]", "as Prometheus"),
        (200, json.dumps({"status": "success", "data": {"resultType": "vector"}}), "Prometheus"),
        (200, json.dumps({"status": "error", "error": "x"}), "Prometheus"),
    ],
)
def test_answers_that_are_none(status, body, message):
    with (
        serving(lambda path, query: (status, body)) as url,
        pytest.raises(LiveSourceError, match=message),
    ):
        pages_between(url, START, LAST, 10.0)


def test_a_late_answer_is_not_waited_for():
    begun = time.monotonic()
    with serving(slow(1.0)) as url, pytest.raises(LiveSourceError, match=r"0\.1 s|timed out"):
        page_at(url, START, timeout_s=0.1)
    assert time.monotonic() - begun < 5


def test_nobody_there():
    with serving(slow(0)) as url:
        pass
    with pytest.raises(LiveSourceError, match="must be a server that answers"):
        page_at(url, START)


@pytest.mark.parametrize("url", ["localhost:9090", "file:///etc/passwd", "http://", ""])
def test_what_is_no_address(url):
    with pytest.raises(ArgumentError, match="must begin with http"):
        page_at(url, START)


def test_a_page_of_something_else():
    with (
        serving(lambda path, query: (200, "up 1\n")) as url,
        pytest.raises(FormatError, match="series of vLLM"),
    ):
        page_at(url, START)


@pytest.fixture(scope="module")
def fit_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "fit.nc"
    save(fake_fit(spread=0.02), path)
    return path


def run(fit_file, **options):
    given = {"pair": "quick", "draft_length": 3, "once": True, "since": 1200.0, "label": None}
    drift(fit_file, **(given | options))


def test_the_command_writes_one_document_and_a_log(fit_file, tmp_path, capsys):
    log = tmp_path / "drift.jsonl"
    engine = Engine(start_s=time.time() - 7200)
    with serving(prometheus(engine)) as url:
        run(fit_file, prometheus=url, json=True, log=log, rate=4.0)
    document = json.loads(capsys.readouterr().out)
    assert document["num_windows"] == len(log.read_text().splitlines()) >= 3
    assert {s["part"] for s in document["streams"]} == {"acceptance", "cost", "load"}


def test_the_command_names_a_doubled_rate(fit_file, capsys):
    engine = Engine(start_s=time.time() - 7200)
    with serving(prometheus(engine)) as url:
        run(fit_file, prometheus=url, rate=1.5, window=120.0)
    assert "Load moved" in capsys.readouterr().out


def test_the_command_reads_a_page(fit_file, capsys):
    begun = time.time() - 1000.0
    with serving(lambda path, query: (200, Engine(begun).page(time.time() - begun))) as url:
        run(fit_file, metrics=url, window=0.6)
    assert "measured / expected" in capsys.readouterr().out


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_shows_the_answer_at_the_end_alone(fit_file, capsys, quiet):
    engine = Engine(start_s=time.time() - 7200)
    with serving(prometheus(engine)) as url:
        run(fit_file, prometheus=url, once=False, windows=2, quiet=quiet, serve_metrics="0")
    out, err = capsys.readouterr()
    assert ("measured / expected" in out) == quiet
    assert ("window 1; acceptance" in out or "window 2; acceptance" in out) != quiet
    assert ("own metrics at" in err) != quiet


def test_a_fit_that_did_not_converge_is_said_first(tmp_path, capsys):
    save(fake_fit(spread=0.02, passed=False), tmp_path / "bad.nc")
    with serving(prometheus(Engine(start_s=time.time() - 7200))) as url:
        run(tmp_path / "bad.nc", prometheus=url)
    assert "DO NOT TRUST THIS FIT" in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of them"),
        ({"prometheus": "http://127.0.0.1:9", "metrics": "http://127.0.0.1:9"}, "one of them"),
        ({"metrics": "http://127.0.0.1:9"}, "must be a server"),
        ({"metrics": "http://127.0.0.1:9", "window": 0.0}, "--window"),
        ({"metrics": "http://127.0.0.1:9", "label": ["job"]}, "--label"),
        ({"metrics": "http://127.0.0.1:9", "once": False, "json": True}, "--once"),
        ({"metrics": "http://127.0.0.1:9", "draft_length": 99}, "99"),
    ],
)
def test_mistakes_are_one_error_of_the_library(fit_file, options, message):
    with pytest.raises(BayesSdError, match=message):
        run(fit_file, **options)


def test_the_command_registers():
    app = typer.Typer()
    app.command()(drift)
    assert typer.main.get_command(app).name
