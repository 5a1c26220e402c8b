"""`kilonova why` of workloads of every kind that owns pods, and of pods of unknown schedulers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import connect
from kilonova.kube.client.resource import unstructured_resource
from tests.cli.command import Kilonova, complete_words
from tests.scheduler.harness.embedded_scheduler import gang, pod

PODS = unstructured_resource("", "v1", "pods", "Pod", True)
NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = unstructured_resource("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet", True)
SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)

SET = """
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llama}
spec:
  replicas: 1
  template:
    cliques:
    - name: worker
      spec:
        roleName: worker
        replicas: 2
        podSpec:
          schedulerName: kilonova-scheduler
          containers: [{name: main, image: example, resources: {limits: {nvidia.com/gpu: 9}}}]
"""


@pytest.fixture(scope="module")
def workloads_data(cluster: Path) -> Path:
    """Data directory of a cluster with pending workloads, and pods of unknown schedulers."""
    asyncio.run(_create_workloads(cluster / "kubeconfig"))
    return cluster


async def _create_workloads(kubeconfig: Path) -> None:
    def workload(name: str, **spec: Any) -> dict[str, Any]:
        template = pod(name, 9)
        template["metadata"]["labels"]["app"] = name
        template["spec"]["restartPolicy"] = spec.pop("restart", "Always")
        selector = {"matchLabels": {"app": name}}
        full_spec = {"template": template, "selector": selector, **spec}
        return {"metadata": {"name": name}, "spec": full_spec}

    def in_works(body: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(body).replace('"default"', '"works"'))

    async with connect(kubeconfig) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "works"}})
        batch = workload("train", parallelism=2, restart="Never")
        del batch["spec"]["selector"]
        await client.create(JOBS, batch, "works")
        await client.create(DEPLOYMENTS, workload("web", replicas=10), "works")
        await client.create(STATEFUL_SETS, workload("db", serviceName="db"), "works")
        await client.create(SETS, yaml.safe_load(SET), "works")
        served = [pod(name, 1, gang="served") for name in ("s0", "s1")]
        for each in (*served, pod("alone", 1)):
            each["spec"]["schedulerName"] = "nope"
            await client.create(PODS, in_works(each), "works")
        await client.create(GANGS, in_works(gang("served", {"s": ["s0", "s1"]})), "works")
        async with asyncio.timeout(30):
            while len((await client.list(PODS, "works")).items) < 2 + 10 + 1 + 2 + 3:
                await asyncio.sleep(0.05)
        gated = pod("gated", 1)
        gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
        owned = pod("first-0", 9)
        owner = {"apiVersion": "example.com/v1", "kind": "Experiment", "name": "first", "uid": "e"}
        owned["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        suspended = workload("held", suspend=True, restart="Never")
        del suspended["spec"]["selector"]
        await client.create(JOBS, suspended, "works")
        for each in (gated, owned):
            await client.create(PODS, in_works(each), "works")


@pytest.mark.parametrize(
    ("name", "gangs"),
    [
        ("job/train", 2),
        ("jobs.batch/train", 2),
        ("train", 2),
        ("deploy/web", 10),
        ("sts/db", 1),
        ("pcs/llama", 1),
        ("llama", 1),
        ("pclq/llama-0-worker", 1),
        ("experiment/first", 1),
        ("Experiment.example.com/first", 1),
        ("experiments.example.com/first", 1),
        ("podcliquesets.grove.io/llama", 1),
    ],
)
def test_why_of_a_workload_explains_all_its_gangs(
    cluster_command: Kilonova, workloads_data: Path, name: str, gangs: int
):
    done = cluster_command("why", name, "-n", "works", "-o", "json", "--data", workloads_data)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [each["state"] for each in found] == ["Unschedulable"] * gangs
    table = cluster_command("why", name, "-n", "works", "--data", workloads_data).out
    assert table.count("Blocked by: no node is feasible for a pod") == min(gangs, 8)
    assert ("And 2 more: " in table) == (gangs > 8)


def test_why_of_a_replica_set_explains_its_pods(cluster_command: Kilonova, workloads_data: Path):
    (name,) = asyncio.run(_replica_sets(workloads_data / "kubeconfig"))
    done = cluster_command(
        "why", f"rs/{name}", "-n", "works", "-o", "json", "--data", workloads_data
    )
    assert len(json.loads(done.out)) == 10


async def _replica_sets(kubeconfig: Path) -> list[str]:
    async with connect(kubeconfig) as client:
        return [
            each["metadata"]["name"] for each in (await client.list(REPLICA_SETS, "works")).items
        ]


@pytest.mark.parametrize("name", ["served", "pod/s1", "alone"])
def test_why_reports_an_unknown_scheduler(
    cluster_command: Kilonova, workloads_data: Path, name: str
):
    done = cluster_command("why", name, "-n", "works", "--data", workloads_data)
    assert done.code == 0, done.err
    assert "SchedulerNotServed: " in done.out
    assert 'the scheduler "nope", and no scheduler of that name is known' in done.out
    assert "set schedulerName to default-scheduler or kilonova-scheduler" in done.out


def test_why_of_a_kind_without_pods_is_wrong_usage(cluster_command: Kilonova, workloads_data: Path):
    done = cluster_command("why", "service/web", "-n", "works", "--data", workloads_data)
    assert done.code == 2
    assert "no kind 'service' that owns pods; known are pod, podgang, " in done.err
    for name in ("job/web", "job/held"):
        missing = cluster_command("why", name, "-n", "works", "--data", workloads_data)
        assert missing.code == 1
        assert f"no pod or gang of job '{name[4:]}' in namespace works" in missing.err
        assert "it is suspended or scaled to 0, has no pods yet, or does not" in missing.err


@pytest.mark.parametrize("kind", ["deployment.example.com", "deploy.example.com", "job.volcano.sh"])
def test_why_of_a_kind_of_another_group_is_not_that_of_kubernetes(
    cluster_command: Kilonova, workloads_data: Path, kind: str
):
    done = cluster_command("why", f"{kind}/web", "-n", "works", "--data", workloads_data)
    assert done.code == 2
    assert f"no kind '{kind}' that owns pods" in done.err


@pytest.mark.parametrize("name", ["", "job/", "/x", "job/big/x"])
def test_why_of_an_invalid_name_is_wrong_usage(
    cluster_command: Kilonova, workloads_data: Path, name: str
):
    done = cluster_command("why", name, "-n", "works", "--data", workloads_data)
    assert done.code == 2
    assert f"{name!r}: write NAME or KIND/NAME, such as job/train" in done.err


@pytest.mark.parametrize("name", ["gated", "pod/gated"])
def test_why_of_a_gated_pod_names_the_gate(
    cluster_command: Kilonova, workloads_data: Path, name: str
):
    done = cluster_command("why", name, "-n", "works", "--data", workloads_data)
    assert done.code == 0, done.err
    assert "SchedulingGated: scheduling is gated until" in done.out
    assert '"example.com/quota"' in done.out


def test_names_are_completed_after_a_kind(cluster_command: Kilonova, workloads_data: Path):
    command = ["why", "-n", "works", "--data", str(workloads_data)]
    assert complete_words(cluster_command, [*command, "deploy/"]) == ["deploy/web"]
    assert "llama" in complete_words(cluster_command, [*command, "l"])
