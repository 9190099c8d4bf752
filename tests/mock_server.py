"""A small OpenAI-compatible server on loopback whose timing is known, for real load tools.

No model: answers are the word "one", streamed some tokens at a time as a server with speculation
does, after a fixed time to first token and a fixed time for each later step. It counts as vLLM does
(``/metrics``) and keeps when each request came and went, so what a load tool writes can be compared
with what happened. Standard library only.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.mock_metrics import MetricsText

WORD = " one"  # one token of any tokenizer that splits at spaces and knows the word
DEFAULT_TOKENS = 16  # vLLM's default of max_tokens
MAX_TOKENS = 4096


@dataclass(frozen=True)
class Served:
    """One answered request; times are seconds of one clock with any zero.

    Attributes
    ----------
    arrived_s, first_s, finished_s : float
        When its body was read, and when its first and its last token were sent.
    num_prompt_tokens, num_output_tokens : int
    num_chunks : int
        Deliveries of one or several tokens.
    path : str
        Address that was asked.
    """

    arrived_s: float
    first_s: float
    finished_s: float
    num_prompt_tokens: int
    num_output_tokens: int
    num_chunks: int
    path: str

    @property
    def e2e_s(self) -> float:
        return self.finished_s - self.arrived_s

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.arrived_s


@dataclass
class MockServer:
    """Serve on a free port of loopback while the ``with`` block lasts.

    Parameters
    ----------
    num_speculative_tokens : int
        Draft length; with 0 the server does not speculate and has no counters of drafts.
    tokens_per_chunk : int
        Tokens of each step after the first one, the verifier's own included: at most
        ``num_speculative_tokens + 1``. The last step of an answer may have fewer.
    first_token_s, chunk_s : float
        Time to first token, and from one chunk to the next, s.
    model : str
        Name under which it serves.
    """

    num_speculative_tokens: int = 4
    tokens_per_chunk: int = 3
    first_token_s: float = 0.05
    chunk_s: float = 0.02
    model: str = "mock-8b"
    served: list[Served] = field(default_factory=list)
    num_running: int = 0
    num_aborted: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.tokens_per_chunk <= self.num_speculative_tokens + 1:
            raise ValueError("tokens_per_chunk must be from 1 to num_speculative_tokens + 1.")
        self._lock = threading.Lock()
        self._accepted: Counter[int] = Counter()  # steps by the number of drafts accepted
        self._start_s = time.time()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def wait_idle(self, timeout_s: float = 10.0) -> None:
        """Return once no request is in flight; a client may leave just before its last one ends."""
        end = time.monotonic() + timeout_s
        while self.num_running:
            if time.monotonic() > end:
                raise TimeoutError(f"{self.num_running} requests are still in flight.")
            time.sleep(0.01)

    def chunks(self, num_tokens: int) -> Iterator[int]:
        """Yield the tokens of each delivery, in time: one first, then as many as are accepted."""
        time.sleep(self.first_token_s)
        yield 1
        left = num_tokens - 1
        while left > 0:
            time.sleep(self.chunk_s)
            tokens = min(self.tokens_per_chunk, left)
            left -= tokens
            with self._lock:
                self._accepted[tokens - 1] += 1
            yield tokens

    def begin(self) -> None:
        with self._lock:
            self.num_running += 1

    def end(self, request: Served | None) -> None:
        """Take note of an answered request; None for one whose client went away."""
        with self._lock:
            self.num_running -= 1
            if request is None:
                self.num_aborted += 1
            else:
                self.served.append(request)

    def counts(self) -> tuple[int, int, int, list[int]]:
        """Return drafts, drafted tokens, accepted tokens and the accepted ones by position."""
        with self._lock:
            steps = Counter(self._accepted)
        length = self.num_speculative_tokens
        at = [sum(n for many, n in steps.items() if many > place) for place in range(length)]
        return steps.total(), length * steps.total(), sum(at), at

    def page(self) -> str:
        """Return the metrics page, in the text format of Prometheus and with vLLM's names."""
        drafts, drafted, accepted, by_position = self.counts()
        with self._lock:
            done, running, aborted = list(self.served), self.num_running, self.num_aborted
        page = MetricsText(self.model, self._start_s)
        if self.num_speculative_tokens:
            for name, count in (("drafts", drafts), ("draft_tokens", drafted)):
                page.counter(f"vllm:spec_decode_num_{name}", {"": count})
            page.counter("vllm:spec_decode_num_accepted_tokens", {"": accepted})
            places = {str(place): count for place, count in enumerate(by_position)}
            page.counter("vllm:spec_decode_num_accepted_tokens_per_pos", places, "position")
        page.gauge("vllm:num_requests_running", running)
        page.gauge("vllm:num_requests_waiting", 0)
        page.counter("vllm:prompt_tokens", {"": sum(r.num_prompt_tokens for r in done)})
        page.counter("vllm:generation_tokens", {"": sum(r.num_output_tokens for r in done)})
        ended = {"stop": 0, "length": len(done), "abort": aborted}
        page.counter("vllm:request_success", ended, "finished_reason")
        page.histogram("vllm:request_prompt_tokens", [r.num_prompt_tokens for r in done])
        page.histogram("vllm:request_generation_tokens", [r.num_output_tokens for r in done])
        page.histogram("vllm:time_to_first_token_seconds", [r.ttft_s for r in done])
        page.histogram("vllm:e2e_request_latency_seconds", [r.e2e_s for r in done])
        return "\n".join(page.lines) + "\n"


def _handler_of(mock: MockServer) -> type[BaseHTTPRequestHandler]:
    """Return the handler of one server's requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or small chunks wait for the client's acknowledgement

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._send(mock.page().encode(), "text/plain; version=0.0.4; charset=utf-8")
            elif path == "/v1/models":
                entry = {"id": mock.model, "object": "model", "created": 1, "owned_by": "mock"}
                self._send_json({"object": "list", "data": [entry]})
            elif path in ("/health", "/ping"):
                self._send(b"", "text/plain")
            else:
                self._send_json({"error": {"message": f"no such address: {path}"}}, 404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            arrived = time.perf_counter()
            path = self.path.partition("?")[0]
            if path not in ("/v1/completions", "/v1/chat/completions"):
                self._send_json({"error": {"message": f"no such address: {path}"}}, 404)
                return
            asked = json.loads(body)
            mock.begin()
            done = None
            try:
                done = self._answer(asked, path, arrived)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            finally:
                mock.end(done)

        def _answer(self, asked: dict[str, Any], path: str, arrived: float) -> Served:
            limit = asked.get("max_completion_tokens") or asked.get("max_tokens")
            num_tokens = min(int(limit or DEFAULT_TOKENS), MAX_TOKENS)
            num_prompt = _num_prompt_tokens(asked)
            usage = {
                "prompt_tokens": num_prompt,
                "completion_tokens": num_tokens,
                "total_tokens": num_prompt + num_tokens,
            }
            is_chat, is_streamed = path.endswith("chat/completions"), bool(asked.get("stream"))
            if is_streamed:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
            times = []
            sent = 0
            for tokens in mock.chunks(num_tokens):
                sent += tokens
                if is_streamed:
                    reason = "length" if sent == num_tokens else None
                    choice = _choice(WORD * tokens, is_chat, reason, is_first=not times)
                    self._event(json.dumps(_document(mock.model, is_chat, True, [choice])))
                times.append(time.perf_counter())
            if is_streamed:
                if (asked.get("stream_options") or {}).get("include_usage"):
                    last = {**_document(mock.model, is_chat, True, []), "usage": usage}
                    self._event(json.dumps(last))
                self._event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")
            else:
                text = {"message": {"role": "assistant", "content": WORD * num_tokens}}
                whole = text if is_chat else {"text": WORD * num_tokens}
                choice = {"index": 0, "finish_reason": "length", **whole}
                self._send_json({**_document(mock.model, is_chat, False, [choice]), "usage": usage})
            return Served(arrived, times[0], times[-1], num_prompt, num_tokens, len(times), path)

        def _event(self, data: str) -> None:
            event = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))  # one packet, unbuffered

        def _send_json(self, document: dict[str, Any], status: int = 200) -> None:
            self._send(json.dumps(document).encode(), "application/json", status)

        def _send(self, body: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _num_prompt_tokens(asked: dict[str, Any]) -> int:
    """Count the words of a prompt, or its tokens where it is sent as tokens."""
    prompt = asked.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int):
        return len(prompt)
    messages = asked.get("messages") or []
    contents = [message.get("content") for message in messages] if messages else [prompt]
    parts = [part for c in contents for part in (c if isinstance(c, list) else [c])]
    texts = [part.get("text", "") if isinstance(part, dict) else str(part) for part in parts]
    return sum(len(text.split()) for text in texts)


def _choice(text: str, is_chat: bool, reason: str | None, *, is_first: bool) -> dict[str, Any]:
    if not is_chat:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    delta = {"role": "assistant", "content": text} if is_first else {"content": text}
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _document(
    model: str, is_chat: bool, is_streamed: bool, choices: list[dict[str, Any]]
) -> dict[str, Any]:
    chat = "chat.completion.chunk" if is_streamed else "chat.completion"
    kind = chat if is_chat else "text_completion"
    return {"id": "mock-1", "object": kind, "created": 1, "model": model, "choices": choices}
