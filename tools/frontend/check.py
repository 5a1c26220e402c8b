"""Check the console's page: generated types, format, lint, tests, types, and the built files.

The page is built into a temporary directory and compared byte by byte with the committed files in
`src/kilonova/console/static`, which are what users install. Needs `frontend/node_modules`.
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
            "frontend/package-lock.json contains registry URLs: remove it, and run `npm install` "
            "in frontend/"
        )
    run_command(sys.executable, "-m", "tools.frontend.rows", "--check", folder=ROOT)
    run_command(str(TOOLS / "biome"), "check", "--error-on-warnings")
    run_command("npm", "test")
    run_command(str(TOOLS / "tsc"), "--noEmit")
    with tempfile.TemporaryDirectory(prefix="kilonova-page-") as target:
        run_command(
            str(TOOLS / "vite"), "build", "--outDir", target, "--emptyOutDir", "--logLevel", "warn"
        )
        stale = find_differences(Path(target), BUILT)
    if stale:
        sys.exit(f"the built page is stale: run `make frontend` and commit {', '.join(stale)}")


def find_differences(fresh: Path, built: Path) -> list[str]:
    """Files that differ, or exist in one of the folders only, relative to it."""
    names = sorted(list_files(fresh) | list_files(built))
    _, unequal, absent = filecmp.cmpfiles(fresh, built, names, shallow=False)
    return sorted([*unequal, *absent])


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def run_command(*command: str, folder: Path = SOURCE) -> None:
    """Run a command; its output is shown only if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}`{shlex.join(command)}` failed in {folder.name}/")


if __name__ == "__main__":
    main()
