"""Check that the console's built page is that of its source in `frontend/`.

The page is built anew, types checked, into a temporary folder, and compared byte by byte with
`src/kilonova/console/static`: who installs Kilonova gets the built files and needs no Node.js, so
that nothing else would notice when they are stale. Wants `frontend/node_modules`.
"""

import filecmp
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.tables import ROOT

SOURCE = ROOT / "frontend"
TOOLS = SOURCE / "node_modules" / ".bin"
BUILT = ROOT / "src" / "kilonova" / "console" / "static"


def main() -> None:
    if '"resolved"' in (SOURCE / "package-lock.json").read_text():
        sys.exit(
            "frontend/package-lock.json names the registry of the machine that wrote it: "
            "remove it, and run `npm install` in frontend/"
        )
    run("npm", "test")
    run(str(TOOLS / "tsc"), "--noEmit")
    with tempfile.TemporaryDirectory(prefix="kilonova-page-") as folder:
        run(str(TOOLS / "vite"), "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "warn")
        stale = differences(Path(folder), BUILT)
    if stale:
        sys.exit(
            "the built page is not that of frontend/: run `make frontend` and commit "
            f"{', '.join(stale)}"
        )


def differences(fresh: Path, built: Path) -> list[str]:
    """Names of the files, relative to either folder, that only one has or that are not equal."""
    names = sorted(files(fresh) | files(built))
    _, unequal, absent = filecmp.cmpfiles(fresh, built, names, shallow=False)
    return sorted([*unequal, *absent])


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def run(*command: str) -> None:
    """Run in `frontend/`; what it said is shown where it fails."""
    done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}`{shlex.join(command)}` failed in frontend/")


if __name__ == "__main__":
    main()
