"""`nvidia-cuda-mps-control`: the program that starts MPS control daemons and sends them commands.

A daemon belongs to a pipe directory; the program finds it there. Commands go to its standard input,
and answers come from its standard output (interface version 2). Methods block: call them in a
thread.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

PROGRAM = "nvidia-cuda-mps-control"
_SECONDS = 15.0
_PID = re.compile(r"^\s*(\d+)\s*$", re.ASCII | re.MULTILINE)
_STATUS = re.compile(r"\b(INITIALIZING|ACTIVE|FAULT)\b")


class MpsErrorKind(StrEnum):
    """Why a command failed."""

    NOT_INSTALLED = "NotInstalled"
    NOT_RUNNING = "NotRunning"
    """No daemon answers at the pipe directory."""
    REFUSED = "Refused"
    TIMEOUT = "Timeout"


class MpsError(Exception):
    """A command that failed."""

    def __init__(self, kind: MpsErrorKind, command: str, detail: str) -> None:
        super().__init__(f"MPS {command}: {detail or kind}")
        self.kind = kind
        self.command = command
        self.detail = detail


class MpsDirectories(msgspec.Struct, frozen=True):
    """Where a daemon is."""

    pipe: Path
    log: Path


class MpsControl(Protocol):
    """Starts daemons, and sends commands to them."""

    def start(self, directories: MpsDirectories, device: str) -> None:
        """Start a daemon for a device (UUID); it is in the background when this returns."""
        ...

    def send(self, directories: MpsDirectories, command: str) -> str:
        """The daemon's answer to a command; `MpsError` if there is none."""
        ...


class MpsControlProgram:
    """The real program, or another one at that path."""

    def __init__(
        self,
        program: str | Path = PROGRAM,
        *,
        environment: Mapping[str, str] | None = None,
        timeout: float = _SECONDS,
    ) -> None:
        """`environment` is that of this process by default."""
        self._program = str(program)
        self._environment = dict(os.environ if environment is None else environment)
        self._timeout = timeout

    def start(self, directories: MpsDirectories, device: str) -> None:
        self._run(["-d"], directories, "start", {"CUDA_VISIBLE_DEVICES": device})

    def send(self, directories: MpsDirectories, command: str) -> str:
        return self._run([], directories, command, {}, command + "\n")

    def _run(
        self,
        arguments: Sequence[str],
        directories: MpsDirectories,
        command: str,
        environment: Mapping[str, str],
        text: str = "",
    ) -> str:
        paths = {
            "CUDA_MPS_PIPE_DIRECTORY": str(directories.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(directories.log),
        }
        try:
            done = subprocess.run(  # noqa: S603 (a program that is configured, without a shell)
                [self._program, *arguments],
                input=text,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._timeout,
                env={**self._environment, **paths, **environment},
                check=False,
            )
        except FileNotFoundError:
            raise MpsError(
                MpsErrorKind.NOT_INSTALLED, command, f"{self._program} is not installed"
            ) from None
        except OSError as error:
            raise MpsError(MpsErrorKind.NOT_INSTALLED, command, str(error)) from error
        except subprocess.TimeoutExpired:
            raise MpsError(
                MpsErrorKind.TIMEOUT, command, f"no answer within {self._timeout:g} s"
            ) from None
        output = done.stdout + done.stderr
        if "Cannot find MPS control daemon process" in output:
            raise MpsError(MpsErrorKind.NOT_RUNNING, command, "no daemon is running")
        if done.returncode:
            raise MpsError(MpsErrorKind.REFUSED, command, output.strip())
        return done.stdout


class MpsServerStatus(StrEnum):
    """The state of a server."""

    INITIALIZING = "INITIALIZING"
    ACTIVE = "ACTIVE"
    FAULT = "FAULT"
    """A client has caused a fatal fault: the server restarts when its clients have ended."""


class MpsCommands:
    """The commands of one daemon, with answers as values."""

    def __init__(self, control: MpsControl, directories: MpsDirectories) -> None:
        self._control = control
        self._directories = directories

    def servers(self) -> tuple[int, ...]:
        """The pids of the servers: one per user with clients."""
        return _pids(self._send("get_server_list"))

    def clients(self, server: int) -> tuple[int, ...]:
        """The pids of a server's clients, in the daemon's pid namespace."""
        return _pids(self._send(f"get_client_list {server}"))

    def server_status(self, server: int) -> MpsServerStatus:
        """The state of a server; `MpsError` if it cannot be read."""
        answer = self._send(f"get_server_status {server}")
        found = _STATUS.search(answer.upper())
        if found is None:
            raise MpsError(MpsErrorKind.REFUSED, "get_server_status", answer.strip())
        return MpsServerStatus(found.group(1))

    def default_threads(self) -> float:
        """The percentage of threads for clients of the next server. Answers while it lives."""
        answer = self._send("get_default_active_thread_percentage")
        try:
            return float(answer.strip())
        except ValueError:
            raise MpsError(
                MpsErrorKind.REFUSED, "get_default_active_thread_percentage", answer.strip()
            ) from None

    def set_default_threads(self, percent: int) -> None:
        """The percentage of threads for clients of servers that start from now on."""
        self._send(f"set_default_active_thread_percentage {percent}")

    def set_threads(self, server: int, percent: int) -> None:
        """The percentage for clients of a running server that start from now on."""
        self._send(f"set_active_thread_percentage {server} {percent}")

    def set_default_memory(self, mebibytes: int) -> None:
        """The memory limit for clients of servers that start from now on."""
        self._send(f"set_default_device_pinned_mem_limit 0 {mebibytes}M")

    def set_memory(self, server: int, mebibytes: int) -> None:
        """The memory limit for clients of a running server that start from now on."""
        self._send(f"set_device_pinned_mem_limit {server} 0 {mebibytes}M")

    def terminate_client(self, server: int, client: int) -> None:
        """End a client's work on the GPU; its process gets an error at its next call."""
        answer = self._send(f"terminate_client {server} {client}")
        if re.search(r"error|fail|invalid", answer, re.IGNORECASE):
            raise MpsError(MpsErrorKind.REFUSED, "terminate_client", answer.strip())

    def quit(self) -> None:
        """End the daemon, and its servers."""
        self._send("quit")

    def _send(self, command: str) -> str:
        return self._control.send(self._directories, command)


def _pids(answer: str) -> tuple[int, ...]:
    return tuple(int(each) for each in _PID.findall(answer))
