"""`python -I -S FOLDER-OF-THIS-PACKAGE/__main__.py FOLDER IDLE-SECONDS` runs a keeper.

The packages above this one import the whole embedded cluster. Here they are made without running
their `__init__`, which keeps the keeper four times smaller.
"""

import sys
from types import ModuleType

PACKAGE = "kilonova.local.nodes.process"


def bare_packages(keeper_folder: str) -> None:
    """Let modules beside and below `PACKAGE` be imported, and nothing else be run for that."""
    folder = keeper_folder.rpartition("/")[0]
    names = PACKAGE.split(".")
    for depth in range(len(names), 0, -1):
        package = ModuleType(".".join(names[:depth]))
        package.__path__ = [folder]
        sys.modules[package.__name__] = package
        folder = folder.rpartition("/")[0]


def main() -> None:
    """Become the keeper."""
    bare_packages(__file__.rpartition("/")[0])
    # asyncio would import it, for 4 MB that nobody uses here.
    sys.modules["ssl"] = None  # type: ignore[assignment] # how an import is forbidden
    from kilonova.local.nodes.process.keeper.daemon import run

    sys.exit(run(sys.argv[1], float(sys.argv[2])))


if __name__ == "__main__":
    main()
