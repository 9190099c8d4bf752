"""Today's load tools, run for some seconds against a server whose timing is known, and read.

Each of GuideLLM, AIPerf and ``vllm bench serve`` is skipped where its command is found neither on
the PATH nor in the folders that the environment variable ``BAYES_SD_TOOLS`` lists
(``/path/to/venv/bin``). To see that a reader keeps up with its tool, install the newest and run

    BAYES_SD_TOOLS=/path/to/venv/bin pytest -m slow tests/slow/test_real_tools.py -rs

What the table says is compared with what the server kept. Counts must be equal. A tool sees a
request for longer than the server does, by its own scheduling: times to an answer may be longer by
5 % and 20 ms, and are never shorter by more than 2 %; times between tokens are within 10 %.
"""

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bayes_sd.readers.collect import read_report
from bayes_sd.readers.report import ReadReport
from tests.mock_server import MockServer, Served

pytestmark = pytest.mark.slow

FOLDERS = "BAYES_SD_TOOLS"
NUM_REQUESTS = 40
RATE_RPS = 8.0
CONCURRENCY = 3
INPUT_TOKENS, OUTPUT_TOKENS = 20, 32
LONGEST_S = 300.0
SHORTER, LONGER, LONGER_S = 0.98, 1.05, 0.02
GAP_TOLERANCE = 0.1
RATE_TOLERANCE = 0.03  # of the rate at which requests came
SPAN_TOLERANCE = 0.15  # of what is over a whole run: tools differ on where it begins and ends
# What tools write that is no result, and reads as of no known format. A new one is to be looked at.
BY_PRODUCTS = {
    "aiperf.log",
    "benchmarks.csv",
    "inputs.json",
    "profile_export_aiperf.csv",
    "profile_export_console.txt",
    "server_metrics_export.csv",
    "server_metrics_export.json",
}

# Nothing need be looked up: the tokenizer is a local one. Told to stay off the network, AIPerf 0.13
# takes its path for a name.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


def guidellm(server: MockServer, tokenizer: Path, folder: Path, is_open: bool) -> list[str]:
    load = {"kind": "poisson", "rate": [RATE_RPS]}
    profile = load if is_open else {"kind": "concurrent", "streams": [CONCURRENCY]}
    synthetic = f"prompt_tokens={INPUT_TOKENS},output_tokens={OUTPUT_TOKENS}"
    return [
        *("guidellm", "run", "--disable-console-interactive"),
        *("--backend", f"kind=openai_http,target={server.url},model={server.model}"),
        *("--tokenizer", f"kind=hf_auto,model={tokenizer}"),
        *("--data", f"kind=synthetic_text,{synthetic}"),
        *("--profile", json.dumps(profile)),
        *("--constraint", f"kind=max_requests,count={NUM_REQUESTS}"),
        *("--output", f"kind=json,path={folder / 'benchmarks.json'}"),
        *("--output", f"kind=csv,path={folder / 'benchmarks.csv'}"),  # both are its default
    ]


def aiperf(server: MockServer, tokenizer: Path, folder: Path, is_open: bool) -> list[str]:
    rate = ["--request-rate", f"{RATE_RPS:g}", "--request-rate-mode", "poisson"]
    load = rate if is_open else ["--concurrency", f"{CONCURRENCY}"]
    return [
        *("aiperf", "profile", "--model", server.model, "--url", server.url),
        *("--tokenizer", f"{tokenizer}", "--endpoint-type", "chat", "--streaming"),
        *("--isl", f"{INPUT_TOKENS}", "--isl-stddev", "0", "--osl", f"{OUTPUT_TOKENS}"),
        *("--osl-stddev", "0", "--extra-inputs", "ignore_eos:true", "--ui", "none"),
        *("--request-count", f"{NUM_REQUESTS}", "--random-seed", "1", *load),
        *("--artifact-dir", f"{folder}"),
    ]


def vllm(server: MockServer, tokenizer: Path, folder: Path, is_open: bool) -> list[str]:
    load = ["--request-rate", f"{RATE_RPS:g}"] if is_open else ["--max-concurrency"]
    load += [] if is_open else [f"{CONCURRENCY}"]
    return [
        *("vllm", "bench", "serve", "--backend", "openai", "--base-url", server.url),
        *("--endpoint", "/v1/completions", "--model", server.model),
        *("--tokenizer", f"{tokenizer}", "--dataset-name", "random", "--ignore-eos"),
        *("--random-input-len", f"{INPUT_TOKENS}", "--random-output-len", f"{OUTPUT_TOKENS}"),
        *("--num-prompts", f"{NUM_REQUESTS}", "--ready-check-timeout-sec", "0"),
        *("--percentile-metrics", "ttft,tpot,itl,e2el", "--disable-tqdm", *load),
        *("--save-result", "--save-detailed", "--result-dir", f"{folder}"),
        *("--result-filename", "bench.json"),
    ]


TOOLS: dict[str, tuple[Callable[..., list[str]], str]] = {
    "guidellm": (guidellm, "benchmarks"),
    "aiperf": (aiperf, "profile_export_aiperf"),
    "vllm": (vllm, "bench"),
}


@dataclass(frozen=True)
class Measured:
    """What a tool wrote, as it reads, and what the server saw, in the order of arrival."""

    report: ReadReport
    served: list[Served]
    counts: tuple[int, int, int, list[int]]
    is_open: bool

    @property
    def run(self) -> pd.Series:
        return self.report.runs.iloc[0]


def find(name: str) -> str:
    """Return the path of a tool's command, or skip the test."""
    path = os.pathsep.join([os.environ.get(FOLDERS, ""), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed: put its folder on the PATH, or into {FOLDERS}")
    return found


def write_tokenizer(folder: Path) -> Path:
    """Write a tokenizer of Hugging Face's form whose tokens are words."""
    words = ["w", "[BOS]", "[EOS]", "one", *(f"w{number}" for number in range(500))]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = {
        "type": "WordLevel",
        "vocab": vocabulary,
        "unk_token": "w",
    }  # no special token: it is kept
    parts = dict.fromkeys(["truncation", "padding", "normalizer", "post_processor", "decoder"])
    whole = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}}
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({**parts, **whole, "model": model}))
    names = {"bos_token": "[BOS]", "eos_token": "[EOS]"}
    names |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 100_000}
    names |= {"chat_template": "{% for m in messages %}{{ m['content'] }} {% endfor %}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    return folder


def scrape(server: MockServer, path: Path) -> None:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as answer:
        path.write_bytes(answer.read())


@pytest.fixture(scope="module", params=[(t, load) for t in TOOLS for load in ("open", "closed")])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Run one tool at one load, beside pages from before and after, and read its folder."""
    name, load = request.param
    arguments, stem = TOOLS[name]
    executable = find(name)
    root = tmp_path_factory.mktemp(f"{name}_{load}")
    tokenizer, folder = write_tokenizer(root / "tokenizer"), root / "results"
    folder.mkdir()
    with MockServer() as server:
        _, *rest = arguments(server, tokenizer, folder, load == "open")
        scrape(server, folder / f"{stem}.before.txt")
        done = subprocess.run(
            [executable, *rest],
            cwd=root,
            env={**os.environ, **({} if name == "aiperf" else OFFLINE)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        output = (done.stdout + done.stderr)[-3000:]
        assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{output}"
        server.wait_idle()
        scrape(server, folder / f"{stem}.after.txt")
        served = sorted(server.served, key=lambda answered: answered.arrived_s)
    report = read_report(folder, progressbar=False)
    return Measured(report, served, server.counts(), load == "open")


def times_s(served: list[Served], name: str) -> np.ndarray:
    return np.array([getattr(request, name) for request in served])


def test_one_run_is_read_and_all_else_is_known(measured):
    report = measured.report
    assert len(report.runs) == 1
    assert report.incomplete.empty
    assert not report.skipped
    assert {file.path.name for file in report.files if file.error} <= BY_PRODUCTS
    assert not any("not joined" in note or "by the pages" in note for note in report.assumed())
    (joined,) = {file.joined_to for file in report.files if file.path.suffix == ".txt"} - {""}
    assert joined.endswith(".json")


def test_requests_and_tokens_are_those_of_the_server(measured):
    run, served = measured.run, measured.served
    assert run["num_requests"] == len(served) == NUM_REQUESTS
    assert {request.num_output_tokens for request in served} == {OUTPUT_TOKENS}
    assert run["output_len_tokens"] == OUTPUT_TOKENS
    expected = np.mean([request.num_prompt_tokens for request in served])
    assert run["input_len_tokens"] == pytest.approx(expected)
    assert run["engine"] == "vllm"
    assert run["verifier"] == "mock-8b"


@pytest.mark.parametrize("kind", ["e2e", "ttft"])
@pytest.mark.parametrize(("statistic", "reduce"), [("mean", np.mean), ("p50", np.median)])
def test_times_to_an_answer_are_those_of_the_server(measured, kind, statistic, reduce):
    true = reduce(times_s(measured.served, f"{kind}_s"))
    read = measured.run[f"{statistic}_{kind}_s"]
    assert SHORTER * true <= read <= LONGER * true + LONGER_S


def test_times_between_tokens_and_between_deliveries_are_told_apart(measured):
    """Three tokens come at once: a tool's own names for the two times differ from ours."""
    spans = times_s(measured.served, "finished_s") - times_s(measured.served, "first_s")
    tokens = times_s(measured.served, "num_output_tokens")
    chunks = times_s(measured.served, "num_chunks")
    per_token = np.mean(spans / (tokens - 1))
    per_chunk = spans.sum() / (chunks - 1).sum()
    assert per_chunk > 2 * per_token  # or the test says nothing
    assert measured.run["mean_tpot_s"] == pytest.approx(per_token, rel=GAP_TOLERANCE)
    assert measured.run["mean_itl_s"] == pytest.approx(per_chunk, rel=GAP_TOLERANCE)


def test_the_load_is_what_came_and_not_what_was_asked_for(measured):
    run = measured.run
    arrived = times_s(measured.served, "arrived_s")
    came = (len(arrived) - 1) / (arrived.max() - arrived.min())
    if measured.is_open:
        assert run["load_kind"] == "open"
        assert run["target_rate_rps"] == RATE_RPS
        assert run["request_rate_rps"] == pytest.approx(came, rel=RATE_TOLERANCE)
    else:
        assert run["load_kind"] == "closed"
        assert run["concurrency"] == CONCURRENCY
        assert not run.get("is_throughput_test", False)  # absent where not told
    span = times_s(measured.served, "finished_s").max() - arrived.min()
    in_system = times_s(measured.served, "e2e_s").sum() / span
    assert run["completed_rate_rps"] == pytest.approx(len(arrived) / span, rel=SPAN_TOLERANCE)
    assert run["mean_in_system_requests"] == pytest.approx(in_system, rel=SPAN_TOLERANCE)


def test_no_note_says_the_measured_rate_is_the_one_asked_for(measured):
    assert not any("is the rate asked for" in note for note in measured.report.assumed())


def test_acceptance_is_what_the_server_counted(measured):
    run = measured.run
    drafts, drafted, accepted, by_position = measured.counts
    assert (run["num_drafts"], run["num_draft_tokens"]) == (drafts, drafted)
    assert run["num_accepted_tokens"] == accepted
    assert run["accepted_per_position"] == ";".join(map(str, by_position))
    assert run["num_speculative_tokens"] == 4
    assert run["mean_acceptance_length"] == pytest.approx(1 + accepted / drafts)
    assert run["draft_acceptance_rate"] == pytest.approx(accepted / drafted)
