"""`kilonova up` as people run it: in the background, with everything in it."""

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
from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from tests.harness.access import Access

FLEETS = {"small": 34, "large": 2_000}
"""The fleets that `kilonova up --nodes` knows by name, and how many nodes each has."""

_PATIENCE_SECONDS = 120


def command() -> Path:
    """The installed command, beside this Python."""
    path = Path(sys.executable).parent / "kilonova"
    if not path.exists():
        raise RuntimeError(f"{path} is not there: `make venv` installs it")
    return path


class _Status(msgspec.Struct):
    """What is read of `kilonova status -o json`."""

    pid: int
    kubeconfig: str
    console: str


class Product:
    """One folder on which `kilonova up` is started and stopped."""

    def __init__(self, data: Path, fleet: str) -> None:
        self._data = data
        self._fleet = fleet

    def up(self) -> float:
        """Start it; the seconds until the command says that all is there."""
        began = time.perf_counter()
        self._run("up", "--detach", "--wait", "--port", "0", "--nodes", self._fleet)
        return time.perf_counter() - began

    def down(self) -> None:
        """Stop it and its pods; what it knows stays."""
        self._run("down")

    def console(self) -> str:
        """The link to the console, with its token."""
        return self._status().console

    def server(self) -> Server:
        """The API, and the one process that all of this is.

        The keeper of pods is another, but ends by itself where this machine has none.
        """
        status = self._status()
        access = Access.from_kubeconfig(Path(status.kubeconfig), self._data.parent / "admin")
        return Server(access, [psutil.Process(status.pid)])

    def end(self) -> None:
        """Stop it surely, whatever state it is in."""
        subprocess.run(self._words("down"), capture_output=True, check=False)
        asyncio.run(KeeperRuntime(self._data / "keeper").shutdown())

    def _status(self) -> _Status:
        return msgspec.json.decode(self._run("status", "-o", "json"), type=_Status)

    def _words(self, verb: str, *options: str) -> list[str]:
        return [str(command()), verb, "--data", str(self._data), *options]

    def _run(self, verb: str, *options: str) -> bytes:
        words = self._words(verb, *options)
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.decode().strip()}")
        return done.stdout


@contextmanager
def product_of(folder: Path, fleet: str) -> Generator[Product]:
    """A product on an empty folder, not started yet; nothing of it outlives the context."""
    product = Product(folder / "data", fleet)
    atexit.register(product.end)
    try:
        yield product
    finally:
        product.end()
        atexit.unregister(product.end)


@contextmanager
def running(folder: Path, fleet: str) -> Generator[Product]:
    """One that was started, and is ready."""
    with product_of(folder, fleet) as product:
        product.up()
        yield product
