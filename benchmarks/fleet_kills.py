"""Kills of the worker processes of a local Dask cluster, at random times."""

import os
import signal
import threading
from typing import Any

import numpy as np

SHORTEST_S = 0.5


class Killer:
    """Kills workers in the background while its block runs, until enough were killed.

    Parameters
    ----------
    cluster : distributed.LocalCluster
        Whose workers are killed.
    kills : int
        How many times.
    every_s : float
        Mean of the waits between kills, s, which are exponential.
    random_seed : int
        Of the waits and of which worker is killed.
    """

    def __init__(self, cluster: Any, kills: int, every_s: float, random_seed: int = 0) -> None:
        self.cluster, self.kills, self.every_s = cluster, kills, every_s
        self.done = 0
        self._rng = np.random.default_rng(random_seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Killer":
        """Begin to kill."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while self.done < self.kills:
            if self._over.wait(max(SHORTEST_S, self._rng.exponential(self.every_s))):
                return
            alive = [n.pid for n in list(self.cluster.workers.values()) if n.pid]
            if alive:  # none while all are started anew
                try:
                    os.kill(int(self._rng.choice(alive)), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                self.done += 1
