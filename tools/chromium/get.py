"""Get Chromium for the tests that look at the console, once per machine.

One that is there is used as it is: `KILONOVA_CHROMIUM`, else the first on the PATH. Else it comes
from the system's packages, where apt-get is there and may be used without a password.

The last line on standard output is the command of the browser.
"""

import os
import shlex
import shutil
import subprocess
import sys

VARIABLE = "KILONOVA_CHROMIUM"
COMMANDS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-core")  # without a font, pictures show boxes for letters
HOW_TO_GET = (
    "no Chromium on this machine: `make real-parts` gets it where apt-get may be used; else "
    f"install Chromium or Chrome, or set {VARIABLE} to its command"
)


class Unusable(RuntimeError):
    """KILONOVA_CHROMIUM names something that is no browser."""

    def __init__(self, command: str) -> None:
        super().__init__(
            f"{VARIABLE}={command} does not run: `{command} --version` fails. "
            "Set it to the command of Chromium or Chrome, or unset it"
        )


def find() -> str | None:
    """The command of a browser that runs, or None."""
    if given := os.environ.get(VARIABLE):
        if not _runs(given):
            raise Unusable(given)
        return given
    found = filter(None, map(shutil.which, COMMANDS))
    # A package may have put there a script that only says where else to get the browser.
    return next(filter(_runs, found), None)


def main() -> None:
    try:
        command = find()
        if command is None:
            _install()
            command = find()
    except Unusable as failure:
        sys.exit(f"make chromium: {failure}")
    except subprocess.CalledProcessError as failure:
        sys.exit(f"make chromium: `{shlex.join(failure.cmd)}` failed; {HOW_TO_GET}")
    if command is None:
        sys.exit(f"make chromium: {HOW_TO_GET}")
    print(command)


def _install() -> None:
    privilege = _privilege()
    if privilege is None or shutil.which("apt-get") is None:
        return
    apt = [*privilege, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    print(f"Installing {' and '.join(PACKAGES)} by apt-get …", file=sys.stderr, flush=True)
    for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*apt, *words], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)


def _privilege() -> list[str] | None:
    """The words before a command that the system's owner runs; None where one may not."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    return [sudo, "-n"] if sudo and _succeeds(sudo, "-n", "true") else None


def _runs(command: str) -> bool:
    return _succeeds(command, "--version")


def _succeeds(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
