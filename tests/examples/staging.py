"""A cluster as `kilonova up` starts it, in virtual time, and an example's objects on it."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kilonova.cli.residents import Residents
from kilonova.kube import Client
from kilonova.kube.resource import Resource, plain
from kilonova.local.cluster import Settings
from kilonova.local.nodes import read_fleet
from kilonova.scheduler.answering import Answer, answer
from kilonova.scheduler.capturing import capture
from tests.local.embedded_cluster import NODES, PODS, LoopClock, eventually, find
from tests.scheduler.dra import CLASSES, SLICES, TEMPLATES
from tests.scheduler.scheduling import GANGS, PRIORITIES, QUEUES
from tests.workloads.ground import SETS, TOPOLOGIES

FOLDER = Path(__file__).parents[2] / "examples" / "scheduling"
FLEET = read_fleet(FOLDER / "fleet.yaml")
"""The nodes for which the examples are written."""
JOBS = plain("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = plain("apps", "v1", "deployments", "Deployment", True)
RESERVATIONS = plain("scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True)
VOLUME_CLAIMS = plain("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
_RESOURCES: dict[str, Resource[Any]] = {
    each.kind: each
    for each in (
        *(PODS, JOBS, DEPLOYMENTS, PRIORITIES, VOLUME_CLAIMS, CLASSES, SLICES, TEMPLATES),
        *(SETS, TOPOLOGIES, QUEUES, RESERVATIONS),
    )
}
_RANK = "grove.io/podclique-pod-index"
_DEVICES = "gpu.kilonova.dev/devices"


def objects(example: str) -> Iterator[tuple[Resource[Any], Any]]:
    """What is in an example, in order."""
    for body in yaml.safe_load_all((FOLDER / f"{example}.yaml").read_text()):
        yield _RESOURCES[body["kind"]], body


@dataclass(frozen=True, slots=True)
class Stage:
    """Where an example is shown."""

    client: Client

    async def apply(self, example: str, *, step: int = 1) -> None:
        """Makes the objects that are applied in a step: those of the second say so in a label."""
        for resource, body in objects(example):
            if int(body["metadata"].get("labels", {}).get("step", 1)) == step:
                namespace = "default" if resource.namespaced else None
                await self.client.create(resource, body, namespace)

    async def pods(self, name: str) -> list[Any]:
        """The pods of that name, or that were made for it, by rank."""
        found = (await self.client.list(PODS, "default")).items
        ours = [
            each
            for each in found
            if each["metadata"]["name"] == name or each["metadata"]["name"].startswith(f"{name}-")
        ]
        return sorted(ours, key=lambda each: int(each["metadata"].get("labels", {}).get(_RANK, 0)))

    async def nodes(self, name: str) -> list[str]:
        """Where those of them stand that have a node, by rank."""
        found = [
            each["spec"].get("nodeName")
            for each in await self.pods(name)
            if each["status"].get("phase") != "Failed"
        ]
        return [node for node in found if node]

    async def racks(self, name: str) -> list[str]:
        """The racks of these nodes, by rank."""
        nodes = (await self.client.list(NODES)).items
        of = {
            each["metadata"]["name"]: each["metadata"]["labels"].get("kilonova.dev/rack", "")
            for each in nodes
        }
        return [of[node] for node in await self.nodes(name)]

    async def devices(self, name: str) -> list[str]:
        """The devices that these pods were given."""
        found = [each["metadata"].get("annotations", {}) for each in await self.pods(name)]
        return [each[_DEVICES] for each in found if _DEVICES in each]

    async def is_placed(self, name: str, count: int) -> None:
        """Waits until so many pods have a node."""

        async def holds() -> bool:
            return len(await self.nodes(name)) == count

        await eventually(holds)

    async def is_running(self, *gangs: str) -> None:
        """Waits until these gangs run."""

        async def holds() -> bool:
            found = [await find(self.client, GANGS, gang) for gang in gangs]
            return all(each and each.get("status", {}).get("phase") == "Running" for each in found)

        await eventually(holds)

    async def reason(self, pod: str) -> str:
        """Why a pod has no node, as its condition says it."""
        found = await self.client.get(PODS, pod, "default")
        conditions = found["status"].get("conditions", [])
        told = (each.get("reason") for each in conditions if each["type"] == "PodScheduled")
        return next(told, None) or ""

    async def why(self, name: str) -> Answer:
        """What `kilonova why` goes by."""
        picture = (await capture(self.client, now=LoopClock().now)).picture
        found = answer(picture, "default", name)
        assert found is not None
        return found

    async def why_not(self, name: str) -> str:
        """What is told of a gang or pod that waits: all of it in one line."""
        found = await self.why(name)
        assert found.state == "Waiting"
        assert found.explanation is not None
        return found.explanation.message


@asynccontextmanager
async def stage() -> AsyncGenerator[Stage]:
    """A cluster with its operator and its scheduler, and the nodes of the examples."""
    settings = Settings(port=None, data=None, fleet=FLEET)
    cluster = Residents().cluster(settings, LoopClock())
    await cluster.start()
    try:
        await cluster.wait_settled()
        yield Stage(cluster.client("tester"))
    finally:
        await cluster.stop()
