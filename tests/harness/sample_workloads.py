"""Workloads of every kind, in states that are easily confused, on simulated nodes."""

import asyncio
import contextlib
from typing import Any

from kilonova.kube import Client, NotFound
from kilonova.kube.client.resource import Resource, unstructured_resource
from tests.local.embedded_cluster import PODS

JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
UNSCHEDULABLE = {"nodeSelector": {"kilonova.dev/rack": "there-is-none"}}
"""Pods whose ends a test writes itself must not be on a node, which would write others."""

EXPECTED_STATES = {
    "Job/default/retried": "Completed",
    "Job/default/enough": "Completed",
    "Job/default/hopeless": "Failed",
    "Job/default/later": "Suspended",
    "Deployment/default/web": "Running",
    "Deployment/default/idle": "Empty",
    "PodCliqueSet/default/served": "Running",
    "PodCliqueSet/default/greedy": "Pending",
    "Pod/default/leaving": "Terminating",
    "Pod/default/gated": "Pending",
    "Pod/default/elsewhere": "Pending",
    "Pod/default/part": "Running",
    "Chat.example.com/default/chat": "Running",
}
"""By id; the last one is made of a PodCliqueSet and a Deployment that name it by their labels."""


async def create_sample_workloads(client: Client) -> None:
    """Create all of them; they reach `STATES` by themselves."""
    await client.create(QUEUES, {"metadata": {"name": "team"}, "spec": {"weight": 2}})
    patient = {"parallelism": 2, "backoffLimit": 4}
    await _create(client, JOBS, "retried", patient | _build_job(UNSCHEDULABLE))
    policy = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2} | policy
    await _create(client, JOBS, "enough", indexed | _build_job(UNSCHEDULABLE))
    await _create(client, JOBS, "hopeless", {"backoffLimit": 0} | _build_job(UNSCHEDULABLE))
    await _create(client, JOBS, "later", {"suspend": True} | _build_job({}))
    for name, replicas in (("web", 2), ("idle", 0)):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": _build_pod_spec(1)}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await _create(client, DEPLOYMENTS, name, spec)
    for name, gpus, queue in (("served", 4, "team"), ("greedy", 64, "team")):
        clique = {"roleName": "worker", "replicas": 2, "podSpec": _build_pod_spec(gpus)}
        labels = {"scheduling.kilonova.dev/queue": queue}
        cliques = [{"name": "worker", "labels": labels, "spec": clique}]
        await _create(client, SETS, name, {"replicas": 1, "template": {"cliques": cliques}})
    await _create_labelled_parts(client)
    gates = [{"name": "example.com/not-yet"}]
    await _create(client, PODS, "gated", _build_pod_spec(1, schedulingGates=gates))
    await _create(client, PODS, "elsewhere", _build_pod_spec(1, schedulerName="somebody-else"))
    await _create(client, PODS, "leaving", _build_pod_spec(1), finalizers=["example.com/held"])
    share = {"gpu.kilonova.dev/milli": "250"}
    await _create(client, PODS, "part", _build_pod_spec(0), annotations=share)
    await client.patch(NODES, "cpu-1", {"spec": {"unschedulable": True}})
    await _finish_pods(client)
    await client.delete(PODS, "leaving", "default")


async def _create_labelled_parts(client: Client) -> None:
    """The objects of a workload of which the cluster knows only the name."""
    named = {"kilonova.dev/workload": "Chat.example.com_chat"}
    clique = {"roleName": "worker", "replicas": 1, "podSpec": _build_pod_spec(0)}
    sets = {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": clique}]}}
    await _create(client, SETS, "chat-decode", sets, labels=named)
    labels = {"app": "chat-router"}
    template = {"metadata": {"labels": {**labels, **named}}, "spec": _build_pod_spec(0)}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    await _create(client, DEPLOYMENTS, "chat-router", spec, labels=named)


async def remove_finalizers(client: Client) -> None:
    """Remove finalizers, so that the cluster can stop."""
    await client.patch(PODS, "leaving", {"metadata": {"finalizers": None}}, "default")


async def _finish_pods(client: Client) -> None:
    """In the first jobs one pod succeeds and then another fails; in the third the only one
    fails.
    """
    for job, ends in (
        ("retried", ("Succeeded", "Failed")),
        ("enough", ("Succeeded", "Failed")),
        ("hopeless", ("Failed",)),
    ):
        pods = await _wait_for_pods(client, job, len(ends))
        for pod, phase in zip(pods, ends, strict=True):
            name = pod["metadata"]["name"]
            body = {"status": {"phase": phase}}
            with contextlib.suppress(NotFound):  # deleted: a pod before it has completed the Job
                await client.patch(PODS, name, body, "default", subresource="status")


async def _wait_for_pods(client: Client, job: str, count: int) -> list[Any]:
    """Sorted by name, which begins with the index."""
    async with asyncio.timeout(30):
        while True:
            found = await client.list(
                PODS, "default", label_selector=f"batch.kubernetes.io/job-name={job}"
            )
            if len(found.items) == count:
                return sorted(found.items, key=lambda each: each["metadata"]["name"])
            await asyncio.sleep(0.02)


async def _create(
    client: Client, resource: Resource[Any], name: str, spec: Any, **metadata: Any
) -> None:
    await client.create(resource, {"metadata": {"name": name, **metadata}, "spec": spec}, "default")


def _build_job(more: dict[str, Any]) -> dict[str, Any]:
    return {"template": {"spec": _build_pod_spec(1) | {"restartPolicy": "Never"} | more}}


def _build_pod_spec(gpus: int, **more: Any) -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/worker", **limits}
    return {"schedulerName": "kilonova-scheduler", "containers": [container], **more}
