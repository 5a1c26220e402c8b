"""A cluster with a process node, for a test: real time, a real shim, always stopped."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import BadRequest, Client
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.processnode.cri.client import ShimRuntime
from tests.local.embedded_cluster import EVENTS, NODES, PODS, find

_TIMEOUT = 30.0


@dataclass(frozen=True)
class ProcessCluster:
    """A running one, with the words that tests use."""

    cluster: EmbeddedCluster
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

    async def wait_until(
        self, name: str, holds: Callable[[Any], Any], within: float = _TIMEOUT
    ) -> Any:
        """The pod, once a condition holds."""
        pod: Any = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            pod = await find(self.client, PODS, name)
            if pod is not None and holds(pod):
                return pod
            assert loop.time() < deadline, pod and pod["status"]
            await asyncio.sleep(0.02)

    async def wait_for_phase(self, name: str, phase: str) -> Any:
        return await self.wait_until(name, lambda pod: pod["status"].get("phase") == phase)

    async def wait_for_deletion(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while await find(self.client, PODS, name) is not None:
            assert loop.time() < deadline
            await asyncio.sleep(0.02)

    async def logs(self, name: str, **options: Any) -> str:
        """All that a container has written."""
        chunks = [chunk async for chunk in self.client.logs(name, "default", **options)]
        return b"".join(chunks).decode()

    async def wait_for_log(self, name: str, text: str, **options: Any) -> str:
        """The log, once it has a text."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
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
        """(reason, message) of all events about a pod."""
        listing = await self.client.list(EVENTS, "default")
        return [
            (each["reason"], each["message"])
            for each in listing.items
            if each["involvedObject"]["name"] == name
        ]

    async def wait_for_event(self, name: str, reason: str) -> str:
        """The message of an event, once it is recorded."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _TIMEOUT
        while True:
            found = dict(await self.events(name))
            if reason in found:
                return found[reason]
            assert loop.time() < deadline, found
            await asyncio.sleep(0.02)


@asynccontextmanager
async def process_cluster(
    data: Path, *, shim_stays: bool = False, **settings: Any
) -> AsyncGenerator[ProcessCluster]:
    """A cluster on `data`, from start to stop; the shim stops with it unless `shim_stays`."""
    asked = replace(ClusterSettings(data=data, port=0, process_node=True), **settings)
    cluster = assemble_cluster(("scheduler",), asked).cluster
    try:
        await cluster.start()
        await cluster.wait_nodes_registered()
        client = cluster.client("test")
        nodes = (await client.list(NODES, label_selector="kilonova.dev/node-kind=process")).items
        yield ProcessCluster(cluster, client, nodes[0]["metadata"]["name"], data)
    finally:
        await cluster.stop()
        if not shim_stays:
            await ShimRuntime(data / "shim").shutdown()


def container_of(pod: Any, name: str = "main") -> Any:
    """The status of a container."""
    groups = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    statuses = [each for group in groups for each in pod["status"].get(group, [])]
    return next((each for each in statuses if each["name"] == name), {})


def state_of(pod: Any, name: str = "main") -> Any:
    """(kind of state, the state)."""
    state = container_of(pod, name).get("state", {})
    return next(iter(state.items()), ("", {}))


def is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
