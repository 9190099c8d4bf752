"""Build the documentation site: python docs/build.py [FOLDER]; needs the group ``docs``.

Warnings are errors, no notebook is run, nothing is asked of a network, and the links of the built
pages are checked. The site is written to docs/_build/html; open its index.html.
"""

import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from sitebuild.assemble import assemble  # noqa: E402
from sitebuild.links import check_site  # noqa: E402
from sitebuild.pages import write_pages  # noqa: E402
from sphinx.cmd.build import build_main  # noqa: E402


def build(folder: Path) -> int:
    """Build the site below a folder; return the exit status, 0 if nothing was wrong.

    Parameters
    ----------
    folder : pathlib.Path
        Gets ``source``, ``html`` and ``doctrees``; what these held is removed.
    """
    source, site, cache = (folder / name for name in ("source", "html", "doctrees"))
    assemble(source)
    write_pages(source)
    for old in (site, cache):  # pages of an earlier build, and what it knew of them
        shutil.rmtree(old, ignore_errors=True)
    options = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-c", str(HERE)]
    status = build_main([*options, "-d", str(cache), str(source), str(site)])
    faults = check_site(site)
    for fault in faults:
        print(fault, file=sys.stderr)  # noqa: T201
    return status or int(bool(faults))


def main() -> int:
    """Build into the folder that the command line names, or docs/_build."""
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE / "_build"
    start = time.perf_counter()
    status = build(folder)
    where = folder / "html" / "index.html"
    print(f"{where}: {time.perf_counter() - start:.0f} s, {'faults' if status else 'no fault'}")  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main())
