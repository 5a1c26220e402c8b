"""Client of the runtime shim. Launches the shim if none is running, and reconnects to it."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kilonova.local.kubelet_api import RemoteProcess
from kilonova.local.processnode.cri.api import (
    Capabilities,
    ContainerSpec,
    ContainerStartError,
    ContainerState,
    ContainerStats,
    JsonObject,
    UnknownContainer,
)
from kilonova.local.processnode.cri.codec import decode_state, encode_spec
from kilonova.local.processnode.cri.frames import LOG_FILE, SOCKET_NAME, FrameConnection
from kilonova.local.processnode.cri.remote_process import ShimProcess

IDLE_SECONDS = 30.0
_SHIM_MAIN = Path(__file__).parents[1] / "shim" / "__main__.py"
_MAX_ATTEMPTS = 5
_RETRY_PAUSE = 0.005


class ShimError(Exception):
    """The shim cannot be started, or rejected a request; carries its message."""


class ShimRuntime:
    """The containers of the shim of one directory.

    Holds no state but the directory: any number of clients may talk to one shim, and a new client
    sees all containers.
    """

    def __init__(self, folder: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._folder = folder.absolute()
        self._idle_seconds = idle_seconds
        self._starting = asyncio.Lock()

    async def list_containers(self) -> Sequence[ContainerState]:
        answer = await self._request({"do": "containers"})
        return [decode_state(each) for each in answer["states"]]

    async def start(self, spec: ContainerSpec) -> ContainerState:
        return decode_state(await self._request({"do": "start", "spec": encode_spec(spec)}))

    async def signal(self, container: str, number: int) -> None:
        with contextlib.suppress(UnknownContainer):
            await self._request({"do": "signal", "container": container, "number": number})

    async def kill(self, container: str) -> None:
        await self._request({"do": "kill", "container": container})

    async def wait(self, container: str) -> ContainerState:
        return decode_state(await self._request({"do": "wait", "container": container}))

    async def remove_container(self, container: str) -> None:
        await self._request({"do": "forget", "container": container})

    async def execute(
        self, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        request: JsonObject = {"do": "execute", "container": container, "command": list(command)}
        return await self._open_stream({**request, "stdin": stdin, "tty": tty})

    async def attach(self, container: str, *, stdin: bool) -> RemoteProcess:
        return await self._open_stream({"do": "attach", "container": container, "stdin": stdin})

    async def container_stats(self) -> Mapping[str, ContainerStats]:
        answer = await self._request({"do": "consumption"})
        return {container: ContainerStats(**used) for container, used in answer.items()}

    async def capabilities(self) -> Capabilities:
        """What this machine allows."""
        return Capabilities(**await self._request({"do": "capabilities"}))

    async def set_routes(self, routes: Sequence[JsonObject]) -> None:
        """Replace all routes of the pod network. The shim persists them."""
        await self._request({"do": "routes", "routes": list(routes)})

    async def count_running(self) -> int:
        """The number of running containers. Does not launch a shim."""
        try:
            frames = await self._connect()
        except (FileNotFoundError, ConnectionError):
            return 0
        answer: JsonObject | None = None
        with contextlib.suppress(ConnectionError):
            await frames.send_message({"do": "containers"})
            answer = await frames.read_message()
        frames.close()
        states = map(decode_state, answer["states"] if answer else ())
        return sum(state.finished is None for state in states)

    async def shutdown(self) -> None:
        """Kill all containers and stop the shim, if one is running. Records stay."""
        try:
            frames = await self._connect()
        except (FileNotFoundError, ConnectionError):
            return
        with contextlib.suppress(ConnectionError):
            await frames.send_message({"do": "end"})
            await frames.read_frame()  # no frame comes: the connection closes when the shim exits
        frames.close()

    async def _request(self, request: JsonObject) -> JsonObject:
        """Send until answered: every request except exec and attach is idempotent."""
        for _ in range(_MAX_ATTEMPTS):
            frames = await self._connect_or_launch()
            try:
                with contextlib.suppress(ConnectionError):
                    await frames.send_message(request)
                    answer = await frames.read_message()
                    if answer is not None:
                        return _raise_for_failure(answer, request)
            finally:
                frames.close()
        raise ShimError(
            f"the runtime shim in {self._folder} does not respond: {self._read_log_tail()}"
        )

    async def _open_stream(self, request: JsonObject) -> RemoteProcess:
        frames = await self._connect_or_launch()
        try:
            await frames.send_message(request)
            answer = await frames.read_message()
            if answer is None:
                raise ShimError(
                    f"the runtime shim in {self._folder} has exited: {self._read_log_tail()}"
                )
            _raise_for_failure(answer, request)
        except BaseException:
            frames.close()
            raise
        return ShimProcess(frames)

    async def _connect_or_launch(self) -> FrameConnection:
        async with self._starting:
            for _ in range(_MAX_ATTEMPTS):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, ConnectionError):
                    return await self._connect()
                await self._launch_shim()
        raise ShimError(
            f"the runtime shim in {self._folder} does not respond: {self._read_log_tail()}"
        )

    async def _connect(self) -> FrameConnection:
        # Through /proc/self/fd: a socket path is limited to 107 bytes.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            # Not with asyncio, which takes EAGAIN of a full backlog for an established connection.
            while not _try_connect(client, f"/proc/self/fd/{folder}/{SOCKET_NAME}"):  # noqa: ASYNC110
                await asyncio.sleep(_RETRY_PAUSE)
        except BaseException:
            client.close()
            raise
        finally:
            os.close(folder)
        return FrameConnection(*await asyncio.open_unix_connection(sock=client))

    async def _launch_shim(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-I",
                "-S",
                str(_SHIM_MAIN),
                str(self._folder),
                str(self._idle_seconds),
            ),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )
        _, stderr = await process.communicate()
        if process.returncode != 0:
            raise ShimError(f"the runtime shim in {self._folder} cannot start: {stderr.decode()}")

    def _read_log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / LOG_FILE).read_text(errors="replace")[-2000:]
        return ""


def _try_connect(client: socket.socket, path: str) -> bool:
    try:
        client.connect(path)
    except BlockingIOError:
        return False
    return True


def _raise_for_failure(answer: JsonObject, request: JsonObject) -> JsonObject:
    match answer.get("failed"):
        case None:
            return answer
        case "start":
            raise ContainerStartError(answer["reason"], answer["message"])
        case "unknown":
            raise UnknownContainer(request["container"])
        case _:
            raise ShimError(answer["message"])
