"""The fit that all figures of the gallery share: made once, kept in a file beside this one."""

from pathlib import Path

import xarray as xr

import bayes_sd as bs

HERE = Path(__file__).parent
FILE = HERE / "fit.nc"
PAIR = "verifier-dense + draft_model (drafter-a85)"
MIXTURE = "verifier-moe + draft_model"


def shared_fit() -> xr.DataTree:
    """Return the fit of the bundled measurements of vLLM on a CPU; a few minutes the first time."""
    if not FILE.exists():
        frame = bs.load_vllm_cpu("all", quiet_only=True)
        frame = frame[~frame["is_throughput_test"]]
        frame = frame[frame["num_speculative_tokens_schedule"].isna()].reset_index(drop=True)
        tree = bs.fit(frame, random_seed=1, draws=1500, tune=1000, chains=4, progressbar=False)
        bs.save(tree, FILE)
    return bs.load(FILE)


def save_figure(ax, name: str) -> None:
    """Write a figure as PNG beside the scripts."""
    ax.figure.savefig(HERE / f"{name}.png", dpi=130, bbox_inches="tight")
