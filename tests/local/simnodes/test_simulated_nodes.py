"""Simulated nodes on an embedded cluster, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from kilonova.api.times import format_rfc3339, parse_time
from kilonova.kube import Client, Reflector, unstructured_resource
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import FailureRates, GpuSpec, NodeGroup, Taint
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from tests.local.embedded_cluster import (
    LEASES,
    NODES,
    PODS,
    START_TIME,
    LoopClock,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.local.simnodes.simulation_helpers import running_simulation

pytestmark = virtual_time
JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)


def fleet(**group: Any) -> Fleet:
    defaults: Any = {"start": "2s", "stop": "1s"}
    return Fleet(nodes=(NodeGroup("n", **{**defaults, **group}),))


@asynccontextmanager
async def simulated_cluster(fleet: Fleet) -> AsyncGenerator[Client]:
    async with run_cluster(fleet=fleet) as cluster:
        yield cluster.client("test")


async def phase(client: Client, name: str, expected: str) -> Any:
    """Wait for a pod to reach a phase."""

    async def reached() -> bool:
        return (await find(client, PODS, name))["status"].get("phase") == expected

    await wait_for_condition(reached, within=3600, every=0.5)
    return await find(client, PODS, name)


def annotated(**annotations: str) -> Any:
    return {
        "annotations": {
            f"sim.kilonova.dev/{k.replace('_', '-')}": v for k, v in annotations.items()
        }
    }


def ready(node: Any) -> str:
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")


async def test_a_node_publishes_its_hardware_and_topology() -> None:
    group = fleet(
        cpu=192,
        memory="2Ti",
        gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"),
        labels={"team": "blue"},
        taints=(Taint("gpu", "NoSchedule", "yes"),),
    )
    async with simulated_cluster(group) as client:
        node = await find(client, NODES, "n-0")
        labels = node["metadata"]["labels"]
        assert labels["kubernetes.io/hostname"] == "n-0"
        assert labels["topology.kubernetes.io/zone"] == "zone-a"
        assert labels["kilonova.dev/block"] == "n-block-0"
        assert labels["kilonova.dev/rack"] == "n-rack-0"
        assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert labels["nvidia.com/gpu.memory"] == "81920"
        assert labels["team"] == "blue"
        assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
        status = node["status"]
        assert status["allocatable"]["nvidia.com/gpu"] == "8"
        assert status["allocatable"]["cpu"] == "192"
        assert ready(node) == "True"


async def test_a_pod_reports_when_it_was_scheduled_and_ready() -> None:
    async with simulated_cluster(fleet(start="20s")) as client:
        await client.create(PODS, pod("p"), "default")
        conditions = (await phase(client, "p", "Running"))["status"]["conditions"]
        since = {each["type"]: parse_time(each["lastTransitionTime"]) for each in conditions}
        assert since["Ready"] - since["PodScheduled"] >= timedelta(seconds=19)


async def test_every_lease_is_renewed_once_per_heartbeat() -> None:
    async with simulated_cluster(Fleet(nodes=(NodeGroup("n", 25),))) as client:
        await asyncio.sleep(35)
        now = LoopClock().now()
        leases = (await client.list(LEASES, "kube-node-lease")).items
        assert len(leases) == 25
        for lease in leases:
            assert lease["spec"]["leaseDurationSeconds"] == 40
            assert now - parse_time(lease["spec"]["renewTime"]) <= timedelta(seconds=10)
        before = max(int(lease["metadata"]["resourceVersion"]) for lease in leases)
        await asyncio.sleep(100)
        leases = (await client.list(LEASES, "kube-node-lease")).items
        after = max(int(lease["metadata"]["resourceVersion"]) for lease in leases)
        assert 240 <= after - before <= 260


async def test_deleted_lease_is_recreated() -> None:
    async with simulated_cluster(fleet()) as client:
        await client.delete(LEASES, "n-0", "kube-node-lease")
        await asyncio.sleep(11)
        assert await find(client, LEASES, "n-0", "kube-node-lease")


async def test_a_slow_heartbeat_has_a_longer_lease() -> None:
    async with simulated_cluster(Fleet(nodes=(NodeGroup("n"),), heartbeat="1m")) as client:
        lease = await find(client, LEASES, "n-0", "kube-node-lease")
        assert lease["spec"]["leaseDurationSeconds"] == 240


async def test_a_pod_runs_after_the_delay_of_its_node() -> None:
    async with simulated_cluster(fleet(start="30s")) as client:
        await client.create(PODS, pod("p"), "default")
        await asyncio.sleep(29)
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Pending"
        await asyncio.sleep(2)
        status = (await find(client, PODS, "p"))["status"]
        assert status["phase"] == "Running"
        assert status["podIP"] == "10.128.0.1"
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        [container] = status["containerStatuses"]
        assert container["ready"]
        assert container["restartCount"] == 0
        assert container["state"]["running"]["startedAt"] == format_rfc3339(
            START_TIME + timedelta(seconds=30)
        )


async def test_init_containers_complete_and_sidecars_run() -> None:
    async with simulated_cluster(fleet()) as client:
        inits = [
            {"name": "first", "image": "i"},
            {"name": "beside", "image": "i", "restartPolicy": "Always"},
        ]
        await client.create(PODS, pod("p", initContainers=inits), "default")
        status = (await phase(client, "p", "Running"))["status"]
        states = {each["name"]: list(each["state"]) for each in status["initContainerStatuses"]}
        assert states == {"first": ["terminated"], "beside": ["running"]}


@pytest.mark.parametrize(
    ("policy", "code", "outcome"),
    [
        ("Never", "0", "Succeeded"),
        ("Never", "3", "Failed"),
        ("OnFailure", "0", "Succeeded"),
        ("OnFailure", "3", "Running"),
        ("Always", "0", "Running"),
    ],
)
async def test_pod_ends_or_restarts_by_its_restart_policy(
    policy: str, code: str, outcome: str
) -> None:
    async with simulated_cluster(fleet()) as client:
        metadata = annotated(run_seconds="60", exit_code=code)
        await client.create(PODS, pod("p", restartPolicy=policy, metadata=metadata), "default")
        await phase(client, "p", "Running")
        await asyncio.sleep(70)
        status = (await find(client, PODS, "p"))["status"]
        assert status["phase"] == outcome
        [container] = status["containerStatuses"]
        if outcome == "Running":
            assert container["restartCount"] == 1
            ended = container["lastState"]["terminated"]
        else:
            assert container["restartCount"] == 0
            ended = container["state"]["terminated"]
        assert ended["exitCode"] == int(code)
        ran = parse_time(ended["finishedAt"]) - parse_time(ended["startedAt"])
        assert ran == timedelta(seconds=60)


async def test_the_pod_of_a_job_ends_by_itself() -> None:
    async with simulated_cluster(fleet()) as client:
        template = {"spec": pod("p", restartPolicy="Never")["spec"]}
        job = {"metadata": {"name": "j"}, "spec": {"template": template}}
        await client.create(JOBS, job, "default")

        async def is_complete() -> bool:
            return (await find(client, JOBS, "j")).get("status", {}).get("succeeded") == 1

        await wait_for_condition(is_complete, within=60, every=0.5)


async def test_each_run_lasts_as_long_as_the_first() -> None:
    async with simulated_cluster(fleet()) as client:
        await client.create(PODS, pod("p", metadata=annotated(run_seconds="60")), "default")
        await phase(client, "p", "Running")
        await asyncio.sleep(10 * 60)
        [container] = (await find(client, PODS, "p"))["status"]["containerStatuses"]
        assert container["restartCount"] == 5
        ended = container["lastState"]["terminated"]
        ran = parse_time(ended["finishedAt"]) - parse_time(ended["startedAt"])
        assert ran == timedelta(seconds=60)


async def test_invalid_annotations_have_no_effect() -> None:
    async with simulated_cluster(fleet()) as client:
        await client.create(PODS, pod("p", metadata=annotated(run_seconds="soon")), "default")
        await phase(client, "p", "Running")
        await advance_time(60)
        await phase(client, "p", "Running")


async def test_deleted_pod_terminates_within_its_grace_period() -> None:
    async with simulated_cluster(fleet(stop="20s")) as client:
        for name in ("patient", "hasty"):
            await client.create(PODS, pod(name), "default")
            await phase(client, name, "Running")
        await client.delete(PODS, "patient", "default")
        await client.delete(PODS, "hasty", "default", grace_period_seconds=3)
        await asyncio.sleep(5)
        assert await find(client, PODS, "hasty") is None
        assert (await find(client, PODS, "patient"))["metadata"]["deletionTimestamp"]
        await asyncio.sleep(20)
        assert await find(client, PODS, "patient") is None


async def test_pod_with_a_finalizer_stays_until_it_is_removed() -> None:
    async with simulated_cluster(fleet()) as client:
        await client.create(PODS, pod("p", metadata={"finalizers": ["example.com/x"]}), "default")
        await phase(client, "p", "Running")
        await client.delete(PODS, "p", "default")
        await advance_time(60)
        assert (await find(client, PODS, "p"))["metadata"]["deletionGracePeriodSeconds"] == 0
        await client.patch(PODS, "p", {"metadata": {"finalizers": None}}, "default")
        await wait_deleted(client, PODS, "p")


async def test_a_pod_of_the_same_name_is_another_pod() -> None:
    async with simulated_cluster(fleet()) as client:
        for _ in range(2):
            await client.create(PODS, pod("p"), "default")
            await phase(client, "p", "Running")
            await client.delete(PODS, "p", "default")
            await wait_deleted(client, PODS, "p")


async def test_no_two_pods_of_a_node_have_one_address() -> None:
    async with simulated_cluster(fleet(pods=250, cpu=1000)) as client:
        for number in range(40):
            await client.create(PODS, pod(f"p{number}"), "default")
        await advance_time(10)
        for number in range(0, 40, 3):
            await client.delete(PODS, f"p{number}", "default")
        await advance_time(10)
        for number in range(40, 60):
            await client.create(PODS, pod(f"p{number}"), "default")
        await advance_time(10)
        pods = (await client.list(PODS, "default")).items
        addresses = [each["status"]["podIP"] for each in pods]
        assert len(set(addresses)) == len(addresses) == 46


async def test_pods_that_fail_to_start_report_why() -> None:
    async with simulated_cluster(fleet(failures=FailureRates(pod_start=1.0))) as client:
        await client.create(PODS, pod("p"), "default")
        status = (await phase(client, "p", "Failed"))["status"]
        assert status["reason"] == "StartError"
        assert "failures.podStart" in status["message"]


async def test_pods_crash_and_count_it() -> None:
    async with simulated_cluster(fleet(failures=FailureRates(pod_mtbf="60s"))) as client:
        await client.create(PODS, pod("again"), "default")
        await client.create(PODS, pod("once", restartPolicy="Never"), "default")
        assert "podMTBF" in (await phase(client, "once", "Failed"))["status"]["message"]
        await asyncio.sleep(3600)
        [container] = (await find(client, PODS, "again"))["status"]["containerStatuses"]
        assert 8 < container["restartCount"] < 25, "after a minute, and then later and later"
        assert container["lastState"]["terminated"]["exitCode"] == 1


async def test_node_outage_and_recovery() -> None:
    async with simulated_cluster(
        fleet(failures=FailureRates(node_mtbf="1h", outage="200s"))
    ) as client:

        async def state(desired: str) -> None:
            async def reached() -> bool:
                return ready(await find(client, NODES, "n-0")) == desired

            await wait_for_condition(reached, within=36000, every=5)

        await state("Unknown")
        await asyncio.sleep(15)
        await client.create(PODS, pod("p"), "default")
        before = await find(client, LEASES, "n-0", "kube-node-lease")
        await asyncio.sleep(30)
        assert await find(client, LEASES, "n-0", "kube-node-lease") == before
        assert (await find(client, PODS, "p"))["status"]["phase"] == "Pending"
        await state("True")
        await phase(client, "p", "Running")


async def test_an_outage_of_a_node_that_was_deleted_ends() -> None:
    async with simulated_cluster(
        fleet(failures=FailureRates(node_mtbf="10m", outage="1m"))
    ) as client:
        await client.create(PODS, pod("p"), "default")
        await phase(client, "p", "Running")
        await client.delete(NODES, "n-0")
        await asyncio.sleep(3600)
        assert await find(client, PODS, "p") is None, "pods of no node are collected"


async def test_same_seed_gives_the_same_events() -> None:
    async def scenario(seed: int) -> list[str]:
        group = NodeGroup("n", start="1s-100s", failures=FailureRates(pod_start=0.5))
        reported: list[str] = []
        async with simulated_cluster(Fleet(nodes=(group,), seed=seed)) as client:
            for number in range(6):
                await client.create(PODS, pod(f"p{number}", nodeName="n-0"), "default")
                await asyncio.sleep(120)
                status = (await find(client, PODS, f"p{number}"))["status"]
                at = parse_time(status["startTime"]) - START_TIME
                reported.append(f"{status['phase']} {at.seconds % 120}")
        return reported

    first = await scenario(7)
    assert await scenario(7) == first
    assert await scenario(8) != first


async def test_new_process_continues_where_the_last_one_stopped() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, fleet(start="5s", stop="5s")):
            metadata = annotated(run_seconds="100")
            body = pod("running", nodeName="n-0", restartPolicy="Never", metadata=metadata)
            await client.create(PODS, body, "default")
            for name in ("going", "stays"):
                await client.create(PODS, pod(name, nodeName="n-0"), "default")
            await asyncio.sleep(10)
            await client.delete(PODS, "going", "default")
            await client.create(PODS, pod("starting", nodeName="n-0"), "default")
        await asyncio.sleep(30)
        assert (await find(client, PODS, "starting"))["status"]["phase"] == "Pending"
        assert await find(client, PODS, "going")
        async with running_simulation(client, fleet(start="5s", stop="5s")):
            await phase(client, "starting", "Running")
            await wait_deleted(client, PODS, "going")
            await asyncio.sleep(65)
            pods = {p["metadata"]["name"]: p for p in (await client.list(PODS, "default")).items}
            assert pods["running"]["status"]["phase"] == "Succeeded", "100 s in all, not anew"
            addresses = [pods[name]["status"]["podIP"] for name in ("stays", "starting")]
            assert len(set(addresses)) == 2


async def test_changed_fleet_is_updated() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, fleet(count=2)):
            await client.patch(NODES, "n-0", {"metadata": {"labels": {"mine": "yes"}}})
            await client.patch(NODES, "n-0", {"spec": {"unschedulable": True}})
        async with running_simulation(client, fleet(count=2, cpu=7, labels={"new": "label"})):
            node = await find(client, NODES, "n-0")
            assert node["metadata"]["labels"]["new"] == "label"
            assert node["metadata"]["labels"]["mine"] == "yes"
            assert node["spec"]["unschedulable"] is True
            assert node["status"]["allocatable"]["cpu"] == "7"


async def test_nodes_no_longer_in_the_fleet_are_deleted_with_their_pods() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        own = {"metadata": {"name": "not-simulated"}}
        await client.create(NODES, own)
        async with running_simulation(client, fleet(count=3)):
            await client.create(PODS, pod("p", nodeName="n-2"), "default")
            await phase(client, "p", "Running")
        pods = Reflector(client, SIM_PODS)
        nodes = SimulatedNodes(client, fleet(count=1), LoopClock().now, pods, exclusive=True)
        task = asyncio.create_task(nodes.run())
        await nodes.wait_registered()
        names = [each["metadata"]["name"] for each in (await client.list(NODES)).items]
        assert names == ["n-0", "not-simulated"]
        assert (await client.list(PODS)).items == []
        leases = (await client.list(LEASES, "kube-node-lease")).items
        assert [each["metadata"]["name"] for each in leases] == ["n-0"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_log_of_a_container_shows_start_and_end() -> None:
    async with simulated_cluster(fleet()) as client:
        metadata = annotated(run_seconds="5", exit_code="2")
        await client.create(PODS, pod("p", restartPolicy="Never", metadata=metadata), "default")
        await phase(client, "p", "Failed")
        text = b"".join([chunk async for chunk in client.logs("p", "default")]).decode()
        assert text.splitlines() == [
            "simulated container main started",
            "simulated container main ended with exit code 2",
        ]


async def test_a_container_that_is_added_for_debugging_runs_like_the_others() -> None:
    async with simulated_cluster(fleet()) as client:
        made = pod("p", metadata=annotated(run_seconds="60"), restartPolicy="Never")
        await client.create(PODS, made, "default")
        await phase(client, "p", "Running")

        async def debug(*names: str) -> Any:
            added = [{"name": name, "image": "busybox"} for name in names]
            await client.patch(
                PODS,
                "p",
                {"spec": {"ephemeralContainers": added}},
                "default",
                subresource="ephemeralcontainers",
            )

            async def shown() -> bool:
                reported = (await find(client, PODS, "p"))["status"].get(
                    "ephemeralContainerStatuses"
                )
                return len(reported or ()) == len(names)

            await wait_for_condition(shown)
            return (await find(client, PODS, "p"))["status"]["ephemeralContainerStatuses"]

        [first] = await debug("one")
        assert (first["name"], list(first["state"])) == ("one", ["running"])
        again, second = await debug("one", "two")
        assert again == first
        assert (second["name"], list(second["state"])) == ("two", ["running"])
        ended = await phase(client, "p", "Succeeded")
        states = [each["state"] for each in ended["status"]["ephemeralContainerStatuses"]]
        assert [list(state) for state in states] == [["terminated"], ["terminated"]]
