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
    from bayes_sd.datasets import load_atom_moe, load_h200_70b, load_scaling_study, load_vllm_cpu
    from bayes_sd.decide import choose_draft_length
    from bayes_sd.decision import Decision
    from bayes_sd.drafter_size import compare_drafter_sizes
    from bayes_sd.drift import DriftMonitor, check_drift
    from bayes_sd.drift_report import DriftReport
    from bayes_sd.engine_files import check_engine_file, export_policy, import_policy, turns_of
    from bayes_sd.fitting import fit
    from bayes_sd.fixed_draft_length import FixedDraftLength, best_fixed_draft_length
    from bayes_sd.frames import check_runs
    from bayes_sd.goodput_rate import Goodput, goodput
    from bayes_sd.length_needed import BreakEvenLength, break_even_length
    from bayes_sd.live_counts import AcceptCounts, conjugate_acceptance
    from bayes_sd.live_recommend import LiveRecommendation, recommend_live
    from bayes_sd.live_window import LiveWindow
    from bayes_sd.model import build_model
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
_MODULE_OF = {
    "load_scaling_study": "datasets",
    "load_vllm_cpu": "datasets",
    "load_atom_moe": "datasets",
    "load_h200_70b": "datasets",
    "check_runs": "frames",
    "to_dataset": "data",
    "Prior": "prior",
    "default_priors": "priors",
    "build_model": "model",
    "fit": "fitting",
    "save": "storage",
    "load": "storage",
    "diagnose": "convergence",
    "Verdict": "convergence",
    "prior_predictive_latency": "check",
    "fitted_pairs": "posterior",
    "Scenario": "scenario",
    "predict_latency": "predict",
    "effective_batch": "predict",
    "summarise": "summary",
    "latency_shares": "shares",
    "choose_draft_length": "decide",
    "Decision": "decision",
    "draft_length_policy": "policy",
    "break_even_rate": "break_even",
    "BreakEven": "break_even",
    "predict_quantiles": "predict",
    "compare_pairs": "pair_comparison",
    "PairComparison": "pair_comparison",
    "compare_drafter_sizes": "drafter_size",
    "Slo": "slo",
    "SloTerm": "slo",
    "slo_attainment": "attainment",
    "SloAttainment": "attainment",
    "goodput": "goodput_rate",
    "Goodput": "goodput_rate",
    "max_rate": "capacity",
    "MaxRate": "capacity",
    "replicas_needed": "replicas",
    "Replicas": "replicas",
    "export_policy": "engine_files",
    "import_policy": "engine_files",
    "check_engine_file": "engine_files",
    "best_fixed_draft_length": "fixed_draft_length",
    "FixedDraftLength": "fixed_draft_length",
    "next_run": "run_value",
    "NextRun": "run_value",
    "runs_until_sure": "runs_needed",
    "read_runs": "readers.collect",
    "read_report": "readers.collect",
    "ReadReport": "readers.report",
    "predict_acceptance_length": "acceptance_predict",
    "simulate_runs": "simulate",
    "simulated_capacity_rps": "simulate",
    "simulate_run": "simulate_serving",
    "SimulatedRun": "simulate_table",
    "SimulatedServer": "simulate_settings",
    "SimulatedDrafter": "simulate_settings",
    "SimulatedExperts": "simulate_settings",
    "SimulatedLoad": "simulate_load",
    "SimulatedArm": "simulate_arm",
    "summarise_requests": "request_statistics",
    "run_sbc": "sbc",
    "calibration_verdict": "uniformity",
    "plot_calibration": "plots.calibration",
    "prior_sensitivity": "sensitivity",
    "latency_curves": "curves",
    "plot_latency": "plots.latency",
    "plot_draft_length": "plots.draft_length",
    "read_scenarios": "scenario_files",
    "break_even_length": "length_needed",
    "BreakEvenLength": "length_needed",
    "plot_speedup": "plots.speedup",
    "plot_comparison": "plots.comparison",
    "plot_slo_attainment": "plots.objective",
    "plot_latency_shares": "plots.shares",
    "plot_effective_batch": "plots.effective_batch",
    "plot_policy": "plots.policy_steps",
    "plot_next_run": "plots.next_run",
    "plot_acceptance": "plots.acceptance",
    "plot_expert_coverage": "plots.experts",
    "plot_residuals": "plots.residuals",
    "turns_of": "engine_files",
    "AcceptCounts": "live_counts",
    "conjugate_acceptance": "live_counts",
    "update_acceptance": "acceptance_update",
    "LiveWindow": "live_window",
    "check_drift": "drift",
    "DriftMonitor": "drift",
    "DriftReport": "drift_report",
    "recommend_live": "live_recommend",
    "LiveRecommendation": "live_recommend",
    "write_report": "report",
    "thin_for_queries": "packing",
}

__all__ = [
    "AcceptCounts",
    "BreakEven",
    "BreakEvenLength",
    "Decision",
    "DriftMonitor",
    "DriftReport",
    "FixedDraftLength",
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
    "compare_pairs",
    "conjugate_acceptance",
    "default_priors",
    "diagnose",
    "draft_length_policy",
    "effective_batch",
    "export_policy",
    "fit",
    "fitted_pairs",
    "goodput",
    "import_policy",
    "latency_curves",
    "latency_shares",
    "load",
    "load_atom_moe",
    "load_h200_70b",
    "load_scaling_study",
    "load_vllm_cpu",
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
