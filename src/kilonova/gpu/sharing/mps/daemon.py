"""The MPS control daemon of one device: started, adopted, watched and stopped.

One daemon per device: a fault of a client disturbs the pods of that device alone, and the device is
always index 0. While it runs the device is in exclusive process mode, so that no process gets past
the server.

A daemon outlives the agent. The next agent finds it by its pipe directory: one that answers is
adopted; what a daemon that has crashed left behind is removed, and a new one started.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kilonova.gpu.sharing.mps.control import (
    MpsCommands,
    MpsControl,
    MpsDirectories,
    MpsError,
    MpsErrorKind,
    MpsServerStatus,
)

_START_SECONDS = 10.0
_POLL_SECONDS = 0.1
_DIRECTORY_MODE = 0o755


class ExclusiveMode(Protocol):
    """The one method of a backend that a daemon needs."""

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """Whether one process alone may use the device."""
        ...


class MpsDaemon:
    """The daemon of a device. Its methods block; one at a time."""

    def __init__(
        self,
        device: str,
        root: Path,
        control: MpsControl,
        backend: ExclusiveMode,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`root` keeps the directories of all daemons; containers get that of theirs."""
        self.device = device
        self.directories = MpsDirectories(root / device / "pipe", root / device / "log")
        self.commands = MpsCommands(control, self.directories)
        self._control = control
        self._backend = backend
        self._sleep = sleep

    @property
    def is_known(self) -> bool:
        """Whether there is, or was, a daemon of this device."""
        return self.directories.pipe.exists()

    def is_alive(self) -> bool:
        """Whether the daemon answers."""
        try:
            self.commands.default_threads()
        except MpsError as error:
            if error.kind is MpsErrorKind.NOT_INSTALLED:
                raise
            return False
        return True

    def ensure(self) -> bool:
        """Adopt the daemon, or start one; returns whether one was started.

        `MpsError` or `GpuError` if that fails; nothing is left behind then.
        """
        if self.is_known and self.is_alive():
            return False
        self._remove_files()
        for directory in (self.directories.pipe, self.directories.log):
            directory.mkdir(parents=True, mode=_DIRECTORY_MODE)
        try:
            self._backend.set_exclusive_process_mode(self.device, True)
            self._control.start(self.directories, self.device)
            self._wait_until_alive()
        except BaseException:
            self._clean_up()
            raise
        return True

    def faulty_servers(self) -> tuple[int, ...]:
        """The servers that a client has broken."""
        return tuple(
            server
            for server in self.commands.servers()
            if self.commands.server_status(server) is MpsServerStatus.FAULT
        )

    def stop(self) -> None:
        """Stop the daemon; nothing happens if none runs."""
        if self.is_known:
            try:
                self.commands.quit()
            except MpsError as error:
                if error.kind is not MpsErrorKind.NOT_RUNNING:
                    raise
            self._clean_up()

    def _wait_until_alive(self) -> None:
        waited = 0.0
        while not self.is_alive():
            if waited >= _START_SECONDS:
                raise MpsError(
                    MpsErrorKind.TIMEOUT,
                    "start",
                    f"the daemon of {self.device} does not answer; see {self.directories.log}",
                )
            self._sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS

    def _clean_up(self) -> None:
        try:
            self._backend.set_exclusive_process_mode(self.device, False)
        finally:
            self._remove_files()

    def _remove_files(self) -> None:
        # Sockets of a daemon that has crashed look like those of one that lives.
        shutil.rmtree(self.directories.pipe.parent, ignore_errors=True)
