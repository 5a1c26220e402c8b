"""The keeper as a runtime. Starts it when none answers; finds it again when it was restarted."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.kubelets import RemoteProcess
from kilonova.local.nodes.process.keeper.frames import SOCKET, Frames
from kilonova.local.nodes.process.keeper.remote import KeptProcess
from kilonova.local.nodes.process.keeper.wire import spec_to_json, state_from_json
from kilonova.local.nodes.process.runtime import (
    Capabilities,
    Consumption,
    ContainerSpec,
    ContainerState,
    StartFailed,
    UnknownContainer,
)

IDLE_SECONDS = 30.0
_MAIN = Path(__file__).with_name("__main__.py")
_TRIES = 5
_PAUSE = 0.005


class KeeperFailed(Exception):
    """The keeper cannot be started or does not understand; carries what it said."""


class KeeperRuntime:
    """Containers of the keeper of one folder.

    Holds nothing but the folder: any number may talk to one keeper, and a new one knows all
    containers of the last.
    """

    def __init__(self, folder: Path, idle_seconds: float = IDLE_SECONDS) -> None:
        self._folder = folder.absolute()
        self._idle_seconds = idle_seconds
        self._starting = asyncio.Lock()

    async def containers(self) -> Sequence[ContainerState]:
        answer = await self._order({"do": "containers"})
        return [state_from_json(each) for each in answer["states"]]

    async def start(self, spec: ContainerSpec) -> ContainerState:
        return state_from_json(await self._order({"do": "start", "spec": spec_to_json(spec)}))

    async def signal(self, container: str, number: int) -> None:
        with contextlib.suppress(UnknownContainer):
            await self._order({"do": "signal", "container": container, "number": number})

    async def kill(self, container: str) -> None:
        await self._order({"do": "kill", "container": container})

    async def wait(self, container: str) -> ContainerState:
        return state_from_json(await self._order({"do": "wait", "container": container}))

    async def forget(self, container: str) -> None:
        await self._order({"do": "forget", "container": container})

    async def execute(
        self, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> RemoteProcess:
        order: JsonObject = {"do": "execute", "container": container, "command": list(command)}
        return await self._converse({**order, "stdin": stdin, "tty": tty})

    async def attach(self, container: str, *, stdin: bool) -> RemoteProcess:
        return await self._converse({"do": "attach", "container": container, "stdin": stdin})

    async def consumption(self) -> Mapping[str, Consumption]:
        answer = await self._order({"do": "consumption"})
        return {container: Consumption(**used) for container, used in answer.items()}

    async def capabilities(self) -> Capabilities:
        """What this machine allows."""
        return Capabilities(**await self._order({"do": "capabilities"}))

    async def set_routes(self, routes: Sequence[JsonObject]) -> None:
        """Of the pod network; these and no others. The keeper remembers them."""
        await self._order({"do": "routes", "routes": list(routes)})

    async def running(self) -> int:
        """How many containers run. A keeper that is not there is not started."""
        try:
            frames = await self._connect()
        except (FileNotFoundError, ConnectionError):
            return 0
        answer: JsonObject | None = None
        with contextlib.suppress(ConnectionError):
            await frames.send_order({"do": "containers"})
            answer = await frames.read_order()
        frames.close()
        states = map(state_from_json, answer["states"] if answer else ())
        return sum(state.finished is None for state in states)

    async def shutdown(self) -> None:
        """Kill all containers and end the keeper, if there is one. Records stay."""
        try:
            frames = await self._connect()
        except (FileNotFoundError, ConnectionError):
            return
        with contextlib.suppress(ConnectionError):
            await frames.send_order({"do": "end"})
            await frames.read()  # nothing comes; it ends with the keeper
        frames.close()

    async def _order(self, order: JsonObject) -> JsonObject:
        """Send until answered: every order but a conversation may be given twice."""
        for _ in range(_TRIES):
            frames = await self._reach()
            try:
                with contextlib.suppress(ConnectionError):
                    await frames.send_order(order)
                    answer = await frames.read_order()
                    if answer is not None:
                        return _succeeded(answer, order)
            finally:
                frames.close()
        raise KeeperFailed(f"the keeper of {self._folder} does not answer: {self._said()}")

    async def _converse(self, order: JsonObject) -> RemoteProcess:
        frames = await self._reach()
        try:
            await frames.send_order(order)
            answer = await frames.read_order()
            if answer is None:
                raise KeeperFailed(f"the keeper of {self._folder} has ended: {self._said()}")
            _succeeded(answer, order)
        except BaseException:
            frames.close()
            raise
        return KeptProcess(frames)

    async def _reach(self) -> Frames:
        async with self._starting:
            for _ in range(_TRIES):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, ConnectionError):
                    return await self._connect()
                await self._launch()
        raise KeeperFailed(f"the keeper of {self._folder} does not answer: {self._said()}")

    async def _connect(self) -> Frames:
        # By descriptor: the path of a socket has at most 107 bytes.
        folder = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        calling = socket.socket(socket.AF_UNIX)
        calling.setblocking(False)
        try:
            # Not by asyncio, which takes a refusal because of a full queue for a connection.
            while not _is_connected(calling, f"/proc/self/fd/{folder}/{SOCKET}"):  # noqa: ASYNC110
                await asyncio.sleep(_PAUSE)
        except BaseException:
            calling.close()
            raise
        finally:
            os.close(folder)
        return Frames(*await asyncio.open_unix_connection(sock=calling))

    async def _launch(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_MAIN), str(self._folder), str(self._idle_seconds)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            raise KeeperFailed(f"the keeper of {self._folder} cannot start: {said.decode()}")

    def _said(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / "keeper.log").read_text(errors="replace")[-2000:]
        return ""


def _is_connected(calling: socket.socket, path: str) -> bool:
    try:
        calling.connect(path)
    except BlockingIOError:
        return False
    return True


def _succeeded(answer: JsonObject, order: JsonObject) -> JsonObject:
    match answer.get("failed"):
        case None:
            return answer
        case "start":
            raise StartFailed(answer["reason"], answer["message"])
        case "unknown":
            raise UnknownContainer(order["container"])
        case _:
            raise KeeperFailed(answer["message"])
