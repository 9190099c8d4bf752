"""The server that real load tools are run against: its stream, its page and what it keeps agree."""

import http.client
import json
import threading

import pytest

from bayes_sd.readers import prometheus
from bayes_sd.readers.content import Content
from tests.mock_server import MockServer

QUICK = {"first_token_s": 0.004, "chunk_s": 0.002}


def ask(server, path="/v1/completions", **body):
    """Send one request; return the status, the kind and the text of the answer."""
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        connection.close()


def events(text):
    """Return the documents of a stream, which must end as OpenAI's do."""
    parts = text.split("\n\n")
    assert all(part.startswith("data: ") for part in parts[:-1])
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_stream_is_well_formed(path):
    prompt = {"messages": [{"role": "user", "content": [{"type": "text", "text": "a b c"}]}]}
    prompt = prompt if "chat" in path else {"prompt": "a b c"}
    with MockServer(**QUICK) as server:
        options = {"include_usage": True}
        status, kind, text = ask(
            server, path, max_tokens=9, stream=True, stream_options=options, **prompt
        )
        server.wait_idle()
    assert (status, kind.partition(";")[0]) == (200, "text/event-stream")
    *chunks, last = events(text)
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}
    choices = [chunk["choices"][0] for chunk in chunks]
    texts = [choice["delta"]["content"] if "chat" in path else choice["text"] for choice in choices]
    assert [len(part.split()) for part in texts] == [1, 3, 3, 2]
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "length"]
    (request,) = server.served
    assert (request.num_prompt_tokens, request.num_output_tokens, request.num_chunks) == (3, 9, 4)
    assert QUICK["first_token_s"] <= request.ttft_s <= request.e2e_s - 3 * QUICK["chunk_s"]


def test_answer_that_is_not_streamed_and_other_addresses():
    with MockServer(**QUICK) as server:
        _, _, text = ask(server, "/v1/chat/completions", messages=[{"content": "a b"}])
        models = json.loads(ask(server, "/v1/models")[2])
        missing = ask(server, "/v1/embeddings", prompt="a")[0], ask(server, "/v2")[0]
    assert len(json.loads(text)["choices"][0]["message"]["content"].split()) == 16
    assert models["data"][0]["id"] == server.model
    assert missing == (404, 404)


@pytest.mark.parametrize("length", [4, 0])
def test_pages_before_and_after_are_a_run(tmp_path, length):
    server = MockServer(length, 3 if length else 1, **QUICK)
    pages = [tmp_path / f"run.{word}.txt" for word in ("before", "after")]
    with server:
        ask(server, prompt="a b c d", max_tokens=5, stream=True)  # of no run
        server.wait_idle()
        for path in pages:
            path.write_text(ask(server, "/metrics")[2])
            asked = {"prompt": "a b c", "max_tokens": 9, "stream": True}
            threads = [threading.Thread(target=ask, args=(server,), kwargs=asked) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            server.wait_idle()
    cells, notes = prometheus.read_pair(*map(Content, pages))
    requests = server.served[1:5]
    assert cells["num_requests"] == 4
    assert (cells["input_len_tokens"], cells["output_len_tokens"]) == (3, 9)
    assert cells["mean_e2e_s"] == pytest.approx(sum(r.e2e_s for r in requests) / 4)
    assert cells["mean_ttft_s"] == pytest.approx(sum(r.ttft_s for r in requests) / 4)
    assert cells["num_speculative_tokens"] == length
    assert not any("not read" in note or "do not add up" in note for note in notes)
    if length:  # of 9 tokens, one comes first and then 3, 3 and 2
        assert (cells["num_drafts"], cells["num_draft_tokens"]) == (12, 48)
        assert cells["accepted_per_position"] == "12;8;0;0"
        assert cells["num_accepted_tokens"] == 20
    else:
        assert cells["method"] == "none"


def test_more_tokens_than_drafts_can_give_are_refused():
    with pytest.raises(ValueError, match=r"from 1 to num_speculative_tokens \+ 1"):
        MockServer(2, 4)
