"""What an SGLang server says of itself in a benchmark result: the model, and how it drafts.

``server_info`` is the answer of the server's info endpoint: its launch arguments as resolved, its
version, and one ``internal_states`` entry per data-parallel rank. Names and meanings: SGLang [1]_,
Apache-2.0.

References
----------
.. [1] https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/server_args.py
"""

import math

import numpy as np

from bayes_sd.readers.reading import Cells, Fields, Reading

METHODS = {
    "EAGLE3": "eagle3",
    "STANDALONE": "draft_model",
    "NGRAM": "ngram",
    "LOOKAHEAD": "ngram",  # the first name of NGRAM
    "NEXTN": "mtp",
    "FROZEN_KV_MTP": "mtp",
    "DFLASH": "dflash",
    "DSPARK": "dspark",
}
ONE_PASS = ("dflash", "dspark")  # draft their block in one pass; their num_steps is a dummy 1
TYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32"}


def server_cells(fields: Fields, reading: Reading) -> Cells:
    """Return what the server's own account tells of a run; nothing if the file has none.

    Parameters
    ----------
    fields : Fields
        The run's object.
    reading : Reading
        Takes notes.
    """
    info = fields.part("server_info")
    if info.items("decode"):  # the answer of a router in front of separate pools
        reading.note(
            "prompts and answers were computed by separate servers; the cells are of the first "
            "that decodes. A fit takes both for one pool."
        )
        info = Fields(info.items("decode")[0], info.at("decode"))
    if not info.values:
        return {}
    kind = info.text("dtype")
    cells: Cells = {
        "engine": "sglang",
        "engine_version": info.text("version"),
        "verifier": info.text("model_path", "served_model_name"),
        "tensor_parallel_size": info.count("tp_size") or math.nan,
        "dtype": info.text("quantization") or ("" if kind == "auto" else TYPES.get(kind, kind)),
        "max_num_seqs": info.count("max_running_requests") or math.nan,
    }
    if info.count("dp_size") > 1:
        reading.note(
            f"the server ran {info.count('dp_size'):.0f} data-parallel ranks, each with a batch of "
            "its own; the run's load is that of all."
        )
    return cells | _drafting(info, reading)


def _drafting(info: Fields, reading: Reading) -> Cells:
    """Return method, drafter and the shape of the drafts."""
    if "speculative_algorithm" not in info.values:
        return {}
    algorithm = info.text("speculative_algorithm").upper()
    if info.values["speculative_algorithm"] is None or algorithm == "NONE":
        return {"method": "none", "num_speculative_tokens": 0}
    if not algorithm:
        raise info.wrong("speculative_algorithm", "text")
    drafter, model = info.text("speculative_draft_model_path"), info.text("model_path")
    own = drafter in ("", model)
    if algorithm == "EAGLE":
        reading.note(
            "SGLang stores NEXTN, the model's own prediction heads, as EAGLE: method is mtp where "
            "the draft path is the model's or missing, else eagle. Give method='mtp' if the heads "
            "lie in a folder of their own."
        )
    method = METHODS.get(algorithm, "other")
    if algorithm == "EAGLE":
        method = "mtp" if own else "eagle"
    if method == "other":
        reading.note(f"speculative_algorithm {algorithm[:40]!r} is not known here: method 'other'.")
    cells: Cells = {"method": method, "drafter": "" if own else drafter}
    cells |= _shape(info, method, reading)
    if info.values.get("speculative_adaptive") is True:
        longest = info.count("max_speculative_num_draft_tokens") - 1
        cells |= {"num_speculative_tokens_schedule": "adaptive", "num_draft_steps": math.nan}
        if longest >= 0:
            cells["num_speculative_tokens"] = longest
        reading.note(
            "the draft length changed within the run (speculative_adaptive): give num_draft_steps, "
            "num_verified_tokens and mean_acceptance_length over all steps."
        )
    return cells


def _shape(info: Fields, method: str, reading: Reading) -> Cells:
    """Return drafted tokens per step, and passes and verified tokens where drafts are a tree.

    ``speculative_num_draft_tokens`` counts the tokens that are verified, the last accepted one
    among them: 1 more than are drafted.
    """
    steps = info.count("speculative_num_steps")
    verified = info.count("speculative_num_draft_tokens")
    width = info.count("speculative_eagle_topk")
    if method == "ngram" and width > 1:
        reading.note(
            f"n-grams were drafted as a tree of up to {verified - 1:.0f} tokens: give "
            "num_draft_steps, its mean depth."
        )
    if method in ("ngram", "other") or (method in ONE_PASS and not width > 1):
        return {"num_speculative_tokens": verified - 1} if verified >= 1 else {}
    if width > 1:
        depth = (verified - 1) / width if method in ONE_PASS else steps
        if depth > verified - 1:
            reading.note(
                f"the tree had {depth:.0f} levels and {verified - 1:.0f} drafted tokens: as many "
                "passes are counted as there are tokens."
            )
        return {
            "num_speculative_tokens": verified - 1,
            "num_draft_steps": float(np.minimum(depth, verified - 1)),
            "num_verified_tokens": verified,
        }
    return {"num_speculative_tokens": steps if steps >= 0 else verified - 1}
