"""The shim as a daemon: one per directory, exiting when it is idle."""

import asyncio
import contextlib
import fcntl
import os
import resource
import signal
import socket
import sys
import threading
import time

from kilonova.local.processnode.cri.api import ContainerStartError, JsonObject, UnknownContainer
from kilonova.local.processnode.cri.frames import LOG_FILE, SOCKET_NAME, FrameConnection
from kilonova.local.processnode.shim.host import detect_host
from kilonova.local.processnode.shim.isolation import linux
from kilonova.local.processnode.shim.server import ShimServer

_LOCK_FILE = "shim.lock"
_BACKLOG = 4096
_LOCK_RETRY_PAUSE = 0.02
_THREAD_STACK_SIZE = 256 * 1024


def run_shim(folder: str, idle_seconds: float) -> int:
    """Become the shim of a directory. Returns at once if one is running, or when the socket is
    ready: the shim continues in a forked process.
    """
    folder = os.path.realpath(folder)
    # uvloop leaks file descriptors to its children and waits until all of them are closed.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.umask(0o077)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Socket paths are limited to 107 bytes, directory paths are not.
    os.chdir(folder)
    lock = os.open(_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not _try_lock(lock):
        if _is_shim_listening():
            return 0
        time.sleep(_LOCK_RETRY_PAUSE)  # the previous shim is about to exit
    listening = _listen()
    if os.fork() != 0:
        return 0
    os.setsid()
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())  # informational
    _detach_from_terminal()
    linux.become_subreaper()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a container needs about seven
    threading.stack_size(_THREAD_STACK_SIZE)
    sys.setswitchinterval(0.0005)  # the event loop runs even while many containers write
    asyncio.run(_ShimDaemon(idle_seconds).serve(folder, listening))
    return 0


class _ShimDaemon:
    """Accepts connections until it is stopped or has been idle long enough."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._connections: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._idle_since = time.monotonic()

    async def serve(self, folder: str, listening: socket.socket) -> None:
        machine = detect_host(folder)
        shim_server = ShimServer(machine)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stopped.set)
        # Many exits at once fill the pipe that wakes the loop, which wakes all the same.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        await shim_server.recover()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(
                self._handle_connection(shim_server, FrameConnection(reader, writer))
            )
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        server = await asyncio.start_unix_server(connected, sock=listening, backlog=_BACKLOG)
        await self._wait_until_stopped(shim_server)
        server.close()
        await shim_server.kill_all_containers()
        os.unlink(SOCKET_NAME)
        # The client that requested the end sees its connection close with this process.

    async def _wait_until_stopped(self, server: ShimServer) -> None:
        while not self._stopped.is_set():
            now = time.monotonic()
            if self._connections or server.is_busy:
                self._idle_since = now
            elif now - self._idle_since >= self._idle_seconds:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), self._idle_seconds / 4)

    async def _handle_connection(self, server: ShimServer, client: FrameConnection) -> None:
        try:
            order = await client.read_message()
            if order is None:
                return
            if order["do"] == "end":
                self._stopped.set()
                await asyncio.Event().wait()
            answer = await _handle_request(server, order, client)
            if answer is not None:
                await client.send_message(answer)
        except ConnectionError:
            pass  # the client has disconnected: there is no one to answer
        finally:
            client.close()


async def _handle_request(
    server: ShimServer, request: JsonObject, client: FrameConnection
) -> JsonObject | None:
    try:
        return await server.handle_request(request, client)
    except ContainerStartError as failed:
        return {"failed": "start", "reason": failed.reason, "message": failed.message}
    except UnknownContainer:
        return {"failed": "unknown"}
    except (ValueError, KeyError, TypeError, OSError) as error:
        return {"failed": "order", "message": f"{type(error).__name__}: {error}"}


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_shim_listening() -> bool:
    with socket.socket(socket.AF_UNIX) as calling:
        try:
            calling.connect(SOCKET_NAME)
        except OSError:
            return False
    return True


def _listen() -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET_NAME)  # of a shim that was killed: we hold its lock
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(SOCKET_NAME)
    os.chmod(SOCKET_NAME, 0o600)
    listening.listen(_BACKLOG)
    return listening


def _detach_from_terminal() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    for fd in (1, 2):
        os.dup2(log, fd)
    os.close(nothing)
    os.close(log)
