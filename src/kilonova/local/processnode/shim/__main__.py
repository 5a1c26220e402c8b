"""`python -I -S …/shim/__main__.py DIRECTORY IDLE-SECONDS` runs the shim of a directory.

`-S` leaves out site-packages, and with them the installed Kilonova: the directory that holds the
package is added to the path, after the standard library. The parents of this package contain no
code, so that nothing outside of `shim`, `network` and `cri` is loaded.
"""

import os
import sys


def main() -> None:
    """Become the shim."""
    package_parent = os.path.abspath(__file__).rsplit(os.sep, 5)[0]
    sys.path.append(package_parent)
    # asyncio would import it, for 4 MB that the shim does not use.
    sys.modules["ssl"] = None  # type: ignore[assignment] # makes the import fail
    from kilonova.local.processnode.shim.daemon import run_shim

    sys.exit(run_shim(sys.argv[1], float(sys.argv[2])))


if __name__ == "__main__":
    main()
