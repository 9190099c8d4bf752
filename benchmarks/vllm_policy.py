"""Does a real vLLM take an exported policy, and draft by it? Loads it, and counts drafted tokens.

    python -m benchmarks.vllm_policy VLLM VERIFIER DRAFTER

VLLM is the ``vllm`` command of its own environment (0.32 or later; the CPU wheel will do), VERIFIER
and DRAFTER are folders of models that it can serve. The server is started with the policy exactly
as `export_policy` writes it; then so many requests are held in flight, and the engine's counters
(``vllm:spec_decode_num_drafts``, ``..._num_draft_tokens``) say how many tokens each draft had.
Steps without drafts are in no counter of drafts: the engine's count of steps tells them.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pandas as pd

from bayes_sd.engine_files import batch_ranges, export_policy
from bayes_sd.policy import draft_length_policy
from bayes_sd.scenario import Scenario
from benchmarks.folds import markdown, stamp, write_results
from tests.fake_fit import fake_fit

COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "steps": "vllm:iteration_tokens_total_count",
    "running": "vllm:num_requests_running",
    "prompts": "vllm:prompt_tokens_total",
}
PROMPT_TOKENS, ANSWER_TOKENS, MOST = 16, 250, 64
START_S, HOLD_S = 400.0, 120.0


def made_policy() -> pd.DataFrame:
    """Return a policy over requests in flight of a made-up fit, from long drafts to none."""
    scenario = Scenario("sharp", concurrency=1, acceptance=0.6, max_num_seqs=MOST)
    return draft_length_policy(
        fake_fit(draws=200),
        scenario,
        concurrencies=[1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64],
        candidates=[0, 1, 2, 3, 5],
    )


def counted(url: str) -> dict[str, float]:
    """Return the server's counters, summed over labels."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as page:
        text = page.read().decode()
    found = {}
    for name, counter in COUNTERS.items():
        pattern = rf"^{re.escape(counter)}(?:\{{[^}}]*\}})? ([0-9.e+-]+)$"
        found[name] = sum(float(x) for x in re.findall(pattern, text, re.M))
    return found


def ask(url: str, number: int, failed: list[str]) -> None:
    """Send one request and wait for its answer."""
    body = {
        "model": "m",
        "prompt": [20 + number] * PROMPT_TOKENS,
        "max_tokens": ANSWER_TOKENS,
        "ignore_eos": True,
        "temperature": 0,
    }
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        urllib.request.urlopen(request, timeout=600).read()
    except OSError as error:
        failed.append(repr(error))


def hold(url: str, requests: int) -> dict[str, float]:
    """Return what the counters rose by while so many requests were in flight, none more or less."""
    failed: list[str] = []
    before = counted(url)
    threads = [threading.Thread(target=ask, args=(url, i, failed)) for i in range(requests)]
    for thread in threads:
        thread.start()
    until, first, last = time.monotonic() + HOLD_S, None, None
    while time.monotonic() < until and any(t.is_alive() for t in threads):
        now = counted(url)
        all_read = now["prompts"] - before["prompts"] >= PROMPT_TOKENS * requests
        if now["running"] == requests and all_read:
            first, last = first or now, now
        elif first is not None:
            break
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    if failed or first is None or last is None:
        raise RuntimeError(f"{requests} requests could not be held in flight: {failed[:1]}")
    return {name: last[name] - first[name] for name in COUNTERS}


def start(options: argparse.Namespace, document: dict[str, Any], log: Path) -> Any:
    """Start the server with a policy and wait until it answers."""
    config = {"method": "draft_model", "model": options.drafter, **document}
    command = [options.vllm, "serve", options.verifier, "--served-model-name", "m"]
    command += ["--port", str(options.port), "--host", "127.0.0.1", "--enforce-eager"]
    command += ["--max-model-len", "512", "--max-num-seqs", str(MOST)]
    command += ["--no-enable-prefix-caching", "--speculative-config", json.dumps(config)]
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    with log.open("w") as file:
        server = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | offline
        )
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            counted(f"http://127.0.0.1:{options.port}")
            return server
        except OSError:
            time.sleep(2)
    server.kill()
    lines = log.read_text(errors="replace").splitlines()[-15:]
    raise RuntimeError("the server did not start:\n" + "\n".join(lines))


def main() -> None:
    """Start the server, hold loads, print the table and write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("vllm")
    parser.add_argument("verifier")
    parser.add_argument("drafter")
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--loads", type=int, nargs="+", default=[1, 6, 24, 60])
    options = parser.parse_args()
    policy = made_policy()
    document = export_policy(policy, "vllm")
    ranges = batch_ranges(policy)
    asked = {
        load: next(k for low, high, k in ranges if low <= load <= high) for load in options.loads
    }
    version = subprocess.run([options.vllm, "--version"], capture_output=True, text=True)
    url, rows = f"http://127.0.0.1:{options.port}", []
    with tempfile.TemporaryDirectory() as folder:
        server = start(options, document, Path(folder) / "server.log")
        try:
            for load, wanted in asked.items():
                rose = hold(url, load)
                per_draft = rose["draft_tokens"] / rose["drafts"] if rose["drafts"] else 0.0
                rows.append(
                    {
                        "requests in flight": load,
                        "k of the table": wanted,
                        "drafted tokens per draft": round(per_draft, 3),
                        "drafts per step": round(rose["drafts"] / max(rose["steps"], 1), 2),
                        "steps counted": int(rose["steps"]),
                        "as asked": "yes" if abs(per_draft - wanted) < 0.02 else "NO",
                    }
                )
                print(rows[-1], file=sys.stderr, flush=True)
        finally:
            server.terminate()
            server.wait(60)
    table = pd.DataFrame(rows)
    met = int((table["as asked"] == "yes").sum())
    text = "\n\n".join(
        [
            "# An exported policy in a real vLLM",
            f"The server (vLLM {version.stdout.strip().splitlines()[-1]}) started with "
            f"`{json.dumps(document)}`, as `export_policy` wrote it. Counters of the engine while "
            "so many requests were in flight:",
            markdown(table),
            f"{met} of {len(table)} loads drafted as the table says. {stamp()}",
        ]
    )
    print(text)
    write_results("vllm_policy", text, {"stamp": stamp(), "policy": document, "loads": rows})


if __name__ == "__main__":
    main()
