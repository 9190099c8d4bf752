"""New accept counts in a fit: the model's own likelihood, honest sizes, and refusals."""

import time

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bayes_sd.acceptance_levels import rates_of_steps
from bayes_sd.acceptance_predict import predict_acceptance_length
from bayes_sd.acceptance_update import _log_counts, update_acceptance
from bayes_sd.exceptions import ArgumentError, DataError, UnknownPairError
from bayes_sd.generate_counts import counts_log_density
from bayes_sd.live_counts import AcceptCounts, conjugate_acceptance
from tests.fake_fit import fake_fit

COUNTS = AcceptCounts((1400, 960, 630), num_drafts=2000, num_requests=80)


def with_scales(tree, request_sd=0.3, run_sd=0.02):
    shape = tree["posterior"]["acceptance_request_sd"].shape
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(
        posterior.assign(
            acceptance_request_sd=(("chain", "draw"), np.full(shape, request_sd)),
            acceptance_run_sd=(("chain", "draw"), np.full(shape, run_sd)),
        )
    )
    return tree


@pytest.fixture(scope="module")
def tree():
    return with_scales(fake_fit(draws=1000, chains=4, spread=0.05))


def test_counts_are_scored_as_the_model_scores_a_run(tree):
    table = tree["posterior"]["conditional_acceptance_rate"].values.reshape(4000, -1, 5)[:50]
    data = xr.Dataset(
        {
            "trials_at_position": (("run", "position"), [[2000, 1400, 960, 0, 0]]),
            "accepted_at_position": (("run", "position"), [[1400, 960, 630, 0, 0]]),
            "num_requests": ("run", [80]),
            "num_speculative_tokens": ("run", [3]),
            "group_of_run": ("run", [0]),
        }
    )
    draws = xr.Dataset(
        {
            "conditional_acceptance_rate": (("sample", "acceptance_group", "position"), table),
            "acceptance_request_sd": ("sample", np.full(50, 0.3)),
            "acceptance_run_sd": ("sample", np.full(50, 0.02)),
        }
    )
    model = counts_log_density(data, draws)[:, 0]
    rates = rates_of_steps(list(table[:, 0, :3].T), np.full(50, 0.3), 3)
    here = _log_counts(COUNTS, rates, np.full(50, 0.02**2 + 0.3**2 / 80))
    np.testing.assert_allclose(here - here[0], model - model[0], atol=1e-8)
    no_overdispersion = _log_counts(COUNTS, rates, np.full(50, 1e-8))
    assert np.abs(no_overdispersion - no_overdispersion[0] - model + model[0]).max() > 0.5


def test_without_overdispersion_the_update_is_that_of_beta_and_binomial():
    rng = np.random.default_rng(0)
    tree = with_scales(fake_fit(draws=5000, chains=4, spread=0.05), 1e-6, 1e-5)
    prior = stats.beta(60, 40)
    rates = tree["posterior"]["conditional_acceptance_rate"].values.copy()
    rates[..., 0, 0] = prior.rvs(rates.shape[:2], random_state=rng)
    posterior = tree["posterior"].to_dataset()
    dims = posterior["conditional_acceptance_rate"].dims
    tree["posterior"] = xr.DataTree(posterior.assign(conditional_acceptance_rate=(dims, rates)))
    counts = AcceptCounts((130,), num_drafts=200, num_requests=10)
    updated = update_acceptance(tree, counts, "quick")
    found = updated["posterior"]["conditional_acceptance_rate"].values[..., 0, 0].ravel()
    exact = stats.beta(60 + 130, 40 + 70)
    assert found.mean() == pytest.approx(exact.mean(), abs=0.002)
    assert found.std() == pytest.approx(exact.std(), rel=0.05)
    np.testing.assert_allclose(
        np.quantile(found, [0.05, 0.95]), exact.ppf([0.05, 0.95]), atol=0.004
    )


def test_an_updated_fit_has_all_that_a_fit_has_and_the_fit_is_as_it_was(tree):
    before = tree.copy(deep=True)
    updated = update_acceptance(tree, COUNTS, "quick")
    xr.testing.assert_identical(tree, before)
    assert set(updated.children) == set(tree.children)
    assert updated["posterior"].sizes == tree["posterior"].sizes
    one, other = (predict_acceptance_length(t, "quick", 3) for t in (tree, updated))
    assert float(other.std()) < float(one.std())
    assert 200 < updated.attrs["update_ess"] < 4000


def test_draws_stay_whole(tree):
    updated = update_acceptance(tree, COUNTS, "quick")["posterior"]
    cost = tree["posterior"]["verify_fixed_s"].values.reshape(4000, -1)[:, 0]
    rate = tree["posterior"]["conditional_acceptance_rate"].values.reshape(4000, -1)[:, 0]
    known = dict(zip(cost.tolist(), rate.tolist(), strict=True))
    taken = updated["verify_fixed_s"].values.reshape(4000, -1)[:, 0]
    for c, r in zip(
        taken, updated["conditional_acceptance_rate"].values.reshape(4000, -1)[:, 0], strict=True
    ):
        assert known[c] == r


def test_a_total_tells_less_than_counts_by_position_of_the_same_steps(tree):
    total = AcceptCounts(
        (sum(COUNTS.accepted),), num_drafts=2000, num_requests=80, num_speculative_tokens=3
    )
    spread = [
        float(
            update_acceptance(tree, c, "quick")["posterior"]["conditional_acceptance_rate"][
                :, :, 0, 0
            ].std()
        )
        for c in (total, COUNTS)
    ]
    assert spread[1] < 1.1 * spread[0] < 1.1 * 0.05


def test_it_takes_milliseconds(tree):
    update_acceptance(tree, COUNTS, "quick")
    taken = []
    for _ in range(20):
        start = time.perf_counter()
        update_acceptance(tree, COUNTS, "quick")
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.02  # 10 ms on an idle machine


def test_counts_far_from_the_fit_ask_for_a_refit(tree):
    moved = AcceptCounts((900, 300, 90), num_drafts=2000, num_requests=80)
    with pytest.raises(DataError, match="Refit"):
        update_acceptance(tree, moved, "quick")


def test_a_fit_without_counted_groups_says_what_is_possible(tree):
    bare = tree.copy()
    bare["posterior"] = xr.DataTree(tree["posterior"].to_dataset().drop_vars("acceptance_run_sd"))
    with pytest.raises(DataError, match="conjugate_acceptance"):
        update_acceptance(bare, COUNTS)
    with pytest.raises(DataError, match="conjugate_acceptance"):
        update_acceptance(tree, COUNTS, "big + draft_model (sharp)")


def test_wrong_arguments(tree):
    with pytest.raises(UnknownPairError, match="must name one"):
        update_acceptance(tree, COUNTS)
    with pytest.raises(ArgumentError):
        update_acceptance(tree, (1, 2, 3), "quick")
    with pytest.raises(DataError, match="longest"):
        update_acceptance(tree, AcceptCounts((1,) * 9, num_drafts=9, num_requests=1), "quick")


@pytest.mark.parametrize(
    "wrong",
    [
        {"accepted": (5, 6)},
        {"accepted": (11,)},
        {"accepted": ()},
        {"accepted": (-1,)},
        {"accepted": (31,), "num_speculative_tokens": 3},
        {"accepted": (3, 2), "num_speculative_tokens": 3},
    ],
)
def test_impossible_counts_are_refused(wrong):
    with pytest.raises(ArgumentError):
        AcceptCounts(**({"num_drafts": 10, "num_requests": 2} | wrong))


def test_the_conjugate_update_refuses_what_it_cannot_use():
    with pytest.raises(ArgumentError, match="prior"):
        conjugate_acceptance(COUNTS, (0.0, 1.0))
    total = AcceptCounts((31,), num_drafts=20, num_requests=2, num_speculative_tokens=3)
    with pytest.raises(ArgumentError, match="total"):
        conjugate_acceptance(total)
