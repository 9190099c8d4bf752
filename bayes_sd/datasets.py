"""Measured runs that come with the library, one loader for each data set.

The files and how they were made are described in ``data/README.md`` of the source.
"""

from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import pandas as pd

from bayes_sd.exceptions import DataError
from bayes_sd.schema import column
from bayes_sd.validate import one_of


def _find(name: str) -> Traversable:
    """Return a data file of the installed package, or else of the source checkout."""
    installed = files("bayes_sd") / "_bundled" / name
    if installed.is_file():
        return installed
    checkout = Path(__file__).resolve().parent.parent / "data" / name
    if checkout.is_file():
        return checkout
    raise DataError(
        f"the data file '{name}' must be in bayes_sd/_bundled or in data/ of the source. Got "
        "neither instead. Install the package again from a complete wheel."
    )


def _load(name: str) -> pd.DataFrame:
    """Read a bundled file with the types of the schema; blank numbers are NaN."""
    with _find(name).open("rb") as stream:
        frame = pd.read_csv(stream, compression="gzip", dtype="str")
    for label in frame.columns:
        entry = column(label)
        if entry.dtype == "bool":
            frame[label] = frame[label].eq("True")
        elif entry.dtype in ("int", "float"):
            numbers = pd.to_numeric(frame[label])
            whole = entry.dtype == "int" and entry.required
            frame[label] = numbers.astype("int64") if whole else numbers.astype("float64")
    return frame


def load_scaling_study(verifiers: Iterable[str] | None = None) -> pd.DataFrame:
    """EAGLE-style drafting on five Qwen3 models under rising load, 2,400 runs.

    240 sweeps of ten loads: six forced acceptance rates (0.5 to 1.0), eight draft lengths (1 to
    10). About 520 tokens in, 128 out; 90 s each; evenly spaced arrivals, at most 128 in flight.

    Parameters
    ----------
    verifiers : iterable of str, optional
        Names of verifiers to keep, such as ``["Qwen/Qwen3-8B"]``; all five by default.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`. In particular:

        - ``request_rate_rps``: (completed + cut off at the end) / 90 s; blank for closed loop.
        - ``completed_rate_rps``: completed / 90 s, low near saturation.
        - ``concurrency``: 1 in the synchronous run of a sweep, 128 in its throughput test.
        - ``is_throughput_test``: the test whose unfinished requests were dropped at 90 s.
        - ``client_cap``: 128; above about 115 in flight a run is closed loop in fact.
        - ``mean_in_system_requests``: computed by the load tool from rate and latency, so not a
          measurement of its own.
        - ``forced_acceptance_rate``: chance of acceptance at every position.

    Raises
    ------
    ArgumentError
        If a verifier is not in the data.

    Notes
    -----
    Source: vLLM speculators, raw GuideLLM sweeps of its scaling study [1]_, 2025-08-15. Licence:
    Apache-2.0. No run is without speculation; hardware and engine version are not recorded.

    References
    ----------
    .. [1] https://github.com/vllm-project/speculators/tree/researchScaling/research/scaling

    Examples
    --------
    >>> load_scaling_study(["Qwen/Qwen3-8B"])["sweep_id"].nunique()
    48
    """
    frame = _load("scaling_study.csv.gz")
    if verifiers is None:
        return frame
    wanted = [verifiers] if isinstance(verifiers, str) else list(verifiers)
    present = sorted(frame["verifier"].unique())
    for name in wanted:
        one_of(name, present, "verifiers")
    return frame[frame["verifier"].isin(wanted)].reset_index(drop=True)


def load_vllm_cpu(kind: str = "dense", *, quiet_only: bool = False) -> pd.DataFrame:
    """Small models on one processor core under vLLM 0.32.0, 162 runs with and without drafting.

    Eleven configurations: no speculation and a draft model with k = 1, 3, 5, two acceptance
    levels (0.60 and 0.85), a dense and a mixture-of-experts verifier. 64 tokens in and out,
    Poisson arrivals at seven rates for 30 s each, then a burst of 128 requests.

    Parameters
    ----------
    kind : {"dense", "moe", "all"}, default "dense"
        Which verifier.
    quiet_only : bool, default False
        Keep the repeat made on an otherwise idle machine only: one sweep per configuration.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`. In particular:

        - ``sweep_id``: configuration and repeat; one server start.
        - ``request_rate_rps``: (requests - 1) / (last start - first start).
        - ``mean_in_system_requests``: exact, from the client's time stamps.
        - ``mean_running_requests``: the server's gauge, sampled once a second.
        - ``accepted_per_position``, ``num_drafts``: counts of the run, from the server.
        - ``other_load_cores``: cores used by other programs; a mark of quality.
        - ``is_throughput_test``: the burst.
        - ``num_speculative_tokens_schedule``: filled for the configuration whose draft length
          changes with the batch size.

    Raises
    ------
    ArgumentError
        If `kind` is not one of the three.

    Notes
    -----
    Source: measured for this library with the unmodified engine and its own client, 2026-12.
    Licence: Apache-2.0, as the library.

    Examples
    --------
    >>> len(load_vllm_cpu()), len(load_vllm_cpu("moe"))
    (125, 37)
    """
    one_of(kind, ("dense", "moe", "all"), "kind")
    frame = _load("vllm_cpu.csv.gz")
    if kind != "all":
        frame = frame[frame["verifier"] == f"verifier-{kind}"]
    if quiet_only:
        frame = frame[frame["sweep_id"].str.endswith("_rep5")]
    return frame.reset_index(drop=True)


def load_atom_moe() -> pd.DataFrame:
    """Large mixture-of-experts models with and without MTP on MI355X, 422 nightly runs.

    DeepSeek-R1, DeepSeek-V4-Pro and Qwen3.5-397B under ATOM, pairs of the same night; closed loop
    with 1 to 1,024 requests in flight; 1,024 or 8,192 tokens in and out, random text.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`. In particular:

        - ``mean_ttft_s``, ``mean_tpot_s``: means only; ``mean_e2e_s`` is not recorded.
        - ``input_len_tokens``, ``output_len_tokens``: nominal; real ones average about 0.9 of it.
        - ``num_requests``: ten per request in flight, by the project's recipes; not recorded.
        - ``mean_acceptance_length``: only from August 2026, on random text.

    Notes
    -----
    Source: ROCm ATOM benchmark dashboard [1]_, 2026-03-25 to 2026-08-10. Licence: MIT, the
    ROCm ATOM project. The end-to-end time that the model needs follows from the identity
    ``mean_e2e_s = mean_ttft_s + (output_len_tokens - 1) * mean_tpot_s``, which you must ask for.

    References
    ----------
    .. [1] https://rocm.github.io/ATOM/benchmark-dashboard/

    Examples
    --------
    >>> frame = load_atom_moe()
    >>> decode_s = (frame["output_len_tokens"] - 1) * frame["mean_tpot_s"]
    >>> frame["mean_e2e_s"] = frame["mean_ttft_s"] + decode_s
    >>> len(frame)
    422
    """
    return _load("atom_moe.csv.gz")


def load_h200_70b() -> pd.DataFrame:
    """Llama 70B in FP8 on one H200 with vLLM 0.14.1, 72 open-loop runs in seven sweeps.

    Six sweeps without speculation and one with an EAGLE-3 drafter that accepts almost nothing, so
    that it shows the overhead alone. 300 requests per run, Poisson arrivals, 0.5 to 5 per second.

    Returns
    -------
    pandas.DataFrame, one row per run
        Columns as in `bayes_sd.schema`. In particular:

        - ``request_rate_rps``: the rate asked for. The load tool rescales its gaps so that the
          last request leaves at requests / rate; run time minus that is about one latency.
        - ``completed_rate_rps``: contains the drain, so it is up to half below near saturation.
        - ``acceptance_per_position``: without the number of drafts, so the EAGLE-3 runs cannot be
          used as they are.

    Notes
    -----
    Source: DigitalOcean GTC 2026 demonstration, vLLM tuning runs [1]_, 2026-02-24 to 26. Licence:
    MIT. Prompts share long prefixes and prefix caching is on: 5,806 tokens in are mostly not
    computed. From about 3 requests per second the load never settles within 300 requests.

    References
    ----------
    .. [1] https://github.com/DO-Solutions/gtc-2026-doks/tree/main/dev/vllm/benchmarks

    Examples
    --------
    >>> load_h200_70b()["method"].value_counts().to_dict()
    {'none': 64, 'eagle3': 8}
    """
    return _load("h200_70b.csv.gz")


def load_vllm_cpu_windows() -> pd.DataFrame:
    """Live metrics recorded during the runs of `load_vllm_cpu`, one window of 30 s per run.

    What the server itself said: its counters before and after each run, and its gauge of running
    requests once a second. Bursts and the configuration whose draft length changes are left out.

    Returns
    -------
    pandas.DataFrame, one row per window
        Columns are the fields of `bayes_sd.LiveWindow`, so that the rows of one server are what
        `bayes_sd.check_drift` takes. The index is ``(sweep_id, run_id)``, in the order of time
        within a sweep, which is one server start.

    Notes
    -----
    Source and licence as `load_vllm_cpu`. ``duration_s`` is from the first request to the last
    answer, so a window holds its own rise and drain. ``end_s`` is the client's clock, and
    ``process_start_s`` the beginning of a sweep's first run.

    Examples
    --------
    >>> windows = load_vllm_cpu_windows().loc["dense_a85_k3_rep5"]
    >>> len(windows), windows["accepted"].iloc[0]
    (7, (248.0, 197.0, 166.0))
    """
    with _find("vllm_cpu_windows.csv.gz").open("rb") as stream:
        frame = pd.read_csv(stream, compression="gzip", dtype={"accepted": "str"})
    counts = frame["accepted"].fillna("").str.split(";")
    frame["accepted"] = [tuple(float(count) for count in row if count) for row in counts]
    return frame.set_index(["sweep_id", "run_id"])
