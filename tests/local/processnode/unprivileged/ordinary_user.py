"""`kilonova` as an unprivileged user runs it: no capabilities, a home of its own, no leftovers.

Tests that run as root become `nobody` for it. Python may be installed where only root has access;
in a mount namespace of the command those directories are opened to others, and the machine's stay
closed.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kilonova.local.processnode.cri.client import ShimRuntime

NOBODY = 65534
_ROOT = Path(__file__).parents[4]
_RESTRICTED_MACHINE = Path(__file__).with_name("restricted_machine.py")
_SETPRIV = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=-all", "--bounding-set=-all"),
)
_OPEN = """
stage=$1 closed=$2; shift 2
mount -t tmpfs tmpfs "$stage" && mkdir "$stage/upper" "$stage/work" &&
mount -t overlay overlay \
    -o "lowerdir=$closed,upperdir=$stage/upper,workdir=$stage/work" "$closed" || exit 1
while [ "$1" != -- ]; do chmod o+rx "$1" || exit 1; shift; done
shift
exec "$@"
"""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command."""

    code: int
    out: str
    err: str


@dataclass
class OrdinaryUser:
    """Has a home in `folder`, which others can access, on a machine that forbids some kinds."""

    folder: Path
    forbidden: Sequence[str] = ()
    data: Path = field(init=False)

    def __post_init__(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        (self.folder / "stage").mkdir()
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        self.data = home / "data"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def __call__(self, *words: str | Path) -> CommandResult:
        """Run a `kilonova` command to its end."""
        done = subprocess.run(
            [*self._become(), sys.executable, "-P", "-m", "kilonova.cli", *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "PYTHONPATH": str(_ROOT / "src"),
            },
            cwd=self.home,
            timeout=60,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())

    def up(self, *options: str | Path) -> None:
        """The cluster with only this machine as a node."""
        start = ("up", "--no-demo", "--detach", "--wait", "--port", "0")
        done = self(*start, "--data", self.data, *options)
        assert done.code == 0, done.err
        assert "nodes    1 (1 ready)" in done.out

    def pid(self) -> int:
        """The kubeconfig of the running cluster."""
        return json.loads((self.data / "running.json").read_bytes())["pid"]

    def remaining_processes(self) -> list[str]:
        """Command lines of processes that use the data directory."""
        found: list[str] = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                line = (process / "cmdline").read_bytes()
                if os.fsencode(self.data) in line + (process / "environ").read_bytes():
                    found.append(line.replace(b"\0", b" ").decode())
        return found

    def end(self) -> None:
        """Kill what still runs."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(self.pid(), signal.SIGKILL)
        asyncio.run(ShimRuntime(self.data / "shim").shutdown())

    def _become(self) -> list[str]:
        words = [sys.executable, str(_RESTRICTED_MACHINE), *self.forbidden, "--"]
        if os.geteuid() != 0:
            return words
        closed = _closed_folders()
        if not closed:
            return [*_SETPRIV, *words]
        opened = [str(self.folder / "stage"), str(closed[0]), *map(str, closed), "--"]
        own = ("unshare", "--mount", "--propagation=private", "sh", "-c", _OPEN, "sh")
        return [*own, *opened, *_SETPRIV, *words]


def _closed_folders() -> list[Path]:
    """Directories on the path to Python that others cannot access, from the top."""
    base = Path(sys.base_prefix)
    way = [*reversed(base.parents), base]
    expected = stat.S_IROTH | stat.S_IXOTH
    return [each for each in way if each.stat().st_mode & expected != expected]


def wait_until(holds: Callable[[], Any], within: float = 30.0) -> Any:
    """The result of a function, once it is truthy."""
    deadline = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)
    return found


def free_port(first: int = 20000, last: int = 29999) -> int:
    """A port that is unused on all addresses, below the ephemeral ones."""
    for number in range(last - first):
        port = first + (os.getpid() + number) % (last - first)
        with socket.socket() as trying, contextlib.suppress(OSError):
            trying.bind(("0.0.0.0", port))
            return port
    raise AssertionError("no port is free")
