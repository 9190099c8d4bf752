"""The columns of a table of runs: name, unit, type, allowed range and meaning of each.

One row of the table is one benchmark run. Units stand at the end of the names; times are seconds.
A column that is not required may be missing, and its cells may be blank; a blank cell says that
the source does not give the figure.
"""

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Column:
    """One column of the table of runs.

    Attributes
    ----------
    name : str
        Name of the column, with the unit at its end.
    unit : str
        ``"s"``, ``"1/s"``, ``"tokens"``, ``"1"`` for a pure number, ``""`` for text.
    dtype : str
        ``"str"``, ``"int"``, ``"float"``, ``"bool"``, or ``"floats"`` for numbers joined by ``;``.
    low, high : float or None
        Allowed range, ends included unless `above` is set. None is no limit.
    required : bool
        A table without the column, or with a blank cell in it, is refused.
    meaning : str
        What the column holds, and its trap where it has one.
    choices : tuple of str
        Allowed words of a text column; empty if any text will do.
    above : bool
        True if values must be above `low`, not merely equal to it.
    """

    name: str
    unit: str
    dtype: str
    low: float | None
    high: float | None
    required: bool
    meaning: str
    choices: tuple[str, ...] = ()
    above: bool = False

    def allowed(self) -> str:
        """Say in words what a cell may hold.

        Examples
        --------
        >>> column("mean_e2e_s").allowed()
        'above 0 s'
        >>> column("draft_acceptance_rate").allowed()
        'from 0 to 1'
        """
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.dtype in ("str", "bool"):
            return "text" if self.dtype == "str" else "true or false"
        kind = {"int": "a whole number ", "floats": "numbers joined by ';', each "}
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        if self.low is None:
            return f"{kind.get(self.dtype, '')}finite{unit}"
        if self.high is not None:
            return f"{kind.get(self.dtype, '')}from {self.low:g} to {self.high:g}{unit}"
        word = "above" if self.above else "at least"
        return f"{kind.get(self.dtype, '')}{word} {self.low:g}{unit}"


def _text(
    name: str, meaning: str, *, required: bool = False, choices: tuple[str, ...] = ()
) -> Column:
    return Column(name, "", "str", None, None, required, meaning, choices)


def _count(name: str, unit: str, low: int, meaning: str, *, required: bool = False) -> Column:
    return Column(name, unit, "int", float(low), None, required, meaning)


def _counts(name: str, unit: str, meaning: str) -> Column:
    return Column(name, unit, "floats", 0.0, None, False, f"{meaning} Joined by ';'.")


def _amount(
    name: str, unit: str, meaning: str, *, required: bool = False, zero: bool = False
) -> Column:
    return Column(name, unit, "float", 0.0, None, required, meaning, above=not zero)


_WHAT = {
    "e2e": "end-to-end time of a request, first byte sent to last token received",
    "ttft": "time to first token",
    "tpot": "time per output token after the first: (e2e - ttft) / (tokens - 1)",
    "itl": "time between two deliveries; with speculation one delivery holds several tokens",
}

_REQUIRED = (
    _text("run_id", "Name of the run, unique within its source.", required=True),
    _text(
        "sweep_id",
        "Runs of one server start at several loads; they share a boot effect.",
        required=True,
    ),
    _text("verifier", "The model that is served and checks the drafts.", required=True),
    _text(
        "method",
        "How tokens are drafted; 'none' is a server without speculation.",
        required=True,
        choices=METHODS,
    ),
    _count(
        "num_speculative_tokens",
        "tokens",
        0,
        "Drafted tokens per step, k. 0 with a method other than none is 'loaded but off'.",
        required=True,
    ),
    _text(
        "load_kind",
        "open: requests arrive at a set rate; closed: a fixed number is kept in flight.",
        required=True,
        choices=LOAD_KINDS,
    ),
    _amount("input_len_tokens", "tokens", "Mean prompt length.", required=True),
    Column("output_len_tokens", "tokens", "float", 1.0, None, True, "Mean answer length."),
    _count("num_requests", "requests", 1, "Requests that the averages are over.", required=True),
)

_IDENTITY = (
    _text("source_id", "Where the run comes from: a data set, a file, a team."),
    _text("family_id", "Sweeps that differ in speculation only share it."),
    _text("engine", "Serving engine, such as vllm."),
    _text("engine_version", "Version of the engine, as text."),
    _text("hardware", "Accelerator or processor."),
    _count("tensor_parallel_size", "devices", 1, "Devices that share one model."),
    _text("dtype", "Type of weights and cache, such as bf16."),
    _amount("verifier_params_b", "1e9", "Parameters of the verifier, all experts."),
    _amount("verifier_active_params_b", "1e9", "Parameters used per token; blank if dense."),
    _count("num_experts", "1", 0, "Routed experts of a layer; blank or 0 if dense."),
    _count("experts_per_token", "1", 0, "Routed experts used per token; blank or 0 if dense."),
    _text("drafter", "The drafting model or head."),
    _amount("drafter_params_b", "1e9", "Parameters of the drafter."),
    _text("workload", "What the prompts are; acceptance goes with it."),
    _text("sampling", "Sampling setting, such as 'temperature 0'; acceptance goes with it."),
    _text("date", "Day of the run."),
    _text("note", "Anything a reader of the row should know."),
    _text(
        "num_speculative_tokens_schedule",
        "Draft length by batch size, if it changes within the run; then "
        "num_speculative_tokens is its ceiling.",
    ),
)

_LOAD = (
    _text("arrivals", "How requests arrive. Blank is poisson for open load.", choices=ARRIVALS),
    _amount(
        "request_rate_rps",
        "1/s",
        "Arrivals per second in the measured window: the rate of Little's law.",
    ),
    _amount("target_rate_rps", "1/s", "Rate that the load tool was asked for."),
    _amount(
        "completed_rate_rps",
        "1/s",
        "Completed / duration. It contains the drain, so near saturation it falls as latency "
        "rises: never a stand-in for request_rate_rps.",
    ),
    _count("concurrency", "requests", 1, "Requests kept in flight by a closed loop."),
    _count("client_cap", "requests", 1, "Limit of the load tool on requests in flight."),
    _count("max_num_seqs", "requests", 1, "Limit of the engine on requests in a step."),
    Column(
        "is_throughput_test",
        "",
        "bool",
        None,
        None,
        False,
        "A burst or a run cut off at full load: a capacity figure, not a latency point.",
    ),
    _amount("mean_in_system_requests", "requests", "Mean requests in flight.", zero=True),
    _amount("mean_running_requests", "requests", "Mean requests in the engine's batch.", zero=True),
    _amount("other_load_cores", "cores", "Processor cores used by others.", zero=True),
)

_RESPONSE = (
    *(
        _amount(
            f"{statistic}_{latency}_s",
            "s",
            f"{'Mean' if statistic == 'mean' else statistic.upper()} {_WHAT[latency]}.",
        )
        for latency in LATENCIES
        for statistic in STATISTICS
    ),
    _amount("output_tokens_per_s", "tokens/s", "Output tokens per second of the whole run."),
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
    _count("num_drafts", "steps", 0, "Steps that drafted."),
    _count("num_draft_tokens", "tokens", 0, "Drafted tokens."),
    _count("num_accepted_tokens", "tokens", 0, "Accepted drafted tokens."),
    _counts(
        "accepted_per_position", "tokens", "Accepted drafts at position 1, 2, ..., joined by ';'."
    ),
    _counts(
        "accepted_length_counts", "steps", "Steps that accepted 0, 1, ..., k drafts, joined by ';'."
    ),
    _counts(
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
        raise KeyError(f"no column '{name}' in the schema; see bayes_sd.schema.column_names()")
    return _BY_NAME[name]
