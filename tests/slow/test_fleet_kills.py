"""Worker processes that are killed: their groups are fitted by others, each once."""

import pytest

from bayes_sd import fleet_cluster
from bayes_sd.fleet_groups import FitSettings, split_runs
from tests.fake_fit import simulated_frame
from tests.killed_workers import kill_own_process_first

pytestmark = pytest.mark.slow
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def frame():
    return simulated_frame()


def test_killed_workers_are_replaced_and_their_groups_fitted(frame, tmp_path):
    """Two processes, each killed in the middle of every group's first turn."""
    groups = split_runs(frame, ["verifier", "drafter"], FitSettings())
    with fleet_cluster.client_of(None, 2) as own:
        work = kill_own_process_first(str(tmp_path))
        done = dict(
            (group.name, outcome) for group, outcome in fleet_cluster.run_groups(own, groups, work)
        )
    assert done == {group.name: group.seed for group in groups}
    assert len(list(tmp_path.iterdir())) == len(groups)
