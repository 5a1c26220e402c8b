"""A cluster as in `kilonova up`, in virtual time, with the objects of an example."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.cluster import ClusterSettings
from kilonova.local.simnodes import read_fleet
from kilonova.scheduler.library.placement_report import PlacementReport, report_placement
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from tests.local.embedded_cluster import NODES, PODS, LoopClock, find, wait_for_condition
from tests.scheduler.harness.dra_objects import CLASSES, SLICES, TEMPLATES
from tests.scheduler.harness.embedded_scheduler import GANGS, PRIORITY_CLASSES, QUEUES
from tests.workloads.workload_cluster import SETS, TOPOLOGY_BINDINGS

EXAMPLES = Path(__file__).parents[2] / "examples" / "scheduling"
FLEET = read_fleet(EXAMPLES / "fleet.yaml")
"""The nodes that the examples are written for."""
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
RESERVATIONS = unstructured_resource(
    "scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True
)
VOLUME_CLAIMS = unstructured_resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True
)
_RESOURCES: dict[str, Resource[Any]] = {
    each.kind: each
    for each in (
        *(PODS, JOBS, DEPLOYMENTS, PRIORITY_CLASSES, VOLUME_CLAIMS, CLASSES, SLICES, TEMPLATES),
        *(SETS, TOPOLOGY_BINDINGS, QUEUES, RESERVATIONS),
    )
}
_RANK = "grove.io/podclique-pod-index"
_DEVICES = "gpu.kilonova.dev/devices"


def read_example(example: str) -> Iterator[tuple[Resource[Any], Any]]:
    """The objects of an example, in order."""
    for body in yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text()):
        yield _RESOURCES[body["kind"]], body


@dataclass(frozen=True, slots=True)
class ExampleCluster:
    """A cluster on which an example runs."""

    client: Client

    async def apply(self, example: str, *, step: int = 1) -> None:
        """Create the objects of a step; objects of later steps have the label `step`."""
        for resource, body in read_example(example):
            if int(body["metadata"].get("labels", {}).get("step", 1)) == step:
                namespace = "default" if resource.namespaced else None
                await self.client.create(resource, body, namespace)

    async def pods(self, name: str) -> list[Any]:
        """The pods with this name or name prefix, by rank."""
        found = (await self.client.list(PODS, "default")).items
        matching = [
            each
            for each in found
            if each["metadata"]["name"] == name or each["metadata"]["name"].startswith(f"{name}-")
        ]
        return sorted(
            matching, key=lambda each: int(each["metadata"].get("labels", {}).get(_RANK, 0))
        )

    async def nodes(self, name: str) -> list[str]:
        """The nodes of these pods, by rank."""
        found = [
            each["spec"].get("nodeName")
            for each in await self.pods(name)
            if each["status"].get("phase") != "Failed"
        ]
        return [node for node in found if node]

    async def racks(self, name: str) -> list[str]:
        """The racks of these nodes, by rank."""
        nodes = (await self.client.list(NODES)).items
        rack_of = {
            each["metadata"]["name"]: each["metadata"]["labels"].get("kilonova.dev/rack", "")
            for each in nodes
        }
        return [rack_of[node] for node in await self.nodes(name)]

    async def devices(self, name: str) -> list[str]:
        """The devices that were assigned to these pods."""
        found = [each["metadata"].get("annotations", {}) for each in await self.pods(name)]
        return [each[_DEVICES] for each in found if _DEVICES in each]

    async def wait_placed(self, name: str, count: int) -> None:
        """Wait until so many pods have a node."""

        async def are_placed() -> bool:
            return len(await self.nodes(name)) == count

        await wait_for_condition(are_placed)

    async def wait_running(self, *gangs: str) -> None:
        """Wait until these gangs run."""

        async def are_running() -> bool:
            found = [await find(self.client, GANGS, gang) for gang in gangs]
            return all(each and each.get("status", {}).get("phase") == "Running" for each in found)

        await wait_for_condition(are_running)

    async def unscheduled_reason(self, pod: str) -> str:
        """The reason in the PodScheduled condition of a pod."""
        found = await self.client.get(PODS, pod, "default")
        conditions = found["status"].get("conditions", [])
        reasons = (each.get("reason") for each in conditions if each["type"] == "PodScheduled")
        return next(reasons, None) or ""

    async def explain(self, name: str) -> PlacementReport:
        """The placement report of `kilonova why`."""
        snapshot = (await capture_snapshot(self.client, now=LoopClock().now)).cluster_snapshot
        found = report_placement(snapshot, "default", name)
        assert found is not None
        return found

    async def waiting_message(self, name: str) -> str:
        """The explanation of a pending gang or pod, in one line."""
        found = await self.explain(name)
        assert found.state == "Unschedulable"
        assert found.explanation is not None
        return found.explanation.message


@asynccontextmanager
async def example_cluster() -> AsyncGenerator[ExampleCluster]:
    """A cluster with operator and scheduler, and the nodes of the examples."""
    settings = ClusterSettings(port=None, data=None, fleet=FLEET)
    cluster = assemble_cluster(("operator", "scheduler"), settings, LoopClock()).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield ExampleCluster(cluster.client("tester"))
    finally:
        await cluster.stop()
