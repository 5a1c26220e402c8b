"""The process between Kilonova and a program that it runs.

`python shim.py PARENT GRACE LOG LIMIT COMMAND …` runs a command, and exits with its exit code.

- Output goes to the file LOG, which is renamed to LOG.1 when it has LIMIT bytes.
- SIGTERM, or the end of standard input, which the parent holds open, or the death of the parent
  ends the command: SIGTERM to its process group, after GRACE seconds SIGKILL to all descendants. A
  byte on standard input, or a second SIGTERM, skips the wait; of two signals sent at once, only
  one may arrive.
- Descendants that outlive the command are killed: this process is their subreaper. If it is killed
  itself, so is the command.

It imports only the standard library, and little of that. On other systems than Linux, descendants
outside of the process group are not found.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHUNK_BYTES = 1 << 16
_NOT_STARTED = 127
_RETRY_SECONDS = 0.1
SKIP_GRACE = b"\n"
"""What the parent writes to have the command killed at once."""


def main() -> None:
    """Run the command to its end."""
    parent, grace, log, limit = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    _set_process_option(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _set_process_option(_PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:  # it died before the request
        sys.exit(1)
    wakeup = _wake_on_signals()
    output, write_end = os.pipe()
    command = _start_command(sys.argv[5:], write_end)
    os.close(write_end)
    writer = _LogWriter(log, limit)
    run = _Run(command, grace, output, wakeup, writer)
    status = run.wait()
    run.end_descendants()
    writer.drain(output)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


def _set_process_option(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _wake_on_signals() -> int:
    """A descriptor that can be read from after a signal."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, lambda number, frame: None)
    return reader


def _start_command(command: list[str], output: int) -> int:
    shim = os.getpid()
    child = os.fork()
    if child == 0:
        _execute(command, output, shim)
    return child


def _execute(command: list[str], output: int, shim: int) -> NoReturn:
    try:
        os.setsid()
        _set_process_option(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != shim:
            os._exit(_NOT_STARTED)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 256)
        os.execvp(command[0], command)  # noqa: S606 (that of the component)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


class _Run:
    """The command, from its start to its end."""

    def __init__(
        self, command: int, grace: float, output: int, wakeup: int, writer: "_LogWriter"
    ) -> None:
        self._command = command
        self._grace = grace
        self._output = output
        self._wakeup = wakeup
        self._writer = writer
        self._kill_at: float | None = None
        self._status: int | None = None
        self._sources = [0, output, wakeup]

    def wait(self) -> int:
        """The exit status of the command."""
        while self._status is None:
            timeout = None
            if self._kill_at is not None:
                timeout = max(0.0, self._kill_at - time.monotonic())
                if timeout == 0.0:
                    _kill_all(self._command)
                    timeout = _RETRY_SECONDS
            ready = select.select(self._sources, [], [], timeout)[0]
            if 0 in ready:
                self._stop()
                if os.read(0, _CHUNK_BYTES):
                    self._kill_at = time.monotonic()
                else:
                    self._sources.remove(0)
            if self._output in ready and not self._writer.copy(self._output):
                self._sources.remove(self._output)
            if self._wakeup in ready:
                self._handle_signals(os.read(self._wakeup, _CHUNK_BYTES))
        return self._status

    def end_descendants(self) -> None:
        """Kill what outlived the command; new processes may appear until none is left."""
        while True:
            self._reap()
            if not _descendants():
                return
            _kill_all(self._command)
            select.select([self._wakeup], [], [], _RETRY_SECONDS)

    def _handle_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGCHLD:
                self._reap()
            elif self._kill_at is not None:
                self._kill_at = time.monotonic()
            else:
                self._stop()

    def _reap(self) -> None:
        """Collect every child that has exited; orphaned descendants are children too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._command:
                self._status = status

    def _stop(self) -> None:
        if self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace
            with suppress(ProcessLookupError):
                os.killpg(self._command, signal.SIGTERM)


class _LogWriter:
    """Appends to a file of bounded size; a full disk loses lines, and nothing else."""

    def __init__(self, path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._file = self._open()

    def copy(self, source: int) -> bool:
        """Copy what can be read now; False at the end."""
        chunk = os.read(source, _CHUNK_BYTES)
        if not chunk:
            return False
        try:
            if self._file is not None and os.fstat(self._file).st_size >= self._limit:
                os.close(self._file)
                self._file = None
                os.replace(self._path, f"{self._path}.1")
            if self._file is None:
                self._file = self._open()
            if self._file is not None:
                os.write(self._file, chunk)
        except OSError:
            pass
        return True

    def drain(self, source: int) -> None:
        """Copy what is left in a pipe whose writers have exited."""
        while select.select([source], [], [], 0)[0] and self.copy(source):
            pass

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return None


def _kill_all(command: int) -> None:
    """Kill the process group of the command, and all descendants, wherever they have moved."""
    for send in (lambda: os.killpg(command, signal.SIGKILL), *map(_killer_of, _descendants())):
        with suppress(ProcessLookupError, PermissionError):
            send()


def _killer_of(pid: int) -> Callable[[], None]:
    return lambda: os.kill(pid, signal.SIGKILL)


def _descendants() -> list[int]:
    """All descendants of this process that have not been reaped."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The name, in parentheses, may contain anything.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    found = children.get(os.getpid(), [])
    for pid in found:
        found += children.get(pid, [])
    return found


if __name__ == "__main__":
    main()
