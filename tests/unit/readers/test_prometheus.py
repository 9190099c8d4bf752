"""Metrics pages as servers wrote them, and pages that are damaged or of something else."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import prometheus
from bayes_sd.readers.content import Content
from bayes_sd.readers.metrics_page import parse_page
from tests.damaged_results import checked

FILES = Path(__file__).parents[2] / "files" / "prometheus"
BOTH = FILES / "before_and_after_k3.txt"
LENGTHS = {"input_len_tokens": 64.0, "output_len_tokens": 64.0}
LOAD = {"load_kind": "open", "request_rate_rps": 2.0}


def read(path):
    content = Content(path)
    assert prometheus.recognises_text(content.head)
    return prometheus.read(content)


def write(folder, text, name="page.txt"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_two_pages_in_one_file_are_a_run():
    """Expected: the table made by another program from the whole pages."""
    (run,) = read(BOTH).runs
    assert run["num_requests"] == 120
    assert run["mean_e2e_s"] == pytest.approx(1.501187, abs=1e-6)
    assert (run["num_drafts"], run["num_draft_tokens"]) == (3527, 10581)
    assert run["num_accepted_tokens"] == 4140
    assert run["accepted_per_position"] == "2104;1266;770"
    assert run["num_speculative_tokens"] == 3
    assert run["mean_acceptance_length"] == pytest.approx(1 + 4140 / 3527)
    assert run["draft_acceptance_rate"] == pytest.approx(4140 / 10581)
    assert (run["input_len_tokens"], run["output_len_tokens"]) == (64, 64)
    assert (run["engine"], run["verifier"]) == ("vllm", "m")
    assert "method" not in run
    assert "request_rate_rps" not in run
    assert "load_kind" not in run
    assert len(checked([{**run, **LOAD}])) == 1


def test_two_files_that_differ_by_one_word_are_a_run():
    for name in ("no_speculation_before.txt", "no_speculation_after.txt"):
        reading = read(FILES / name)
        (run,) = reading.runs
        assert (run["method"], run["num_speculative_tokens"]) == ("none", 0)
        assert run["mean_e2e_s"] == pytest.approx(0.895223, abs=1e-6)
        assert any("read together with no_speculation" in note for note in reading.notes)
        assert any("no counters of drafts" in note for note in reading.notes)
        assert len(checked([{**run, **LOAD}])) == 1


def test_real_page_has_the_figures_that_stand_in_it():
    page = parse_page((FILES / "eagle3_k3.txt").read_text(), "")
    (drafts,) = page.series["vllm:spec_decode_num_drafts_total"].values()
    by_position = page.series["vllm:spec_decode_num_accepted_tokens_per_pos_total"]
    values = {dict(labels)["position"]: value for labels, value in by_position.items()}
    assert drafts == 43680
    assert values == {"0": 29030, "1": 18342, "2": 11323}
    assert page.process_start_s == 1780061007.84
    assert math.isnan(page.time_s)
    assert not page.unread_lines
    assert all(name.startswith("vllm:") for name in page.series)


def test_one_page_is_no_run():
    reading = read(FILES / "eagle3_k3.txt")
    assert reading.runs == []
    (reason,) = reading.skipped
    assert "the file holds one metrics page" in reason
    assert "NAME.before.txt and NAME.after.txt" in reason


def test_page_since_the_server_started_is_a_run_after_an_empty_one(tmp_path):
    page = (FILES / "eagle3_k3.txt").read_text()
    zero = "\n".join(
        line if line.startswith("#") or "_created" in line else line.rsplit(" ", 1)[0] + " 0.0"
        for line in page.splitlines()
        if "process_" not in line
    )
    write(tmp_path, zero, "x.before.txt")
    (run,) = read(write(tmp_path, page, "x.after.txt")).runs
    assert run["accepted_per_position"] == "29030;18342;11323"
    assert run["mean_acceptance_length"] == pytest.approx(2.344, abs=5e-4)
    assert run["verifier"] == "MiniMaxAI/MiniMax-M2.5"
    assert run["draft_acceptance_rate"] == pytest.approx(0.448, abs=5e-4)


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("vllm:a_total 3", {}, 3),
        ('vllm:a_total{m="a b"} 3.5e1', {"m": "a b"}, 35),
        ('vllm:a_total { m = "{x=\\"1\\"},", e="0", } +Inf', {"m": '{x="1"},', "e": "0"}, np.inf),
        ('vllm:a_total{m="a\\nb\\\\"}\t7 1764571234000', {"m": "a\nb\\"}, 7),
        ('  vllm:a_total{m="}"} 1 # {trace_id="x"} 0.5 1764571234.5\r', {"m": "}"}, 1),
    ],
)
def test_samples_as_the_format_allows_them(line, labels, value):
    page = parse_page(line, "")
    assert page.series == {"vllm:a_total": {frozenset(labels.items()): value}}
    assert not page.unread_lines


@pytest.mark.parametrize(
    "line",
    ["vllm:a", 'vllm:a{m="x} 3', 'vllm:a{m="x"}', "vllm:a x", "vllm:a 1_0", "vllm:a 1 2 3 x"],
)
def test_lines_that_are_no_samples_are_counted(line):
    page = parse_page(f"vllm:b 1\n{line}\n", "")
    assert page.unread_lines == [2]
    assert list(page.series) == ["vllm:b"]


def test_cut_page_is_told(tmp_path):
    text = BOTH.read_text()
    reading = read(write(tmp_path, text[: text.rindex(" ")]))
    assert any("1 lines are no samples" in note for note in reading.notes)
    cut = text[: text.index("# after")]
    assert "one metrics page" in read(write(tmp_path, cut)).skipped[0]


def test_times_give_the_rates(tmp_path):
    """Written by hand: 60 requests finished and 3 more were in flight after 30 s."""
    lines = (
        'vllm:request_success_total{{finished_reason="stop"}} {}\nvllm:num_requests_running {}\n'
    )
    text = f"# before 1780061430\n{lines.format(10, 1)}# after 1780061460\n{lines.format(70, 4)}"
    (run,) = read(write(tmp_path, text)).runs
    assert run["_duration_s"] == 30
    assert run["request_rate_rps"] == pytest.approx(63 / 30)
    assert run["completed_rate_rps"] == pytest.approx(2)
    assert run["date"] == "2026-05-29"
    in_ms = text.replace(" 1780061430", "").replace(" 1780061460", "")
    in_ms = in_ms.replace("running 1", "running 1 1780061430000")
    (run,) = read(write(tmp_path, in_ms.replace("running 4", "running 4 1780061460000"))).runs
    assert run["_duration_s"] == 30
    in_s = in_ms.replace("running 1 1780061430000\n", "running 1 1780061430\n# EOF\n")
    in_s = in_s.replace("running 4\n", "running 4 1780061455.5\n# EOF\n")
    (run,) = read(write(tmp_path, in_s)).runs
    assert run["_duration_s"] == 25.5


def test_pages_that_are_refused(tmp_path):
    one = 'vllm:request_success_total{finished_reason="stop"} 5\n'
    cases = {
        f"# before\n{one}": "one metrics page",
        f"# after\n{one}# before\n{one}": "one line '# before' and below it one line '# after'",
        f"# before\n{one}# after\n{one}# after\n{one}": "Give one file for each run",
        f"# before\n{one}# after\n{one}": "no request finished between the pages",
        f"{one}{one}": "a second time in one page (line 2)",
        "# before\nsglang:spec_accept_length 2\n# after\nsglang:spec_accept_length 3": "SGLang",
        "# TYPE go_goroutines gauge\ngo_goroutines 8\n# before\n# after\n": "begin with 'vllm:'",
    }
    for text, reason in cases.items():
        reading = prometheus.read(Content(write(tmp_path, text)))
        assert reading.runs == []
        assert reason in reading.skipped[0], text
    with pytest.raises(FormatError, match="a proxy or exporter"):
        parse_page("go_goroutines 8", "")


@pytest.mark.parametrize(
    ("text", "is_page"),
    [
        ("# HELP vllm:x Y\n", True),
        ("# TYPE http_requests_total counter\n", True),
        ('a\nvllm:x{a="b"} 1\n', True),
        ("sglang:num_running_reqs 3", True),
        ("run_id,vllm:x\n", False),
        ('{"vllm:x": 1}', False),
        ("INFO 12-01 07:05:54 [loggers.py:1] Engine 000: vllm:x", False),
        ("# before\n# TYPE", False),
        ("", False),
    ],
)
def test_what_is_recognised(text, is_page):
    assert prometheus.recognises_text(text) is is_page


def test_partner_is_found_by_one_word(tmp_path):
    for name in ("rate2.before.txt", "rate2.after.txt", "START_m.prom", "END_m.prom", "x.txt"):
        write(tmp_path, "vllm:a 1", name)
    pairs = {"rate2.before.txt": "rate2.after.txt", "END_m.prom": "START_m.prom"}
    for name, other in pairs.items():
        assert prometheus.partner(tmp_path / name) == tmp_path / other
    assert prometheus.partner(tmp_path / "x.txt") is None
    assert prometheus.partner(tmp_path / "beforehand.txt") is None


LINES = BOTH.read_text().splitlines()
NUMBERS = st.integers(0, len(LINES) - 1)
PIECES = st.sampled_from(
    [
        "NaN",
        "-1",
        "1e999",
        '"',
        "{",
        "}",
        "\\",
        "\0",
        "\n",
        "# after",
        "# before",
        "9" * 400,
        "+Inf",
    ]
)


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 90), PIECES), max_size=6
    ),
    dropped=st.sets(st.integers(0, len(LINES) - 1), max_size=5),
)
@settings(max_examples=100, deadline=None)
def test_damage_ends_in_a_reading_or_a_typed_error(tmp_path_factory, edits, dropped):
    lines = list(LINES)
    for number, at, piece in edits:
        lines[number] = lines[number][:at] + piece + lines[number][at + 3 :]
    text = "\n".join(line for number, line in enumerate(lines) if number not in dropped)
    path = write(tmp_path_factory.mktemp("damaged"), text)
    try:
        reading = prometheus.read(Content(path))
        assert len(reading.runs) + len(reading.skipped) == 1
        if reading.runs:  # figures that were changed may contradict each other
            checked(
                [{"input_len_tokens": 9.0, "output_len_tokens": 64.0, **reading.runs[0], **LOAD}]
            )
    except BayesSdError:
        return


def test_a_long_page_is_read_in_its_time(tmp_path):
    line = 'vllm:e2e_request_latency_seconds_bucket{{engine="{}",le="{}",model_name="m"}} {}.0'
    lines = [line.format(e, le, e + le) for e in range(64) for le in range(300)]
    text = "# before\n" + "\n".join(lines) + "\n# after\n" + "\n".join(lines) + "\n"
    start = time.perf_counter()
    prometheus.read(Content(write(tmp_path, text)))
    assert time.perf_counter() - start < 1 + len(text) / 1e6
    nasty = "vllm:a{" + 'b="' * 20000
    start = time.perf_counter()
    assert parse_page(f"vllm:b 1\n{nasty}", "").unread_lines == [2]
    assert time.perf_counter() - start < 1
