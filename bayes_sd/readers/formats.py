"""The formats that can be read, and which one a file has, by its content."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bayes_sd.exceptions import BayesSdError, FormatError
from bayes_sd.readers import (
    aiperf,
    aiperf_records,
    gauges,
    guidellm,
    inferencex,
    prometheus,
    sglang,
    tidy,
    vllm_bench,
    vllm_log,
)
from bayes_sd.readers.content import Content
from bayes_sd.readers.reading import Reading
from bayes_sd.validate import one_of


@dataclass(frozen=True)
class Format:
    """One format of result files.

    Attributes
    ----------
    name : str
        What to write for ``format=``.
    meaning : str
        What the file is, for people.
    read : callable
        From `Content` to `Reading`.
    of_json, of_text : callable or None
        Whether a file has this format, by its first JSON value or the beginning of its text.
    is_companion : bool
        Whether such a file adds to the runs of others and holds none itself.
    """

    name: str
    meaning: str
    read: Callable[[Content], Reading]
    of_json: Callable[[Any], bool] | None = None
    of_text: Callable[[str], bool] | None = None
    is_companion: bool = False


FORMATS = (
    Format("vllm-bench", "vllm bench serve result", vllm_bench.read, vllm_bench.recognises),
    Format("guidellm", "GuideLLM benchmarks", guidellm.read, guidellm.recognises),
    Format("sglang", "SGLang bench_serving results", sglang.read, sglang.recognises),
    Format("aiperf", "AIPerf or GenAI-Perf summary", aiperf.read, aiperf.recognises),
    Format(
        "aiperf-records",
        "AIPerf records, one request a line",
        aiperf_records.read,
        aiperf_records.recognises,
    ),
    Format("inferencex", "InferenceX aggregate", inferencex.read, inferencex.recognises),
    Format("prometheus", "vLLM metrics page", prometheus.read, of_text=prometheus.recognises_text),
    Format(
        "vllm-log",
        "vLLM server log",
        vllm_log.read,
        of_text=vllm_log.recognises_text,
        is_companion=True,
    ),
    Format("gauges", "sampled gauges", gauges.read, gauges.recognises, is_companion=True),
    Format("table", "table of runs", tidy.read, of_text=tidy.recognises_text),
)
FORMAT_NAMES = tuple(f.name for f in FORMATS)


def format_of(content: Content, name: str = "auto") -> Format:
    """Find the format of a file.

    Parameters
    ----------
    content : Content
        The file.
    name : str, default "auto"
        One of `FORMAT_NAMES`, or ``"auto"`` to decide by the content; its name does not count.

    Raises
    ------
    ArgumentError
        If there is no format of that name.
    FormatError
        If the content is of none of them.
    """
    if name != "auto":
        one_of(name, ("auto", *FORMAT_NAMES), "format")
        return next(f for f in FORMATS if f.name == name)
    if content.is_binary:
        if tidy.recognises_parquet(content):
            return next(f for f in FORMATS if f.name == "table")
        seen = "a binary file"
    elif content.is_json or content.is_lines:
        sample = content.sample
        for found in FORMATS:
            if found.of_json is not None and found.of_json(sample):
                return found
        keys = list(sample)[:5] if isinstance(sample, dict) else []
        seen = f"JSON with {', '.join(str(k)[:30] for k in keys)}" if keys else "JSON"
    else:
        for found in FORMATS:
            if found.of_text is not None and found.of_text(content.head):
                return found
        seen = "text"
    raise FormatError(
        f"{content.path} is {seen} of no format known here ({', '.join(FORMAT_NAMES)}). Leave it "
        "out, or give format=."
    )


def read_content(content: Content, name: str = "auto") -> tuple[Format, Reading]:
    """Read one file; whatever is wrong with it is a `BayesSdError` that names it."""
    found = format_of(content, name)
    try:
        return found, found.read(content)
    except BayesSdError as error:
        text = str(error)
        if str(content.path) in text:
            raise
        raise FormatError(f"{content.path}: {text}") from error
