"""`kilonova up` in the background, with all components."""

import asyncio
import atexit
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from bench.home.servers import Server
from kilonova.local.processnode.cri.client import ShimRuntime
from tests.harness.access import ServerAccess

FLEETS = {"small": 34, "large": 2_000}
"""The built-in fleets of `kilonova up --nodes`, and their numbers of nodes."""

_TIMEOUT_SECONDS = 120


def find_command() -> Path:
    """The installed command, next to this Python."""
    path = Path(sys.executable).parent / "kilonova"
    if not path.exists():
        raise RuntimeError(f"{path} does not exist: run `make venv`")
    return path


class _Status(msgspec.Struct):
    """The fields of `kilonova status -o json` that are used."""

    pid: int
    kubeconfig: str
    console: str


class KilonovaInstance:
    """A data directory on which `kilonova up` is started and stopped."""

    def __init__(self, data: Path, fleet: str) -> None:
        self._data = data
        self._fleet = fleet

    def start(self) -> float:
        """Start it; returns the seconds until the command has finished waiting."""
        start = time.perf_counter()
        self._run("up", "--detach", "--wait", "--port", "0", "--nodes", self._fleet)
        return time.perf_counter() - start

    def stop(self) -> None:
        """Stop it and its pods; the data stays."""
        self._run("down")

    def get_console_link(self) -> str:
        """The link to the console, with its token."""
        return self._read_status().console

    def get_server(self) -> Server:
        """The API server and its process.

        The runtime shim is a separate process, which ends by itself if the machine has no pods.
        """
        status = self._read_status()
        access = ServerAccess.from_kubeconfig(Path(status.kubeconfig), self._data.parent / "admin")
        return Server(access, [psutil.Process(status.pid)])

    def destroy(self) -> None:
        """Stop it, whatever its state."""
        subprocess.run(self._build_command("down"), capture_output=True, check=False)
        asyncio.run(ShimRuntime(self._data / "shim").shutdown())

    def _read_status(self) -> _Status:
        return msgspec.json.decode(self._run("status", "-o", "json"), type=_Status)

    def _build_command(self, verb: str, *options: str) -> list[str]:
        return [str(find_command()), verb, "--data", str(self._data), *options]

    def _run(self, verb: str, *options: str) -> bytes:
        command = self._build_command(verb, *options)
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr.decode().strip()}")
        return result.stdout


@contextmanager
def prepared_instance(folder: Path, fleet: str) -> Generator[KilonovaInstance]:
    """An instance on an empty directory, not started yet; stopped at the end of the context."""
    product = KilonovaInstance(folder / "data", fleet)
    atexit.register(product.destroy)
    try:
        yield product
    finally:
        product.destroy()
        atexit.unregister(product.destroy)


@contextmanager
def running_instance(folder: Path, fleet: str) -> Generator[KilonovaInstance]:
    """A started instance that is ready."""
    with prepared_instance(folder, fleet) as product:
        product.start()
        yield product
