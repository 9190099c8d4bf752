r"""What stands under each command's help: examples to copy, and what the exit status means."""

STATUS = {
    0: "done",
    1: "check: the fit did not converge (all other commands answer, and say so first); "
    "fit-many: some group has no fit",
    2: "a mistake in what was asked or given: one message on stderr, nothing on stdout",
    130: "stopped by Ctrl-C; no file is left half written",
}
ABOUT = """\b
From files to an answer:
  bayes-sd read results/ --set num_speculative_tokens=3 -o runs.csv
  bayes-sd fit runs.csv -o fit.nc
  bayes-sd check fit.nc
  bayes-sd choose fit.nc --pair drafter-a60 --rate 4

\b
Exit status: 0 done; 1 check of a fit that did not converge, or fit-many that
left a group without a fit; 2 a mistake, with one message on stderr; 130 stopped
by Ctrl-C.
"""
EXAMPLES = {
    "demo": ["bayes-sd demo --folder demo"],
    "read": [
        "bayes-sd read results/ -o runs.csv",
        "bayes-sd read 'run*.json' --set num_speculative_tokens=3 -o runs.parquet",
    ],
    "fit": [
        "bayes-sd fit runs.csv -o fit.nc",
        "bayes-sd fit --data vllm-cpu -o cpu.nc",
    ],
    "fit-many": [
        "bayes-sd fit-many runs.csv --by verifier -o fleet",
        "bayes-sd fit-many runs.csv --by verifier --by hardware --pooled --workers 4 -o fleet",
    ],
    "check": ["bayes-sd check fit.nc", "bayes-sd check fit.nc --json | jq .converged"],
    "predict": [
        "bayes-sd predict fit.nc --pair Qwen3-8B --rate 4 -k 0 -k 3 --acceptance 0.7",
        "bayes-sd predict fit.nc --pair drafter-a60 --concurrency 8 -k 3 --kind run",
        "bayes-sd predict fit.nc --scenarios asked.csv --json",
    ],
    "choose": [
        "bayes-sd choose fit.nc --pair Qwen3-8B --rate 2 --rate 8 --acceptance 0.7",
        "bayes-sd choose fit.nc --pair drafter-a60 --rate 4 --utility slo --slo 'e2e_p95 <= 2'",
        "bayes-sd choose fit.nc --pair drafter-a60 --break-even 3",
    ],
    "policy": [
        "bayes-sd policy fit.nc --pair drafter-a60 --rate 1 --rate 4 --rate 8",
        "bayes-sd policy fit.nc --pair drafter-a60 --rate 1 --rate 8 --export vllm -o k.json",
    ],
    "capacity": [
        "bayes-sd capacity fit.nc --slo 'e2e_p95 <= 2' -k 0 -k 3 --acceptance 0.7",
        "bayes-sd capacity fit.nc --slo 'e2e_p95 <= 2' -k 3 --rate 40",
    ],
    "compare": [
        "bayes-sd compare fit.nc --pair drafter-a60@3 --pair drafter-a85@3 --rate 2 --rate 6",
    ],
    "next-run": ["bayes-sd next-run fit.nc --pair drafter-a60 --rate 2 --rate 6 --rate 10"],
    "report": [
        "bayes-sd report fit.nc -o report.html",
        "bayes-sd report fit.nc -o report.html --pair drafter-a60 --slo 'e2e_p95 <= 2'",
    ],
    "drift": [
        "bayes-sd drift fit.nc --prometheus http://localhost:9090 -k 3 --rate 6 --once",
        "bayes-sd drift fit.nc --metrics http://localhost:8000/metrics -k 3 --log drift.jsonl",
    ],
    "pack": [
        "bayes-sd pack fit.nc -o small.nc",
        "bayes-sd pack fit.nc -o small.nc --draws 500",
    ],
    "schema": ["bayes-sd schema", "bayes-sd schema choose > choose.schema.json"],
}


def epilog_of(command: str) -> str:
    """Return the end of a command's help: examples and exit status, lines kept as they are.

    Parameters
    ----------
    command : str
        Name as typed; one without examples has the exit status alone.
    """
    listed = EXAMPLES.get(command, [])
    said = {code: text.split(" (")[0] for code, text in STATUS.items() if code != 1}
    own = [part.split(": ") for part in STATUS[1].split("; ")]
    for name, text in own:
        if name == command:
            said[1] = text.split(" (")[0]
    status = [f"  {code}  {said[code]}" for code in sorted(said)]
    parts = [["Examples:", *(f"  {line}" for line in listed)]] if listed else []
    parts.append(["Exit status:", *status])
    return "\n\n".join("\b\n" + "\n".join(part) for part in parts)
