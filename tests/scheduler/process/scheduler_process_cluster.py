"""Nodes and pods on a server without kubelets, for a scheduler process."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.gpu.annotations import DEVICES
from kilonova.kube import Client
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, PODS, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import GANGS, gang
from tests.scheduler.harness.embedded_scheduler import pod as plain_pod

CAPACITY = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}


@dataclass(frozen=True, slots=True)
class SchedulerTestCluster:
    """Dedicated nodes of one test, and a user's client."""

    client: Client
    namespace: str

    def node(self, index: int) -> str:
        return f"{self.namespace}-{index}"

    @property
    def node_constraints(self) -> dict[str, Any]:
        """Restrict pods to this test's nodes; the nodes' taint keeps all other pods away."""
        taint = _taint_of(self.namespace)
        return {"nodeSelector": {"ground": self.namespace}, "tolerations": [taint]}

    def pod(self, name: str, gpus: int, *, gang: str = "", **spec: Any) -> Any:
        """A pod without grace period that is restricted to this test's nodes."""
        fields = {**self.node_constraints, "terminationGracePeriodSeconds": 0}
        body = plain_pod(name, gpus, gang=gang, **fields, **spec)
        body["metadata"]["namespace"] = self.namespace
        return body

    async def create(self, body: Any) -> None:
        await self.client.create(PODS, body, self.namespace)

    async def create_gang(self, name: str, size: int, gpus: int, **spec: Any) -> list[str]:
        pods = [f"{name}-{index}" for index in range(size)]
        for each in pods:
            await self.create(self.pod(each, gpus, gang=name, **spec))
        body = gang(name, {"w": pods})
        body["metadata"]["namespace"] = self.namespace
        for ref in body["spec"]["podgroups"][0]["podReferences"]:
            ref["namespace"] = self.namespace
        await self.client.create(GANGS, body, self.namespace)
        return pods

    async def pods(self) -> dict[str, Any]:
        listing = await self.client.list(PODS, self.namespace)
        return {each["metadata"]["name"]: each for each in listing.items}

    async def until_placed(self, *names: str, within: float = 60.0) -> None:
        async def placed() -> bool:
            pods = await self.pods()
            return all(name in pods and pods[name]["spec"].get("nodeName") for name in names)

        await wait_for_condition(placed, within=within)

    async def assert_no_double_allocation(self) -> None:
        """No device is allocated to two pods."""
        allocated: Counter[tuple[str, str]] = Counter()
        for pod in (await self.pods()).values():
            devices = pod["metadata"].get("annotations", {}).get(DEVICES, "")
            node = pod["spec"].get("nodeName", "")
            allocated.update((node, device) for device in devices.split(",") if device)
        assert [each for each, count in allocated.items() if count > 1] == []

    async def pod_scheduled_reason(self, name: str) -> str:
        """The message of a pod's `PodScheduled` condition."""
        conditions = (await self.pods())[name].get("status", {}).get("conditions", [])
        return next(
            (each.get("reason", "") for each in conditions if each["type"] == "PodScheduled"), ""
        )


@asynccontextmanager
async def scheduler_test_cluster(api: Api, nodes: int) -> AsyncGenerator[SchedulerTestCluster]:
    """Schedulable nodes of 8 GPUs each, until the end of the context."""
    async with api.client() as client:
        place = SchedulerTestCluster(client, api.namespace)
        for index in range(nodes):
            labels = {"ground": api.namespace}
            body = {"metadata": {"name": place.node(index), "labels": labels}}
            await client.create(NODES, body)
            # Also replaces the not-ready taint that a genuine server adds to a new node, which no
            # controller here would remove.
            taints = [_taint_of(api.namespace)]
            await client.patch(NODES, place.node(index), {"spec": {"taints": taints}})
            status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
            await client.patch(NODES, place.node(index), status, subresource="status")
        try:
            yield place
        finally:
            for name in await place.pods():
                await client.delete(PODS, name, api.namespace, grace_period_seconds=0)
            for index in range(nodes):
                await client.delete(NODES, place.node(index))


def _taint_of(namespace: str) -> dict[str, str]:
    """The taint of a test's nodes, which is also its toleration."""
    return {"key": "ground", "value": namespace, "effect": "NoSchedule"}
