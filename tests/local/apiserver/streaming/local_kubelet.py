"""A kubelet for tests: runs commands on this machine, without containers."""

import asyncio
import contextlib
import fcntl
import os
import pty
import struct
import termios
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.unstructured import nested_objects
from kilonova.local.kubelet_api import LogRequest, NodeUsage, OutputStream, RemoteProcess

_CHUNK = 64 << 10


class PipedProcess:
    """A process with pipes for its standard streams."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.detached = asyncio.Event()
        self._ending = asyncio.Lock()

    async def output(self) -> AsyncIterator[tuple[OutputStream, bytes]]:
        queue: asyncio.Queue[tuple[OutputStream, bytes]] = asyncio.Queue(1)

        async def copy(output: OutputStream, reader: asyncio.StreamReader) -> None:
            while data := await reader.read(_CHUNK):
                await queue.put((output, data))
            await queue.put((output, b""))

        assert self.process.stdout is not None
        assert self.process.stderr is not None
        tasks = [
            asyncio.create_task(copy(OutputStream.STDOUT, self.process.stdout)),
            asyncio.create_task(copy(OutputStream.STDERR, self.process.stderr)),
        ]
        try:
            still_open = len(tasks)
            while still_open:
                output, data = await queue.get()
                if data:
                    yield output, data
                else:
                    still_open -= 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def resize(self, columns: int, rows: int) -> None:
        raise AssertionError("there is no terminal")

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def detach(self) -> None:
        async with self._ending:
            if self.detached.is_set():
                return
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            # asyncio reports the exit only after the pipes have been read.
            async for _ in self.output():
                pass
            await self.process.wait()
            self.detached.set()


class TerminalProcess(PipedProcess):
    """A process in a terminal of its own."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        super().__init__(process)
        self._master = master

    async def output(self) -> AsyncIterator[tuple[OutputStream, bytes]]:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):  # how a closed terminal is reported
            while data := await loop.run_in_executor(None, os.read, self._master, _CHUNK):
                yield OutputStream.STDOUT, data

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().run_in_executor(None, os.write, self._master, data)

    async def close_input(self) -> None:
        await self.send(b"\x04")

    async def resize(self, columns: int, rows: int) -> None:
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    async def detach(self) -> None:
        await super().detach()
        with contextlib.suppress(OSError):
            os.close(self._master)


class LocalMachineKubelet:
    """The kubelet. Only running containers accept exec and attach."""

    def __init__(self) -> None:
        self.started: list[PipedProcess] = []
        self.attachable: dict[str, PipedProcess] = {}
        self.known: set[str] = set()
        self.measured: NodeUsage | None = None
        self.log_requests: list[LogRequest] = []

    async def logs(self, pod: Any, options: LogRequest) -> AsyncIterator[bytes]:
        self.log_requests.append(options)
        yield f"{pod['metadata']['name']} {options.container}\n".encode()

    async def execute(
        self, pod: Any, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        states = {each["name"]: each for each in nested_objects(pod, "status", "containerStatuses")}
        if "running" not in states.get(container, {}).get("state", {}):
            raise ApiError(500, "InternalError", f'container not found ("{container}")')
        process = await self.spawn(*command, stdin=stdin, tty=tty)
        self.started.append(process)
        return process

    async def attach(self, pod: Any, container: str, *, stdin: bool, tty: bool) -> RemoteProcess:
        return self.attachable[pod["metadata"]["name"]]

    async def dial(self, pod: Any, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port)

    async def usage(self) -> NodeUsage | None:
        return self.measured

    async def spawn(self, *command: str, stdin: bool = True, tty: bool = False) -> PipedProcess:
        if tty:
            master, slave = pty.openpty()
            process = await asyncio.create_subprocess_exec(
                *command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
            )
            os.close(slave)
            return TerminalProcess(process, master)
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        return PipedProcess(
            await asyncio.create_subprocess_exec(
                *command, stdin=pipe if stdin else none, stdout=pipe, stderr=pipe
            )
        )

    async def stop(self) -> None:
        for process in (*self.started, *self.attachable.values()):
            await process.detach()


def now() -> datetime:
    return datetime.now(UTC)
