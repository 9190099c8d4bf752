"""Damaged copies of result files, for fuzzing the readers: by bytes and by parsed values."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import orjson

DEEP: Any = []
for _ in range(60):
    DEEP = [DEEP]
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    3,
    0.5,
    -0.0,
    1e308,
    -1e308,
    1e-320,
    2**63,
    -(2**63),
    "",
    "x",
    "nan",
    "Infinity",
    "-inf",
    "1e999",
    "12",
    "2026-12-02",
    "a\nb\x00c",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "é" * 300,
    [],
    {},
    [None],
    [1, "x", []],
    [-5.0, 5.0],
    {"value": 1, "unit": "parsec"},
    {"mean": "x", "percentiles": []},
    DEEP,
)
TOKENS = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"-",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\n",
    b"\r\n",
    b"\x00",
    b"\xff\xfe",
    b"\xe9",
    b"0" * 400,
    b"1e400",
    b" ",
    b"#",
    b";",
    b"\t",
    b"=",
)


def mutations(raw: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield damaged copies without end: a half by bytes, a half by values if it is JSON.

    Parameters
    ----------
    raw : bytes
        A file, as a tool wrote it.
    rng : random.Random
        Source of all choices.
    """
    documents = _parsed(raw)
    while True:
        if documents is None or rng.random() < 0.5:
            yield damaged_bytes(raw, rng)
        else:
            copies = [orjson.loads(document) for document in documents]
            target = rng.randrange(len(copies))
            for _ in range(rng.choice((1, 1, 2, 4))):
                copies[target] = _damaged(copies[target], rng)
            yield b"\n".join(_dumped(c) for c in copies)


def damaged_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Change, cut, double or insert a few bytes."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data)) if data else 0
        length = rng.choice((1, 3, 20, 200))
        match rng.randrange(5):
            case 0 if data:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at:at] = rng.choice(TOKENS)
            case _ if rng.random() < 0.2:
                del data[at:]
    return bytes(data)


def _parsed(raw: bytes) -> list[bytes] | None:
    """Return the documents of a JSON or JSON-lines file, None if it is neither."""
    for parts in ([raw], [line for line in raw.split(b"\n") if line.strip()]):
        try:
            for part in parts:
                orjson.loads(part)
        except orjson.JSONDecodeError:
            continue
        return parts
    return None


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # deeper, or a number larger, than it writes
        return json.dumps(value).encode()


def _any_value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(VALUES))


def _damaged(value: Any, rng: random.Random) -> Any:
    """Replace, drop, rename or double one node, found by walking down at random."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        choice = rng.random()
        if choice < 0.1:
            del value[key]
        elif choice < 0.15:
            value[key + rng.choice(("_", "x"))] = value.pop(key)
        elif choice < 0.45:
            value[key] = _any_value(rng)
        else:
            value[key] = _damaged(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        choice = rng.random()
        if choice < 0.1:
            del value[at]
        elif choice < 0.2:
            value.insert(at, value[at])
        elif choice < 0.5:
            value[at] = _any_value(rng)
        else:
            value[at] = _damaged(value[at], rng)
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and rng.random() < 0.4:
        return rng.choice((-value, value * 1e3, value * 1e-3, value + 1, 0, str(value)))
    return _any_value(rng)
