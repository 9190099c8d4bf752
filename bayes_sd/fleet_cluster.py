"""Groups sent to the workers of a Dask cluster, and what comes back, as it comes.

Dask does the work: it hands a group to the next free worker, starts a killed worker anew, and gives
its groups to another. A group whose worker was killed more often than `RETRIES` is given up.
"""

import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from bayes_sd.exceptions import ArgumentError
from bayes_sd.fleet_groups import Group
from bayes_sd.fleet_store import FAILED, Record
from bayes_sd.fleet_task import Outcome, in_words

RETRIES = 5  # a sixth kill of the worker that has it: then it is the group that kills them
INSTALL = 'fit_many needs Dask to run groups side by side: pip install "bayes_sd[fleet]".'
LOCAL = {
    "distributed.scheduler.allowed-failures": RETRIES,
    # A worker holds no group but the one that it fits, so a kill counts against no other.
    "distributed.scheduler.worker-saturation": 1.0,
}
NO_WARNING = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}
KILLED = (
    "the worker that fitted it was killed {times} times, and so it was given up. The usual reason "
    "is memory: run fewer workers at a time."
)


@contextmanager
def client_of(client: Any, workers: int) -> Iterator[Any]:
    """Give a client: the one that is there, or one of a cluster of local processes.

    Parameters
    ----------
    client : distributed.Client or None
        A cluster to use; it is left as it is.
    workers : int
        Processes of a local cluster, which is closed at the end.

    Raises
    ------
    ArgumentError
        If Dask is not installed, the client is none, or the workers do not start.
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        raise ArgumentError(f"{INSTALL} ({error.name} is missing.)") from error
    if client is not None:
        if not isinstance(client, distributed.Client) or client.asynchronous:
            raise ArgumentError(
                f"client must be a distributed.Client that is not asynchronous. "
                f"Got {type(client).__name__} instead: Client(address), for example."
            )
        yield client
        return
    with dask.config.set(LOCAL):
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port; 8787 may be another cluster's
                silence_logs=logging.CRITICAL,
            )
        except RuntimeError as error:
            raise ArgumentError(
                f"the {workers} worker processes did not start ({error}). Each of them reads the "
                'script that calls fit_many: call it below if __name__ == "__main__":.'
            ) from error
        with cluster, distributed.Client(cluster, set_as_default=False) as own:
            yield own


def run_groups(
    client: Any, groups: Sequence[Group], work: Callable[[Group], Outcome]
) -> Generator[tuple[Group, Outcome]]:
    """Send groups to a cluster, and yield each with its outcome when it is done.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    groups : sequence of Group
        The first are begun first.
    work : callable
        What a worker does with a group.
    """
    import dask
    from distributed import as_completed

    name = f"bayes_sd-fit-{uuid4().hex}"  # one for all: Dask then spreads them one by one
    with dask.config.set(NO_WARNING):
        futures = {
            client.submit(work, group, key=(name, i), pure=False, priority=-i): group
            for i, group in enumerate(groups)
        }
    try:
        for future in as_completed(list(futures), loop=client.loop):
            group = futures.pop(future)
            yield group, _outcome(future, group)
    finally:
        client.cancel(list(futures))


def usable_cores(workers: int) -> int:
    """Return how many chains each of some local workers may sample at a time."""
    return max(1, (os.cpu_count() or 1) // workers)


def _outcome(future: Any, group: Group) -> Outcome:
    """Return what a worker made of a group, or that no worker could."""
    from distributed import KilledWorker

    try:
        found: Outcome = future.result()
    except KilledWorker as error:
        said = KILLED.format(times=error.allowed_failures + 1)
    except CancelledError:
        said = "it was cancelled: the cluster was closed, or somebody cancelled its tasks."
    except Exception as error:
        said = in_words(error)
    else:
        return found
    return Outcome(
        Record(
            group=group.name,
            key=group.key,
            fingerprint=group.fingerprint,
            status=FAILED,
            num_runs=len(group.frame),
            seconds=0.0,
            error=said,
        )
    )
