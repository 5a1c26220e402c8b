"""Why workloads wait: those of every kind that owns pods, and pods that no scheduler serves."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import connect
from kilonova.kube.resource import plain
from tests.cli.command import Kilonova, completed
from tests.scheduler.scheduling import gang, pod

PODS = plain("", "v1", "pods", "Pod", True)
NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
JOBS = plain("batch", "v1", "jobs", "Job", True)
DEPLOYMENTS = plain("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS = plain("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS = plain("apps", "v1", "statefulsets", "StatefulSet", True)
SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)

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
def works(cluster: Path) -> Path:
    """Workloads in a namespace of their own whose pods wait, and pods of unknown schedulers."""
    asyncio.run(_fill_works(cluster / "kubeconfig"))
    return cluster


async def _fill_works(kubeconfig: Path) -> None:
    def workload(name: str, **spec: Any) -> dict[str, Any]:
        template = pod(name, 9)
        template["metadata"]["labels"]["app"] = name
        template["spec"]["restartPolicy"] = spec.pop("restart", "Always")
        selector = {"matchLabels": {"app": name}}
        made = {"template": template, "selector": selector, **spec}
        return {"metadata": {"name": name}, "spec": made}

    def moved(made: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(made).replace('"default"', '"works"'))

    async with connect(kubeconfig) as client:
        await client.create(NAMESPACES, {"metadata": {"name": "works"}})
        batch = workload("train", parallelism=2, restart="Never")
        del batch["spec"]["selector"]
        await client.create(JOBS, batch, "works")
        await client.create(DEPLOYMENTS, workload("web", replicas=10), "works")
        await client.create(STATEFUL_SETS, workload("db", serviceName="db"), "works")
        await client.create(SETS, yaml.safe_load(SET), "works")
        served = [pod(name, 1, of="served") for name in ("s0", "s1")]
        for each in (*served, pod("alone", 1)):
            each["spec"]["schedulerName"] = "nope"
            await client.create(PODS, moved(each), "works")
        await client.create(GANGS, moved(gang("served", {"s": ["s0", "s1"]})), "works")
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
            await client.create(PODS, moved(each), "works")


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
    ],
)
def test_why_of_a_workload_answers_for_all_that_it_has(
    cluster_command: Kilonova, works: Path, name: str, gangs: int
):
    done = cluster_command("why", name, "-n", "works", "-o", "json", "--data", works)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [each["state"] for each in found] == ["Waiting"] * gangs
    table = cluster_command("why", name, "-n", "works", "--data", works).out
    assert table.count("What binds: no node may take a pod") == min(gangs, 8)
    assert ("And 2 more: " in table) == (gangs > 8)


def test_why_of_a_replica_set_is_that_of_its_pods(cluster_command: Kilonova, works: Path):
    (name,) = asyncio.run(_replica_sets(works / "kubeconfig"))
    done = cluster_command("why", f"rs/{name}", "-n", "works", "-o", "json", "--data", works)
    assert len(json.loads(done.out)) == 10


async def _replica_sets(kubeconfig: Path) -> list[str]:
    async with connect(kubeconfig) as client:
        return [
            each["metadata"]["name"] for each in (await client.list(REPLICA_SETS, "works")).items
        ]


@pytest.mark.parametrize("name", ["served", "pod/s1", "alone"])
def test_why_says_that_nothing_serves_the_scheduler_that_pods_name(
    cluster_command: Kilonova, works: Path, name: str
):
    done = cluster_command("why", name, "-n", "works", "--data", works)
    assert done.code == 0, done.err
    assert "SchedulerNotServed: " in done.out
    assert 'the scheduler "nope", and no scheduler of that name is known' in done.out
    assert "set schedulerName to default-scheduler or kilonova-scheduler" in done.out


def test_why_of_a_kind_that_has_no_pods_is_wrong_usage(cluster_command: Kilonova, works: Path):
    done = cluster_command("why", "service/web", "-n", "works", "--data", works)
    assert done.code == 2
    assert "there is no kind 'service' here that owns pods; there are pod, podgang, " in done.err
    for name in ("job/web", "job/held"):
        missing = cluster_command("why", name, "-n", "works", "--data", works)
        assert missing.code == 1
        assert f"no pod or gang of job '{name[4:]}' in namespace works" in missing.err
        assert "it is suspended or scaled to 0, has made no pods yet, or does not" in missing.err


@pytest.mark.parametrize("name", ["", "job/", "/x", "job/big/x"])
def test_why_of_what_is_no_name_is_wrong_usage(cluster_command: Kilonova, works: Path, name: str):
    done = cluster_command("why", name, "-n", "works", "--data", works)
    assert done.code == 2
    assert f"{name!r}: write a NAME, or KIND/NAME, as job/train" in done.err


@pytest.mark.parametrize("name", ["gated", "pod/gated"])
def test_why_of_a_gated_pod_says_so(cluster_command: Kilonova, works: Path, name: str):
    done = cluster_command("why", name, "-n", "works", "--data", works)
    assert done.code == 0, done.err
    assert "SchedulingGated: it is gated: no node is looked for before" in done.out
    assert '"example.com/quota"' in done.out


def test_names_are_completed_after_their_kind(cluster_command: Kilonova, works: Path):
    there = ["why", "-n", "works", "--data", str(works)]
    assert completed(cluster_command, [*there, "deploy/"]) == ["deploy/web"]
    assert "llama" in completed(cluster_command, [*there, "l"])
