"""Work for the worker processes of a fleet that kills them: no tests, and quick to import."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class KillOwnProcessFirst:
    """Kills its own process at a group's first turn, and returns the group's seed at the next."""

    folder: str

    def __call__(self, group):
        try:
            (Path(self.folder) / group.stem).touch(exist_ok=False)
        except FileExistsError:
            return group.seed
        os.kill(os.getpid(), signal.SIGKILL)


kill_own_process_first = KillOwnProcessFirst
