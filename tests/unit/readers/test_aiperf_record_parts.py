"""Drafts and chunks within records of AIPerf: added up, counted in bins, and refused."""

import numpy as np
import pytest

from bayes_sd.readers import aiperf_chunks
from bayes_sd.readers.aiperf_chunks import ChunkGaps
from tests.unit.readers.aiperf_files import read_records, record, said


def drafts(steps=4, length=3, **others):
    found = {
        "engine": "vllm",
        "acceptance_histogram": {"0": steps - 1, "2": 1},
        "num_accepted_draft_tokens": 2,
        "num_draft_tokens": steps * length,
        "num_spec_steps": steps,
        "num_spec_tokens": length,
    }
    return {"spec_decode_acceptance": found | others}


def test_draft_lengths_that_differ_are_left_to_the_user(tmp_path):
    lines = [record(n, **drafts(length=3 if n < 5 else 5)) for n in range(10)]
    reading = read_records(tmp_path, lines)
    (run,) = reading.runs
    assert "num_speculative_tokens" not in run
    assert run["num_draft_tokens"] == 5 * 12 + 5 * 20
    assert run["accepted_length_counts"] == "30;0;10;0;0;0"
    assert said(reading, "do not tell one draft length")


def test_counts_of_drafts_that_cannot_be_are_not_used(tmp_path):
    lines = [record(n, **drafts()) for n in range(10)]
    bad = ({"num_spec_steps": -1}, {"acceptance_histogram": {"x": 1}}, {"num_draft_tokens": None})
    for line, wrong in zip(lines, bad, strict=False):
        line["spec_decode_acceptance"] |= wrong
    lines[3]["spec_decode_acceptance"] = "none"
    reading = read_records(tmp_path, lines)
    (run,) = reading.runs
    assert (run["num_drafts"], run["num_speculative_tokens"]) == (24, 3)
    assert said(reading, "6 of 10 requests tell of drafts")
    assert said(reading, "in 1 of 10 records: spec_decode_acceptance: num_spec_steps")


def test_percentiles_of_many_chunks_are_those_of_numpy(monkeypatch, rng):
    """Counted in bins, a percentile is good to 1e-4 of itself; the mean is exact."""
    monkeypatch.setattr(aiperf_chunks, "MAX_KEPT", 1000)
    values = rng.lognormal(3.0, 1.0, 100_000)  # ms
    gaps = ChunkGaps()
    for part in np.array_split(values, 400):
        assert gaps.add(part.tolist(), 1e-3)
    cells = gaps.cells()
    assert gaps.counts is not None
    assert cells["mean_itl_s"] == pytest.approx(values.mean() / 1e3, rel=1e-12)
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        assert cells[f"{name}_itl_s"] == pytest.approx(np.quantile(values, share) / 1e3, rel=3e-4)


def test_chunks_of_no_time_or_none_are_no_figure(tmp_path):
    lines = [record(n) for n in range(4)]
    for line, found in zip(lines, ([], [0.0, 0.0], None, [None]), strict=True):
        line["metrics"]["inter_chunk_latency"]["value"] = found
    reading = read_records(tmp_path, lines)
    assert "mean_itl_s" not in reading.runs[0]
    assert said(reading, "in 2 of 4 records: inter_chunk_latency without a list of numbers")


def test_memory_does_not_grow_with_the_chunks(tmp_path):
    """Gaps are counted once there are many, so two gigabytes of them fit."""
    gaps = ChunkGaps()
    for _ in range(80):
        gaps.add([1.0] * 50_000, 1e-3)
    assert gaps.number + len(gaps.kept) == 4_000_000
    assert len(gaps.kept) <= aiperf_chunks.MAX_KEPT + 50_000
    assert gaps.counts.nbytes < 4e6
