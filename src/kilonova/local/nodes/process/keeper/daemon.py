"""The keeper as a process: one for a folder, in the background, gone when it is not needed."""

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

from kilonova.api.json import JsonObject
from kilonova.local.nodes.process.keeper import linux
from kilonova.local.nodes.process.keeper.frames import SOCKET, Frames
from kilonova.local.nodes.process.keeper.keeper import Keeper
from kilonova.local.nodes.process.keeper.machine import explore
from kilonova.local.nodes.process.runtime import StartFailed, UnknownContainer

LOG = "keeper.log"
_LOCK = "keeper.lock"
_BACKLOG = 4096
_PAUSE = 0.02
_STACK = 256 * 1024


def run(folder: str, idle_seconds: float) -> int:
    """Become the keeper of a folder; returns at once if it has one already, or when it can be
    called: the keeper goes on as another process."""
    folder = os.path.realpath(folder)
    # uvloop hands down more than it should, and waits until all of it is closed.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.umask(0o077)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Paths of sockets are short, those of folders are not.
    os.chdir(folder)
    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    while not _take(lock):
        if _is_answered():
            return 0
        time.sleep(_PAUSE)  # the last keeper is about to end
    listening = _listen()
    if os.fork() != 0:
        return 0
    os.setsid()
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())  # for people
    _leave_terminal()
    linux.adopt_orphans()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a container takes about seven
    threading.stack_size(_STACK)
    sys.setswitchinterval(0.0005)  # the loop gets its turn, also while many containers write
    asyncio.run(_Daemon(idle_seconds).serve(folder, listening))
    return 0


class _Daemon:
    """Takes connections, until it is told to end or has been idle long enough."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._connections: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._idle_since = time.monotonic()

    async def serve(self, folder: str, listening: socket.socket) -> None:
        machine = explore(folder)
        keeper = Keeper(machine)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._over.set)
        # Many ends at once fill the pipe that wakes the loop: it wakes all the same.
        signal.set_wakeup_fd(signal.set_wakeup_fd(-1), warn_on_full_buffer=False)
        await keeper.recover()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._answer(keeper, Frames(reader, writer)))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        server = await asyncio.start_unix_server(connected, sock=listening, backlog=_BACKLOG)
        await self._until_over(keeper)
        server.close()
        await keeper.end()
        os.unlink(SOCKET)
        # Whoever ordered the end sees its connection close with this process.

    async def _until_over(self, keeper: Keeper) -> None:
        while not self._over.is_set():
            now = time.monotonic()
            if self._connections or keeper.is_busy:
                self._idle_since = now
            elif now - self._idle_since >= self._idle_seconds:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._idle_seconds / 4)

    async def _answer(self, keeper: Keeper, client: Frames) -> None:
        try:
            order = await client.read_order()
            if order is None:
                return
            if order["do"] == "end":
                self._over.set()
                await asyncio.Event().wait()
            answer = await _result(keeper, order, client)
            if answer is not None:
                await client.send_order(answer)
        except ConnectionError:
            pass  # the client has gone; nobody is left to be told
        finally:
            client.close()


async def _result(keeper: Keeper, order: JsonObject, client: Frames) -> JsonObject | None:
    try:
        return await keeper.obey(order, client)
    except StartFailed as failed:
        return {"failed": "start", "reason": failed.reason, "message": failed.message}
    except UnknownContainer:
        return {"failed": "unknown"}
    except (ValueError, KeyError, TypeError, OSError) as error:
        return {"failed": "order", "message": f"{type(error).__name__}: {error}"}


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_answered() -> bool:
    with socket.socket(socket.AF_UNIX) as calling:
        try:
            calling.connect(SOCKET)
        except OSError:
            return False
    return True


def _listen() -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)  # of a keeper that was killed: we hold its lock
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(SOCKET)
    os.chmod(SOCKET, 0o600)
    listening.listen(_BACKLOG)
    return listening


def _leave_terminal() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(nothing, 0)
    for fd in (1, 2):
        os.dup2(log, fd)
    os.close(nothing)
    os.close(log)
