"""The command of a vLLM server, kept as JSON beside results: what was served, and how it drafts.

An object with the words of the command (``["vllm", "serve", ...]``, or one text) under one of
`KEYS`. Options and their defaults: vLLM [1]_ [2]_, Apache-2.0.

References
----------
.. [1] https://github.com/vllm-project/vllm/blob/main/vllm/engine/arg_utils.py
.. [2] https://github.com/vllm-project/vllm/blob/main/vllm/config/speculative.py
"""

import json
import math
import re
import shlex
from typing import Any

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.content import Content, parse_json
from bayes_sd.readers.reading import Cells, Fields, is_blank, short

KEYS = ("command", "server", "server_command", "cmd", "argv", "args")
SHORT = {"-tp": "tensor-parallel-size", "-dp": "data-parallel-size", "-q": "quantization"}
SHORT |= {"-sc": "speculative-config"}
SPECULATIVE = "speculative-config"
# Other spellings of the keys of the speculative configuration: recent ones, and those before 0.9.
SPELLINGS = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
    "speculative-model": "model",
    "num-speculative-tokens": "num_speculative_tokens",
}
METHODS = {
    "draft_model": "draft_model",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "ngram": "ngram",
    "ngram_gpu": "ngram",
    "[ngram]": "ngram",
    "suffix": "suffix",
    "dflash": "dflash",
    "dspark": "dspark",
    "mtp": "mtp",
}
# What vLLM itself takes from the name of a drafter whose method is not said, in its order.
NAMES = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
NO_DRAFTER = ("ngram", "suffix")
SEVERAL_WORDS = ("served-model-name",)
SCHEDULE = "num_speculative_tokens_per_batch_size"
TYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}
SAME = 1e-3
OPTION = re.compile(r"--|-[A-Za-z]")


def recognises(sample: Any) -> bool:
    """Tell whether a parsed object holds the command of a vLLM server."""
    return bool(_words(sample))


def read(content: Content) -> tuple[Cells, list[str]]:
    """Return what a server's command tells of its runs.

    Parameters
    ----------
    content : Content
        The file.

    Returns
    -------
    cells : dict
        As of `cells_of_command`.
    notes : list of str
        What is not sure.

    Raises
    ------
    FormatError
        If there is no command in it, or an option has a value that cannot be.
    """
    words = _words(content.sample)
    if not words:
        raise FormatError(
            f"{content.name} must have the words of a vllm serve command under one of "
            f"{', '.join(KEYS)}."
        )
    return cells_of_command(words)


def cells_of_command(words: list[str]) -> tuple[Cells, list[str]]:
    """Return what the words of a command tell.

    Parameters
    ----------
    words : list of str
        ``vllm serve MODEL --option value``, or the older way to start its web server.

    Returns
    -------
    cells : dict
        Model, drafter, method, draft length and its schedule, limits, type and devices, by the
        names of `bayes_sd.schema`; ``_served_names`` are what clients call the model.
    notes : list of str
        What is not sure.

    Raises
    ------
    FormatError
        If an option has a value that cannot be.

    Examples
    --------
    >>> cells, _ = cells_of_command(
    ...     ["vllm", "serve", "big", "-tp", "2", "--spec-tokens=3", "--spec-method", "mtp"]
    ... )
    >>> cells["verifier"], cells["tensor_parallel_size"], cells["method"]
    ('big', 2.0, 'mtp')
    """
    options, model = _options(words)
    fields = Fields(options, "the server's command")
    notes: list[str] = []
    kind = fields.text("dtype")
    verifier = fields.text("model") or model
    names = fields.text("served-model-name").split()
    cells: Cells = {
        "engine": "vllm",
        "verifier": verifier,
        "_served_names": tuple(names or [verifier]),
        "max_num_seqs": fields.count("max-num-seqs") or math.nan,
        "tensor_parallel_size": fields.count("tensor-parallel-size"),
        "dtype": fields.text("quantization") or ("" if kind == "auto" else TYPES.get(kind, kind)),
    }
    in_file = "config" in options
    if in_file:
        notes.append(
            "the server's command has more options in a file (--config), which is not read: give "
            "what it says as side information."
        )
    if is_blank(cells["tensor_parallel_size"]) and not in_file:
        cells["tensor_parallel_size"] = 1.0  # the default of every release
    ranks = fields.count("data-parallel-size")
    if ranks > 1:
        notes.append(
            f"the server ran {ranks:.0f} data-parallel engines, each with a batch of its own; the "
            "run's load is that of all."
        )
    setup = _speculative(options)
    if setup:
        cells |= _drafting(Fields(setup, f"the server's command: --{SPECULATIVE}"), notes)
        if cells["drafter"] == verifier:  # heads of the model itself
            del cells["drafter"]
    elif "speculator" in verifier.lower():  # such a model names its verifier in its own files
        notes.append(
            f"{verifier!r} may bring its own drafter, which the server's command does not tell: "
            "give verifier, drafter, method and num_speculative_tokens."
        )
    elif not in_file:
        cells |= {"method": "none", "num_speculative_tokens": 0}
    return {n: v for n, v in cells.items() if not is_blank(v)}, notes


def _words(sample: Any) -> list[str]:
    """Return the words of the first vLLM command in an object; empty if there is none."""
    if not isinstance(sample, dict):
        return []
    for key in KEYS:
        words = sample.get(key)
        if isinstance(words, str):
            try:
                words = shlex.split(words)
            except ValueError:
                continue
        if isinstance(words, list) and words and all(isinstance(w, str) for w in words):
            is_server = "serve" in words or any("api_server" in w for w in words)
            if is_server and any("vllm" in w for w in words):
                return words
    return []


def _options(words: list[str]) -> tuple[dict[str, Any], str]:
    """Split words into options and the model; an option without a value is True."""
    start = next((i for i, w in enumerate(words) if w == "serve" or "api_server" in w), 0)
    options: dict[str, Any] = {}
    name, loose = "", []
    for word in words[start + 1 :]:
        if OPTION.match(word):
            key, is_given, value = word.partition("=")
            head, dot, tail = SHORT.get(key, key.removeprefix("--")).partition(".")
            name = head.replace("_", "-") + dot + tail
            options[name] = value if is_given else True
        elif name and options[name] is True:
            options[name] = word
        elif name in SEVERAL_WORDS:
            options[name] += f" {word}"
        else:
            loose.append(word)
    return options, loose[0] if loose and words[start] == "serve" else ""


def _speculative(options: dict[str, Any]) -> dict[str, Any]:
    """Return the speculative configuration, however it was written; empty without one."""
    setup: dict[str, Any] = {}
    given = options.get(SPECULATIVE)
    if given not in (None, "", "null", "None"):
        place = f"the server's command: --{SPECULATIVE}"
        found = parse_json(str(given).encode(), place)
        setup |= Fields(found, place).values
    for name, value in options.items():
        if name.startswith(f"{SPECULATIVE}."):
            key = name.removeprefix(f"{SPECULATIVE}.").replace("-", "_")
            setup[key] = value
        elif name in SPELLINGS and value is not True:
            setup[SPELLINGS[name]] = value
    return setup


def _drafting(setup: Fields, notes: list[str]) -> Cells:
    """Return method, drafter, draft length and its schedule."""
    word, drafter = setup.text("method").lower(), setup.text("model")
    method = METHODS.get(word, "mtp" if word.endswith("_mtp") else "other" if word else "")
    if not method:
        named = METHODS.get(drafter.lower()) if drafter.lower() in ("ngram", "[ngram]") else None
        by_name = (found for part, found in NAMES.items() if part in drafter.lower())
        method = named or next(by_name, "")
    if method == "other":
        notes.append(f"speculative method {short(word)} is not known here: method 'other'.")
    elif not method:
        notes.append(
            f"the server's command does not say how {drafter or 'it'} drafts: give method (a model "
            "of its own is 'draft_model')."
        )
    length = setup.count("num_speculative_tokens")
    cells: Cells = {
        "method": method,
        "drafter": "" if method in NO_DRAFTER else drafter,
        "num_speculative_tokens": length,
    }
    schedule = _parsed(setup, SCHEDULE)
    if schedule is not None:
        if not _is_schedule(schedule):
            raise setup.wrong(SCHEDULE, "a list of [first size, last size, tokens]")
        cells["num_speculative_tokens_schedule"] = json.dumps(schedule)
    if setup.text("rejection_sample_method") == "synthetic":
        cells |= _forced(setup, length, notes)
    return cells


def _forced(setup: Fields, length: float, notes: list[str]) -> Cells:
    """Return the acceptance rate that the server was made to keep, if it is one at all positions.

    ``synthetic_acceptance_rates`` are unconditional: a, a^2, ..., for a constant conditional rate.
    """
    rates = _parsed(setup, "synthetic_acceptance_rates")
    known = isinstance(rates, list) and rates and all(isinstance(r, int | float) for r in rates)
    if known and (math.isnan(length) or len(rates) == length) and 0 <= rates[0] <= 1:
        first = float(rates[0])
        if all(abs(rate - first ** (i + 1)) <= SAME for i, rate in enumerate(rates)):
            return {"forced_acceptance_rate": first}
    notes.append(
        "the server was made to accept drafts at set rates that are not one rate at every "
        "position: forced_acceptance_rate is not set, the counts are used."
    )
    return {}


def _is_schedule(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and len(row) == 3 for row in value)
        and all(isinstance(n, int) and not isinstance(n, bool) for row in value for n in row)
    )


def _parsed(setup: Fields, name: str) -> Any:
    """Return a value that may be JSON in a text, as in a dotted option."""
    value = setup.values.get(name)
    return parse_json(value.encode(), setup.at(name)) if isinstance(value, str) else value
