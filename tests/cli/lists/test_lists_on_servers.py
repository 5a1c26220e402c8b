"""Lists on both servers: selectors, watches, and workloads without pods."""

import asyncio
import json
import subprocess

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import CompletedCommand, Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import NODES, PODS
from tests.scheduler.harness.embedded_scheduler import GANGS, gang, pod

DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet", True)
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)


def _run_command(kilonova: Kilonova, api: Api, *words: str) -> CompletedCommand:
    return kilonova(*words, "--kubeconfig", api.access.kubeconfig)


async def test_lists_on_both_servers(api: Api, kilonova: Kilonova):
    name = f"listed-{api.namespace}"
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "10", "nvidia.com/gpu": "4"}
    async with api.client() as client:
        await install_definitions(client)
        labels = {"tested": api.namespace, "kilonova.dev/rack": "r1"}
        body = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts}}
        await client.create(NODES, body)
        bound = pod("bound", 3, nodeName=name)
        bound["metadata"]["namespace"] = api.namespace
        late = pod("late", 2, gang="wide")
        late["metadata"]["namespace"] = api.namespace
        for each in (bound, late):
            await client.create(PODS, each, api.namespace)
        wide = gang("wide", {"w": ["late"]})
        wide["metadata"]["namespace"] = api.namespace
        for group in wide["spec"]["podgroups"]:
            for each in group["podReferences"]:
                each["namespace"] = api.namespace
        await client.create(GANGS, wide, api.namespace)
        try:
            selected = ("nodes", "-l", f"tested={api.namespace}", "-o", "json")
            (node,) = json.loads(
                (await asyncio.to_thread(_run_command, kilonova, api, *selected)).out
            )
            words = ("-n", api.namespace, "-o", "json")
            (found,) = json.loads(
                (await asyncio.to_thread(_run_command, kilonova, api, "gangs", *words)).out
            )
            workloads = json.loads(
                (await asyncio.to_thread(_run_command, kilonova, api, "workloads", *words)).out
            )
        finally:
            for each in ("bound", "late"):
                await client.delete(PODS, each, api.namespace, grace_period_seconds=0)
            await client.delete(NODES, name)
    assert (node["rack"], node["gpus"], node["gpusAllocated"], node["pods"]) == ("r1", 4, 3, 1)
    assert (found["name"], found["pods"], found["gpus"]) == ("wide", 1, 2)
    assert [each["name"] for each in workloads] == ["bound", "late"]


async def test_workloads_without_pods_are_listed_on_any_server(api: Api, kilonova: Kilonova):
    labels = {"app": "idle"}
    template = {"metadata": {"labels": labels}, "spec": pod("p", 0)["spec"]}
    scaled = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    once = {"suspend": True, "template": {"spec": template["spec"] | {"restartPolicy": "Never"}}}
    async with api.client() as client:
        for resource, spec in ((DEPLOYMENTS, scaled), (STATEFUL_SETS, scaled), (JOBS, once)):
            body = {"metadata": {"name": "idle"}, "spec": spec}
            await client.create(resource, body, api.namespace)
    done = await asyncio.to_thread(_run_command, kilonova, api, "workloads", "-n", api.namespace)
    assert [line.split()[:4] for line in done.out.splitlines()[1:]] == [
        ["Deployment", "idle", "Empty", "0/0"],
        ["Job", "idle", "Suspended", "0/1"],
        ["StatefulSet", "idle", "Empty", "0/0"],
    ]
    named = ("workloads", "deployment/idle", "-o", "name", "-n", api.namespace)
    assert (await asyncio.to_thread(_run_command, kilonova, api, *named)).out == "deployment/idle\n"


async def test_watch_prints_created_and_deleted_objects_on_both_servers(
    api: Api, kilonova: Kilonova
):
    words = ("workloads", "-w", "-o", "json", "-n", api.namespace)
    process = subprocess.Popen(
        kilonova.command(*words, "--kubeconfig", api.access.kubeconfig),
        env=kilonova.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = process.stdout
    try:
        async with api.client() as client:
            body = pod("guest", 0)
            body["metadata"]["namespace"] = api.namespace
            await client.create(PODS, body, api.namespace)
            first = json.loads(await asyncio.to_thread(lines.readline))
            await client.delete(PODS, "guest", api.namespace, grace_period_seconds=0)
            last = first
            while last["status"] != "Deleted":
                last = json.loads(await asyncio.to_thread(lines.readline))
    finally:
        process.kill()
        process.wait()
    assert (first["name"], last["name"]) == ("guest", "guest")


@pytest.mark.parametrize("words", [("-l", "a in"), ("-l", "a=b=c")], ids=" ".join)
def test_invalid_selector_is_rejected_in_one_line(
    api: Api, kilonova: Kilonova, words: tuple[str, ...]
):
    done = _run_command(kilonova, api, "nodes", *words)
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
