"""Draw every figure of the gallery: python docs/gallery/run_all.py."""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOT_FIGURES = ("run_all.py", "shared_fit.py")


def main() -> None:
    """Run each script; the first that fails stops it."""
    sys.path.insert(0, str(HERE))
    for script in sorted(HERE.glob("*.py")):
        if script.name not in NOT_FIGURES:
            print(script.stem, flush=True)  # noqa: T201
            runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
