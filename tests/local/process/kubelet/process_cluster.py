"""A cluster with a process node, for a test: real time, a real keeper, ended surely."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kilonova.cli.residents import Residents
from kilonova.kube import BadRequest, Client
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.nodes.process.keeper.client import KeeperRuntime
from tests.local.embedded_cluster import EVENTS, NODES, PODS, find

_PATIENCE = 30.0


@dataclass(frozen=True)
class ProcessCluster:
    """A running one, with the words that tests use."""

    cluster: Cluster
    client: Client
    node: str
    data: Path

    async def run(self, name: str, *command: str, **fields: Any) -> None:
        """Create a pod with one container on the process node."""
        container = {"name": "main", "image": "none", "command": list(command)}
        container |= fields.pop("container", {})
        await self.create(name, container, **fields)

    async def create(self, name: str, *containers: Any, **spec: Any) -> None:
        """Create a pod on the process node."""
        body = {
            "metadata": {"name": name, **spec.pop("metadata", {})},
            "spec": {
                "nodeName": self.node,
                "containers": [{"image": "none", **each} for each in containers],
                "terminationGracePeriodSeconds": 2,
                "automountServiceAccountToken": False,
                **spec,
            },
        }
        await self.client.create(PODS, body, "default")

    async def until(self, name: str, holds: Callable[[Any], Any], within: float = _PATIENCE) -> Any:
        """The pod, once something holds of it."""
        pod: Any = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            pod = await find(self.client, PODS, name)
            if pod is not None and holds(pod):
                return pod
            assert loop.time() < deadline, pod and pod["status"]
            await asyncio.sleep(0.02)

    async def until_phase(self, name: str, phase: str) -> Any:
        return await self.until(name, lambda pod: pod["status"].get("phase") == phase)

    async def until_gone(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while await find(self.client, PODS, name) is not None:
            assert loop.time() < deadline
            await asyncio.sleep(0.02)

    async def logs(self, name: str, **options: Any) -> str:
        """All that a container has written."""
        chunks = [chunk async for chunk in self.client.logs(name, "default", **options)]
        return b"".join(chunks).decode()

    async def until_log(self, name: str, text: str, **options: Any) -> str:
        """The log, once it has a text."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while text not in (found := await self._log_so_far(name, options)):
            assert loop.time() < deadline, found
            await asyncio.sleep(0.02)
        return found

    async def _log_so_far(self, name: str, options: Any) -> str:
        try:
            return await self.logs(name, **options)
        except BadRequest:  # it is yet to start
            return ""

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of all events about a pod, as they are written."""
        listing = await self.client.list(EVENTS, "default")
        return [
            (each["reason"], each["message"])
            for each in listing.items
            if each["involvedObject"]["name"] == name
        ]

    async def until_event(self, name: str, reason: str) -> str:
        """The message of an event, once there is one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while True:
            found = dict(await self.events(name))
            if reason in found:
                return found[reason]
            assert loop.time() < deadline, found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def process_cluster(
    data: Path, *, keeper_stays: bool = False, **settings: Any
) -> AsyncGenerator[ProcessCluster]:
    """A cluster on `data`, from start to stop; the keeper ends with it unless it is to stay."""
    asked = replace(Settings(data=data, port=0, process_node=True), **settings)
    cluster = Residents(operator=False).cluster(asked)
    try:
        await cluster.start()
        await cluster.wait_settled()
        client = cluster.client("test")
        nodes = (await client.list(NODES, labels="kilonova.dev/node-kind=process")).items
        yield ProcessCluster(cluster, client, nodes[0]["metadata"]["name"], data)
    finally:
        await cluster.stop()
        if not keeper_stays:
            await KeeperRuntime(data / "keeper").shutdown()


def container_of(pod: Any, name: str = "main") -> Any:
    """What is said of a container."""
    groups = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    statuses = [each for group in groups for each in pod["status"].get(group, [])]
    return next((each for each in statuses if each["name"] == name), {})


def state_of(pod: Any, name: str = "main") -> Any:
    """(kind of state, what it says)."""
    state = container_of(pod, name).get("state", {})
    return next(iter(state.items()), ("", {}))


def is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
