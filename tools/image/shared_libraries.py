"""The shared libraries that programs load, as the machine's own loader finds them."""

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

_RESOLVED = re.compile(r"^\s*(?P<name>\S+) => (?P<path>/\S+) \(")
_LOADER = re.compile(r"^\s*(?P<path>/\S*ld-linux\S+) \(")
_MISSING = re.compile(r"^\s*(?P<name>\S+) => not found")
_FILES_PER_CALL = 200


class LibraryMissing(RuntimeError):
    """A program would not start in the image."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the shared library {name} is not installed on this machine")


def find_libraries(binaries: Sequence[Path], own: Iterable[Path]) -> dict[str, Path]:
    """The libraries that `binaries` load, by the name under which they are looked up.

    Those below the folders of `own` are left out: they travel with what loads them. The loader
    itself is included under its full path.
    """
    folders = tuple(own)
    found: dict[str, Path] = {}
    for start in range(0, len(binaries), _FILES_PER_CALL):
        for line in _run_ldd(binaries[start : start + _FILES_PER_CALL]):
            if loader := _LOADER.match(line):
                found[loader["path"]] = Path(loader["path"])
            elif match := _RESOLVED.match(line):
                path = Path(match["path"])
                if not any(path.is_relative_to(folder) for folder in folders):
                    found[match["name"]] = path
            elif missing := _MISSING.match(line):
                raise LibraryMissing(missing["name"])
    return found


def _run_ldd(binaries: Sequence[Path]) -> list[str]:
    # It fails for files that are not dynamic; what it reports of the others is right.
    done = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()
