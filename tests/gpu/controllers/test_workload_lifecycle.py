"""GPUWorkloads on an embedded cluster, in virtual time: from creation to their end."""

from typing import Any

import pytest

from kilonova.local.simnodes.fleet.model import GpuSpec
from tests.gpu.controllers.manifests import run_for
from tests.gpu.controllers.workload_cluster import (
    GANGS,
    H100,
    NAMESPACE,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    WORKLOADS,
    condition_of,
    gpu_cluster,
    gpu_nodes,
)
from tests.local.embedded_cluster import advance_time, virtual_time, wait_deleted

pytestmark = virtual_time


def scheduled_reason(status: Any) -> str | None:
    return condition_of(status, "Scheduled").get("reason")


async def test_eight_gpus_are_one_pod_on_one_node() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(
            changes={
                "spec.gpuRequirements.topology": {"preference": "NVLinkOptimal"},
                "spec.gpuRequirements.gpuModel": "H100",
            }
        )
        status = await cluster.wait_for_phase("Running")
        node = status["scheduledNode"]
        assert status["nodes"] == [node]
        assert node in ("node-0", "node-1")
        assert len(set(status["allocatedGPUs"])) == 8
        assert all(each.startswith("GPU-") for each in status["allocatedGPUs"])
        assert status["estimatedBandwidth"] == 900
        assert status["schedulingScore"] == 100
        assert status["scoreParts"] == {"topology": 100}
        assert status["pods"] == 1
        assert status["startTime"] >= "2026-05-01T00:00:00Z"
        (pod,) = await cluster.list_objects(PODS)
        assert pod["spec"]["nodeName"] == node
        assert "schedulingGates" not in pod["spec"]
        (gang,) = await cluster.list_objects(GANGS)
        assert gang["status"]["phase"] == "Running"
        assert gang["status"]["lastScheduled"]
        assert await cluster.list_event_reasons() == ["Scheduled"]


async def test_sixteen_gpus_are_two_pods_that_find_each_other() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=16)
        status = await cluster.wait_for_phase("Running")
        assert status["nodes"] == ["node-0", "node-1"]
        assert status["scheduledNode"] == "node-0,node-1"
        assert len(set(status["allocatedGPUs"])) == 16
        pods = await cluster.list_objects(PODS)
        assert [each["metadata"]["name"] for each in pods] == ["job-0", "job-1"]
        assert [each["spec"]["subdomain"] for each in pods] == ["gw-job", "gw-job"]
        service = await cluster.get(SERVICES, "gw-job")
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"]
        assert 0 < status["schedulingScore"] <= 100
        assert set(status["scoreParts"]) == {"topology", "locality"}


async def test_mig_instances_are_placed_and_reported() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.create(gpus=1, changes={"spec.gpuRequirements.mig": {"profile": "2g.20gb"}})
        status = await cluster.wait_for(lambda each: bool(each.get("scheduledNode")))
        (instance,) = status["migInstances"]
        assert instance["profile"] == "2g.20gb"
        assert status["allocatedGPUs"] == [instance["parentGPU"]]
        await cluster.wait_for_phase("Running")
        await cluster.wait_for(lambda each: "instanceUUID" in each["migInstances"][0])


async def test_required_nvlink_waits_where_there_is_none() -> None:
    l4 = gpu_nodes(1, gpu=type(H100)("L4", 8, "24Gi"))
    async with gpu_cluster(l4) as cluster:
        topology = {"preference": "NVLinkRequired"}
        await cluster.create(gpus=2, changes={"spec.gpuRequirements.topology": topology})
        await cluster.wait_for(
            lambda each: (
                scheduled_reason(each) == "InsufficientCapacity"
                or "NVLink" in condition_of(each, "Scheduled").get("message", "")
            )
        )
        await advance_time(30)
        status = await cluster.get_status()
        assert status["phase"] in ("Pending", "Scheduling")
        assert not status.get("nodes")


@pytest.mark.parametrize(("gpus", "bandwidth", "pods"), [(2, 5000, 1), (8, 5000, 1), (16, 1000, 2)])
async def test_bandwidth_that_no_node_has_is_waited_for(
    gpus: int, bandwidth: int, pods: int
) -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(
            gpus=gpus, changes={"spec.gpuRequirements.minBandwidthGBps": bandwidth}
        )
        status = await cluster.wait_for(
            lambda each: scheduled_reason(each) == "InsufficientCapacity"
        )
        assert "GPUs that are connected well enough" in condition_of(status, "Scheduled")["message"]
        assert status["pods"] == pods
        await advance_time(30)
        assert not (await cluster.get_status()).get("nodes")


async def test_bandwidth_is_not_met_by_pods_of_one_gpu() -> None:
    single = gpu_nodes(2, gpu=GpuSpec("L4", 1, "24Gi"))
    async with gpu_cluster(single) as cluster:
        await cluster.create(gpus=2, changes={"spec.gpuRequirements.minBandwidthGBps": 600})
        status = await cluster.wait_for(
            lambda each: scheduled_reason(each) == "InsufficientCapacity"
        )
        assert status["pods"] == 1


async def test_required_nvlink_between_nodes_is_within_a_rack() -> None:
    gb200 = GpuSpec("NVIDIA-GB200", 4, "186Gi", nvlink="rack")
    racks = gpu_nodes(4, gpu=gb200, blocks=1, racks=2)
    required = {"spec.gpuRequirements.topology": {"preference": "NVLinkRequired"}}
    async with gpu_cluster(racks) as cluster:
        await cluster.create(gpus=8, changes=required)
        status = await cluster.wait_for_phase("Running")
        assert len(status["nodes"]) == 2
        labels = [
            (await cluster.get(NODES, each))["metadata"]["labels"] for each in status["nodes"]
        ]
        assert len({each["nvidia.com/gpu.clique"] for each in labels}) == 1
        # Three nodes are in no rack.
        await cluster.create("large", gpus=12, changes=required)
        await cluster.wait_for(lambda each: each.get("phase") == "Scheduling", "large")
        await advance_time(30)
        assert not (await cluster.get_status("large")).get("nodes")


async def test_workload_that_ends_has_succeeded() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=16, changes=run_for(20))
        status = await cluster.wait_for_phase("Succeeded", within=120)
        assert condition_of(status, "Complete")["status"] == "True"
        assert condition_of(status, "Running")["status"] == "False"
        assert status["completionTime"] > status["startTime"]
        assert status["allocatedGPUs"]
        await advance_time(30)
        assert [each["status"]["phase"] for each in await cluster.list_objects(PODS)] == [
            "Succeeded",
            "Succeeded",
        ]
        (gang,) = await cluster.list_objects(GANGS)
        assert gang["status"]["phase"] == "Succeeded"


async def test_workload_fails_with_the_first_pod_that_fails() -> None:
    async with gpu_cluster() as cluster:
        changes: Any = {**run_for(20, exit_code=3), "spec.podTemplate.spec.restartPolicy": "Never"}
        await cluster.create(changes=changes)
        status = await cluster.wait_for_phase("Failed", within=120)
        failed = condition_of(status, "Failed")
        assert failed["reason"] == "PodFailed"
        assert failed["message"] == "container trainer of pod job-0 exited with 3"
        await advance_time(10)
        assert await cluster.list_names(GANGS) == []
        assert await cluster.list_names(PODS) == ["job-0"]
        assert (await cluster.list_event_reasons())[-1] == "PodFailed"


async def test_eviction_of_one_pod_replaces_all() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=16)
        await cluster.wait_for_phase("Running")
        await cluster.client.evict("job-1", NAMESPACE)
        status = await cluster.wait_for(
            lambda each: each.get("incarnation") == 1 and each["phase"] == "Running"
        )
        assert await cluster.list_names(PODS) == ["job-0-r1", "job-1-r1"]
        assert len(set(status["allocatedGPUs"])) == 16
        assert condition_of(status, "Scheduled")["status"] == "True"
        assert "Restarted" in await cluster.list_event_reasons()
        (gang,) = await cluster.list_objects(GANGS)
        (group,) = gang["spec"]["podgroups"]
        assert [each["name"] for each in group["podReferences"]] == ["job-0-r1", "job-1-r1"]


async def test_deleted_pod_of_one_is_replaced() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Running")
        (before,) = await cluster.list_objects(PODS)
        await cluster.client.delete(PODS, "job-0", NAMESPACE, grace_period_seconds=0)
        await cluster.wait_for(lambda each: each["phase"] != "Running")
        await cluster.wait_for_phase("Running")
        (after,) = await cluster.list_objects(PODS)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_deleted_workload_leaves_nothing() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=16)
        await cluster.wait_for_phase("Running")
        await cluster.client.delete(WORKLOADS, "job", NAMESPACE)
        for resource, name in ((PODS, "job-0"), (PODS, "job-1"), (GANGS, "gw-job")):
            await wait_deleted(cluster.client, resource, name)
        await wait_deleted(cluster.client, SERVICES, "gw-job")


async def test_priority_preempts_what_may_be_preempted() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.create("low", changes={"spec.preemptible": True, "spec.priority": 10})
        await cluster.wait_for_phase("Running", "low")
        await cluster.create("high", changes={"spec.priority": 1000})
        await cluster.wait_for_phase("Running", "high", within=120)
        low = await cluster.wait_for(lambda each: each.get("incarnation") == 1, "low")
        assert low["phase"] in ("Pending", "Scheduling")
        classes = await cluster.list_objects(PRIORITY_CLASSES)
        values = {each["metadata"]["name"]: each["value"] for each in classes}
        assert values.items() >= {"kgwe-priority-10": 10, "kgwe-priority-1000": 1000}.items()


async def test_workload_is_not_preemptible_by_default() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.create("low")
        await cluster.wait_for_phase("Running", "low")
        await cluster.create("high", changes={"spec.priority": 1000})
        await cluster.wait_for_phase("Scheduling", "high")
        await advance_time(60)
        assert (await cluster.get_status("low"))["phase"] == "Running"
        assert (await cluster.get_status("high"))["phase"] == "Scheduling"


async def test_count_that_cannot_be_split_says_what_can() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=11)
        status = await cluster.wait_for(lambda each: bool(condition_of(each, "Accepted")))
        accepted = condition_of(status, "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "UnsplittableCount")
        assert "use 10 or 12" in accepted["message"]
        assert await cluster.list_names(PODS) == []
        assert await cluster.list_event_reasons() == ["UnsplittableCount"]
        patch = {"spec": {"gpuRequirements": {"count": 12}}}
        await cluster.client.patch(WORKLOADS, "job", patch, NAMESPACE)
        status = await cluster.wait_for_phase("Running")
        assert condition_of(status, "Accepted")["status"] == "True"
        assert len(status["allocatedGPUs"]) == 12


async def test_manifest_without_template_says_what_is_missing() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(changes={"spec.podTemplate": None})
        status = await cluster.wait_for(lambda each: bool(condition_of(each, "Accepted")))
        accepted = condition_of(status, "Accepted")
        assert accepted["reason"] == "NoPodTemplate"
        assert "add spec.podTemplate.spec.containers" in accepted["message"]


async def test_maximum_latency_ends_the_wait() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.create("first")
        await cluster.wait_for_phase("Running", "first")
        await cluster.create(
            "second", changes={"spec.constraints": {"maxSchedulingLatency": "30s"}}
        )
        status = await cluster.wait_for_phase("Failed", "second", within=60)
        failed = condition_of(status, "Failed")
        assert failed["reason"] == "SchedulingLatencyExceeded"
        await advance_time(10)
        assert await cluster.list_names(PODS) == ["first-0"]


async def test_spec_may_change_while_nothing_is_placed() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        await cluster.create(changes={"spec.gpuRequirements.gpuModel": "B200"})
        await cluster.wait_for(
            lambda each: scheduled_reason(each) not in (None, "PodsPending", "WaitingForScheduler")
        )
        patch = {"spec": {"gpuRequirements": {"gpuModel": "H100"}}}
        await cluster.client.patch(WORKLOADS, "job", patch, NAMESPACE)
        status = await cluster.wait_for_phase("Running")
        assert status["incarnation"] == 1


async def test_colocated_workload_waits_for_the_pod_and_joins_it() -> None:
    async with gpu_cluster() as cluster:
        constraints = {"colocateWith": [{"name": "first-0"}]}
        await cluster.create("second", gpus=2, changes={"spec.constraints": constraints})
        status = await cluster.wait_for(
            lambda each: scheduled_reason(each) == "WaitingForReferencedPods",
            "second",
        )
        assert "default/first-0" in condition_of(status, "Scheduled")["message"]
        first = {"spec.constraints": {"excludeNodes": ["node-0"]}}
        await cluster.create("first", gpus=2, changes=first)
        await cluster.wait_for_phase("Running", "first")
        status = await cluster.wait_for_phase("Running", "second")
        assert status["nodes"] == ["node-1"]
        away = {"antiAffinity": [{"kind": "GPUWorkload", "name": "first"}]}
        await cluster.create("third", gpus=2, changes={"spec.constraints": away})
        assert (await cluster.wait_for_phase("Running", "third"))["nodes"] == ["node-0"]


async def test_name_that_another_object_has_is_reported() -> None:
    async with gpu_cluster() as cluster:
        taken = {
            "metadata": {"name": "job-0"},
            "spec": {"containers": [{"name": "a", "image": "b"}]},
        }
        await cluster.client.create(PODS, taken, NAMESPACE)
        await cluster.create()
        status = await cluster.wait_for(lambda each: scheduled_reason(each) == "CreationFailed")
        message = condition_of(status, "Scheduled")["message"]
        assert message == ("Pod job-0 belongs to another object: delete it, or rename the workload")
        await cluster.client.delete(PODS, "job-0", NAMESPACE, grace_period_seconds=0)
        await cluster.wait_for_phase("Running", within=120)


async def test_settled_workload_is_written_no_more() -> None:
    async with gpu_cluster() as cluster:
        await cluster.create(gpus=16)
        await cluster.wait_for_phase("Running")
        await advance_time(20)
        resources = (WORKLOADS, PODS, GANGS, SERVICES)

        async def versions() -> list[str]:
            return [
                each["metadata"]["resourceVersion"]
                for resource in resources
                for each in await cluster.list_objects(resource)
            ]

        before = await versions()
        await advance_time(120)
        assert await versions() == before
