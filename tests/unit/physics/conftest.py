"""Cost coefficients and formulas that the physics tests share; NumPy only."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bayes_sd import physics

COSTS = {
    "prefill_fixed_s": 0.02,
    "prefill_per_token_s": 2e-5,
    "prefill_stall_per_token_s": 1.5e-5,
    "verify_fixed_s": 0.015,
    "verify_per_request_s": 1e-4,
    "verify_growth_per_draft": 0.2,
    "context_per_token_s": 1e-7,
    "draft_fixed_s": 1e-3,
    "draft_per_request_s": 2e-5,
    "knee_s_per_token": 4e-5,
    "knee_tokens": 80.0,
    "knee_width_tokens": 20.0,
    "mixed_step_s": 2e-3,
    "expert_share": 0.8,
    "expert_load_cv": 0.6,
    "experts_fraction": 4 / 32,
}
LINEAR = {"knee_s_per_token": 0.0, "expert_share": 0.0, "mixed_step_s": 0.0}


@pytest.fixture(scope="session")
def make_costs() -> Callable[..., physics.CostCoefficients]:
    """Return a maker of coefficients: the set above, with what a test changes."""
    return lambda **changes: physics.CostCoefficients(**(COSTS | changes))


@pytest.fixture(scope="session")
def linear_costs(make_costs) -> physics.CostCoefficients:
    """Return coefficients with no bend, no experts and no cost of mixed steps."""
    return make_costs(**LINEAR)


@pytest.fixture(scope="session")
def inputs() -> dict[str, np.ndarray]:
    """Return six runs, edges first: acceptance 1, k = 0, perfect balance, an empty system."""
    return {
        "logit": np.array([0.0, 1.0, -1.0, 0.5, 2.0, 0.3]),
        "rate": np.array([1.0, 1.0, 0.0, 0.8, 0.5, 0.9]),
        "k": np.array([0, 3, 2, 0, 4, 1]),
        "batch": np.array([1e-9, 0.5, 1.0, 8.0, 40.0, 200.0]),
        "cv": np.array([0.0, 0.0, 1e-4, 0.3, 2.0, 0.0]),
        "width": np.array([20.0, 5.0, 20.0, 1.0, 30.0, 20.0]),
        "arrival_rate": np.array([1e-6, 0.5, 1.0, 3.0, 5.0, 9.0]),
    }


@pytest.fixture(scope="session")
def formulas(make_costs) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Return every formula that must run on each kind of number, as a function of the inputs."""

    def lengths(x: dict[str, Any]) -> dict[str, Any]:
        steps = physics.expected_steps_renewal(255, [x["rate"]] * 4, x["k"])
        return {
            "num_speculative_tokens": x["k"],
            "input_len_tokens": 512,
            "output_len_tokens": 256,
            "num_steps": steps,
        }

    def costs(x: dict[str, Any]) -> physics.CostCoefficients:
        return make_costs(expert_load_cv=x["cv"], knee_width_tokens=x["width"])

    def latency(arrivals: str) -> Callable[[dict[str, Any]], Any]:
        def of(x: dict[str, Any]) -> Any:
            requests, others = physics.met_by_arrivals(x["batch"], arrivals)
            return physics.request_latency(
                costs(x), requests_per_step=requests, others=others, **lengths(x)
            )

        return of

    def elasticity(arrivals: str) -> Callable[[dict[str, Any]], Any]:
        return lambda x: physics.latency_elasticity(
            costs(x), effective_batch=x["batch"], arrivals=arrivals, **lengths(x)
        )

    dense = make_costs(experts_fraction=1.0)
    table: dict[str, Callable[[dict[str, Any]], Any]] = {
        "positional": lambda x: sum(physics.positional_acceptance(x["logit"], 0.2, 3)),
        "unconditional": lambda x: sum(physics.unconditional_acceptance([x["rate"]] * 4)),
        "acceptance_length": lambda x: physics.mean_acceptance_length([x["rate"]] * 4, x["k"]),
        "draft_rate": lambda x: physics.draft_acceptance_rate([x["rate"]] * 4, x["k"]),
        "two_tokens": lambda x: physics.tokens_per_step_distribution([x["rate"]] * 4, x["k"])[1],
        "renewal": lambda x: physics.expected_steps_renewal(255, [x["rate"]] * 4, x["k"]),
        "coverage": lambda x: physics.expert_coverage(x["batch"], 0.125, x["cv"]),
        "coverage_dense": lambda x: physics.expert_coverage(x["batch"], 1.0, x["cv"]),
        "coverage_slope": lambda x: physics.expert_coverage_slope(x["batch"], 0.125, x["cv"]),
        "knee": lambda x: physics.knee_time(x["batch"], 1e-5, 40.0, x["width"]),
        "knee_slope": lambda x: physics.knee_slope(x["batch"], 1e-5, 40.0, x["width"]),
        "step": lambda x: physics.step_time(costs(x), x["batch"], x["k"], 640.0),
        "step_dense": lambda x: physics.step_time(dense, x["batch"], x["k"], 640.0),
        "step_slope": lambda x: physics.step_time_slope(costs(x), x["batch"], x["k"], 640.0),
        "ridge": lambda x: physics.ridge_tokens(1e14 * x["width"], 2e12, 2, 0.125),
        "demand_1": lambda x: physics.load_independent_demand_s(costs(x), **lengths(x)),
        "demand_2": lambda x: physics.load_dependent_demand_s(costs(x), **lengths(x)),
        "closed_form": lambda x: physics.closed_form_latency(2.0, 0.1, x["arrival_rate"]),
        "speedup": lambda x: physics.speedup(10.0, 0.1, 4.5, 0.11, x["arrival_rate"]),
        "break_even": lambda x: physics.linear_break_even_rate(10.0, 0.1, x["width"], 0.35),
    }
    for arrivals in ("poisson", "constant", "closed", "bursty"):
        table[f"latency_{arrivals}"] = latency(arrivals)
        table[f"elasticity_{arrivals}"] = elasticity(arrivals)
    return table
