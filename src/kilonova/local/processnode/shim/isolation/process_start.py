"""From fork to exec: what a process does before it executes a container's command.

The shim has threads, so nothing here may wait for a lock that another thread could hold: no
imports, no logging, no dynamic linking. Errors are reported over a socket that exec closes.
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

from kilonova.local.processnode.cri.api import ContainerStartError, Mount
from kilonova.local.processnode.shim.isolation import linux, rootfs
from kilonova.local.processnode.shim.isolation.namespaces import NamespaceSupport

_OPEN_FILE_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)
"""The limit on open files at the start of the shim, which raises its own."""
_DROPPED_CAPABILITIES = (2, 16, 17, 19, 21)
"""CAP_DAC_READ_SEARCH, SYS_MODULE, SYS_RAWIO, SYS_PTRACE and SYS_ADMIN, with which root could undo
its view or access those of others. Container runtimes drop them as well.
"""
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class ProcessLaunch:
    """A command and its process attributes."""

    command: Sequence[str]
    env: Mapping[str, str]
    working_directory: str
    stdio: tuple[int, int, int]
    tty: bool
    cgroup_procs_files: Sequence[str]
    """cgroup.procs files to which the process writes itself."""
    namespaces: NamespaceSupport
    join_view_of: int | None = None
    """A process whose view is joined; else a view is created from the fields below."""
    mounts: Sequence[Mount] = ()
    hidden: Sequence[str] = ()
    privileged: bool = False
    hostname: str = ""
    scratch: str = ""
    user: int | None = None
    group: int | None = None
    install_filter: Callable[[], int] | None = None
    """Joins the pod network; returns the listener's descriptor."""


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A process that is being started.

    `report` receives the listener of the network, then reason and message of a failure, if any; it
    is closed when the command runs.
    """

    pid: int
    report: socket.socket


def fork_process(launch: ProcessLaunch) -> ForkedProcess:
    """Fork a process. The caller owns the result, and still owns the launch's descriptors."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _exec_in_child(launch, theirs)
    theirs.close()
    return ForkedProcess(pid, ours)


def parse_failure(report: bytes) -> ContainerStartError | None:
    """The failure that a process reported before it exited, if any."""
    return ContainerStartError(*json.loads(report)) if report else None


def find_executable(command: str, path: str) -> str:
    """The file of a command, looked up in PATH as a shell does; may raise `ContainerStartError`."""
    if "/" in command:
        _check_executable(command)
        return command
    for folder in path.split(":"):
        found = os.path.join(folder or ".", command)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return found
    raise ContainerStartError(
        "StartError", f'exec: "{command}": executable file not found in $PATH'
    )


def _check_executable(file: str) -> None:
    try:
        is_folder = os.path.isdir(file)
        os.stat(file)
    except OSError as error:
        problem = f"stat {file}: {_describe_error(error)}"
    else:
        if not is_folder and os.access(file, os.X_OK):
            return
        problem = "is a directory" if is_folder else "permission denied"
    raise ContainerStartError("StartError", f'exec: "{file}": {problem}')


def _exec_in_child(launch: ProcessLaunch, report: socket.socket) -> NoReturn:
    parent = os.getppid()
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_NOFILE, _OPEN_FILE_LIMIT)
        os.setsid()
        for target, source in enumerate(launch.stdio):
            os.dup2(source, target)
        if launch.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for file in launch.cgroup_procs_files:
            _write_kernel_file(file, "0")
        if launch.install_filter is not None:
            listener = launch.install_filter()
            socket.send_fds(report, [b"\0"], [listener])
            os.close(listener)
        _enter_namespaces(launch)
        if not launch.privileged:
            linux.drop_capabilities(_DROPPED_CAPABILITIES)
        _set_user(launch)
        _enter_working_directory(launch.working_directory)
        linux.set_parent_death_signal(signal.SIGKILL)
        if os.getppid() != parent:  # the shim exited before the process requested the signal
            os._exit(137)
        path = launch.env.get("PATH", DEFAULT_PATH)
        file = find_executable(launch.command[0], path)
        try:
            os.execve(file, list(launch.command), dict(launch.env))  # noqa: S606 # what we are for
        except OSError as error:
            raise ContainerStartError(
                "StartError", f"exec {file}: {_describe_error(error)}"
            ) from None
    except ContainerStartError as failed:
        _report_failure(report, failed.reason, failed.message)
    except rootfs.MountError as error:
        _report_failure(report, "StartError", str(error))
    except OSError as error:
        _report_failure(
            report, "StartError", f"{error.filename or 'starting'}: {_describe_error(error)}"
        )
    except Exception as error:
        # The last action of this copy of the shim: without a report it would count as success.
        _report_failure(report, "StartError", repr(error))
    finally:
        os._exit(128)


def _enter_namespaces(launch: ProcessLaunch) -> None:
    namespaces = launch.namespaces
    if launch.join_view_of is not None:
        namespaces.join_process(launch.join_view_of)
    elif launch.mounts and not namespaces.is_allowed:
        raise ContainerStartError(
            "CreateContainerError",
            f'cannot mount "{launch.mounts[0].source}" at "{launch.mounts[0].target}": '
            "this machine does not allow mount namespaces",
        )
    elif namespaces.is_allowed and (launch.mounts or launch.hidden or launch.hostname):
        namespaces.unshare(launch.user, launch.group)
        if launch.hostname:
            socket.sethostname(launch.hostname)
        if launch.mounts or launch.hidden:
            rootfs.build_view(launch.mounts, launch.scratch, launch.hidden)


def _set_user(launch: ProcessLaunch) -> None:
    if os.geteuid() != 0 or launch.namespaces.uses_user_namespace:
        return  # a user namespace maps to the requested user
    if launch.group is not None or launch.user is not None:
        group = launch.group or 0
        os.setgroups([group])
        os.setresgid(group, group, group)
    if launch.user is not None:
        for fd in range(3):  # so that it can open /dev/stdout, and its terminal
            if stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd):
                os.fchown(fd, launch.user, -1)
        os.setresuid(launch.user, launch.user, launch.user)


def _enter_working_directory(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        message = f'chdir to cwd ("{folder}") failed: {_describe_error(error)}'
        raise ContainerStartError("StartError", message) from None


def _report_failure(report: socket.socket, reason: str, message: str) -> None:
    with contextlib.suppress(OSError):
        report.sendall(json.dumps([reason, message]).encode())


def _write_kernel_file(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, text.encode())
    os.close(fd)


def _describe_error(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
