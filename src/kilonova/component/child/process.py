"""A program as a runnable: start, readiness, log, graceful stop."""

import asyncio
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kilonova.component.child.probes import ReadinessProbe
from kilonova.component.child.shim import SKIP_GRACE
from kilonova.kube.observability.structured_logging import get_logger

_SHIM = Path(__file__).with_name("shim.py")
_PROBE_SECONDS = (0.05, 1.0)
"""Shortest and longest pause between two probes."""
_KILL_SECONDS = 30.0
"""How long to wait for the shim to end a program that is killed; it goes on by itself."""
_TAIL_BYTES, _TAIL_CHARACTERS = 4096, 300

_log = get_logger(__name__)


class ChildFailed(Exception):
    """The program did not start, did not become ready, or exited; the message has its last line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildProgram:
    """A program to run."""

    command: tuple[str, ...]
    log: Path
    """Its output; the folder is created. A full file is renamed to `NAME.1`."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables beside those of this process."""
    directory: Path | None = None
    """Its working directory; that of the log by default."""
    ready: ReadinessProbe | None = None
    """Without one, it is ready when it has started."""
    start_timeout: float = 60.0
    """Seconds until it must be ready."""
    grace: float = 5.0
    """Seconds from SIGTERM to SIGKILL; a stop of `kilonova up` allows 8."""
    log_limit: int = 10 << 20
    """Bytes of the log, of which the last two files are kept."""


class ChildProcess:
    """Runs a program: a graceful runnable that fails with `ChildFailed` when the program exits.

    For each run of a component, build a new one. Start it from the thread of the event loop that
    lives as long as this process: the program ends with that thread.
    """

    def __init__(self, name: str, program: ChildProgram) -> None:
        self.name = name
        self._program = program
        self._ready = asyncio.Event()
        self._stopping = asyncio.Event()

    async def wait_ready(self) -> None:
        """Return when the program is ready."""
        await self._ready.wait()

    def stop(self) -> None:
        """Let `run` return when the program has exited."""
        self._stopping.set()

    async def run(self) -> None:
        """Run the program until it is stopped; `ChildFailed` if it exits before."""
        shim = await self._start()
        exited = asyncio.ensure_future(shim.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        readiness = asyncio.ensure_future(self._await_readiness())
        try:
            await asyncio.wait({exited, stopping, readiness}, return_when=asyncio.FIRST_COMPLETED)
            if readiness.done():
                readiness.result()
                await asyncio.wait({exited, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                raise ChildFailed(f"{self._describe_exit(exited.result())}{self._log_tail()}")
            _log.info("stopping child process", child=self.name, pid=shim.pid)
            _terminate(shim)
            await exited
        finally:
            for each in (stopping, readiness):
                each.cancel()
            await self._end(shim, exited)

    async def _start(self) -> asyncio.subprocess.Process:
        program = self._program
        program.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        arguments = (str(os.getpid()), str(program.grace), str(program.log), str(program.log_limit))
        shim = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(_SHIM),
            *arguments,
            *program.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={**os.environ, **program.environment},
            cwd=program.directory or program.log.parent,
            start_new_session=True,
        )
        _log.info("child process started", child=self.name, pid=shim.pid, log=str(program.log))
        return shim

    async def _await_readiness(self) -> None:
        pause, longest = _PROBE_SECONDS
        try:
            async with asyncio.timeout(self._program.start_timeout):
                while not await self._is_ready():
                    await asyncio.sleep(pause)
                    pause = min(longest, 1.5 * pause)
        except TimeoutError:
            raise ChildFailed(
                f"not ready within {self._program.start_timeout:g} s{self._log_tail()}"
            ) from None
        self._ready.set()

    async def _is_ready(self) -> bool:
        if self._program.ready is None:
            return True
        try:
            return await self._program.ready()
        except OSError:  # not yet; a timeout of the probe is one too
            return False

    async def _end(self, shim: asyncio.subprocess.Process, exited: asyncio.Future[int]) -> None:
        """Leave no process behind, also where this task is cancelled or a probe has failed."""
        if exited.done():
            return
        assert shim.stdin is not None
        shim.stdin.write(SKIP_GRACE)
        shim.stdin.close()
        await asyncio.wait({exited}, timeout=_KILL_SECONDS)
        if not exited.done():
            # Killing the shim would leave descendants behind.
            _log.error("child process still ending", child=self.name, pid=shim.pid)

    def _describe_exit(self, code: int) -> str:
        if code > 128:
            return f"killed by signal {code - 128}"
        return f"exited with {code}" if code else "exited"

    def _log_tail(self) -> str:
        """The last line of the program's output."""
        try:
            with self._program.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        last = next((each.strip() for each in reversed(lines) if each.strip()), "")
        printable = "".join(each for each in last if each.isprintable())
        return f": {printable[:_TAIL_CHARACTERS]}" if printable else ""


def _terminate(shim: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        shim.terminate()
