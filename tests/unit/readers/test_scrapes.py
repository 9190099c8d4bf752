"""What a server did between two pages, against sums made by hand."""

import math

import pytest

from bayes_sd.exceptions import FormatError
from bayes_sd.readers.histograms import bounds
from bayes_sd.readers.metrics_page import parse_page
from bayes_sd.readers.scrapes import difference, rate_cells

SPEC = "vllm:spec_decode_num_"


def page(series, place="page"):
    """Write a page from names with labels, and parse it."""
    return parse_page("".join(f"{name} {value}\n" for name, value in series.items()), place)


def gained(before, after, **options):
    return difference(page(before), page(after), **options)


def series(engine, requests, drafts, drafted, positions, model="m"):
    labels = f'engine="{engine}",model_name="{model}"'
    found = {
        f'vllm:request_success_total{{{labels},finished_reason="stop"}}': requests,
        f"{SPEC}drafts_total{{{labels}}}": drafts,
        f"{SPEC}draft_tokens_total{{{labels}}}": drafted,
        f"{SPEC}accepted_tokens_total{{{labels}}}": sum(positions),
    }
    for position, count in enumerate(positions):
        found[f'{SPEC}accepted_tokens_per_pos_total{{{labels},position="{position}"}}'] = count
    return found


def test_engines_are_added_up():
    before = series(0, 5, 100, 300, (60, 30, 10)) | series(1, 7, 50, 150, (40, 20, 10))
    after = series(0, 15, 300, 900, (180, 90, 40)) | series(1, 27, 150, 450, (100, 60, 25))
    cells, notes = gained(before, after)
    assert cells["num_requests"] == 30
    assert cells["num_drafts"] == 300
    assert cells["num_draft_tokens"] == 900
    assert cells["accepted_per_position"] == "180;100;45"
    assert cells["num_accepted_tokens"] == 325
    assert cells["num_speculative_tokens"] == 3
    assert cells["mean_acceptance_length"] == pytest.approx(1 + 325 / 300)
    assert "num_draft_steps" not in cells
    assert notes == []


def test_eleven_positions_stand_in_the_order_of_their_numbers():
    counts = tuple(range(22, 0, -2))
    cells, _ = gained(series(0, 0, 0, 0, (0,) * 11), series(0, 9, 25, 275, counts))
    assert cells["accepted_per_position"] == ";".join(map(str, counts))


def test_shorter_drafts_are_a_mean():
    cells, notes = gained(series(0, 0, 0, 0, (0, 0)), series(0, 9, 100, 150, (60, 20)))
    assert cells["num_speculative_tokens"] == 2
    assert cells["num_draft_steps"] == 1.5
    assert any("1.5 tokens were drafted per draft, of up to 2" in note for note in notes)


def test_a_series_that_is_new_counts_from_zero():
    cells, _ = gained({"vllm:kv_cache_usage_perc": 0}, series(0, 9, 100, 200, (60, 20)))
    assert cells["num_drafts"] == 100


def test_means_are_sums_over_counts():
    names = {
        "vllm:e2e_request_latency_seconds": ("mean_e2e_s", 0.5),
        "vllm:time_to_first_token_seconds": ("mean_ttft_s", 0.02),
        "vllm:request_time_per_output_token_seconds": ("mean_tpot_s", 0.01),
        "vllm:inter_token_latency_seconds": ("mean_itl_s", 0.03),
        "vllm:request_prompt_tokens": ("input_len_tokens", 900.0),
        "vllm:request_generation_tokens": ("output_len_tokens", 120.0),
    }
    before = {f"{n}_{end}": v for n in names for end, v in (("sum", 7.0), ("count", 3))}
    after = {
        f"{n}_{end}": v
        for n, (_, mean) in names.items()
        for end, v in (("sum", 7.0 + 40 * mean), ("count", 43))
    }
    cells, _ = gained(before, after)
    for column, mean in names.values():
        assert cells[column] == pytest.approx(mean)
    assert cells["num_requests"] == 40


def test_histogram_with_a_missing_line_has_no_mean():
    name = "vllm:e2e_request_latency_seconds"
    cells, _ = gained({f"{name}_sum": 30}, {f"{name}_sum": 50, f"{name}_count": 100})
    assert "mean_e2e_s" not in cells


def test_former_name_of_the_gap_between_deliveries():
    name = "vllm:time_per_output_token_seconds"
    before = {f"{name}_sum": 0, f"{name}_count": 0}
    after = {f"{name}_sum": 6, f"{name}_count": 200}
    cells, _ = gained(before, after)
    assert cells["mean_itl_s"] == pytest.approx(0.03)
    assert "mean_tpot_s" not in cells
    both = {
        "vllm:inter_token_latency_seconds_sum": 8,
        "vllm:inter_token_latency_seconds_count": 200,
    }
    cells, _ = gained(before | dict.fromkeys(both, 0), after | both)
    assert cells["mean_itl_s"] == pytest.approx(0.04)


def histogram(counts):
    name = "vllm:e2e_request_latency_seconds"
    ends = ("0.5", "1.0", "1.05", "2.5", "+Inf")
    found = {f'{name}_bucket{{le="{e}"}}': c for e, c in zip(ends, counts, strict=True)}
    return found | {f"{name}_sum": counts[-1] * 0.9, f"{name}_count": counts[-1]}


def test_percentiles_are_bounds_unless_a_bucket_is_narrow():
    cells, notes = gained(histogram((1, 1, 1, 1, 1)), histogram((11, 21, 93, 99, 101)))
    assert cells["p50_e2e_s"] == pytest.approx(1.025)
    assert cells["p90_e2e_s"] == pytest.approx(1.025)
    assert "p95_e2e_s" not in cells
    assert any("e2e at p95 from 1.05 to 2.5, p99 above 2.5 s: bounds, not used" in n for n in notes)
    _, notes = gained(histogram((1,) * 5), histogram((11, 21, 93, 99, 101)), silent_on=("latency",))
    assert notes == []


def test_percentiles_of_counts_that_are_no_histogram_are_not_taken():
    cells, notes = gained(histogram((0,) * 5), histogram((50, 20, 30, 10, 100)))
    assert "p50_e2e_s" not in cells
    assert not any("bounds" in note for note in notes)
    assert bounds({}, 0.5) is None
    assert bounds({1.0: 0.0, math.inf: 0.0}, 0.5) is None


def test_a_histogram_called_total_is_no_counter():
    name = "vllm:iteration_tokens_total"
    steps = {f"{name}_sum": 5, f"{name}_count": 2, f"{name}_created": 1.78e9}
    cells, _ = gained(steps, steps | {f"{name}_sum": 9, f"{name}_count": 3})
    assert "num_requests" not in cells


def test_server_without_counters_of_drafts_does_not_speculate():
    name = 'vllm:request_success_total{finished_reason="length"}'
    cells, notes = gained({name: 1}, {name: 61})
    assert (cells["method"], cells["num_speculative_tokens"]) == ("none", 0)
    assert any("no counters of drafts" in note for note in notes)
    cells, notes = gained({name: 1}, {name: 61}, silent_on=("acceptance",))
    assert (cells["method"], notes) == ("none", [])
    cells, _ = gained({"vllm:kv_cache_usage_perc": 0}, {"vllm:kv_cache_usage_perc": 0})
    assert "method" not in cells


def test_server_that_drafted_nothing_is_not_one_without_speculation():
    same = series(0, 5, 100, 300, (60, 30, 10))
    cells, notes = gained(same, same | {next(iter(same)): 25})
    assert "method" not in cells
    assert "mean_acceptance_length" not in cells
    assert cells["num_drafts"] == 0
    assert any("nothing was drafted" in note for note in notes)


def test_old_engines():
    drafted, accepted = f"{SPEC}draft_tokens_total", f"{SPEC}accepted_tokens_total"
    cells, _ = gained({drafted: 0, accepted: 0}, {drafted: 300, accepted: 120})
    assert cells["draft_acceptance_rate"] == pytest.approx(0.4)
    assert "num_speculative_tokens" not in cells
    v0 = {drafted: 0, accepted: 0, "vllm:spec_decode_draft_acceptance_rate": 0.5}
    cells, notes = gained(v0, v0 | {drafted: 300, accepted: 120})
    assert "num_draft_tokens" not in cells
    assert "method" not in cells
    assert any("engine V0" in note for note in notes)


@pytest.mark.parametrize(
    ("positions", "drafts", "drafted", "reason"),
    [
        ((60, 70), 100, 200, "do not add up to all accepted ones, or rise"),
        ((120, 20), 100, 200, "do not add up"),
        ((60,), 100, 200, "draft length is not taken"),
    ],
)
def test_counts_that_do_not_fit_are_left_out(positions, drafts, drafted, reason):
    zero = dict.fromkeys(series(0, 0, 0, 0, positions), 0)
    cells, notes = gained(zero, series(0, 9, drafts, drafted, positions))
    assert "accepted_per_position" not in cells
    assert cells["num_drafts"] == drafts
    assert any(reason in note for note in notes)


def test_more_accepted_than_drafted_is_not_used():
    cells, notes = gained(series(0, 0, 0, 0, (0, 0)), series(0, 9, 10, 20, (19, 9)))
    assert "num_drafts" not in cells
    assert any("cannot be: acceptance is not used" in note for note in notes)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({"vllm:a_total": 9}, {"vllm:a_total": 3}, ["vllm:a_total is 9", "3 in the page after"]),
        ({"vllm:a_total": 9}, {"vllm:b_total": 3}, ["vllm:a_total is there", "gone"]),
        ({"vllm:a_created": 1.78e9}, {"vllm:a_created": 1.781e9}, ["of one time", "of another"]),
        ({'vllm:a_count{x="1"}': 9}, {'vllm:a_count{x="1"}': 3}, ["vllm:a_count (x=1) is 9"]),
        ({"vllm:a_total": "NaN"}, {"vllm:a_total": 3}, ["must be a number in both pages"]),
    ],
)
def test_counters_of_two_server_starts_are_refused(before, after, words):
    with pytest.raises(FormatError) as caught:
        gained(before, after, place="rate 2")
    assert str(caught.value).startswith("rate 2: ")
    for word in words:
        assert word in str(caught.value)


def test_a_process_that_started_again_is_refused():
    lines = "process_start_time_seconds {}\nvllm:a_total {}\n"
    before, after = (parse_page(lines.format(*x), "") for x in ((1.78e9, 3), (1.7800001e9, 500)))
    with pytest.raises(FormatError, match="starts 100 s apart") as caught:
        difference(before, after)
    assert "Take both pages from one server start" in str(caught.value)


def test_gauges_and_times_may_fall():
    before = {"vllm:num_requests_running": 9, "vllm:a_sum": 5, "vllm:a_total": 1}
    difference(
        page(before), page({"vllm:num_requests_running": 2, "vllm:a_sum": 5, "vllm:a_total": 1})
    )


def test_models_are_not_mixed():
    before = series(0, 5, 10, 20, (6, 3), "a") | series(0, 5, 10, 20, (6, 3), "b")
    idle = before | series(0, 25, 110, 220, (76, 33), "a")
    cells, _ = gained(before, idle)
    assert (cells["verifier"], cells["num_requests"], cells["num_drafts"]) == ("a", 20, 100)
    with pytest.raises(FormatError, match=r"Got 2 that served requests between them \(a, b\)"):
        gained(before, idle | series(0, 6, 11, 22, (7, 3), "b"))


def test_unfinished_requests_are_not_counted_and_told():
    name = 'vllm:request_success_total{{finished_reason="{}"}}'
    names = [name.format(reason) for reason in ("stop", "length", "abort", "error")]
    cells, notes = gained(dict.fromkeys(names, 1), dict(zip(names, (11, 31, 4, 1), strict=True)))
    assert cells["num_requests"] == 40
    assert any("3 requests were aborted or failed" in note for note in notes)


def test_rates_need_a_duration():
    name = 'vllm:request_success_total{finished_reason="stop"}'
    tokens = "vllm:generation_tokens_total"
    before, after = {name: 0, tokens: 0}, {name: 60, tokens: 3840}
    cells, _ = gained(before, after)
    assert "request_rate_rps" not in cells
    assert rate_cells(cells) == {}
    told, _ = gained(before, after, duration_s=30.0)
    assert told["request_rate_rps"] == 2
    assert told["output_tokens_per_s"] == 128
    assert rate_cells({**cells, "_duration_s": 30.0}).items() <= told.items()
    early = parse_page("vllm:a_total 1 1780061460000", "")
    late = parse_page("vllm:a_total 1 1780061430000", "")
    with pytest.raises(FormatError, match="Swap them"):
        difference(early, late)


@pytest.mark.parametrize("value", ["0.5", "1e308", "-3"])
def test_odd_counts_end_in_a_typed_error_or_nothing(value):
    after = series(0, 9, 100, 200, (60, 20))
    for name in after:
        try:
            cells, _ = gained(dict.fromkeys(after, 0), after | {name: value})
        except FormatError:
            continue
        assert all(math.isfinite(v) for v in cells.values() if isinstance(v, float))
