"""A summary of AIPerf and the records beside it: what one lacks, the other tells."""

import json
import shutil

import numpy as np
import pytest

from bayes_sd.readers.collect import read_report
from tests.unit.readers.aiperf_files import FILES, SUMMARY, phases, record, summary

TOLD = {"num_speculative_tokens": 3, "method": "eagle", "progressbar": False}


def read(folder, config, every):
    """Write a run whose request ``number`` starts at ``every[number]`` quarter seconds, read it."""
    (folder / SUMMARY).write_text(json.dumps(summary(config, requests=len(every))))
    lines = [json.dumps(record(number)) for number in every]
    (folder / "profile_export.jsonl").write_text("\n".join(lines) + "\n")
    return read_report(folder, **TOLD)


def test_what_the_other_file_tells_is_no_longer_said_to_be_unknown(tmp_path):
    made = shutil.copytree(FILES / "0.13.0_open", tmp_path / "run")
    joined = read_report(made, **TOLD)
    run = joined.runs.iloc[0]
    assert run["request_rate_rps"] != run["target_rate_rps"] == 20
    assert not any("the rate asked for" in note for note in joined.assumed())
    assert not any("do not tell how the run was loaded" in note for note in joined.assumed())
    alone = read_report(made / SUMMARY, **TOLD)
    assert any("the rate asked for" in note for note in alone.assumed())


def test_arrivals_that_were_asked_for_and_came(tmp_path, rng):
    times = np.cumsum(rng.exponential(size=200))  # 4 a second
    report = read(tmp_path, phases("poisson", rate=4.0), times)
    assert report.runs["arrivals"].tolist() == ["poisson"]
    rate = 4 * 199 / (times[-1] - times[0])
    assert report.runs["request_rate_rps"].tolist() == [pytest.approx(rate)]
    assert not any("gaps between" in n or "were sent at" in n for n in report.assumed())


def test_arrivals_that_did_not_come_as_asked_for(tmp_path):
    times = np.repeat(10.0 * np.arange(20), 10) + np.tile(0.01 * np.arange(10), 20)
    report = read(tmp_path, phases("poisson", rate=8.0), times)
    assert report.runs["arrivals"].tolist() == ["bursty"]
    assert any("a Poisson process has 1" in note for note in report.assumed())
    assert any("not at the 8 asked for" in note for note in report.assumed())
