"""The command line: exit status, one message for a mistake, valid JSON and nothing beside it."""

import json
import warnings

import pytest

from bayes_sd import cli, fitting
from bayes_sd.exceptions import ConvergenceWarning, UnusedRunsWarning
from bayes_sd.storage import save
from tests.fake_fit import fake_fit, simulated_frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fits")
    save(fake_fit(draws=400, spread=0.02), made / "good.nc")
    save(fake_fit(draws=20, spread=0.02, passed=False), made / "bad.nc")
    simulated_frame().to_csv(made / "runs.csv.gz", index=False)
    (made / "text.nc").write_text("not a fit")
    (made / "text.csv").write_text("a,b\n1,2\n")
    (made / "empty.csv").write_text("")
    (made / "results.json").write_text("{}")
    return made


@pytest.fixture
def bayes_sd(folder, monkeypatch, capsys):
    """Return a function that runs a command line in the folder: status, stdout, stderr."""
    monkeypatch.chdir(folder)

    def call(line: str, *more: str) -> tuple[int, str, str]:
        status = cli.run([*line.split(), *more])
        return status, *capsys.readouterr()

    return call


def document_of(out: str) -> dict:
    """Parse stdout, refusing the words for NaN and infinity that JSON does not have."""

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(out, parse_constant=refuse)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "predict good.nc --pair quik --rate 4 -k 3",
            "pair 'quik' is unknown. Did you mean 'big + draft_model (quick)'? It must be one of "
            "the fitted pairs: 'big + draft_model (quick)'; 'big + draft_model (sharp)'; "
            "'small + draft_model'.",
        ),
        (
            "compare good.nc --pair quick@3 --pair shrap@3 --rate 4",
            "pair 'shrap' is unknown. Did you mean 'big + draft_model (sharp)'?",
        ),
        (
            "policy good.nc --pair quick --rate 4 --export vlm",
            "Got 'vlm' instead. Did you mean 'vllm'?",
        ),
        (
            "choose good.nc --pair quick --rate 4 --utility slo --slo ttfd_p95<=2",
            "must name one of ttft, e2e, tpot and",
        ),
        ("predict good.nc --rate 4", "--pair must be given, for the fit has 3"),
        ("predict good.nc --pair quick", "needs a load: --rate 4 or --concurrency 16"),
        ("predict good.nc --pair quick --rate -4", "request_rate_rps must be a finite number"),
        ("predict good.nc --pair quick --rate four", "Invalid value for '--rate'"),
        ("predict good.nc --pair quick --rate 4 --concurrency 4", "exclude each other"),
        ("predict good.nc --pair quick --rate 4 --kind runs", "Did you mean 'run'?"),
        ("predict good.nc --pair quick --rate 4 --level 90", "For 90 % write 0.9"),
        ("predict good.nc --pair quick --rate 4 --arrivals poison", "Did you mean 'poisson'?"),
        ("predict good.nc --pair quick --rate 4 --acceptance 0,7x", "joined by commas"),
        ("predict good.nc --pair small --rate 4 -k 9", "at most 5, the longest draft"),
        ("predict absent.nc --pair quick --rate 4", "absent.nc is not a file"),
        ("check text.nc", "text.nc cannot be read as NetCDF"),
        ("choose good.nc --pair quick", "needs a load (--rate 4 or --concurrency 16)"),
        ("choose good.nc --pair quick --break-even 0", "num_speculative_tokens must be"),
        ("fit", "fit needs runs"),
        ("fit --data scalling", "Did you mean 'scaling'?"),
        ("fit absent.csv", "absent.csv is not a file"),
        ("fit text.csv", "text.csv: the table of runs lacks"),
        ("fit empty.csv", "empty.csv cannot be read as CSV: No columns"),
        ("fit good.nc", "it looks like a fit. Ask it: bayes-sd check good.nc"),
        ("fit results.json", "bayes-sd read results.json -o runs.csv"),
        ("schema chose", "Did you mean 'choose'?"),
        ("fit runs.csv.gz -o nowhere/fit.nc", "folder 'nowhere' does not exist"),
        ("fit runs.csv.gz --draws 0", "draws must be a whole number of at least 2"),
        ("check", "Missing argument 'FIT.nc'"),
        ("check good.nc --jsno", "No such option: --jsno"),
        ("chek good.nc", "No such command 'chek'. Did you mean 'check', 'schema', 'choose'? See"),
    ],
)
def test_a_mistake_is_one_message_and_status_2(bayes_sd, line, words):
    status, out, err = bayes_sd(line)
    assert status == 2
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("bayes-sd: ")
    assert words in last
    assert "Traceback" not in err


def test_a_table_with_mistakes_is_named_with_all_of_them(bayes_sd, folder):
    frame = simulated_frame()
    frame.loc[3, "mean_e2e_s"] = -1.0
    frame.loc[5, "method"] = "draft-model"
    frame.to_csv(folder / "wrong.csv", index=False)
    status, out, err = bayes_sd("fit runs.csv.gz wrong.csv")
    assert (status, out) == (2, "")
    assert "bayes-sd: wrong.csv: the table of runs has 2 problems" in err
    assert "mean_e2e_s" in err
    assert "'draft_model'" in err


def test_check_of_a_good_fit(bayes_sd):
    status, out, err = bayes_sd("check good.nc")
    assert (status, err) == (0, "")
    assert out.startswith("Converged.")
    assert "big + draft_model (sharp)" in out
    status, out, _ = bayes_sd("check good.nc --json")
    document = document_of(out)
    assert (status, document["converged"]) == (0, True)
    assert document["pairs"][0]["pair"] == "big + draft_model (quick)"
    assert document["pairs"][0]["draft_lengths"] == [1, 3, 5]
    assert document["pairs"][0]["num_runs_off"] == 5


def test_check_of_a_bad_fit_is_loud_and_status_1(bayes_sd):
    status, out, _ = bayes_sd("check bad.nc")
    assert status == 1
    assert "DO NOT TRUST THIS FIT" in out.splitlines()[0]
    status, out, _ = bayes_sd("check bad.nc --json")
    assert (status, document_of(out)["converged"]) == (1, False)


@pytest.mark.parametrize(
    "line",
    [
        "predict bad.nc --pair quick --rate 4 -k 3",
        "choose bad.nc --pair quick --rate 4",
        "choose bad.nc --pair quick --rate 4 --rate 8",
        "choose bad.nc --pair quick --break-even 3",
    ],
)
def test_answers_of_a_bad_fit_say_so_first(bayes_sd, line):
    status, out, err = bayes_sd(line)
    assert status == 0
    assert "DO NOT TRUST THIS FIT" in out.splitlines()[0]
    assert out.count("DO NOT TRUST") == 1
    assert err == ""
    document = document_of(bayes_sd(f"{line} --json")[1])
    assert document["converged"] is False
    assert list(document)[:3] == ["command", "converged", "convergence"]
    assert "NOT CONVERGED" in document["convergence"]


def test_predict(bayes_sd):
    line = "predict good.nc --pair quick --rate 4 --rate 500 -k 0 -k 3 --kind run"
    status, out, err = bayes_sd(line)
    assert (status, err) == (0, "")
    assert "kind = run" in out
    assert "past capacity" in out
    document = document_of(bayes_sd(f"{line} --json")[1])
    assert document["pair"] == "big + draft_model (quick)"
    rows = document["predictions"]
    assert [row["num_speculative_tokens"] for row in rows] == [0, 3, 0, 3]
    assert [row["request_rate_rps"] for row in rows] == [4.0, 4.0, 500.0, 500.0]
    assert rows[0]["low_e2e_s"] < rows[0]["median_e2e_s"] < rows[0]["high_e2e_s"]
    assert rows[2]["median_e2e_s"] is None
    assert rows[2]["p_past_capacity"] == 1.0


def test_acceptance_may_be_given_by_position(bayes_sd):
    line = "predict good.nc --pair sharp --rate 4 -k 3 --json --acceptance"
    rates = [
        document_of(bayes_sd(line, given)[1])["predictions"][0]["median_e2e_s"]
        for given in ("0.8", "0.8,0.8,0.8", "0.8,0.8,0.2")
    ]
    assert rates[0] == rates[1] < rates[2]


def test_choose_at_one_load(bayes_sd):
    status, out, _ = bayes_sd("choose good.nc --pair quick --rate 4")
    assert status == 0
    assert "big + draft_model (quick) at 4 requests/s" in out
    document = document_of(bayes_sd("choose good.nc --pair quick --rate 4 --json")[1])
    decision = document["decision"]
    assert [c["num_speculative_tokens"] for c in decision["candidates"]] == [0, 1, 3, 5]
    assert decision["choice"] in (3, 5)
    assert f"k = {decision['choice']}" in out


def test_choose_at_several_loads_and_break_even(bayes_sd):
    line = "choose good.nc --pair sharp --acceptance 0.8 --rate 1 --rate 500 --break-even 5"
    status, out, _ = bayes_sd(line)
    assert status == 0
    assert "stops paying at" in out
    document = document_of(bayes_sd(f"{line} --json")[1])
    assert [row["request_rate_rps"] for row in document["policy"]] == [1.0, 500.0]
    assert document["policy"][1]["num_speculative_tokens"] is None
    (turn,) = document["break_even"]
    assert turn["low"] < turn["median"] < turn["high"]


def test_choose_in_a_closed_loop_among_given_lengths(bayes_sd):
    out = bayes_sd("choose good.nc --pair quick --concurrency 8 -k 1 -k 3 --json")[1]
    decision = document_of(out)["decision"]
    assert decision["concurrency"] == 8.0
    assert [c["num_speculative_tokens"] for c in decision["candidates"]] == [1, 3]


def test_warnings_go_to_stderr_and_into_the_document(bayes_sd):
    line = "choose good.nc --pair quick --rate 4 --input-len 600 --json"
    status, out, err = bayes_sd(line)
    assert status == 0
    (said,) = document_of(out)["warnings"]
    assert "extrapolated in input length" in said
    assert err == f"warning: {said}\n"


@pytest.fixture
def fake_sampler(monkeypatch):
    """Put a fake in place of sampling; return the arguments that it was called with."""
    calls = []

    def fake(frame, *, draws, **given):
        calls.append({"frame": frame, "draws": draws, **given})
        warnings.warn("3 runs are left out", UnusedRunsWarning, stacklevel=2)
        warnings.warn("bad", ConvergenceWarning, stacklevel=2)
        return fake_fit(draws=calls[0].get("stops_at", draws), spread=0.02)

    monkeypatch.setattr(fitting, "fit", fake)
    return calls


def test_fit_writes_a_file_that_check_reads(bayes_sd, fake_sampler, folder):
    line = "fit runs.csv.gz -o new.nc --draws 300 --tune 7 --chains 3 --seed 5 --target-accept 0.99"
    status, out, err = bayes_sd(line)
    assert status == 0
    (call,) = fake_sampler
    expected = {"draws": 300, "tune": 7, "chains": 3, "random_seed": 5, "progressbar": True}
    expected["target_accept"] = 0.99
    assert {name: call[name] for name in expected} == expected
    assert "Wrote new.nc: 3 pairs" in out
    assert "warning: 3 runs are left out" in err
    assert "compiling (up to a minute), then sampling" in err
    assert bayes_sd("check new.nc")[0] == 0


def test_fit_json_is_alone_on_stdout_and_quiet_is_quiet(bayes_sd, fake_sampler):
    status, out, err = bayes_sd("fit runs.csv.gz -o new.nc --draws 300 --quiet --json")
    document = document_of(out)
    assert status == 0
    assert document["converged"] is True
    assert document["file"] == "new.nc"
    assert document["warnings"] == ["3 runs are left out"]
    assert fake_sampler[0]["progressbar"] is False
    assert err == "warning: 3 runs are left out\n"


def test_fit_takes_bundled_runs_after_tables(bayes_sd, fake_sampler):
    status, *_ = bayes_sd("fit runs.csv.gz --data vllm-cpu --draws 300 -o new.nc")
    assert status == 0
    frame = fake_sampler[0]["frame"]
    assert len(frame) == len(simulated_frame()) + 125
    assert frame.index.is_unique


def test_ctrl_c_ends_with_130_and_no_traceback(bayes_sd, monkeypatch, folder):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit", interrupt)
    status, out, err = bayes_sd("fit runs.csv.gz -o never.nc --quiet")
    assert (status, out, err) == (130, "", "")
    assert not (folder / "never.nc").exists()


def test_sampling_cut_short_is_not_saved(bayes_sd, monkeypatch, folder):
    monkeypatch.setattr(fitting, "fit", lambda *_, **__: fake_fit(draws=10, spread=0.02))
    status, out, _ = bayes_sd("fit runs.csv.gz -o never.nc --draws 300 --quiet --json")
    assert (status, out) == (130, "")
    assert not (folder / "never.nc").exists()
