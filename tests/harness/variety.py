"""Workloads of every kind and in every state that is easily confused, on simulated nodes."""

import asyncio
from typing import Any

from kilonova.kube import Client
from kilonova.kube.resource import Resource, plain
from tests.local.embedded_cluster import PODS

JOBS = plain("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = plain("apps", "v1", "deployments", "Deployment", True)
SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
NODES = plain("", "v1", "nodes", "Node", False)
NOWHERE = {"nodeSelector": {"kilonova.dev/rack": "there-is-none"}}
"""Pods whose ends a test writes itself must not be on a node, which would write others."""

STATES = {
    "Job/default/retried": "Completed",
    "Job/default/enough": "Completed",
    "Job/default/hopeless": "Failed",
    "Job/default/later": "Suspended",
    "Deployment/default/web": "Running",
    "Deployment/default/idle": "Empty",
    "PodCliqueSet/default/served": "Running",
    "PodCliqueSet/default/greedy": "Waiting",
    "Pod/default/leaving": "Terminating",
    "Pod/default/gated": "Waiting",
    "Pod/default/elsewhere": "Waiting",
    "Pod/default/part": "Running",
}


async def create_variety(client: Client) -> None:
    """Make all of them; they come to be in `STATES` by themselves."""
    await client.create(QUEUES, {"metadata": {"name": "team"}, "spec": {"weight": 2}})
    patient = {"parallelism": 2, "backoffLimit": 4}
    await _create(client, JOBS, "retried", patient | _job(NOWHERE))
    policy = {"successPolicy": {"rules": [{"succeededIndexes": "0"}]}}
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2} | policy
    await _create(client, JOBS, "enough", indexed | _job(NOWHERE))
    await _create(client, JOBS, "hopeless", {"backoffLimit": 0} | _job(NOWHERE))
    await _create(client, JOBS, "later", {"suspend": True} | _job({}))
    for name, replicas in (("web", 2), ("idle", 0)):
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": _pod_spec(1)}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await _create(client, DEPLOYMENTS, name, spec)
    for name, gpus, queue in (("served", 4, "team"), ("greedy", 64, "team")):
        clique = {"roleName": "worker", "replicas": 2, "podSpec": _pod_spec(gpus)}
        labels = {"scheduling.kilonova.dev/queue": queue}
        cliques = [{"name": "worker", "labels": labels, "spec": clique}]
        await _create(client, SETS, name, {"replicas": 1, "template": {"cliques": cliques}})
    gates = [{"name": "example.com/not-yet"}]
    await _create(client, PODS, "gated", _pod_spec(1, schedulingGates=gates))
    await _create(client, PODS, "elsewhere", _pod_spec(1, schedulerName="somebody-else"))
    await _create(client, PODS, "leaving", _pod_spec(1), finalizers=["example.com/held"])
    share = {"gpu.kilonova.dev/milli": "250"}
    await _create(client, PODS, "part", _pod_spec(0), annotations=share)
    await client.patch(NODES, "cpu-1", {"spec": {"unschedulable": True}})
    await _end_pods(client)
    await client.delete(PODS, "leaving", "default")


async def let_go(client: Client) -> None:
    """Let what is held back go, so that the cluster can stop."""
    await client.patch(PODS, "leaving", {"metadata": {"finalizers": None}}, "default")


async def _end_pods(client: Client) -> None:
    """Of the first jobs a pod succeeds, and then another fails; the only one of the third fails."""
    for job, ends in (
        ("retried", ("Succeeded", "Failed")),
        ("enough", ("Succeeded", "Failed")),
        ("hopeless", ("Failed",)),
    ):
        pods = await _pods_of(client, job, len(ends))
        for pod, phase in zip(pods, ends, strict=True):
            name = pod["metadata"]["name"]
            body = {"status": {"phase": phase}}
            await client.patch(PODS, name, body, "default", subresource="status")


async def _pods_of(client: Client, job: str, count: int) -> list[Any]:
    """By their names, which begin with their indices."""
    async with asyncio.timeout(30):
        while True:
            found = await client.list(PODS, "default", labels=f"batch.kubernetes.io/job-name={job}")
            if len(found.items) == count:
                return sorted(found.items, key=lambda each: each["metadata"]["name"])
            await asyncio.sleep(0.02)


async def _create(
    client: Client, resource: Resource[Any], name: str, spec: Any, **metadata: Any
) -> None:
    await client.create(resource, {"metadata": {"name": name, **metadata}, "spec": spec}, "default")


def _job(more: dict[str, Any]) -> dict[str, Any]:
    return {"template": {"spec": _pod_spec(1) | {"restartPolicy": "Never"} | more}}


def _pod_spec(gpus: int, **more: Any) -> dict[str, Any]:
    limits = {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}
    container = {"name": "main", "image": "registry.example.com/worker", **limits}
    return {"schedulerName": "kilonova-scheduler", "containers": [container], **more}
