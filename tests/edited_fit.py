"""A made-up fit with other draws than `tests.fake_fit` gives, for tests; no tests."""

import xarray as xr

FIRST_TOKEN = {
    "first_wait_steps": 1.0,
    "ttft_fixed_s": 0.03,
    "ttft_per_token_s": 5e-5,
    "ttft_discrepancy_sd": 0.05,
}


def edited_fit(tree: xr.DataTree, **of_base: float) -> xr.DataTree:
    """Return a fit in which variables of the bases are other numbers, the same in every draw.

    ``edited_fit(tree, **FIRST_TOKEN)`` gives one whose runs had a time to first token.
    """
    posterior = tree["posterior"].to_dataset()
    like = posterior["discrepancy_sd"]
    changed = {name: xr.full_like(like, value) for name, value in of_base.items()}
    groups = {name: group.to_dataset() for name, group in tree.children.items()}
    groups["posterior"] = posterior.assign(changed)
    return xr.DataTree.from_dict({**groups, "/": xr.Dataset(attrs=dict(tree.attrs))})
