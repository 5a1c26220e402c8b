"""Scenarios for any cluster with these controllers, and a description of what they leave.

A scenario takes a client, does what a user would do, waits until it is done, and returns the name
prefix of its objects. `picture` describes the objects with that prefix, without what differs from
one run to the next: uids, times, hashes, and random name suffixes.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kilonova.kube import Client
from kilonova.kube.client.resource import Resource, unstructured_resource
from tests.local.controllers.apps.manifests import (
    CLAIMS,
    CONTROLLERS,
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICA_SETS,
    REVISIONS,
    STATEFUL_SETS,
    conditions,
    set_image,
    template,
    wait_for_status,
    wait_rolled_out,
    workload,
)
from tests.local.embedded_cluster import EVENTS, NODES, PODS, wait_for_condition

Scenario = Callable[[Client], Awaitable[None]]

_KINDS = (
    DEPLOYMENTS,
    REPLICA_SETS,
    CONTROLLERS,
    STATEFUL_SETS,
    DAEMON_SETS,
    REVISIONS,
    CLAIMS,
    PODS,
)
_SUFFIX = re.compile("-[bcdfghjklmnpqrstvwxz2456789]{5}$")
_HASH = re.compile("(?<=-)[bcdfghjklmnpqrstvwxz2456789]{6,10}")


async def run_deployment(client: Client) -> None:
    """A Deployment is created, scaled up, updated, and rolled back."""
    made = workload("plain", replicas=4)
    made["metadata"]["annotations"] = {"note": "first"}
    await client.create(DEPLOYMENTS, made, "default")
    await wait_rolled_out(client, 4, "plain")
    await client.set_scale(DEPLOYMENTS, "plain", "default", 6)
    await wait_rolled_out(client, 6, "plain")
    await set_image(client, DEPLOYMENTS, "img:2", "plain")
    await wait_rolled_out(client, 6, "plain")
    await set_image(client, DEPLOYMENTS, "img:1", "plain")
    await wait_rolled_out(client, 6, "plain")


async def run_paused_deployment(client: Client) -> None:
    """A paused Deployment is scaled, and does not roll out until it is resumed."""
    await client.create(DEPLOYMENTS, workload("paused", replicas=2), "default")
    await wait_rolled_out(client, 2, "paused")
    await client.patch(DEPLOYMENTS, "paused", {"spec": {"paused": True}}, "default")
    await set_image(client, DEPLOYMENTS, "img:2", "paused")
    await client.set_scale(DEPLOYMENTS, "paused", "default", 3)
    await wait_for_status(client, DEPLOYMENTS, "paused", replicas=3, availableReplicas=3)


async def run_resumed_deployment(client: Client) -> None:
    """A paused Deployment is resumed."""
    await client.create(DEPLOYMENTS, workload("resumed", replicas=2, paused=True), "default")
    await wait_for_status(client, DEPLOYMENTS, "resumed")
    await client.patch(DEPLOYMENTS, "resumed", {"spec": {"paused": False}}, "default")
    await wait_rolled_out(client, 2, "resumed")


async def run_stuck_deployment(client: Client) -> None:
    """A template that fits no node stops at maxUnavailable, and is reported."""
    made = workload("stuck", replicas=4, progressDeadlineSeconds=2)
    await client.create(DEPLOYMENTS, made, "default")
    await wait_rolled_out(client, 4, "stuck")
    wrong = {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}}}}}
    await client.patch(DEPLOYMENTS, "stuck", wrong, "default")
    await _wait_for_condition(client, "stuck", "Progressing", ("False", "ProgressDeadlineExceeded"))


async def run_rejected_deployment(client: Client) -> None:
    """Pods that admission rejects are a condition of the ReplicaSet, and of the Deployment."""
    made = workload("refused", replicas=2, pod={"priorityClassName": "no-such"})
    await client.create(DEPLOYMENTS, made, "default")
    await _wait_for_condition(client, "refused", "ReplicaFailure", ("True", "FailedCreate"))
    await wait_for_status(client, DEPLOYMENTS, "refused", unavailableReplicas=2)


async def run_recreate_deployment(client: Client) -> None:
    """Recreate deletes all old pods before it creates new ones, and keeps two revisions."""
    made = workload("again", replicas=2, strategy={"type": "Recreate"}, revisionHistoryLimit=1)
    await client.create(DEPLOYMENTS, made, "default")
    await wait_rolled_out(client, 2, "again")
    for image in ("img:2", "img:3"):
        await set_image(client, DEPLOYMENTS, image, "again")
        await wait_rolled_out(client, 2, "again")

    async def one_old_left() -> bool:
        found = (await client.list(REPLICA_SETS, "default", label_selector="app=again")).items
        return len(found) == 2

    await wait_for_condition(one_old_left)


async def run_replica_set(client: Client) -> None:
    """A ReplicaSet adopts a pod, releases one, and scales down."""
    orphan = {"metadata": {"name": "bare-orphan", "labels": {"app": "bare"}}}
    await client.create(PODS, orphan | {"spec": template()["spec"]}, "default")
    await client.create(REPLICA_SETS, workload("bare", replicas=3), "default")
    await wait_for_status(client, REPLICA_SETS, "bare", replicas=3, availableReplicas=3)
    away = {"metadata": {"labels": {"app": "other"}}}
    await client.patch(PODS, "bare-orphan", away, "default")
    await wait_for_status(client, REPLICA_SETS, "bare", replicas=3, availableReplicas=3)

    async def released() -> bool:
        found = await client.get(PODS, "bare-orphan", "default")
        return not found["metadata"].get("ownerReferences")

    await wait_for_condition(released)
    await wait_for_status(client, REPLICA_SETS, "bare", replicas=3, availableReplicas=3)
    await client.set_scale(REPLICA_SETS, "bare", "default", 1)
    await wait_for_status(client, REPLICA_SETS, "bare", replicas=1, terminatingReplicas=0)


async def run_replication_controller(client: Client) -> None:
    """A ReplicationController keeps its pods."""
    made = workload("old", replicas=2)
    made["spec"]["selector"] = {"app": "old"}
    await client.create(CONTROLLERS, made, "default")
    await wait_for_status(client, CONTROLLERS, "old", replicas=2, availableReplicas=2)


async def run_stateful_set(client: Client) -> None:
    """A StatefulSet with claims scales down, up, and is updated down to a partition."""
    claim = {
        "metadata": {"name": "data", "labels": {"tier": "db"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    made = workload(
        "db",
        replicas=3,
        serviceName="peers",
        volumeClaimTemplates=[claim],
        updateStrategy=strategy,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Retain"},
        ordinals={"start": 1},
    )
    made["metadata"]["annotations"] = {"note": "first"}
    await client.create(STATEFUL_SETS, made, "default")
    await _bind_claims(client, ["data-db-1"])
    await _bind_claims(client, ["data-db-2"])
    await _bind_claims(client, ["data-db-3"])
    await wait_for_status(client, STATEFUL_SETS, "db", replicas=3, availableReplicas=3)
    for replicas in (1, 3):
        await client.set_scale(STATEFUL_SETS, "db", "default", replicas)
        await wait_for_status(
            client, STATEFUL_SETS, "db", replicas=replicas, availableReplicas=replicas
        )
    await set_image(client, STATEFUL_SETS, "img:2", "db")
    await wait_for_status(
        client, STATEFUL_SETS, "db", replicas=3, availableReplicas=3, updatedReplicas=2
    )


async def run_parallel_stateful_set(client: Client) -> None:
    """A parallel StatefulSet creates all pods at once and keeps one past revision."""
    made = workload("many", replicas=4, podManagementPolicy="Parallel", revisionHistoryLimit=1)
    await client.create(STATEFUL_SETS, made, "default")
    await wait_for_status(client, STATEFUL_SETS, "many", availableReplicas=4)
    for image in ("img:2", "img:3", "img:1"):
        await set_image(client, STATEFUL_SETS, image, "many")
        await wait_for_status(
            client,
            STATEFUL_SETS,
            "many",
            replicas=4,
            availableReplicas=4,
            currentReplicas=4,
            updatedReplicas=4,
        )

    async def two_revisions() -> bool:
        return len((await client.list(REVISIONS, "default", label_selector="app=many")).items) == 2

    await wait_for_condition(two_revisions)


async def run_daemon_set(client: Client) -> None:
    """A DaemonSet follows labels and taints of nodes, and is updated."""
    made = workload("agent", pod={"nodeSelector": {"agent": "yes"}, "hostNetwork": True})
    made["metadata"]["annotations"] = {"note": "first"}
    await client.create(DAEMON_SETS, made, "default")
    await _label_nodes(client, ["n-0", "n-1", "n-2"], "yes")
    await _daemons(client, "agent", 3)
    await _label_nodes(client, ["n-2"], None)
    await _daemons(client, "agent", 2)
    await client.patch(NODES, "n-1", {"spec": {"unschedulable": True}})
    await set_image(client, DAEMON_SETS, "img:2", "agent")
    await _daemons(client, "agent", 2)
    await client.patch(NODES, "n-1", {"spec": {"unschedulable": None}})


async def run_surging_daemon_set(client: Client) -> None:
    """A DaemonSet with maxSurge is rolled back to its first image."""
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    await client.create(DAEMON_SETS, workload("surge", updateStrategy=strategy), "default")
    await _daemons(client, "surge", 3)
    for image in ("img:2", "img:1"):
        await set_image(client, DAEMON_SETS, image, "surge")
        await _daemons(client, "surge", 3)


SCENES: dict[str, Scenario] = {
    "plain": run_deployment,
    "paused": run_paused_deployment,
    "resumed": run_resumed_deployment,
    "stuck": run_stuck_deployment,
    "refused": run_rejected_deployment,
    "again": run_recreate_deployment,
    "bare": run_replica_set,
    "old": run_replication_controller,
    "db": run_stateful_set,
    "many": run_parallel_stateful_set,
    "agent": run_daemon_set,
    "surge": run_surging_daemon_set,
}
"""Scenarios by the name prefix of their objects."""


async def _wait_for_condition(
    client: Client, name: str, type_: str, expected: tuple[str, str]
) -> None:
    async def recorded() -> bool:
        found = await client.get(DEPLOYMENTS, name, "default")
        return conditions(found).get(type_) == expected

    await wait_for_condition(recorded)


async def _daemons(client: Client, name: str, nodes: int) -> None:
    await wait_for_status(
        client,
        DAEMON_SETS,
        name,
        desiredNumberScheduled=nodes,
        currentNumberScheduled=nodes,
        updatedNumberScheduled=nodes,
        numberAvailable=nodes,
        numberMisscheduled=0,
    )

    async def no_other() -> bool:
        found = (await client.list(PODS, "default", label_selector=f"app={name}")).items
        return len(found) == nodes

    await wait_for_condition(no_other)


async def _label_nodes(client: Client, nodes: Iterable[str], value: str | None) -> None:
    for node in nodes:
        await client.patch(NODES, node, {"metadata": {"labels": {"agent": value}}})


async def _bind_claims(client: Client, names: Iterable[str]) -> None:
    """Provisions volumes: kube-scheduler binds no pod with an unbound claim."""
    volumes = unstructured_resource("", "v1", "persistentvolumes", "PersistentVolume", False)
    for name in names:

        async def made(name: str = name) -> bool:
            found = (
                await client.list(CLAIMS, "default", field_selector=f"metadata.name={name}")
            ).items
            return bool(found)

        await wait_for_condition(made)
        body = {
            "metadata": {"name": f"volume-{name}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/tmp/none"},
                "claimRef": {
                    "namespace": "default",
                    "name": name,
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                },
            },
        }
        await client.create(volumes, body)


async def describe_objects(client: Client, name: str) -> dict[str, Any]:
    """All objects with a name prefix, without random parts."""
    shown: dict[str, Any] = {}
    for resource in _KINDS:
        found = (await client.list(resource, "default")).items
        own = [each for each in found if _belongs_to(each, name)]
        shown[resource.kind] = sorted(
            (_normalize_object(resource, each) for each in own),
            key=lambda each: json.dumps(each, sort_keys=True),
        )
    events = (await client.list(EVENTS, "default")).items
    shown["Event"] = sorted(
        {
            (each["involvedObject"]["kind"], each["type"], each["reason"])
            for each in events
            if each["involvedObject"]["name"].split("-")[0] == name
            and each["involvedObject"]["kind"] not in ("Pod", "PersistentVolumeClaim")
        }
    )
    return shown


def _belongs_to(obj: Any, name: str) -> bool:
    return name in obj["metadata"]["name"].split("-")


def _normalize_object(resource: Resource[Any], obj: Any) -> Any:
    metadata = obj["metadata"]
    kept: dict[str, Any] = {
        "name": _normalize_text(metadata["name"]),
        "generateName": _normalize_text(metadata.get("generateName", "")),
        "labels": _normalize(metadata.get("labels", {})),
        "annotations": _normalize(metadata.get("annotations", {})),
        "finalizers": metadata.get("finalizers", []),
        "owners": [
            {key: value for key, value in _normalize(owner).items() if key != "uid"}
            for owner in metadata.get("ownerReferences", [])
        ],
    }
    shown = {"metadata": kept}
    for field in ("spec", "status", "data", "revision"):
        if field in obj and not (resource in (PODS, CLAIMS) and field == "status"):
            shown[field] = _normalize(obj[field])
    if resource is PODS:
        for key in ("nodeName", "serviceAccount", "serviceAccountName"):
            shown["spec"].pop(key, None)
    if resource is REPLICA_SETS:
        shown["status"].pop("observedGeneration", None)  # one per step of a rollout
    if resource is CLAIMS:
        kept["annotations"], kept["finalizers"] = {}, []
        shown["spec"].pop("volumeName", None)
        shown["spec"].pop("storageClassName", None)  # the embedded cluster has a default one
    return shown


_HASHED = frozenset(
    {
        "pod-template-hash",
        "controller-revision-hash",
        "controller.kubernetes.io/hash",
        "currentRevision",
        "updateRevision",
    }
)


def _normalize(value: Any, field: str = "") -> Any:
    if isinstance(value, dict):
        return {
            key: "TIME" if key.endswith("Time") else _normalize(item, key)
            for key, item in value.items()
        }
    if isinstance(value, list):
        listed = [_normalize(item) for item in value]
        return sorted(listed, key=lambda each: each["type"]) if field == "conditions" else listed
    if isinstance(value, str):
        return "HASH" if field in _HASHED else _normalize_text(value)
    return value


def _normalize_text(text: str) -> str:
    return _HASH.sub("HASH", _SUFFIX.sub("-xxxxx", text))
