"""Bayesian latency model of speculative decoding in LLM serving.

Public names are loaded on first use, so that ``import bayes_sd`` is quick and the formulas of
``bayes_sd.physics`` run with NumPy alone.

Examples
--------
>>> import bayes_sd
>>> "choose_draft_length" in dir(bayes_sd)
True
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayes_sd.acceptance_predict import predict_acceptance_length
    from bayes_sd.acceptance_update import update_acceptance
    from bayes_sd.attainment import SloAttainment, slo_attainment
    from bayes_sd.break_even import BreakEven, break_even_rate
    from bayes_sd.capacity import MaxRate, max_rate
    from bayes_sd.check import prior_predictive_latency
    from bayes_sd.convergence import Verdict, diagnose
    from bayes_sd.curves import latency_curves
    from bayes_sd.data import to_dataset
    from bayes_sd.datasets import (
        load_atom_moe,
        load_h200_70b,
        load_scaling_study,
        load_vllm_cpu,
        load_vllm_cpu_windows,
    )
    from bayes_sd.decide import choose_draft_length
    from bayes_sd.decision import Decision
    from bayes_sd.drafter_size import compare_drafter_sizes
    from bayes_sd.drift import DriftMonitor, check_drift
    from bayes_sd.drift_report import DriftReport
    from bayes_sd.engine_files import check_engine_file, export_policy, import_policy, turns_of
    from bayes_sd.fitting import fit
    from bayes_sd.fixed_draft_length import FixedDraftLength, best_fixed_draft_length
    from bayes_sd.fleet import fit_many
    from bayes_sd.fleet_fits import FleetFits, load_fleet
    from bayes_sd.frames import check_runs
    from bayes_sd.goodput_rate import Goodput, goodput
    from bayes_sd.length_needed import BreakEvenLength, break_even_length
    from bayes_sd.live_counts import AcceptCounts, conjugate_acceptance
    from bayes_sd.live_recommend import LiveRecommendation, recommend_live
    from bayes_sd.live_window import LiveWindow
    from bayes_sd.model import build_model
    from bayes_sd.model_comparison import compare_models
    from bayes_sd.packing import thin_for_queries
    from bayes_sd.pair_comparison import PairComparison, compare_pairs
    from bayes_sd.plots.acceptance import plot_acceptance
    from bayes_sd.plots.calibration import plot_calibration
    from bayes_sd.plots.comparison import plot_comparison
    from bayes_sd.plots.draft_length import plot_draft_length
    from bayes_sd.plots.effective_batch import plot_effective_batch
    from bayes_sd.plots.experts import plot_expert_coverage
    from bayes_sd.plots.latency import plot_latency
    from bayes_sd.plots.next_run import plot_next_run
    from bayes_sd.plots.objective import plot_slo_attainment
    from bayes_sd.plots.policy_steps import plot_policy
    from bayes_sd.plots.residuals import plot_residuals
    from bayes_sd.plots.shares import plot_latency_shares
    from bayes_sd.plots.speedup import plot_speedup
    from bayes_sd.policy import draft_length_policy
    from bayes_sd.posterior import fitted_pairs
    from bayes_sd.predict import effective_batch, predict_latency, predict_quantiles
    from bayes_sd.prior import Prior
    from bayes_sd.priors import default_priors
    from bayes_sd.readers.collect import read_report, read_runs
    from bayes_sd.readers.report import ReadReport
    from bayes_sd.replicas import Replicas, replicas_needed
    from bayes_sd.report import write_report
    from bayes_sd.request_statistics import summarise_requests
    from bayes_sd.run_value import NextRun, next_run
    from bayes_sd.runs_needed import runs_until_sure
    from bayes_sd.sbc import run_sbc
    from bayes_sd.scenario import Scenario
    from bayes_sd.scenario_files import read_scenarios
    from bayes_sd.sensitivity import prior_sensitivity
    from bayes_sd.shares import latency_shares
    from bayes_sd.simulate import simulate_runs, simulated_capacity_rps
    from bayes_sd.simulate_arm import SimulatedArm
    from bayes_sd.simulate_load import SimulatedLoad
    from bayes_sd.simulate_serving import simulate_run
    from bayes_sd.simulate_settings import SimulatedDrafter, SimulatedExperts, SimulatedServer
    from bayes_sd.simulate_table import SimulatedRun
    from bayes_sd.slo import Slo, SloTerm
    from bayes_sd.storage import load, save
    from bayes_sd.summary import summarise
    from bayes_sd.uniformity import calibration_verdict

    __version__: str

# No public name may equal a submodule's: importing the submodule would replace the name.
_NAMES_OF = {
    "datasets": "load_scaling_study load_vllm_cpu load_vllm_cpu_windows "
    "load_atom_moe load_h200_70b",
    "frames": "check_runs",
    "data": "to_dataset",
    "prior": "Prior",
    "priors": "default_priors",
    "model": "build_model",
    "fitting": "fit",
    "storage": "save load",
    "convergence": "diagnose Verdict",
    "check": "prior_predictive_latency",
    "posterior": "fitted_pairs",
    "scenario": "Scenario",
    "predict": "predict_latency effective_batch predict_quantiles",
    "summary": "summarise",
    "shares": "latency_shares",
    "decide": "choose_draft_length",
    "decision": "Decision",
    "policy": "draft_length_policy",
    "break_even": "break_even_rate BreakEven",
    "pair_comparison": "compare_pairs PairComparison",
    "drafter_size": "compare_drafter_sizes",
    "slo": "Slo SloTerm",
    "attainment": "slo_attainment SloAttainment",
    "goodput_rate": "goodput Goodput",
    "capacity": "max_rate MaxRate",
    "replicas": "replicas_needed Replicas",
    "engine_files": "export_policy import_policy check_engine_file turns_of",
    "fixed_draft_length": "best_fixed_draft_length FixedDraftLength",
    "run_value": "next_run NextRun",
    "runs_needed": "runs_until_sure",
    "readers.collect": "read_runs read_report",
    "readers.report": "ReadReport",
    "acceptance_predict": "predict_acceptance_length",
    "simulate": "simulate_runs simulated_capacity_rps",
    "simulate_serving": "simulate_run",
    "simulate_table": "SimulatedRun",
    "simulate_settings": "SimulatedServer SimulatedDrafter SimulatedExperts",
    "simulate_load": "SimulatedLoad",
    "simulate_arm": "SimulatedArm",
    "request_statistics": "summarise_requests",
    "sbc": "run_sbc",
    "uniformity": "calibration_verdict",
    "plots.calibration": "plot_calibration",
    "model_comparison": "compare_models",
    "sensitivity": "prior_sensitivity",
    "curves": "latency_curves",
    "plots.latency": "plot_latency",
    "plots.draft_length": "plot_draft_length",
    "scenario_files": "read_scenarios",
    "length_needed": "break_even_length BreakEvenLength",
    "plots.speedup": "plot_speedup",
    "plots.comparison": "plot_comparison",
    "plots.objective": "plot_slo_attainment",
    "plots.shares": "plot_latency_shares",
    "plots.effective_batch": "plot_effective_batch",
    "plots.policy_steps": "plot_policy",
    "plots.next_run": "plot_next_run",
    "plots.acceptance": "plot_acceptance",
    "plots.experts": "plot_expert_coverage",
    "plots.residuals": "plot_residuals",
    "live_counts": "AcceptCounts conjugate_acceptance",
    "acceptance_update": "update_acceptance",
    "live_window": "LiveWindow",
    "drift": "check_drift DriftMonitor",
    "drift_report": "DriftReport",
    "live_recommend": "recommend_live LiveRecommendation",
    "report": "write_report",
    "packing": "thin_for_queries",
    "fleet": "fit_many",
    "fleet_fits": "FleetFits load_fleet",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}

__all__ = [
    "AcceptCounts",
    "BreakEven",
    "BreakEvenLength",
    "Decision",
    "DriftMonitor",
    "DriftReport",
    "FixedDraftLength",
    "FleetFits",
    "Goodput",
    "LiveRecommendation",
    "LiveWindow",
    "MaxRate",
    "NextRun",
    "PairComparison",
    "Prior",
    "ReadReport",
    "Replicas",
    "Scenario",
    "SimulatedArm",
    "SimulatedDrafter",
    "SimulatedExperts",
    "SimulatedLoad",
    "SimulatedRun",
    "SimulatedServer",
    "Slo",
    "SloAttainment",
    "SloTerm",
    "Verdict",
    "__version__",
    "best_fixed_draft_length",
    "break_even_length",
    "break_even_rate",
    "build_model",
    "calibration_verdict",
    "check_drift",
    "check_engine_file",
    "check_runs",
    "choose_draft_length",
    "compare_drafter_sizes",
    "compare_models",
    "compare_pairs",
    "conjugate_acceptance",
    "default_priors",
    "diagnose",
    "draft_length_policy",
    "effective_batch",
    "export_policy",
    "fit",
    "fit_many",
    "fitted_pairs",
    "goodput",
    "import_policy",
    "latency_curves",
    "latency_shares",
    "load",
    "load_atom_moe",
    "load_fleet",
    "load_h200_70b",
    "load_scaling_study",
    "load_vllm_cpu",
    "load_vllm_cpu_windows",
    "max_rate",
    "next_run",
    "plot_acceptance",
    "plot_calibration",
    "plot_comparison",
    "plot_draft_length",
    "plot_effective_batch",
    "plot_expert_coverage",
    "plot_latency",
    "plot_latency_shares",
    "plot_next_run",
    "plot_policy",
    "plot_residuals",
    "plot_slo_attainment",
    "plot_speedup",
    "predict_acceptance_length",
    "predict_latency",
    "predict_quantiles",
    "prior_predictive_latency",
    "prior_sensitivity",
    "read_report",
    "read_runs",
    "read_scenarios",
    "recommend_live",
    "replicas_needed",
    "run_sbc",
    "runs_until_sure",
    "save",
    "simulate_run",
    "simulate_runs",
    "simulated_capacity_rps",
    "slo_attainment",
    "summarise",
    "summarise_requests",
    "thin_for_queries",
    "to_dataset",
    "turns_of",
    "update_acceptance",
    "write_report",
]


if not TYPE_CHECKING:  # a type checker that saw __getattr__ would accept any misspelled name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value = version("bayes_sd")
        elif name in _MODULE_OF:
            value = getattr(import_module(f"bayes_sd.{_MODULE_OF[name]}"), name)
        else:
            raise AttributeError(f"module 'bayes_sd' has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
