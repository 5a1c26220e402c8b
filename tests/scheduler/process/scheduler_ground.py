"""Nodes and pods on a server where nothing runs them, for a scheduler that is a process."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.gpus import DEVICES
from kilonova.kube import Client
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, PODS, eventually
from tests.scheduler.scheduling import GANGS, gang
from tests.scheduler.scheduling import pod as plain_pod

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


@dataclass(frozen=True, slots=True)
class Ground:
    """Some nodes that one test has for itself, and a client of a user."""

    client: Client
    namespace: str

    def node(self, index: int) -> str:
        return f"{self.namespace}-{index}"

    def pod(self, name: str, gpus: int, *, of: str = "", **spec: Any) -> Any:
        """A pod that goes at once when it is told to, and stands on this test's nodes only."""
        fields = {"nodeSelector": {"ground": self.namespace}, "terminationGracePeriodSeconds": 0}
        body = plain_pod(name, gpus, of=of, **fields, **spec)
        body["metadata"]["namespace"] = self.namespace
        return body

    async def create(self, body: Any) -> None:
        await self.client.create(PODS, body, self.namespace)

    async def create_gang(self, name: str, size: int, gpus: int, **spec: Any) -> list[str]:
        pods = [f"{name}-{index}" for index in range(size)]
        for each in pods:
            await self.create(self.pod(each, gpus, of=name, **spec))
        body = gang(name, {"w": pods})
        body["metadata"]["namespace"] = self.namespace
        for ref in body["spec"]["podgroups"][0]["podReferences"]:
            ref["namespace"] = self.namespace
        await self.client.create(GANGS, body, self.namespace)
        return pods

    async def pods(self) -> dict[str, Any]:
        listing = await self.client.list(PODS, self.namespace)
        return {each["metadata"]["name"]: each for each in listing.items}

    async def until_placed(self, *names: str, within: float = 30.0) -> None:
        async def placed() -> bool:
            pods = await self.pods()
            return all(name in pods and pods[name]["spec"].get("nodeName") for name in names)

        await eventually(placed, within=within)

    async def assert_nothing_twice(self) -> None:
        """No accelerator is given to two pods."""
        given: Counter[tuple[str, str]] = Counter()
        for pod in (await self.pods()).values():
            devices = pod["metadata"].get("annotations", {}).get(DEVICES, "")
            node = pod["spec"].get("nodeName", "")
            given.update((node, device) for device in devices.split(",") if device)
        assert [each for each, count in given.items() if count > 1] == []

    async def reason(self, name: str) -> str:
        """Why a pod has no node."""
        conditions = (await self.pods())[name].get("status", {}).get("conditions", [])
        return next(
            (each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), ""
        )


@asynccontextmanager
async def ground(api: Api, nodes: int) -> AsyncGenerator[Ground]:
    """Nodes of 8 GPUs each, which take pods at once, until the end of the context."""
    async with api.client() as client:
        place = Ground(client, api.namespace)
        for index in range(nodes):
            labels = {"ground": api.namespace}
            body = {"metadata": {"name": place.node(index), "labels": labels}}
            await client.create(NODES, body)
            # A genuine server takes a new node to be not ready, which nobody here would change.
            await client.patch(NODES, place.node(index), {"spec": {"taints": None}})
            status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
            await client.patch(NODES, place.node(index), status, subresource="status")
        try:
            yield place
        finally:
            for name in await place.pods():
                await client.delete(PODS, name, api.namespace, grace=0)
            for index in range(nodes):
                await client.delete(NODES, place.node(index))
