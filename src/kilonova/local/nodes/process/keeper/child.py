"""From fork to exec: what a process does to itself before it becomes a container's command.

The keeper has threads, so that nothing here may wait for a lock that one of them could hold: no
imports, no logging, no dynamic linking. What goes wrong is told over a pipe that exec closes.
"""

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kilonova.local.nodes.process.keeper import linux, view
from kilonova.local.nodes.process.keeper.namespaces import Namespaces
from kilonova.local.nodes.process.runtime import Mount, StartFailed

_OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)
"""As it was when the keeper began; it raises its own."""
_NOT_OF_CONTAINERS = (2, 16, 17, 19, 21)
"""CAP_DAC_READ_SEARCH, SYS_MODULE, SYS_RAWIO, SYS_PTRACE and SYS_ADMIN, by which root could undo
its view or look into those of others. Container runtimes do not give them either."""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Launch:
    """A command and what surrounds it."""

    command: Sequence[str]
    env: Mapping[str, str]
    folder: str
    stdio: tuple[int, int, int]
    tty: bool
    join: Sequence[str]
    """Files of cgroups that take the process in."""
    namespaces: Namespaces
    view_of: int | None = None
    """A process whose view is shared; else one is made, of what follows."""
    mounts: Sequence[Mount] = ()
    hidden: Sequence[str] = ()
    privileged: bool = False
    hostname: str = ""
    scratch: str = ""
    user: int | None = None
    group: int | None = None
    install_filter: Callable[[], int] | None = None
    """Of the pod network; gives the descriptor that its keeper listens on."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A process on its way.

    Over `report` come the listener of the network, then the reason and message of a failure, if
    there are such; it ends when the command runs.
    """

    pid: int
    report: socket.socket


def fork(launch: Launch) -> Forked:
    """Start a process. The caller owns what comes back, and still owns the launch's files."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _become(launch, theirs)
    theirs.close()
    return Forked(pid, ours)


def failure(said: bytes) -> StartFailed | None:
    """What a process reported before it ended, if it did."""
    return StartFailed(*json.loads(said)) if said else None


def executable(command: str, path: str) -> str:
    """The file that a command means, looked up as a shell does; `StartFailed` if none does."""
    if "/" in command:
        _check_executable(command)
        return command
    for folder in path.split(":"):
        found = os.path.join(folder or ".", command)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise StartFailed("StartError", f'exec: "{command}": executable file not found in $PATH')


def _check_executable(file: str) -> None:
    try:
        is_folder = os.path.isdir(file)
        os.stat(file)
    except OSError as error:
        problem = f"stat {file}: {_words(error)}"
    else:
        if not is_folder and os.access(file, os.X_OK):
            return
        problem = "is a directory" if is_folder else "permission denied"
    raise StartFailed("StartError", f'exec: "{file}": {problem}')


def _become(launch: Launch, report: socket.socket) -> NoReturn:
    parent = os.getppid()
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_NOFILE, _OPEN_FILES)
        os.setsid()
        for target, source in enumerate(launch.stdio):
            os.dup2(source, target)
        if launch.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for file in launch.join:
            _write(file, "0")
        if launch.install_filter is not None:
            listener = launch.install_filter()
            socket.send_fds(report, [b"\0"], [listener])
            os.close(listener)
        _enter_view(launch)
        if not launch.privileged:
            linux.drop_capabilities(_NOT_OF_CONTAINERS)
        _become_user(launch)
        _enter_folder(launch.folder)
        linux.die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:  # it ended before it was asked to tell
            os._exit(137)
        path = launch.env.get("PATH", DEFAULT_PATH)
        file = executable(launch.command[0], path)
        try:
            os.execve(file, list(launch.command), dict(launch.env))  # noqa: S606 # what we are for
        except OSError as error:
            raise StartFailed("StartError", f"exec {file}: {_words(error)}") from None
    except StartFailed as failed:
        _tell(report, failed.reason, failed.message)
    except view.CannotMount as error:
        _tell(report, "StartError", str(error))
    except OSError as error:
        _tell(report, "StartError", f"{error.filename or 'starting'}: {_words(error)}")
    except Exception as error:
        # The last that this copy of the keeper does; silence would read as success.
        _tell(report, "StartError", repr(error))
    finally:
        os._exit(128)


def _enter_view(launch: Launch) -> None:
    namespaces = launch.namespaces
    if launch.view_of is not None:
        namespaces.join(launch.view_of)
    elif launch.mounts and not namespaces.allowed:
        raise StartFailed(
            "CreateContainerError",
            f'cannot mount "{launch.mounts[0].source}" at "{launch.mounts[0].target}": '
            "this machine does not allow mount namespaces",
        )
    elif namespaces.allowed and (launch.mounts or launch.hidden or launch.hostname):
        namespaces.make(launch.user, launch.group)
        if launch.hostname:
            socket.sethostname(launch.hostname)
        if launch.mounts or launch.hidden:
            view.build(launch.mounts, launch.scratch, launch.hidden)


def _become_user(launch: Launch) -> None:
    if os.geteuid() != 0 or launch.namespaces.of_user:
        return  # a user namespace shows the user that was asked for
    if launch.group is not None or launch.user is not None:
        group = launch.group or 0
        os.setgroups([group])
        os.setresgid(group, group, group)
    if launch.user is not None:
        for fd in range(3):  # so that it can open /dev/stdout, and its terminal
            if stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd):
                os.fchown(fd, launch.user, -1)
        os.setresuid(launch.user, launch.user, launch.user)


def _enter_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        message = f'chdir to cwd ("{folder}") failed: {_words(error)}'
        raise StartFailed("StartError", message) from None


def _tell(report: socket.socket, reason: str, message: str) -> None:
    with contextlib.suppress(OSError):
        report.sendall(json.dumps([reason, message]).encode())


def _write(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, text.encode())
    os.close(fd)


def _words(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
