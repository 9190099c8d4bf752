"""Writing a file whole or not at all: beside its place, and moved there when it is complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bayes_sd.exceptions import BayesSdError, FitFileError

PART = ".part"  # ends the name of a file that is not complete


@contextmanager
def whole_file(path: Path, error: type[BayesSdError] = FitFileError) -> Iterator[Path]:
    """Give a file to fill, and move it to its place when the block ends without an error.

    Parameters
    ----------
    path : Path
        File to write or replace.
    error : type of BayesSdError
        What is raised if it cannot be written.

    Yields
    ------
    pathlib.Path
        An empty file in the same folder; it is removed if the block fails.

    Raises
    ------
    BayesSdError
        Of the type asked for; an older file is as it was.

    Examples
    --------
    >>> with whole_file(Path("fit.txt")) as part:  # doctest: +SKIP
    ...     part.write_text("complete")
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        os.close(handle)
    except OSError as reason:
        raise error(f"{path} cannot be written: {reason}. Choose another folder.") from reason
    try:
        yield Path(name)
        with open(name, "rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except OSError as reason:
        raise error(
            f"{path} cannot be written: {reason}. Free some space, or choose another folder; an "
            "older file is as it was."
        ) from reason
    finally:
        Path(name).unlink(missing_ok=True)
