"""The columns of a table of runs: name, unit, type, allowed range and meaning of each.

One row of the table is one benchmark run. Units stand at the end of the names; times are seconds.
A column that is not required may be missing, and its cells may be blank; a blank cell says that
the source does not give the figure.
"""

from bayes_sd.nearest import did_you_mean, nearest_first
from bayes_sd.schema_columns import (
    Column,
    amount,
    count,
    counts,
    text,
)

SCHEMA_VERSION = 1

METHODS = (
    "none",
    "draft_model",
    "eagle",
    "eagle3",
    "mtp",
    "ngram",
    "suffix",
    "dspark",
    "dflash",
    "other",
)
LOAD_KINDS = ("open", "closed")
ARRIVALS = ("poisson", "constant", "closed", "bursty")
STATISTICS = ("mean", "p50", "p90", "p95", "p99")
LATENCIES = ("e2e", "ttft", "tpot", "itl")

_WHAT = {
    "e2e": "end-to-end time of a request, first byte sent to last token received",
    "ttft": "time to first token",
    "tpot": "time per output token after the first: (e2e - ttft) / (tokens - 1)",
    "itl": "time between two deliveries; with speculation one delivery holds several tokens",
}

_REQUIRED = (
    text("run_id", "Name of the run, unique within its source.", required=True),
    text(
        "sweep_id",
        "Runs of one server start at several loads; they share a boot effect.",
        required=True,
    ),
    text("verifier", "The model that is served and checks the drafts.", required=True),
    text(
        "method",
        "How tokens are drafted; 'none' is a server without speculation.",
        required=True,
        choices=METHODS,
    ),
    count(
        "num_speculative_tokens",
        "tokens",
        0,
        "Drafted tokens per step, k. 0 with a method other than none is 'loaded but off'.",
        required=True,
    ),
    text(
        "load_kind",
        "open: requests arrive at a set rate; closed: a fixed number is kept in flight.",
        required=True,
        choices=LOAD_KINDS,
    ),
    amount("input_len_tokens", "tokens", "Mean prompt length.", required=True),
    Column("output_len_tokens", "tokens", "float", 1.0, None, True, "Mean answer length."),
    count("num_requests", "requests", 1, "Requests that the averages are over.", required=True),
)

_IDENTITY = (
    text("source_id", "Where the run comes from: a data set, a file, a team."),
    text("family_id", "Sweeps that differ in speculation only share it."),
    text("engine", "Serving engine, such as vllm."),
    text("engine_version", "Version of the engine, as text."),
    text("hardware", "Accelerator or processor."),
    count("tensor_parallel_size", "devices", 1, "Devices that share one model."),
    text("dtype", "Type of weights and cache, such as bf16."),
    amount("verifier_params_b", "1e9", "Parameters of the verifier, all experts."),
    amount("verifier_active_params_b", "1e9", "Parameters used per token; blank if dense."),
    count("num_experts", "1", 0, "Routed experts of a layer; blank or 0 if dense."),
    count("experts_per_token", "1", 0, "Routed experts used per token; blank or 0 if dense."),
    text("drafter", "The drafting model or head."),
    amount("drafter_params_b", "1e9", "Parameters of the drafter."),
    text("workload", "What the prompts are; acceptance goes with it."),
    text("sampling", "Sampling setting, such as 'temperature 0'; acceptance goes with it."),
    text("date", "Day of the run."),
    text("note", "Anything a reader of the row should know."),
    text(
        "num_speculative_tokens_schedule",
        "Draft length by batch size, if it changes within the run; then "
        "num_speculative_tokens is its ceiling.",
    ),
    amount(
        "num_draft_steps",
        "passes",
        "Draft passes per step, mean over all steps: a tree's depth, or the mean draft length of "
        "adaptive drafting. Blank is num_speculative_tokens.",
        zero=True,
    ),
    Column(
        "num_verified_tokens",
        "tokens",
        "float",
        1.0,
        None,
        False,
        "Tokens of a request that the verifier checks per step, mean over all steps: a tree's "
        "nodes and 1. Blank is num_draft_steps + 1.",
    ),
)

_LOAD = (
    text("arrivals", "How requests arrive. Blank is poisson for open load.", choices=ARRIVALS),
    amount(
        "request_rate_rps",
        "1/s",
        "Arrivals per second in the measured window: the rate of Little's law.",
    ),
    amount("target_rate_rps", "1/s", "Rate that the load tool was asked for."),
    amount(
        "completed_rate_rps",
        "1/s",
        "Completed / duration. It contains the drain, so near saturation it falls as latency "
        "rises: never a stand-in for request_rate_rps.",
    ),
    count("concurrency", "requests", 1, "Requests kept in flight by a closed loop."),
    count("client_cap", "requests", 1, "Limit of the load tool on requests in flight."),
    count("max_num_seqs", "requests", 1, "Limit of the engine on requests in a step."),
    Column(
        "is_throughput_test",
        "",
        "bool",
        None,
        None,
        False,
        "A burst or a run cut off at full load: a capacity figure, not a latency point.",
    ),
    amount("mean_in_system_requests", "requests", "Mean requests in flight.", zero=True),
    amount("mean_running_requests", "requests", "Mean requests in the engine's batch.", zero=True),
    amount("other_load_cores", "cores", "Processor cores used by others.", zero=True),
)

_RESPONSE = (
    *(
        amount(
            f"{statistic}_{latency}_s",
            "s",
            f"{'Mean' if statistic == 'mean' else statistic.upper()} {_WHAT[latency]}.",
        )
        for latency in LATENCIES
        for statistic in STATISTICS
    ),
    amount("output_tokens_per_s", "tokens/s", "Output tokens per second of the whole run."),
)

_RATE = (0.0, 1.0, False)
_ACCEPTANCE = (
    Column(
        "forced_acceptance_rate",
        "1",
        "float",
        *_RATE,
        "Chance that a draft is accepted given that all before it were, when the engine was "
        "made to accept at that rate at every position.",
    ),
    Column(
        "draft_acceptance_rate",
        "1",
        "float",
        *_RATE,
        "Accepted / drafted tokens, what engines print; not the conditional rate.",
    ),
    Column(
        "mean_acceptance_length",
        "tokens/step",
        "float",
        1.0,
        None,
        False,
        "1 + accepted / steps: the verifier's own token is counted; from 1 to k + 1.",
    ),
    count("num_drafts", "steps", 0, "Steps that drafted."),
    count("num_draft_tokens", "tokens", 0, "Drafted tokens."),
    count("num_accepted_tokens", "tokens", 0, "Accepted drafted tokens."),
    counts(
        "accepted_per_position", "tokens", "Accepted drafts at position 1, 2, ..., joined by ';'."
    ),
    counts(
        "accepted_length_counts", "steps", "Steps that accepted 0, 1, ..., k drafts, joined by ';'."
    ),
    counts(
        "expert_token_counts",
        "tokens",
        "Tokens that each expert of a layer got.",
    ),
    Column(
        "acceptance_per_position",
        "1",
        "floats",
        *_RATE,
        "Accepted at position 1, 2, ... / steps that drafted (unconditional), joined by ';'.",
    ),
)

COLUMNS = (*_REQUIRED, *_IDENTITY, *_LOAD, *_RESPONSE, *_ACCEPTANCE)
_BY_NAME = {entry.name: entry for entry in COLUMNS}


def column_names(*, required_only: bool = False) -> tuple[str, ...]:
    """Names of all columns, or of the required ones, in the order of the table.

    Examples
    --------
    >>> column_names(required_only=True)[:3]
    ('run_id', 'sweep_id', 'verifier')
    """
    return tuple(c.name for c in COLUMNS if c.required or not required_only)


def column(name: str) -> Column:
    """Return the entry of one column.

    Parameters
    ----------
    name : str
        Name of the column.

    Raises
    ------
    KeyError
        If the schema has no such column.

    Examples
    --------
    >>> column("request_rate_rps").unit
    '1/s'
    """
    if name not in _BY_NAME:
        listed = ", ".join(nearest_first(name, _BY_NAME))
        asked = f" {did_you_mean(name, _BY_NAME)}".rstrip()
        raise KeyError(f"no column '{name}' in the schema.{asked} Its columns are: {listed}.")
    return _BY_NAME[name]
