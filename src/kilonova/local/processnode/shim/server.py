"""Serves the requests of clients for all containers of a directory."""

import asyncio
import re
import time
from dataclasses import asdict, replace

from kilonova.local.processnode.cri.api import (
    ContainerSpec,
    ContainerStartError,
    ContainerState,
    JsonObject,
    UnknownContainer,
)
from kilonova.local.processnode.cri.codec import decode_spec, encode_state
from kilonova.local.processnode.cri.frames import FrameConnection
from kilonova.local.processnode.shim import exec_sessions
from kilonova.local.processnode.shim.container import RunningContainer, kill_group, start_container
from kilonova.local.processnode.shim.host import ShimHost
from kilonova.local.processnode.shim.isolation import procfs
from kilonova.local.processnode.shim.isolation.cgroups import CgroupFactory
from kilonova.local.processnode.shim.isolation.process_groups import kill_processes

_ROUTES_FILE = "routes.json"
_CGROUPS_FILE = "cgroups.json"
_CONTAINER_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


class ShimServer:
    """Handles requests. Containers of previous shims that have ended are only states."""

    def __init__(self, host: ShimHost) -> None:
        self._host = host
        self._containers: dict[str, RunningContainer] = {}
        self._ended_states: dict[str, ContainerState] = {}
        self._starting: dict[str, asyncio.Task[ContainerState]] = {}
        self._container_tasks: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether any container runs or is being started."""
        return bool(self._container_tasks or self._starting)

    async def recover(self) -> None:
        """Continue from the records of the previous shim, and kill the processes that it left."""
        records = self._host.records
        for state, process_started in records.load_containers().values():
            if state.finished is None:
                process = procfs.read_process(state.pid)
                if process is not None and process.started == process_started:
                    kill_processes([state.pid])
                await kill_group(self._host.groups.get_group(state.id))
                state = build_lost_state(state, time.time())
                records.save_container(state, process_started)
            self._ended_states[state.id] = state
        await self._clear_cgroups()
        if self._host.network is not None:
            self._host.network.set_routes(records.read_file(_ROUTES_FILE) or [])

    async def handle_request(
        self, request: JsonObject, client: FrameConnection
    ) -> JsonObject | None:
        """Handle a request; returns the response, unless it has already been sent."""
        container: str = request.get("container", "")
        match request["do"]:
            case "containers":
                return {"states": [encode_state(each) for each in self._all_states().values()]}
            case "start":
                return encode_state(await self._start_once(decode_spec(request["spec"])))
            case "wait":
                return await self._wait_for_end(container, client)
            case "signal":
                self._find_container(container).signal(request["number"])
            case "kill":
                if container in self._containers:
                    self._containers[container].group.kill()
            case "forget":
                self._remove_container(container)
            case "execute" | "attach":
                return await self._open_stream(request, client)
            case "consumption":
                return {
                    each.state.id: asdict(each.group.read_stats())
                    for each in self._containers.values()
                    if each.state.finished is None
                }
            case "capabilities":
                return asdict(self._host.capabilities)
            case "routes":
                self._set_routes(request["routes"])
            case unknown:
                raise ValueError(f"unknown request: {unknown}")
        return {}

    async def kill_all_containers(self) -> None:
        """Kill all containers, and leave nothing but records."""
        while self.is_busy:
            for each in self._containers.values():
                each.group.kill()
            await asyncio.wait({*self._container_tasks, *self._starting.values()}, timeout=1)
        self._host.groups.close()

    async def _clear_cgroups(self) -> None:
        """The previous shim may have used another place in the cgroup hierarchy."""
        own = self._host.groups
        earlier = CgroupFactory(self._host.records.read_file(_CGROUPS_FILE) or {})
        for groups in (earlier, own):
            for group in groups.find_leftovers():
                await kill_group(group)
                group.remove()
        if isinstance(own, CgroupFactory):
            if earlier.bases != own.bases:
                earlier.close()
            self._host.records.write_file(_CGROUPS_FILE, own.bases)

    def _all_states(self) -> dict[str, ContainerState]:
        return self._ended_states | {each.spec.id: each.state for each in self._containers.values()}

    async def _start_once(self, spec: ContainerSpec) -> ContainerState:
        """Idempotent: a client that lost its connection may repeat the request."""
        if not _CONTAINER_ID.fullmatch(spec.id):
            raise ContainerStartError("CreateContainerError", f'"{spec.id}" is not a container id')
        state = self._all_states().get(spec.id)
        if state is not None:
            return state
        if spec.id not in self._starting:
            task = asyncio.create_task(self._run_container(spec))
            self._starting[spec.id] = task
            task.add_done_callback(lambda _: self._starting.pop(spec.id))
        return await asyncio.shield(self._starting[spec.id])

    async def _run_container(self, spec: ContainerSpec) -> ContainerState:
        container, task = await start_container(self._host, spec)
        self._containers[spec.id] = container
        self._container_tasks.add(task)
        task.add_done_callback(self._container_tasks.discard)
        return container.state

    async def _wait_for_end(self, container: str, client: FrameConnection) -> JsonObject | None:
        if container in self._ended_states:
            return encode_state(self._ended_states[container])
        found = self._find_container(container)
        ended = asyncio.create_task(found.ended.wait())
        disconnected = asyncio.create_task(client.read_frame())
        await asyncio.wait({ended, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, disconnected):
            task.cancel()
        return encode_state(found.state) if found.ended.is_set() else None

    async def _open_stream(self, request: JsonObject, client: FrameConnection) -> None:
        container = self._containers.get(request["container"])
        if container is None:
            if request["container"] in self._ended_states:
                raise ContainerStartError(
                    "ContainerNotRunning", "container is in CONTAINER_EXITED state"
                )
            raise UnknownContainer(request["container"])
        if request["do"] == "attach":
            await exec_sessions.attach_container(container, client, stdin=request["stdin"])
        else:
            await exec_sessions.execute_command(
                self._host,
                container,
                client,
                request["command"],
                stdin=request["stdin"],
                tty=request["tty"],
            )

    def _remove_container(self, container: str) -> None:
        state = self._all_states().get(container)
        if state is not None and state.finished is not None:
            self._ended_states.pop(container, None)
            self._containers.pop(container, None)
            self._host.records.delete_container(container)

    def _set_routes(self, routes: list[JsonObject]) -> None:
        if self._host.network is not None:
            self._host.network.set_routes(routes)
            self._host.records.write_file(_ROUTES_FILE, routes)

    def _find_container(self, container: str) -> RunningContainer:
        if container not in self._containers:
            raise UnknownContainer(container)
        return self._containers[container]


def build_lost_state(state: ContainerState, now: float) -> ContainerState:
    """The state of a container whose shim was killed: how it ended is unknown."""
    return replace(
        state,
        finished=now,
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the runtime shim was restarted",
    )
