"""Sizes of common models, by name: what most result files do not tell.

Parameters are in 10^9, as the model cards on Hugging Face (https://huggingface.co) or the reports
named below give them, experts as in the cards or the models' ``config.json``. Total is all experts;
active is what one token uses; experts are the routed ones of a layer, shared experts are not
counted. Where a card gives no more than a rounded figure, so does the table.
"""

import math
import re
from typing import NamedTuple

from bayes_sd.readers.reading import Cells, is_blank


class Size(NamedTuple):
    """Size of one model.

    Attributes
    ----------
    params_b : float
        Parameters, 10^9.
    active_params_b : float or None
        Parameters that one token uses, 10^9; None if dense.
    num_experts, experts_per_token : int or None
        Routed experts of a layer, and those used per token; None if dense.
    """

    params_b: float
    active_params_b: float | None = None
    num_experts: int | None = None
    experts_per_token: int | None = None


def _dense(family: str, **sizes: float) -> dict[str, Size]:
    """Name the dense models of a family: ``_8b=8.2`` is FAMILY-8b with 8.2e9 parameters."""
    return {f"{family}-{k[1:].replace('_', '.')}": Size(v) for k, v in sizes.items()}


SIZES: dict[str, Size] = {
    # Qwen: cards of each model; Qwen3 technical report, arXiv:2505.09388.
    **_dense("qwen2.5", _0_5b=0.49, _1_5b=1.54, _3b=3.09, _7b=7.61, _14b=14.7),
    **_dense("qwen2.5", _32b=32.5, _72b=72.7),
    **_dense("qwen2.5-coder", _0_5b=0.49, _1_5b=1.54, _3b=3.09, _7b=7.61, _14b=14.7, _32b=32.5),
    **_dense("qwen2.5-math", _1_5b=1.54, _7b=7.61, _72b=72.7),
    "qwq-32b": Size(32.5),
    **_dense("qwen3", _0_6b=0.6, _1_7b=1.7, _4b=4.0, _8b=8.2, _14b=14.8, _32b=32.8),
    "qwen3-30b-a3b": Size(30.5, 3.3, 128, 8),
    "qwen3-235b-a22b": Size(235.0, 22.0, 128, 8),
    "qwen3-coder-30b-a3b": Size(30.5, 3.3, 128, 8),
    "qwen3-coder-480b-a35b": Size(480.0, 35.0, 160, 8),
    "qwen3-next-80b-a3b": Size(80.0, 3.0, 512, 10),
    "qwen3-coder-next": Size(80.0, 3.0, 512, 10),
    # https://huggingface.co/docs/transformers/model_doc/qwen3_5_moe and the cards.
    "qwen3.5-27b": Size(27.0),
    "qwen3.5-35b-a3b": Size(35.0, 3.0, 256, 8),
    "qwen3.5-122b-a10b": Size(122.0, 10.0, 256, 8),
    "qwen3.5-397b-a17b": Size(397.0, 17.0, 512, 10),
    "qwen3.6-35b-a3b": Size(35.0, 3.0, 256, 8),
    # Llama: cards of meta-llama; 4 is "17B active" of 109 and 400.
    **_dense("llama-2", _7b=6.74, _13b=13.0, _70b=69.0),
    **_dense("llama-3", _8b=8.03, _70b=70.6),
    **_dense("llama-3.1", _8b=8.03, _70b=70.6, _405b=405.0),
    **_dense("llama-3.2", _1b=1.23, _3b=3.21),
    **_dense("llama-3.3", _70b=70.6),
    "llama-4-scout-17b-16e": Size(109.0, 17.0, 16, 1),
    "llama-4-maverick-17b-128e": Size(400.0, 17.0, 128, 1),
    **_dense("tinyllama", _1_1b=1.1),
    # Mistral: cards of mistralai; Mixtral of Experts, arXiv:2401.04088.
    "mistral-7b": Size(7.25),
    "mistral-nemo": Size(12.2),
    "mistral-small-24b": Size(23.6),
    "mistral-large-instruct": Size(123.0),
    "mixtral-8x7b": Size(46.7, 12.9, 8, 2),
    "mixtral-8x22b": Size(141.0, 39.0, 8, 2),
    # DeepSeek: cards of deepseek-ai; V3 technical report, arXiv:2412.19437.
    "deepseek-v2-lite": Size(15.7, 2.4, 64, 6),
    "deepseek-v2": Size(236.0, 21.0, 160, 6),
    "deepseek-v2.5": Size(236.0, 21.0, 160, 6),
    "deepseek-v3": Size(671.0, 37.0, 256, 8),
    "deepseek-v3.1": Size(671.0, 37.0, 256, 8),
    "deepseek-v3.2": Size(671.0, 37.0, 256, 8),
    "deepseek-r1": Size(671.0, 37.0, 256, 8),
    "deepseek-v4-flash": Size(284.0, 13.0, 256, 6),
    "deepseek-v4-pro": Size(1600.0, 49.0, 384, 6),
    "deepseek-r1-0528-qwen3-8b": Size(8.2),
    **_dense("deepseek-r1-distill-qwen", _1_5b=1.78, _7b=7.62, _14b=14.8, _32b=32.8),
    **_dense("deepseek-r1-distill-llama", _8b=8.03, _70b=70.6),
    # OpenAI: model card of gpt-oss, arXiv:2508.10925.
    "gpt-oss-20b": Size(20.9, 3.6, 32, 4),
    "gpt-oss-120b": Size(116.8, 5.1, 128, 4),
    # Moonshot: cards of moonshotai.
    "kimi-k2": Size(1000.0, 32.0, 384, 8),
    "kimi-k2.5": Size(1000.0, 32.0, 384, 8),
    # Z.ai: cards of zai-org; GLM-5 report, which also has GLM-4.5.
    "glm-4.5": Size(355.0, 32.0, 160, 8),
    "glm-4.5-air": Size(106.0, 12.0, 128, 8),
    "glm-4.6": Size(355.0, 32.0, 160, 8),
    "glm-4.7": Size(358.0, 32.0, 160, 8),  # with its layer for multi-token prediction
    "glm-5": Size(744.0, 40.0, 256, 8),
    # MiniMax: cards of MiniMaxAI.
    "minimax-m2": Size(230.0, 10.0, 256, 8),
    "minimax-m2.1": Size(230.0, 10.0, 256, 8),
    "minimax-m2.5": Size(230.0, 10.0, 256, 8),
    # Gemma: reports arXiv:2408.00118 and arXiv:2503.19786, image encoder included.
    **_dense("gemma-2", _2b=2.61, _9b=9.24, _27b=27.2),
    **_dense("gemma-3", _270m=0.27, _1b=1.0, _4b=4.3, _12b=12.2, _27b=27.4),
    # Phi: cards of microsoft.
    "phi-2": Size(2.7),
    "phi-3-mini": Size(3.8),
    "phi-3-medium": Size(14.0),
    "phi-3.5-mini": Size(3.8),
    "phi-3.5-moe": Size(41.9, 6.6, 16, 2),
    "phi-4": Size(14.7),
    "phi-4-mini": Size(3.8),
    # OPT: arXiv:2205.01068, table 1.
    **_dense("opt", _125m=0.125, _350m=0.35, _1_3b=1.3, _2_7b=2.7, _6_7b=6.7, _13b=13.0),
    **_dense("opt", _30b=30.0, _66b=66.0, _175b=175.0),
}

# Endings that leave the number of parameters as it is: training, dates, releases, number formats.
ENDING = re.compile(
    r"[-.](?:instruct|chat|it|pt|base|hf|thinking|reasoning|terminus|exp|speciale|zero|preview"
    r"|original|\d{4}|v\d(?:\.\d)?|4k|8k|128k|1m"
    r"|fp8|fp4|nvfp4|mxfp4|bf16|fp16|int[48]|[48]bit|w\d{1,2}a\d{1,2}|awq|gptq|bnb|autoround"
    r"|qat|quantized|dynamic|block|kv|unsloth|gguf)$"
)
LONGEST = 120
SAME = 0.1  # a size that differs by more is of another model

VERIFIER = {
    "verifier_params_b": "params_b",
    "verifier_active_params_b": "active_params_b",
    "num_experts": "num_experts",
    "experts_per_token": "experts_per_token",
}
NO_MODEL = ("none", "ngram", "suffix", "mtp", "eagle", "eagle3", "dspark", "dflash")


def look_up(name: str) -> Cells:
    """Return the size of a model, by its name.

    The part after the last ``/`` counts, in any case, without endings such as ``-Instruct`` or
    ``-FP8``; the rest must be the whole name of a model of the table.

    Parameters
    ----------
    name : str
        Name or path of a model.

    Returns
    -------
    dict
        Cells of `bayes_sd.schema` for a verifier, 10^9 parameters and counts; those of experts
        are left out of a dense model, and all of a model that the table does not know.

    Examples
    --------
    >>> look_up("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8")["verifier_active_params_b"]
    3.3
    >>> look_up("Qwen3-8B_eagle3")
    {}
    """
    size = _size(name)
    if size is None:
        return {}
    found = {cell: getattr(size, field) for cell, field in VERIFIER.items()}
    return {cell: value for cell, value in found.items() if value is not None}


def _size(name: str) -> Size | None:
    parts = [part for part in re.split(r"[/\\]", str(name)[-4 * LONGEST :].strip()) if part]
    key = parts[-1].lower().replace("_", "-") if parts else ""
    if len(key) > LONGEST:
        return None
    key = key.removeprefix("meta-") if key.startswith("meta-llama-") else key
    while key not in SIZES:
        ending = ENDING.search(key)
        if ending is None:
            return None
        key = key[: ending.start()]
    return SIZES[key]


def cells(run: Cells) -> tuple[Cells, list[str]]:
    """Return the sizes that a run lacks and that the names of its models tell.

    Parameters
    ----------
    run : dict
        Cells of a run, with what its files and the user tell.

    Returns
    -------
    cells : dict
        Only cells that are blank in the run. Nothing of a verifier whose known size is another
        one, and no size of a drafter that is a head of its verifier.
    notes : list of str
        Which sizes were taken from the table, or why not.
    """
    verifier, drafter = str(run.get("verifier") or ""), str(run.get("drafter") or "")
    found: Cells = {}
    notes = []
    size = look_up(verifier)
    known = run.get("verifier_params_b")
    if size and _is_other(known, size["verifier_params_b"]):
        notes.append(
            f"verifier_params_b of {verifier!r} is {known}, and {size['verifier_params_b']:g} on "
            "its model card: nothing is taken from the card."
        )
    elif size:
        found = {name: value for name, value in size.items() if is_blank(run.get(name))}
        if found:
            shown = ", ".join(f"{name} {value:g}" for name, value in found.items())
            notes.append(f"the size of {verifier!r} is that of its model card: {shown}.")
    small = _size(drafter)
    is_model = str(run.get("method") or "") not in NO_MODEL and drafter != verifier
    if small and is_model and is_blank(run.get("drafter_params_b")):
        found["drafter_params_b"] = small.params_b
        notes.append(
            f"the size of drafter {drafter!r} is that of its model card: drafter_params_b "
            f"{small.params_b:g}."
        )
    return found, notes


def _is_other(known: object, params_b: float) -> bool:
    """Tell whether a size that a run has is clearly not that of the table."""
    try:
        value = float(str(known))
    except ValueError:
        return False
    return math.isfinite(value) and abs(value - params_b) > SAME * params_b
