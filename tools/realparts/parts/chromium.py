"""Chromium for the tests that look at the console: the system's, not one of ours.

One that is there is used as it is: `KILONOVA_CHROMIUM`, else the first on the PATH. Else it comes
from the system's packages, where apt-get is there and may be used without a password.
"""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import PartUnavailable
from tools.realparts.progress import Progress

VARIABLE = "KILONOVA_CHROMIUM"
COMMANDS = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-core")  # without a font, screenshots show boxes
MISSING_CHROMIUM_MESSAGE = (
    "no Chromium on this machine: `make chromium` gets it where apt-get may be used; else "
    f"install Chromium or Chrome, or set {VARIABLE} to its command"
)


@dataclass(frozen=True)
class SystemChromium:
    """The browser as a part; its path is that of its command."""

    name: str = "chromium"

    @property
    def version(self) -> str:
        command = self.find()
        return "of the system" if command is None else _read_version(str(command))

    def find(self) -> Path | None:
        try:
            command = find_command()
        except BrowserUnusable:
            return None
        return None if command is None else Path(command)

    def get(self) -> Path:
        try:
            command = find_command()
            if command is None:
                _install(Progress(self.name))
                command = find_command()
        except BrowserUnusable as failure:
            raise PartUnavailable(str(failure)) from failure
        except subprocess.CalledProcessError as failure:
            command = shlex.join(failure.cmd)
            raise PartUnavailable(f"`{command}` failed; {MISSING_CHROMIUM_MESSAGE}") from failure
        if command is None:
            raise PartUnavailable(MISSING_CHROMIUM_MESSAGE)
        return Path(command)


class BrowserUnusable(RuntimeError):
    """KILONOVA_CHROMIUM is not a working browser."""

    def __init__(self, command: str) -> None:
        super().__init__(
            f"{VARIABLE}={command} does not run: `{command} --version` fails. "
            "Set it to the command of Chromium or Chrome, or unset it"
        )


def find_command() -> str | None:
    """The command of a browser that runs, or None."""
    if given := os.environ.get(VARIABLE):
        if not _can_run(given):
            raise BrowserUnusable(given)
        return given
    found = filter(None, map(shutil.which, COMMANDS))
    # A distribution may install a script that only prints how to get the browser.
    return next(filter(_can_run, found), None)


def _install(progress: Progress) -> None:
    privilege = _get_privilege_prefix()
    if privilege is None or shutil.which("apt-get") is None:
        return
    apt = [*privilege, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    progress.report(f"installing {' and '.join(PACKAGES)} with apt-get …")
    for words in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*apt, *words], stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)


def _get_privilege_prefix() -> list[str] | None:
    """The command prefix that gives root privileges; None where there are none."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    return [sudo, "-n"] if sudo and _run_successfully(sudo, "-n", "true") else None


def _read_version(command: str) -> str:
    """The number in `Chromium 140.0.7339.80 built on …`."""
    words = [command, "--version"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    numbers = (word for word in done.stdout.split() if word[0].isdigit())
    return next(numbers, "of the system")


def _can_run(command: str) -> bool:
    return _run_successfully(command, "--version")


def _run_successfully(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


PART = SystemChromium()
