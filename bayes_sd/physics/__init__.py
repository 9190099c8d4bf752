"""Formulas of speculative decoding under load: NumPy at most, no model, no tables.

Each formula is written once, in arithmetic and comparisons, and runs on floats, NumPy arrays,
xarray objects and PyTensor graph variables, with or without named dims.
"""

from bayes_sd.physics.acceptance import (
    draft_acceptance_rate,
    expected_steps,
    expected_steps_renewal,
    mean_acceptance_length,
    positional_acceptance,
    tokens_per_step_distribution,
    unconditional_acceptance,
)
from bayes_sd.physics.arrivals import met_by_arrivals, met_slopes, met_variance
from bayes_sd.physics.coefficients import CostCoefficients
from bayes_sd.physics.effective_batch import capacity_rps, solve_effective_batch
from bayes_sd.physics.experts import expert_coverage, expert_coverage_slope
from bayes_sd.physics.jumps import jump_slope, jump_time
from bayes_sd.physics.latency import (
    latency_elasticity,
    latency_slope,
    request_latency,
)
from bayes_sd.physics.linear_law import (
    closed_form_latency,
    linear_break_even_rate,
    load_dependent_demand_s,
    load_independent_demand_s,
    speedup,
)
from bayes_sd.physics.mixed_step import mixed_step_slope, mixed_step_time
from bayes_sd.physics.step_time import (
    draft_shape,
    knee_slope,
    knee_time,
    per_request_time,
    ridge_tokens,
    step_time,
    step_time_slope,
)

__all__ = [
    "CostCoefficients",
    "capacity_rps",
    "closed_form_latency",
    "draft_acceptance_rate",
    "draft_shape",
    "expected_steps",
    "expected_steps_renewal",
    "expert_coverage",
    "expert_coverage_slope",
    "jump_slope",
    "jump_time",
    "knee_slope",
    "knee_time",
    "latency_elasticity",
    "latency_slope",
    "linear_break_even_rate",
    "load_dependent_demand_s",
    "load_independent_demand_s",
    "mean_acceptance_length",
    "met_by_arrivals",
    "met_slopes",
    "met_variance",
    "mixed_step_slope",
    "mixed_step_time",
    "per_request_time",
    "positional_acceptance",
    "request_latency",
    "ridge_tokens",
    "solve_effective_batch",
    "speedup",
    "step_time",
    "step_time_slope",
    "tokens_per_step_distribution",
    "unconditional_acceptance",
]
