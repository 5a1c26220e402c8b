"""Pods that were given devices have those, and suffer with those."""

from typing import Any

import pytest

from kilonova.api.gpus import DEVICES, Assignment, read_devices
from kilonova.kube import Client
from kilonova.local.nodes.fleet import Fleet, Gpu, NodeGroup
from kilonova.local.nodes.holdings import Holding, with_any, with_given
from tests.local.embedded_cluster import NODES, PODS, eventually, pod, running, settle
from tests.local.nodes.simulations import simulation

FLEET = Fleet((NodeGroup("n", gpu=Gpu("NVIDIA-H100-80GB-HBM3", 8), start="1s"),))
RESOURCE = "nvidia.com/gpu"
EIGHT = range(8)


def given(text: str) -> tuple[Assignment, ...]:
    found = read_devices(text)
    assert isinstance(found, tuple)
    return found


def holdings(**pods: str) -> dict[str, Holding]:
    """Pods with what they have; what nobody gave them starts with a question mark."""
    return {
        uid: Holding(given(text.removeprefix("?")), not text.startswith("?"))
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
def test_who_was_given_nothing_has_the_first_that_are_free(
    before: dict[str, str], count: int, after: str | None
) -> None:
    known = holdings(**before)
    expected = None if after is None else {**known, **holdings(new=after)}
    assert with_any(known, "new", count, EIGHT) == expected


@pytest.mark.parametrize(
    ("before", "text", "moved"),
    [
        ({}, "3,5", {}),
        ({"a": "3:400"}, "3:600", {}),
        ({"a": "3:1g.10gb@0"}, "3:1g.10gb@1", {}),
        ({"a": "?0,1", "b": "?2"}, "1", {"a": "?0,3"}),
        ({"a": "?0", "b": "?1"}, "0,1", {"a": "?2", "b": "?3"}),
    ],
)
def test_who_was_given_devices_has_them_and_others_make_way(
    before: dict[str, str], text: str, moved: dict[str, str]
) -> None:
    expected = holdings(**{**before, **moved, "new": text})
    assert with_given(holdings(**before), "new", given(text), EIGHT) == expected


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ({"a": "3"}, "3"),
        ({"a": "3:400"}, "3:601"),
        ({"a": "3:400"}, "3"),
        ({"a": "3:1g.10gb@0"}, "3:1g.10gb@0"),
        ({"a": "3:1g.10gb@0"}, "3:100"),
        ({"a": "3:100"}, "3:1g.10gb@0"),
        ({"a": "?0,1,2,3,4,5,6,7"}, "3"),
    ],
)
def test_nothing_is_given_twice(before: dict[str, str], text: str) -> None:
    assert with_given(holdings(**before), "new", given(text), EIGHT) is None


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

    await eventually(all_run)


async def fault(client: Client, **faults: str) -> None:
    named = {f"sim.kilonova.dev/{k.replace('_', '-')}": v for k, v in faults.items()}
    await client.patch(NODES, "n-0", {"metadata": {"annotations": named}})
    await settle()


async def crashed(client: Client) -> set[str]:
    """The pods whose containers have been started again."""
    return {
        each["metadata"]["name"]
        for each in (await client.list(PODS, "default")).items
        if any(status["restartCount"] for status in each["status"]["containerStatuses"])
    }


@pytest.mark.looptime
async def test_an_xid_ends_the_pods_that_were_given_the_device() -> None:
    async with running(fleet=FLEET) as cluster:
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
async def test_a_pod_is_refused_whose_device_is_not_to_be_had(devices: str, why: str) -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await run(client, trainer("first", "1", 1))
        await fault(client, lost_gpus="2")
        await client.create(PODS, trainer("second", devices, 1), "default")
        await settle()
        status = (await client.get(PODS, "second", "default"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError"), why
        assert f"devices {devices} being lost or in use" in status["message"]


@pytest.mark.looptime
async def test_a_device_is_free_again_when_its_pod_has_gone() -> None:
    async with running(fleet=FLEET) as cluster:
        client = cluster.client("test")
        await run(client, trainer("first", "1", 1))
        await client.delete(PODS, "first", "default")
        await settle()
        await run(client, trainer("second", "1", 1))
        await fault(client, xid="31@1")
        assert await crashed(client) == {"second"}


@pytest.mark.looptime
async def test_a_new_process_knows_who_has_what_and_makes_nobody_suffer_twice() -> None:
    async with running() as cluster:
        client = cluster.client("test")
        async with simulation(client, FLEET):
            await run(client, trainer("a", "3", 1), trainer("b", "0", 1))
            await fault(client, xid="31@3")
            assert await crashed(client) == {"a"}
            await fault(client, lost_gpus="3")
        async with simulation(client, FLEET):
            await settle()
            found = (await client.get(PODS, "a", "default"))["status"]
            assert (found["phase"], found["reason"]) == ("Failed", "UnexpectedAdmissionError")
            assert found["containerStatuses"][0]["restartCount"] == 1
            await fault(client, xid="31@0")
            assert await crashed(client) == {"a", "b"}


@pytest.mark.looptime
@pytest.mark.parametrize("asked", [8, 4])
async def test_a_new_process_knows_which_gpus_are_lost_to_whom(asked: int) -> None:
    """Nobody gave them out by name, so only the status of the pod tells which it had."""
    async with running() as cluster:
        client = cluster.client("test")
        async with simulation(client, FLEET):
            await run(client, *(trainer(name, None, asked) for name in "zb"[: 8 // asked]))
            holder = "z"
            await fault(client, lost_gpus="2")
            found = (await client.get(PODS, holder, "default"))["status"]
            assert found["reason"] == "UnhealthyDevices"
        async with simulation(client, FLEET):
            await settle()
            found = (await client.get(PODS, holder, "default"))["status"]
            assert (found["phase"], found["reason"]) == ("Failed", "UnexpectedAdmissionError")
            others = {each["metadata"]["name"] for each in (await client.list(PODS)).items}
            for name in others - {holder}:
                assert (await client.get(PODS, name, "default"))["status"]["phase"] == "Running"
