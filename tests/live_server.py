"""A server on loopback that plays an engine's metrics page and a Prometheus server's API."""

import json
import re
import threading
import time
import urllib.parse
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from tests.mock_metrics import MetricsText

MODEL = "test/model"
RATES = (0.7, 0.68, 0.66)


class Engine:
    """Counters of a server at a steady load, as functions of the seconds since its start."""

    def __init__(self, start_s=1.7e9, rate_rps=4.0, mean_e2e_s=0.65, running=2.6, instance="a:1"):
        self.start_s, self.rate, self.mean, self.running = start_s, rate_rps, mean_e2e_s, running
        self.instance = instance

    def page(self, age_s):
        """Return the text of the metrics page so long after the start."""
        requests = int(self.rate * age_s)
        drafts = requests * 80
        accepted = [int(drafts * share) for share in np.cumprod(RATES)]
        text = MetricsText(MODEL, self.start_s)
        text.counter(
            "vllm:request_success", {"length": requests, "abort": 0}, label="finished_reason"
        )
        text.counter("vllm:generation_tokens", {"": requests * 200})
        text.counter("vllm:spec_decode_num_drafts", {"": drafts})
        text.counter("vllm:spec_decode_num_draft_tokens", {"": drafts * 3})
        text.counter("vllm:spec_decode_num_accepted_tokens", {"": sum(accepted)})
        text.counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            {str(j): n for j, n in enumerate(accepted)},
            label="position",
        )
        text.gauge("vllm:num_requests_running", self.running)
        text.gauge("vllm:num_requests_waiting", 0)
        name = "vllm:e2e_request_latency_seconds"
        text._head(name, "histogram")
        text._line(f"{name}_bucket", requests, {"le": "+Inf"})
        text._line(f"{name}_count", requests, {})
        text._line(f"{name}_sum", requests * self.mean, {})
        return "\n".join(text.lines) + "\n"


SAMPLE = re.compile(r"([a-z_:A-Z0-9]+)(?:\{(.*)\})? (\S+)")


def rows_of(
    engines,
    start_s,
    end_s,
    step_s,
    names,
    *,
    restart_s=None,
    missing=(),
    scrape_s=0.0,
    is_time=False,
):
    """Return the rows of a range query's answer: engines as Prometheus stored them.

    With ``scrape_s`` a sample is of the last scrape before, as Prometheus looks back; none are made
    within ``missing`` if so, else none is shown. With ``is_time`` values are times of samples.
    """
    rows = {}
    for engine in engines:
        at = start_s
        while at <= end_s + 1e-6:
            taken, at = at, at + step_s
            shown_at = taken
            if scrape_s:
                taken = taken // scrape_s * scrape_s
                while any(a <= taken < b for a, b in missing):
                    taken -= scrape_s
            elif any(a <= taken < b for a, b in missing):
                continue
            begun = engine.start_s if restart_s is None or taken < restart_s else restart_s
            shown = Engine(begun, engine.rate, engine.mean, engine.running)
            for line in shown.page(taken - begun).splitlines():
                found = SAMPLE.fullmatch(line)
                if not found or not names.fullmatch(found[1]):
                    continue
                labels = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
                labels |= {"__name__": found[1], "job": "vllm", "instance": engine.instance}
                key = json.dumps(labels, sort_keys=True)
                rows.setdefault(key, {"metric": labels, "values": []})
                rows[key]["values"].append([shown_at, str(taken) if is_time else found[3]])
    return list(rows.values())


@contextmanager
def serving(answer):
    """Serve ``answer(path, query) -> (status, body)`` on loopback; yield the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urllib.parse.urlsplit(self.path)
            status, body = answer(parts.path, dict(urllib.parse.parse_qsl(parts.query)))
            data = body.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                pass

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prometheus(*engines, extra=None, **how):
    """Return an answer that plays Prometheus's range queries over some engines."""

    def answer(path, query):
        if path != "/api/v1/query_range":
            return 404, "no such page"
        found = re.search(r'__name__=~"([^"]*)"', query["query"])
        is_time = query["query"].startswith("timestamp(")
        other = r"vllm:num_requests_running" if is_time else r"process_start_time_seconds"
        names = re.compile(found[1] if found else other)
        wanted = re.findall(r'[,{](\w+)="([^"]*)"', query["query"])
        chosen = [
            e
            for e in engines
            if all(dict(job="vllm", instance=e.instance).get(n) == v for n, v in wanted)
        ]
        times = (float(query[n]) for n in ("start", "end", "step"))
        rows = rows_of(chosen, *times, names, is_time=is_time, **how)
        data = {"resultType": "matrix", "result": rows}
        return 200, json.dumps({"status": "success", "data": data} | (extra or {}))

    return answer


def slow(seconds):
    """Return an answer that comes late."""

    def answer(path, query):
        time.sleep(seconds)
        return 200, ""

    return answer
