"""Draft lengths by batch size as engines take them: what each accepts, and what it makes of it.

vLLM [1]_
    ``num_speculative_tokens_per_batch_size``, a list of ``[first, last, k]``, ends inclusive, the
    first from 1, none overlapping, beside ``num_speculative_tokens``, the ceiling (at least 1).
    Gaps and sizes beyond the last range keep the k before. Switched off with data parallelism.
    At k = 0 the drafter still makes its first pass in every step, to keep its cache up to date
    (read in 0.32.0, ``v1/spec_decode/llm_base_proposer.py``): not the same as a server without
    speculation. Prefills of a step count as requests, so k goes to and fro near a turn; loss of
    throughput at turns to 0 is reported in issue 49548 (open, GPU), and was not tried here.
SGLang [2]_
    ``--speculative-adaptive-config``, a JSON object: smallest batch of a slot to the
    ``candidate_steps`` it may choose among by the drafts it sees accepted. One candidate leaves it
    no choice. Other keys are settings for all slots. Only EAGLE and EAGLE3, with top-k 1. A step
    of 0 needs a version newer than the documentation, which asks for positive ones.
TensorRT-LLM [3]_
    ``draft_len_schedule`` of the speculative configuration: largest batch to k. Above the last,
    nothing is drafted. The smallest batch must have ``max_draft_len``, and no k may exceed it.
    Before March 2026 the keys were smallest batches, and 1 had to be among them: the same file
    means another thing there.

References
----------
.. [1] github.com/vllm-project/vllm: 0.32.0 as run (``data/README.md``); pull request 32374;
   ``docs/features/speculative_decoding/dynamic_speculative_decoding.md`` at 015a47e.
.. [2] github.com/sgl-project/sglang: ``python/sglang/srt/speculative/adaptive_spec_params.py`` at
   015c872, ``adaptive_step_router.py`` at a12239f, documentation at 32c764a; read, not run.
.. [3] github.com/NVIDIA/TensorRT-LLM: pull request 10860; ``tensorrt_llm/llmapi/llm_args.py`` as
   of a version with it; read, not run.
"""

from collections.abc import Mapping
from typing import Any

from bayes_sd.exceptions import FormatError

RANGES, CEILING = "num_speculative_tokens_per_batch_size", "num_speculative_tokens"
STEPS = "candidate_steps"
SCHEDULE, LONGEST = "draft_len_schedule", "max_draft_len"
Range = tuple[int, int | None, int]  # first batch, last batch (None: without end), draft length


def ranges_of_vllm(document: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of a vLLM configuration, which must be right and in order."""
    found = document.get(RANGES)
    if not isinstance(found, list) or not found:
        raise FormatError(f"{RANGES} must be a list of [first, last, k]. Got {found!r} instead.")
    ceiling = document.get(CEILING)
    if not _is_count(ceiling) or not ceiling:
        raise FormatError(f"{CEILING} must be a whole number of at least 1. Got {ceiling!r}.")
    ranges: list[Range] = []
    end = 0
    for number, entry in enumerate(found, 1):
        place = f"{RANGES}, entry {number}"
        if not isinstance(entry, list | tuple) or len(entry) != 3 or not all(map(_is_count, entry)):
            raise FormatError(f"{place} must be [first, last, k], whole numbers. Got {entry!r}.")
        first, last, k = entry
        after = end + 1
        if (first != 1 if not ranges else first < after) or last < first:
            allowed = "1" if not ranges else f"at least {after}"
            raise FormatError(
                f"{place}: first must be {allowed} and last not below it. Got {entry!r} instead."
            )
        if k > ceiling:
            raise FormatError(
                f"{place}: k must be at most {CEILING}, {ceiling}. Got {k} instead: the engine "
                "would cut it."
            )
        ranges.append((first, last, k))
        end = last
    return ranges


def ranges_of_sglang(document: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of a SGLang configuration whose slots leave no choice."""
    if not isinstance(document, Mapping):
        raise FormatError(f"the configuration must be an object. Got {document!r} instead.")
    if document.get("strategy", "ema") != "ema":
        raise FormatError(
            f"strategy must be 'ema', the default. Got {document['strategy']!r} instead: the "
            "engine would choose by its own measurements."
        )
    slots: dict[int, int] = {}
    for key, slot in document.items():
        if not str(key).isdigit():
            continue
        steps = slot.get(STEPS) if isinstance(slot, Mapping) else None
        if not isinstance(steps, list) or not steps or not all(map(_is_count, steps)):
            raise FormatError(
                f"batch {key!r}: {STEPS} must be a list of whole numbers of at least 0. "
                f"Got {steps!r} instead."
            )
        if len(set(steps)) > 1:
            raise FormatError(
                f"batch {key!r}: {STEPS} must hold one number to be a draft length. Got {steps!r} "
                "instead: the engine chooses among them."
            )
        slots[int(key)] = steps[0]
    if not slots:
        raise FormatError(
            'the configuration must have a batch size as a key: {"1": {"candidate_steps": [3]}}. '
            f"Got the keys {list(document)} instead."
        )
    firsts = sorted(slots)
    ends = [*(first - 1 for first in firsts[1:]), None]
    begins = [1, *firsts[1:]]  # below the first key its slot counts, too
    return [(a, b, slots[key]) for a, b, key in zip(begins, ends, firsts, strict=True)]


def ranges_of_tensorrt(document: Mapping[str, Any]) -> list[Range]:
    """Return the ranges of a TensorRT-LLM configuration."""
    found = document.get(SCHEDULE)
    if not isinstance(found, Mapping) or not found:
        raise FormatError(f"{SCHEDULE} must map batch sizes to draft lengths. Got {found!r}.")
    ends: dict[int, int] = {}
    for end, k in found.items():
        number = int(end) if isinstance(end, str) and end.isdecimal() else end
        if not _is_count(number) or number < 1 or not _is_count(k):
            raise FormatError(
                f"{SCHEDULE} must map whole numbers from 1 to whole numbers from 0. Got {end!r}: "
                f"{k!r} instead."
            )
        ends[number] = k
    longest = document.get(LONGEST, ends[min(ends)])
    if longest != ends[min(ends)] or longest < max(ends.values()):
        raise FormatError(
            f"{SCHEDULE} must have {LONGEST}, {longest!r}, at its smallest batch, {min(ends)}, and "
            f"no larger draft length anywhere. Got {ends} instead."
        )
    firsts = [1, *(end + 1 for end in sorted(ends))]
    return [(first, end, ends[end]) for first, end in zip(firsts, sorted(ends), strict=False)]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
