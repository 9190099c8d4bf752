"""Logs of vLLM servers in the wordings of its releases, against sums made by hand."""

import datetime
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayes_sd.exceptions import BayesSdError
from bayes_sd.readers import vllm_log
from bayes_sd.readers.content import Content

FILES = Path(__file__).parents[2] / "files" / "vllm_log"
CURRENT = FILES / "current.log"
# As written into current.log: drafts, and how many were accepted at each of three positions.
INSIDE = [(500, 310, 170, 90), (600, 372, 204, 108), (598, 371, 203, 107), (596, 370, 202, 106)]
INSIDE += [(602, 372, 206, 109), (600, 371, 204, 108)]
RUNNING = [8, 9, 8, 7, 10, 8]


def at(text):
    return datetime.datetime.fromisoformat(text)


def between(path, start, end):
    return vllm_log.cells_between(vllm_log.intervals(Content(path)), at(start), at(end))


def write(folder, text):
    path = folder / "server.log"
    path.write_text(text, encoding="utf-8")
    return path


def load(stamp, running=3, waiting=0, engine="Engine 000", rate=100.0):
    return (
        f"INFO {stamp} [loggers.py:257] {engine}: Avg prompt throughput: 1.0 tokens/s, Avg "
        f"generation throughput: {rate:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} "
        "reqs, GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
    )


def drafts(stamp, text):
    return f"INFO {stamp} [metrics.py:101] SpecDecoding metrics: {text}\n"


def test_intervals_of_the_current_wording():
    found = vllm_log.intervals(Content(CURRENT))
    assert len(found) == 9
    first, last = found.iloc[0], found.iloc[-1]
    assert (first["month"], first["day"], first["second_of_day_s"]) == (12, 31, 86320)
    assert (last["month"], last["day"], last["second_of_day_s"]) == (1, 1, 0)
    assert list(found["running"]) == [2, *RUNNING, 4, 0]
    assert list(found["waiting"]) == [0, 0, 1, 0, 0, 2, 0, 0, 0]
    assert list(found["num_draft_tokens"][1:7]) == [3 * row[0] for row in INSIDE]
    assert list(found["num_accepted_tokens"][1:7]) == [sum(row[1:]) for row in INSIDE]
    assert found["acceptance_per_position"][1] == "0.620;0.340;0.180"
    assert found["mean_acceptance_length"][1] == 2.14


def test_only_intervals_wholly_inside_count():
    """From 23:58:40 to 23:59:45, and over the end of the year, which the log does not name."""
    cells, notes = between(CURRENT, "2026-12-31 23:58:40", "2026-12-31 23:59:45")
    assert notes == []
    assert cells["num_drafts"] == sum(row[0] for row in INSIDE)
    assert cells["num_draft_tokens"] == 3 * sum(row[0] for row in INSIDE)
    positions = [sum(row[i] for row in INSIDE) for i in (1, 2, 3)]
    assert cells["accepted_per_position"] == ";".join(map(str, positions))
    assert cells["num_accepted_tokens"] == sum(positions)
    assert cells["num_speculative_tokens"] == 3
    assert cells["mean_acceptance_length"] == pytest.approx(
        1 + sum(positions) / cells["num_drafts"]
    )
    assert cells["mean_running_requests"] == pytest.approx(sum(RUNNING) / 6)
    assert "mean_in_system_requests" not in cells
    later, _ = between(CURRENT, "2026-12-31 23:58:41", "2026-12-31 23:59:39")
    assert later["num_drafts"] == sum(row[0] for row in INSIDE[1:-1])


def test_end_of_a_year():
    cells, notes = between(CURRENT, "2026-12-31 23:59:40", "2027-01-01 00:00:05")
    assert cells["num_drafts"] == 350 + 25
    assert "mean_running_requests" not in cells
    assert any("2 samples of one moment each are too few" in note for note in notes)
    assert between(CURRENT, "2026-06-01 00:00:00", "2026-06-01 00:10:00") == ({}, [])
    assert between(CURRENT, "2027-12-31 23:58:40", "2027-12-31 23:59:45")[0]["num_drafts"] == 3496


def test_order_of_2025_with_drafts_of_unequal_length():
    """As written into the file: 139 and 400 drafts, which the log does not print."""
    cells, notes = between(
        FILES / "order_of_2025.log", "2025-06-06 14:20:20", "2025-06-06 14:20:50"
    )
    assert (cells["num_draft_tokens"], cells["num_accepted_tokens"]) == (1487, 632)
    assert cells["num_speculative_tokens"] == 3
    assert "num_drafts" not in cells
    assert "accepted_per_position" not in cells
    assert cells["mean_acceptance_length"] == pytest.approx(1 + 632 / 539, abs=0.01)
    assert cells["num_draft_steps"] == pytest.approx(1487 / 539, rel=0.01)
    rates = [float(rate) for rate in cells["acceptance_per_position"].split(";")]
    expected = [(75 + 220) / 539, (50 + 150) / 539, (37 + 100) / 539]
    assert rates == pytest.approx(expected, abs=0.003)
    assert any("rounded figures of the log" in note for note in notes)


def test_first_wording_has_totals_only(tmp_path):
    text = "Draft acceptance rate: 40.0%, Accepted: 120 tokens, Drafted: 300 tokens"
    path = write(tmp_path, load("04-02 18:03:41") + drafts("04-02 18:03:41", text))
    cells, _ = between(path, "2025-04-02 18:03:00", "2025-04-02 18:04:00")
    assert cells["draft_acceptance_rate"] == pytest.approx(0.4)
    assert "num_drafts" not in cells
    nothing = "Draft acceptance rate: nan%, Accepted: 0 tokens, Drafted: 0 tokens"
    path = write(tmp_path, load("04-02 18:03:41") + drafts("04-02 18:03:41", nothing))
    cells, _ = between(path, "2025-04-02 18:03:00", "2025-04-02 18:04:00")
    assert set(cells) == {"_generation_tokens_per_s"}


def test_rates_of_many_drafts_are_too_coarse_for_counts(tmp_path):
    """20,000 drafts, 13,337 accepted: three digits of a rate are 20 drafts wide."""
    text = (
        "Mean acceptance length: 1.67, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
        "1.00 tokens/s, Accepted: 13337 tokens, Drafted: 40000 tokens, Per-position acceptance "
        "rate: 0.446, 0.221, Avg Draft acceptance rate: 33.3%"
    )
    path = write(tmp_path, load("12-01 07:00:00") + drafts("12-01 07:00:00", text))
    cells, _ = between(path, "2026-12-01 06:59:00", "2026-12-01 07:01:00")
    assert cells["num_drafts"] == 20000
    assert "accepted_per_position" not in cells
    assert cells["acceptance_per_position"] == "0.446;0.221"


def test_engines_of_one_moment_are_added_up(tmp_path):
    lines = ""
    for second in (0, 10, 20, 30, 40, 50):
        for engine in (0, 1):
            stamp = f"12-01 07:00:{second + engine:02d}"
            text = "Accepted: 30 tokens, Drafted: 90 tokens, Per-position acceptance rate: 0.500"
            lines += load(stamp, 3 + engine, 1, f"Engine {engine:03d}") + drafts(stamp, text)
    found = vllm_log.intervals(Content(write(tmp_path, lines)))
    assert list(found["running"]) == [7.0] * 6
    assert list(found["num_draft_tokens"]) == [180.0] * 6
    cells, notes = between(write(tmp_path, lines), "2026-12-01 07:00:00", "2026-12-01 07:01:00")
    assert cells["mean_running_requests"] == 7
    assert cells["num_draft_tokens"] == 180 * 5
    assert "num_speculative_tokens" not in cells
    assert any("several engines" in note for note in notes)
    together = load("12-01 07:00:00", 5, 0, "2 Engines Aggregated")
    assert list(vllm_log.intervals(Content(write(tmp_path, together)))["running"]) == [5.0]


def test_idle_server_has_no_mean(tmp_path):
    seconds = (0, 10, 20, 30, 40, 50)
    busy = "".join(load(f"12-01 07:00:{s:02d}") for s in seconds)
    later = "".join(load(f"12-01 07:03:{s:02d}") for s in seconds)
    path = write(tmp_path, busy + later)
    assert "mean_running_requests" in between(path, "2026-12-01 06:59", "2026-12-01 07:01")[0]
    cells, notes = between(path, "2026-12-01 06:59", "2026-12-01 07:04")
    assert "mean_running_requests" not in cells
    assert any("idle in between" in note for note in notes)


def test_stamps(tmp_path):
    lines = [
        "2026-12-01T06:00:00.5Z " + load("12-01 07:00:00"),  # of a container engine, then the log's
        "\x1b[1;36m(APIServer pid=1)\x1b[0;0m " + load("12-01 07:00:10"),
        load("2026-12-01 07:00:20").replace("[loggers.py:257]", "[v1/metrics/loggers.py:271]"),
        load("13-41 07:00:20"),
        load("12-01 29:00:20"),
        load("02-30 07:00:30"),
        load(""),
        "INFO 12-01 07:00:31 metrics.py:406] Avg prompt throughput: 0.0 tokens/s, Avg generation "
        "throughput: 75.3 tokens/s, Running: 6 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU\n",
    ]
    found = vllm_log.intervals(Content(write(tmp_path, "".join(lines))))
    assert list(found["second_of_day_s"] - 7 * 3600) == [0, 10, 20, 31]
    assert list(found["year"]) == [0, 0, 2026, 0]
    assert list(found["waiting"]) == [0, 0, 0, 2]


def test_clock_that_was_set_back(tmp_path):
    text = "".join(load(f"12-01 07:00:{s:02d}") for s in (0, 10, 20, 15, 25, 35))
    cells, _ = between(write(tmp_path, text), "2026-12-01 06:59:00", "2026-12-01 07:01:00")
    assert cells["mean_running_requests"] == 3


def test_alone_it_is_no_run():
    reading = vllm_log.read(Content(CURRENT))
    assert reading.runs == []
    assert "9 intervals with statistics" in reading.skipped[0]


@pytest.mark.parametrize(
    ("text", "is_log"),
    [
        (load("12-01 07:00:00"), True),
        ("(EngineCore pid=9) INFO 09-04 10:58:50 [core.py:123] Initializing\n", True),
        ("WARNING 06-06 14:20:20 [v1/config.py:1] x", True),
        ("", False),
        ("[2026-01-01 10:00:00 TP0] Decode batch, #running-req: 5", False),
        ("2026-12-01 07:00:00 INFO x.py:3 y", False),
        ("# TYPE vllm:x gauge\nvllm:x 1", False),
        ("run_id,date\na,12-01 07:00:00\n", False),
    ],
)
def test_what_is_recognised(text, is_log):
    assert vllm_log.recognises_text(text) is is_log


LINES = CURRENT.read_text().splitlines()
PIECES = st.sampled_from(["", "9" * 30, "nan", "-", ", ", ".", "\0", "\n", "99", " INFO ", "é"])


@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(LINES) - 1), st.integers(0, 400), PIECES), max_size=12
    ),
    start=st.integers(0, 200),
)
@settings(max_examples=100, deadline=None)
def test_damage_ends_in_cells_or_a_typed_error(tmp_path_factory, edits, start):
    lines = list(LINES)
    for number, place, piece in edits:
        lines[number] = lines[number][:place] + piece + lines[number][place + 2 :]
    path = write(tmp_path_factory.mktemp("x"), "\n".join(lines))
    end = at("2026-12-31 23:59:59")
    try:
        cells, _ = vllm_log.cells_between(
            vllm_log.intervals(Content(path)), end - datetime.timedelta(seconds=start), end
        )
    except BayesSdError:
        return
    assert 0 <= cells.get("draft_acceptance_rate", 0.5) <= 1


def test_a_long_log_is_read_in_its_time(tmp_path):
    text = CURRENT.read_text()
    request = '(APIServer pid=1) INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK\n'
    path = write(tmp_path, (text + request * 100) * 150)
    start = time.perf_counter()
    assert len(vllm_log.intervals(Content(path))) == 9 * 150
    assert time.perf_counter() - start < 1 + path.stat().st_size / 1e6
