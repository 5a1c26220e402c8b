"""Pods with assigned devices use exactly those, and are affected by their faults."""

from typing import Any

import pytest

from kilonova.api.gpu.annotations import DEVICES, DeviceAssignment, parse_devices
from kilonova.catalog.mig import geometry_named
from kilonova.kube import Client
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from kilonova.local.simnodes.gpus.allocation import (
    GpuAllocation,
    MachineGpus,
    allocate_any,
    allocate_assigned,
    allocate_instances,
)
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    advance_time,
    pod,
    run_cluster,
    wait_for_condition,
)
from tests.local.simnodes.simulation_helpers import running_simulation

FLEET = Fleet((NodeGroup("n", gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8), start="1s"),))
RESOURCE = "nvidia.com/gpu"
EIGHT = MachineGpus(range(8), geometry_named("H100-80GB"))


def assigned(text: str) -> tuple[DeviceAssignment, ...]:
    found = parse_devices(text)
    assert isinstance(found, tuple)
    return found


def allocations(**pods: str) -> dict[str, GpuAllocation]:
    """Pods with their devices; devices without an assignment start with a question mark."""
    return {
        uid: GpuAllocation(assigned(text.removeprefix("?")), not text.startswith("?"))
        for uid, text in pods.items()
    }


@pytest.mark.parametrize(
    ("before", "count", "after"),
    [
        ({}, 2, "?0,1"),
        ({"a": "0", "b": "2:300"}, 2, "?1,3"),
        ({"a": "0:1g.10gb@0", "b": "?1"}, 6, "?2,3,4,5,6,7"),
        ({"a": "0:1g.10gb@0", "b": "?1"}, 7, None),
    ],
)
def test_a_pod_without_assignment_gets_the_first_free_gpus(
    before: dict[str, str], count: int, after: str | None
) -> None:
    known = allocations(**before)
    expected = None if after is None else {**known, **allocations(new=after)}
    assert allocate_any(known, "new", count, EIGHT) == expected


@pytest.mark.parametrize(
    ("before", "text", "moved"),
    [
        ({}, "3,5", {}),
        ({"a": "3:400"}, "3:600", {}),
        ({"a": "3:1g.10gb@0"}, "3:1g.10gb@1", {}),
        ({"a": "3:3g.40gb@4"}, "3:3g.40gb@0", {}),
        ({"a": "3:800/100"}, "3:100/800", {}),
        ({"a": "?0,1", "b": "?2"}, "1", {"a": "?0,3"}),
        ({"a": "?0", "b": "?1"}, "0,1", {"a": "?2", "b": "?3"}),
    ],
)
def test_assigned_devices_take_precedence_over_any(
    before: dict[str, str], text: str, moved: dict[str, str]
) -> None:
    expected = allocations(**{**before, **moved, "new": text})
    assert allocate_assigned(allocations(**before), "new", assigned(text), EIGHT) == expected


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ({"a": "3"}, "3"),
        ({"a": "3:400"}, "3:601"),
        ({"a": "3:400"}, "3"),
        ({"a": "3:1g.10gb@0"}, "3:1g.10gb@0"),
        ({"a": "3:1g.10gb@3"}, "3:3g.40gb@0"),
        ({"a": "3:3g.40gb@0"}, "3:2g.20gb@2"),
        ({"a": "3:1g.10gb+me@0"}, "3:1g.10gb+me@1"),
        ({}, "3:3g.40gb@1"),
        ({}, "3:1g.5gb@0"),
        ({}, "3:1g.10gb@0,3:2g.20gb@0"),
        ({"a": "3:100/800"}, "3:100/300"),
        ({"a": "3:1g.10gb@0"}, "3:100"),
        ({"a": "3:100"}, "3:1g.10gb@0"),
        ({"a": "?0,1,2,3,4,5,6,7"}, "3"),
    ],
)
def test_no_device_is_allocated_twice(before: dict[str, str], text: str) -> None:
    assert allocate_assigned(allocations(**before), "new", assigned(text), EIGHT) is None


@pytest.mark.parametrize(
    ("before", "profiles", "after"),
    [
        ({}, ["3g.40gb", "3g.40gb", "1g.10gb"], "0:3g.40gb@0,0:3g.40gb@4,1:1g.10gb@0"),
        ({"a": "5:1g.10gb@0"}, ["3g.40gb"], "5:3g.40gb@4"),
        ({"a": "0", "b": "1:300"}, ["7g.80gb"], "2:7g.80gb@0"),
        ({}, ["1g.10gb+me"] * 9, None),
        ({}, ["1g.5gb"], None),
    ],
)
def test_requested_instances_get_free_slices(
    before: dict[str, str], profiles: list[str], after: str | None
) -> None:
    known = allocations(**before)
    expected = None if after is None else {**known, **allocations(new=after)}
    assert allocate_instances(known, "new", profiles, EIGHT) == expected


def trainer(name: str, devices: str | None, gpus: int = 0) -> Any:
    annotations = {} if devices is None else {DEVICES: devices}
    made = pod(name, nodeName="n-0", metadata={"annotations": annotations})
    if gpus:
        made["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: gpus}}
    return made


async def run(client: Client, *pods: Any) -> None:
    for body in pods:
        await client.create(PODS, body, "default")

    async def all_run() -> bool:
        found = (await client.list(PODS, "default")).items
        return all(each["status"].get("phase") == "Running" for each in found)

    await wait_for_condition(all_run)


async def fault(client: Client, **faults: str) -> None:
    named = {f"sim.kilonova.dev/{k.replace('_', '-')}": v for k, v in faults.items()}
    await client.patch(NODES, "n-0", {"metadata": {"annotations": named}})
    await advance_time()


async def crashed(client: Client) -> set[str]:
    """The pods whose containers have been restarted."""
    return {
        each["metadata"]["name"]
        for each in (await client.list(PODS, "default")).items
        if any(status["restartCount"] for status in each["status"]["containerStatuses"])
    }


@pytest.mark.looptime
async def test_xid_crashes_the_pods_using_the_device() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await run(
            client,
            trainer("whole", "4,5", 2),
            trainer("half", "6:500"),
            trainer("other-half", "6:500"),
            trainer("instance", "7:1g.10gb@4"),
            trainer("any", None, 1),
            trainer("unreadable", "GPU-1", 1),
        )
        for xid, expected in (
            ("31@3", set[str]()),
            ("31@5", {"whole"}),
            ("31@6", {"whole", "half", "other-half"}),
            ("31@0", {"whole", "half", "other-half", "any"}),
            ("31@1", {"whole", "half", "other-half", "any", "unreadable"}),
        ):
            await fault(client, xid=xid)
            assert await crashed(client) == expected
        await fault(client, lost_gpus="7")
        lost = (await client.get(PODS, "instance", "default"))["status"]
        assert lost["message"] == "unhealthy devices of nvidia.com/gpu: 7"
        assert lost["containerStatuses"][0]["allocatedResourcesStatus"] == [
            {"name": "nvidia.com/gpu", "resources": [{"resourceID": "7", "health": "Unhealthy"}]}
        ]


@pytest.mark.looptime
@pytest.mark.parametrize(("devices", "why"), [("2", "lost"), ("0,1", "in use"), ("8", "absent")])
async def test_a_pod_whose_device_is_unavailable_is_rejected(devices: str, why: str) -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await run(client, trainer("first", "1", 1))
        await fault(client, lost_gpus="2")
        await client.create(PODS, trainer("second", devices, 1), "default")
        await advance_time()
        status = (await client.get(PODS, "second", "default"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError"), why
        assert f"devices {devices} being lost or in use" in status["message"]


@pytest.mark.looptime
async def test_gpus_of_sidecars_are_allocated() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        body = trainer("with-sidecar", None, 6)
        gpus = {"resources": {"limits": {RESOURCE: 3}}}
        body["spec"]["initContainers"] = [
            {"name": "s", "image": "i", "restartPolicy": "Always", **gpus}
        ]
        await client.create(PODS, body, "default")
        await advance_time()
        status = (await client.get(PODS, "with-sidecar", "default"))["status"]
        assert status["phase"] == "Failed"
        assert "Requested: 9, Available: 8" in status["message"]


@pytest.mark.looptime
async def test_device_is_free_after_its_pod_is_deleted() -> None:
    async with run_cluster(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await run(client, trainer("first", "1", 1))
        await client.delete(PODS, "first", "default")
        await advance_time()
        await run(client, trainer("second", "1", 1))
        await fault(client, xid="31@1")
        assert await crashed(client) == {"second"}


@pytest.mark.looptime
async def test_a_new_process_restores_allocations_and_crashes_no_pod_twice() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, FLEET):
            await run(client, trainer("a", "3", 1), trainer("b", "0", 1))
            await fault(client, xid="31@3")
            assert await crashed(client) == {"a"}
            await fault(client, lost_gpus="3")
        async with running_simulation(client, FLEET):
            await advance_time()
            found = (await client.get(PODS, "a", "default"))["status"]
            assert (found["phase"], found["reason"]) == ("Failed", "UnexpectedAdmissionError")
            assert found["containerStatuses"][0]["restartCount"] == 1
            await fault(client, xid="31@0")
            assert await crashed(client) == {"a", "b"}


@pytest.mark.looptime
@pytest.mark.parametrize("asked", [8, 4])
async def test_new_process_restores_which_pods_lost_which_gpus(asked: int) -> None:
    """They were not assigned by name, so only the status of the pod tells which it had."""
    async with run_cluster() as cluster:
        client = cluster.client("test")
        async with running_simulation(client, FLEET):
            await run(client, *(trainer(name, None, asked) for name in "zb"[: 8 // asked]))
            holder = "z"
            await fault(client, lost_gpus="2")
            found = (await client.get(PODS, holder, "default"))["status"]
            assert found["reason"] == "UnhealthyDevices"
        async with running_simulation(client, FLEET):
            await advance_time()
            found = (await client.get(PODS, holder, "default"))["status"]
            assert (found["phase"], found["reason"]) == ("Failed", "UnexpectedAdmissionError")
            others = {each["metadata"]["name"] for each in (await client.list(PODS)).items}
            for name in others - {holder}:
                assert (await client.get(PODS, name, "default"))["status"]["phase"] == "Running"
