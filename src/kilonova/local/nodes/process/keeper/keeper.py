"""All containers of a folder: what clients order, done."""

import asyncio
import re
import time
from dataclasses import asdict, replace

from kilonova.api.json import JsonObject
from kilonova.local.nodes.process.keeper import processes, sessions
from kilonova.local.nodes.process.keeper.cgroups import Cgroups
from kilonova.local.nodes.process.keeper.container import Container, clear, start
from kilonova.local.nodes.process.keeper.frames import Frames
from kilonova.local.nodes.process.keeper.groups import kill_all
from kilonova.local.nodes.process.keeper.machine import Machine
from kilonova.local.nodes.process.keeper.wire import spec_from_json, state_to_json
from kilonova.local.nodes.process.runtime import (
    ContainerSpec,
    ContainerState,
    StartFailed,
    UnknownContainer,
)

_ROUTES = "routes.json"
_CGROUPS = "cgroups.json"
_ID = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


class Keeper:
    """Answers orders. Those of the past that have ended are only states."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._containers: dict[str, Container] = {}
        self._past: dict[str, ContainerState] = {}
        self._starting: dict[str, asyncio.Task[ContainerState]] = {}
        self._lives: set[asyncio.Task[None]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether anything runs."""
        return bool(self._lives or self._starting)

    async def recover(self) -> None:
        """Go on where the last keeper of this folder stopped, and end what it left behind."""
        records = self._machine.records
        for state, process_started in records.containers().values():
            if state.finished is None:
                process = processes.look_at(state.pid)
                if process is not None and process.started == process_started:
                    kill_all([state.pid])
                await clear(self._machine.groups.group(state.id))
                state = lost(state, time.time())
                records.keep_container(state, process_started)
            self._past[state.id] = state
        await self._clear_cgroups()
        if self._machine.network is not None:
            self._machine.network.set_routes(records.read(_ROUTES) or [])

    async def obey(self, order: JsonObject, client: Frames) -> JsonObject | None:
        """Do what an order says; the answer, unless it has been given on the way."""
        container: str = order.get("container", "")
        match order["do"]:
            case "containers":
                return {"states": [state_to_json(each) for each in self._states().values()]}
            case "start":
                return state_to_json(await self._start(spec_from_json(order["spec"])))
            case "wait":
                return await self._wait(container, client)
            case "signal":
                self._find(container).signal(order["number"])
            case "kill":
                if container in self._containers:
                    self._containers[container].group.kill()
            case "forget":
                self._forget(container)
            case "execute" | "attach":
                return await self._converse(order, client)
            case "consumption":
                return {
                    each.state.id: asdict(each.group.consumption())
                    for each in self._containers.values()
                    if each.state.finished is None
                }
            case "capabilities":
                return asdict(self._machine.capabilities)
            case "routes":
                self._set_routes(order["routes"])
            case unknown:
                raise ValueError(f"no such order: {unknown}")
        return {}

    async def end(self) -> None:
        """Kill everything, and leave no trace but records."""
        while self.is_busy:
            for each in self._containers.values():
                each.group.kill()
            await asyncio.wait({*self._lives, *self._starting.values()}, timeout=1)
        self._machine.groups.close()

    async def _clear_cgroups(self) -> None:
        """The last keeper may have had its place elsewhere in the tree."""
        own = self._machine.groups
        earlier = Cgroups(self._machine.records.read(_CGROUPS) or {})
        for groups in (earlier, own):
            for group in groups.leftovers():
                await clear(group)
                group.remove()
        if isinstance(own, Cgroups):
            if earlier.bases != own.bases:
                earlier.close()
            self._machine.records.write(_CGROUPS, own.bases)

    def _states(self) -> dict[str, ContainerState]:
        return self._past | {each.spec.id: each.state for each in self._containers.values()}

    async def _start(self, spec: ContainerSpec) -> ContainerState:
        """Once: a client that lost its connection may ask again."""
        if not _ID.fullmatch(spec.id):
            raise StartFailed("CreateContainerError", f'"{spec.id}" is not a container id')
        known = self._states().get(spec.id)
        if known is not None:
            return known
        if spec.id not in self._starting:
            task = asyncio.create_task(self._run(spec))
            self._starting[spec.id] = task
            task.add_done_callback(lambda _: self._starting.pop(spec.id))
        return await asyncio.shield(self._starting[spec.id])

    async def _run(self, spec: ContainerSpec) -> ContainerState:
        container, life = await start(self._machine, spec)
        self._containers[spec.id] = container
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)
        return container.state

    async def _wait(self, container: str, client: Frames) -> JsonObject | None:
        if container in self._past:
            return state_to_json(self._past[container])
        found = self._find(container)
        ended = asyncio.create_task(found.ended.wait())
        gone = asyncio.create_task(client.read())
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ended, gone):
            task.cancel()
        return state_to_json(found.state) if found.ended.is_set() else None

    async def _converse(self, order: JsonObject, client: Frames) -> None:
        container = self._containers.get(order["container"])
        if container is None:
            if order["container"] in self._past:
                raise StartFailed("ContainerNotRunning", "container is in CONTAINER_EXITED state")
            raise UnknownContainer(order["container"])
        if order["do"] == "attach":
            await sessions.attach(container, client, stdin=order["stdin"])
        else:
            await sessions.execute(
                self._machine,
                container,
                client,
                order["command"],
                stdin=order["stdin"],
                tty=order["tty"],
            )

    def _forget(self, container: str) -> None:
        state = self._states().get(container)
        if state is not None and state.finished is not None:
            self._past.pop(container, None)
            self._containers.pop(container, None)
            self._machine.records.forget_container(container)

    def _set_routes(self, routes: list[JsonObject]) -> None:
        if self._machine.network is not None:
            self._machine.network.set_routes(routes)
            self._machine.records.write(_ROUTES, routes)

    def _find(self, container: str) -> Container:
        if container not in self._containers:
            raise UnknownContainer(container)
        return self._containers[container]


def lost(state: ContainerState, now: float) -> ContainerState:
    """A container whose keeper was killed: how it ended, nobody knows."""
    return replace(
        state,
        finished=now,
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the keeper was started again",
    )
