"""Manifests of workloads, and waiting for their statuses."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import EVENTS, PODS, run_cluster, wait_for_condition

REPLICA_SETS = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet", True)
CONTROLLERS = unstructured_resource(
    "", "v1", "replicationcontrollers", "ReplicationController", True
)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet", True)
DAEMON_SETS = unstructured_resource("apps", "v1", "daemonsets", "DaemonSet", True)
REVISIONS = unstructured_resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)

NODES = Fleet(nodes=(NodeGroup("n", 3, start="1s", stop="1s"),))
"""Three nodes; a pod starts within a second, and stops within one."""


@asynccontextmanager
async def cluster(fleet: Fleet = NODES) -> AsyncGenerator[Client]:
    """A cluster with all controllers and nodes, as a client of it."""
    async with run_cluster(fleet=fleet) as found:
        yield found.client("test")


def template(name: str = "web", image: str = "img:1", **spec: Any) -> Any:
    container = {"name": "main", "image": image}
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], **spec},
    }


def workload(name: str = "web", *, image: str = "img:1", pod: Any = None, **spec: Any) -> Any:
    """A workload that selects pods by `app`, which is its own name."""
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": template(name, image, **(pod or {})),
            **spec,
        },
    }


async def pods_of(client: Client, app: str = "web", **labels: str) -> list[Any]:
    """The pods with these labels that are not terminating."""
    selector = ",".join(f"{key}={value}" for key, value in {"app": app, **labels}.items())
    found = (await client.list(PODS, "default", label_selector=selector)).items
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


async def wait_for_status(
    client: Client, resource: Resource[Any], name: str = "web", within: float = 120, **expected: Any
) -> Any:
    """Wait until the status of the current generation has these values; an absent count is 0."""
    latest: Any = None

    async def holds() -> bool:
        nonlocal latest
        latest = await client.get(resource, name, "default")
        status = latest.get("status", {})
        return status.get("observedGeneration") == latest["metadata"].get("generation") and all(
            status.get(field, 0) == value for field, value in expected.items()
        )

    try:
        await wait_for_condition(holds, within=within)
    except AssertionError as error:
        raise AssertionError(f"{error}: {latest and latest.get('status')}") from None
    return latest


async def wait_rolled_out(
    client: Client, replicas: int, name: str = "web", within: float = 120
) -> Any:
    """Wait until all pods of a Deployment are updated and available, and the old ones are
    deleted."""
    return await wait_for_status(
        client,
        DEPLOYMENTS,
        name,
        within,
        replicas=replicas,
        updatedReplicas=replicas,
        availableReplicas=replicas,
        terminatingReplicas=0,
    )


async def set_image(client: Client, resource: Resource[Any], image: str, name: str = "web") -> None:
    found = await client.get(resource, name, "default")
    pod_template = found["spec"]["template"]
    pod_template["spec"]["containers"][0]["image"] = image
    await client.patch(resource, name, {"spec": {"template": pod_template}}, "default")


async def reasons(client: Client, kind: str, name: str) -> list[str]:
    """The reasons of events about an object, in order of their first occurrence."""
    fields = f"involvedObject.kind={kind},involvedObject.name={name}"
    found = (await client.list(EVENTS, "default", field_selector=fields)).items
    return [event["reason"] for event in found]


def conditions(obj: Any) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    found = obj.get("status", {}).get("conditions", [])
    return {each["type"]: (each["status"], each["reason"]) for each in found}
