"""Small builders for tests of the shim."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from kilonova.local.kubelet_api import OutputStream, RemoteProcess
from kilonova.local.processnode.cri.api import ContainerSpec, ContainerState
from kilonova.local.processnode.cri.client import ShimRuntime

PATH = "/usr/local/bin:/usr/bin:/bin"
DEADLINE = 20.0


class ShimSite:
    """A shim's folder, and containers with logs beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shim_folder = folder / "shim"
        self.runtime = ShimRuntime(self.shim_folder)
        self._numbers = count(1)

    def spec(self, *command: str, **more: object) -> ContainerSpec:
        name = f"c{next(self._numbers)}"
        plain = ContainerSpec(
            id=name,
            pod_uid="a-pod",
            name="main",
            command=command,
            env={"PATH": PATH},
            folder="/",
            log=self.folder / "logs" / name,
            address="",
        )
        return replace(plain, **more)  # type: ignore[arg-type] # tests name fields

    async def start(self, *command: str, **more: object) -> ContainerState:
        return await self.runtime.start(self.spec(*command, **more))

    async def run(self, *command: str, **more: object) -> ContainerState:
        """Run a container to its end."""
        started = await self.start(*command, **more)
        return await asyncio.wait_for(self.runtime.wait(started.id), DEADLINE)

    async def shell(self, script: str, **more: object) -> tuple[ContainerState, str]:
        """Run a script to its end; returns its state and what it printed."""
        state = await self.run("sh", "-c", script, **more)
        return state, self.text(state.id)

    def log(self, container: str) -> list[bytes]:
        file = self.folder / "logs" / container
        return file.read_bytes().splitlines() if file.exists() else []

    def text(self, container: str) -> str:
        """What a container printed, to either stream."""
        parts = [line.split(b" ", 3) for line in self.log(container)]
        ends = {b"F": b"\n", b"P": b""}
        return b"".join(text + ends[tag] for _, _, tag, text in parts).decode()

    async def wait_for_output(self, container: str, text: str) -> None:
        await wait_until(lambda: text in self.text(container))

    def shim_pid(self) -> int:
        """The process that holds the lock of the directory."""
        return int((self.shim_folder / "shim.lock").read_text())


async def wait_until(holds: Callable[[], bool]) -> None:
    """Poll until something holds; an error if it never does."""
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        await asyncio.sleep(0.01)


async def collect_output(process: RemoteProcess) -> dict[OutputStream, bytes]:
    """All output, by stream."""
    got: dict[OutputStream, bytes] = {}
    async for stream, data in process.output():
        got[stream] = got.get(stream, b"") + data
    return got


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def kill(pid: int) -> None:
    os.kill(pid, 9)
