"""Messages of other libraries, kept quiet."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_logger(logger: str) -> Iterator[None]:
    """Keep what a library's logger tells, errors aside, to itself for the time of a block.

    Parameters
    ----------
    logger : str
        Name of the logger.

    Examples
    --------
    >>> with quiet_logger("pymc.sampling.forward"):
    ...     logging.getLogger("pymc.sampling.forward").info("Sampling: [...]")
    """
    of_library = logging.getLogger(logger)
    level = of_library.level
    of_library.setLevel(logging.ERROR)
    try:
        yield
    finally:
        of_library.setLevel(level)
