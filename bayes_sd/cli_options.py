"""Options that several commands share, and the scenario that they make together."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bayes_sd.exceptions import ArgumentError

MAX_NUM_SEQS = 256


def words(*allowed: str) -> Callable[[], list[str]]:
    """Return what completes an option that takes one of some words."""
    return lambda: list(allowed)


FitFile = Annotated[
    Path, typer.Argument(help="A fit, written by `bayes-sd fit`.", metavar="FIT.nc")
]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="No progress on stderr. Warnings and mistakes are still told."
    ),
]
Draws = Annotated[int, typer.Option(help="Draws kept per chain.")]
Tune = Annotated[int, typer.Option(help="Draws discarded per chain.")]
Chains = Annotated[int, typer.Option(help="Chains.")]
TargetAccept = Annotated[
    float, typer.Option(help="Nearer to 1: smaller steps, if transitions diverge.")
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Pair = Annotated[
    str | None,
    typer.Option(
        help="Fitted pair, or a part of its label that fits only one; `bayes-sd check` lists them. "
        "Not needed where the fit has one pair."
    ),
]
Rates = Annotated[
    list[float] | None,
    typer.Option("--rate", help="Request rate, requests/s. Repeatable.", metavar="RATE"),
]
Concurrencies = Annotated[
    list[float] | None,
    typer.Option(
        "--concurrency",
        help="Requests kept in flight, in place of a rate. Repeatable.",
        metavar="N",
    ),
]
Acceptance = Annotated[
    str | None,
    typer.Option(
        help="Conditional acceptance rate: one, or one per position: 0.8,0.7,0.6. "
        "By default as counted in the pair's runs.",
        metavar="RATE[,RATE...]",
    ),
]
Arrivals = Annotated[
    str,
    typer.Option(
        help="poisson, constant or bursty.",
        autocompletion=words("poisson", "constant", "bursty"),
    ),
]
DraftLengths = Annotated[
    list[int] | None,
    typer.Option(
        "--draft-length",
        "-k",
        help="Draft length; 0, the default, is off. Repeatable.",
        metavar="K",
    ),
]
Candidates = Annotated[
    list[int] | None,
    typer.Option(
        "--draft-length",
        "-k",
        help="Draft length to compare. Repeatable; by default 0 (off) and those measured.",
        metavar="K",
    ),
]
NumRequests = Annotated[
    int, typer.Option(help="Requests of one benchmark run, for what a fresh run would report.")
]
InputLen = Annotated[
    float | None, typer.Option("--input-len", help="Prompt tokens. By default as measured.")
]
OutputLen = Annotated[
    float | None, typer.Option("--output-len", help="Answer tokens. By default as measured.")
]
MaxNumSeqs = Annotated[int, typer.Option(help="Limit of the engine on requests in flight.")]


def parse_acceptance(text: str | None) -> float | tuple[float, ...] | None:
    """Read the option for acceptance.

    Raises
    ------
    ArgumentError
        If it is not a number, or numbers joined by commas.

    Examples
    --------
    >>> parse_acceptance("0.7"), parse_acceptance("0.8,0.6")
    (0.7, (0.8, 0.6))
    """
    if text is None:
        return None
    try:
        rates = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentError(
            f"--acceptance must be a rate from 0 to 1, or several joined by commas. "
            f"Got {text!r} instead. For example --acceptance 0.8,0.7,0.6"
        ) from None
    return rates[0] if len(rates) == 1 else rates


def pair_or_only(tree: Any, pair: str | None) -> str:
    """Return the label of the pair asked for, or of the only one of the fit.

    A name that fits no pair, or several, is returned as it is: it may name a base, and what looks
    it up says what is wrong.

    Raises
    ------
    ArgumentError
        If none is asked for and the fit has several.
    """
    from bayes_sd.exceptions import ArgumentError
    from bayes_sd.posterior import find_label, fitted_bases, fitted_pairs

    if pair is not None:
        found = find_label(pair, fitted_pairs(tree))
        return pair if found is None else fitted_pairs(tree)[found]
    labels = fitted_pairs(tree) or fitted_bases(tree)
    if len(labels) == 1:
        return labels[0]
    raise ArgumentError(
        f"--pair must be given, for the fit has {len(labels)}: " + "; ".join(map(repr, labels))
    )


def loads_of(
    rates: list[float] | None, concurrencies: list[float] | None
) -> tuple[str, list[float]]:
    """Return the name of the load and its values, increasing; empty if none is given.

    Raises
    ------
    ArgumentError
        If both kinds are given.

    Examples
    --------
    >>> loads_of([4.0, 2.0], None)
    ('request_rate_rps', [2.0, 4.0])
    """
    if rates and concurrencies:
        raise ArgumentError(
            "--rate (open loop) and --concurrency (closed loop) exclude each other. Got both: "
            "drop one of them."
        )
    return (
        ("concurrency", sorted(set(concurrencies)))
        if concurrencies
        else ("request_rate_rps", sorted(set(rates or [])))
    )


def unit_of(name: str) -> str:
    """Return the unit of a load."""
    return "requests/s" if name == "request_rate_rps" else "requests in flight"


def fill_of(
    arrivals: str, input_len: float | None, output_len: float | None, max_num_seqs: int
) -> dict[str, Any]:
    """Return fields of `Scenario` that options say; they fill blank cells of a file, too."""
    return {
        "arrivals": arrivals,
        "input_len_tokens": input_len,
        "output_len_tokens": output_len,
        "max_num_seqs": max_num_seqs,
    }


def scenario_of(
    tree: Any, pair: str | None, name: str, load: float, acceptance: str | None, **fill: Any
) -> Any:
    """Return the scenario of the options, at one load and without speculation.

    Raises
    ------
    ArgumentError
        As `pair_or_only` and `parse_acceptance`; or if a field is out of range.
    """
    from bayes_sd.scenario import Scenario

    fill |= {name: load, "acceptance": parse_acceptance(acceptance)}
    return Scenario(pair_or_only(tree, pair), **fill)
