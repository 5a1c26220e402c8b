"""Bindings: devices are selected and assumed before the write, and never assigned twice."""

import asyncio
from typing import Any

import msgspec
import pytest

from kilonova.scheduler.objects.core_v1 import Pod
from tests.local.embedded_cluster import virtual_time
from tests.scheduler.extender.extender_fixture import ExtenderScenario, gang, node, pod

pytestmark = virtual_time


async def test_pod_is_bound_with_its_devices_in_the_annotation() -> None:
    scenario = ExtenderScenario(node("a", 4))
    scenario.add_pods(pod("x", 2, node="a", devices="0,1"), pod("p", 2))
    assert await scenario.bind("p", "a") == ""
    (written,) = scenario.server.bindings
    assert written["metadata"] == {
        "name": "p",
        "namespace": "default",
        "uid": "uid-p",
        "annotations": {"gpu.kilonova.dev/devices": "2,3"},
    }
    assert written["target"]["name"] == "a"


async def test_pods_bound_at_the_same_time_get_different_devices() -> None:
    scenario = ExtenderScenario(node("a", 3))
    scenario.add_pods(*(pod(f"p{i}") for i in range(5)))
    scenario.server.held = asyncio.Event()
    bindings = [asyncio.create_task(scenario.bind(f"p{i}", "a")) for i in range(5)]
    await asyncio.sleep(0.1)
    scenario.server.held.set()
    answers = await asyncio.gather(*bindings)
    assert answers[:3] == ["", "", ""]
    assert all("Insufficient nvidia.com/gpu" in answer for answer in answers[3:])
    assert sorted(scenario.server.devices().values()) == ["a:0", "a:1", "a:2"]


async def test_pod_without_gpus_is_bound_without_an_annotation() -> None:
    scenario = ExtenderScenario(node("a", 0))
    scenario.add_pods(pod("p", 0))
    assert await scenario.bind("p", "a") == ""
    assert scenario.server.devices() == {"p": "a:"}


async def test_pod_missing_in_the_cache_is_waited_for() -> None:
    scenario = ExtenderScenario(node("a"))
    scenario.add_pods(pod("p", 2) | {"metadata": {**pod("p")["metadata"], "uid": "uid-before"}})
    bindings = asyncio.create_task(scenario.bind("p", "a"))
    await asyncio.sleep(1)
    assert not bindings.done()
    scenario.add_pods(pod("p"))
    assert await bindings == ""
    assert scenario.server.devices() == {"p": "a:0"}


async def test_pod_absent_from_the_cache_fails_before_the_extender_timeout() -> None:
    scenario = ExtenderScenario(node("a"))
    begin = asyncio.get_running_loop().time()
    assert await scenario.bind("nobody", "a") == "default/nobody is not in the extender's cache yet"
    assert asyncio.get_running_loop().time() - begin < 5


REJECTED_BINDINGS = {
    "an unknown node": ([pod("p")], "unknown", "node unknown is no longer feasible"),
    "bound to another node": ([pod("p", node="b")], "a", "is already bound to node b"),
    "invalid request": (
        [pod("p", annotations={"gpu.kilonova.dev/min-memory": "?"})],
        "a",
        "'?' is not a GPU memory size in MiB",
    ),
    "no free capacity": (
        [pod("x", 8, node="a"), pod("p")],
        "a",
        "node a is no longer feasible: Insufficient",
    ),
}


@pytest.mark.parametrize("case", REJECTED_BINDINGS)
async def test_infeasible_binding_is_rejected_without_assuming_the_pod(case: str) -> None:
    pods, chosen, text = REJECTED_BINDINGS[case]
    scenario = ExtenderScenario(node("a"), node("b"))
    scenario.add_pods(*pods)
    placements = dict(scenario.cache.cluster.snapshot.placements)
    assert text in await scenario.bind("p", chosen)
    assert scenario.cache.cluster.snapshot.placements == placements
    assert scenario.server.bindings == []


async def test_terminating_pod_is_not_bound() -> None:
    scenario = ExtenderScenario(node("a"))
    terminating_pod = pod("p")
    terminating_pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scenario.add_pods(terminating_pod)
    assert "is terminating" in await scenario.bind("p", "a")


async def test_repeated_binding_is_idempotent() -> None:
    scenario = ExtenderScenario(node("a"))
    scenario.add_pods(pod("p", node="a", devices="0"))
    assert await scenario.bind("p", "a") == ""
    assert scenario.server.bindings == []


@pytest.mark.parametrize("code", [404, 409, 403])
async def test_rejected_binding_frees_its_capacity(code: int) -> None:
    scenario = ExtenderScenario(node("a", 1))
    scenario.add_pods(pod("p"), pod("q"))
    scenario.server.failures = [code]
    assert "the API server rejected the binding" in await scenario.bind("p", "a")
    assert await scenario.bind("q", "a") == ""
    assert scenario.server.devices() == {"q": "a:0"}


@pytest.mark.parametrize("failure", ["away", "lost", 500, 429])
async def test_binding_with_unknown_outcome_is_retried(failure: Any) -> None:
    scenario = ExtenderScenario(node("a", 1))
    scenario.add_pods(pod("p"), pod("q"))
    scenario.server.failures = [failure]
    assert await scenario.bind("p", "a") == ""
    assert scenario.server.devices() == {"p": "a:0"}
    assert "Insufficient" in await scenario.bind("q", "a")


async def test_devices_stay_assumed_while_the_api_is_unreachable() -> None:
    scenario = ExtenderScenario(node("a", 1))
    scenario.add_pods(pod("p"), pod("q"))
    scenario.server.failures = ["away"] * 12
    answer = await scenario.bind("p", "a")
    assert answer == "the API server has not answered: default/p is still being bound"
    assert "is already being bound" in await scenario.bind("p", "a")
    assert "Insufficient" in await scenario.bind("q", "a")
    async with asyncio.timeout(120):
        while not scenario.server.bindings:
            await asyncio.sleep(1)
    assert scenario.server.devices() == {"p": "a:0"}


async def test_pod_bound_by_another_after_a_lost_reply_is_forgotten() -> None:
    scenario = ExtenderScenario(node("a", 1), node("b", 1))
    scenario.add_pods(pod("p"), pod("q"))
    elsewhere = {"metadata": {"name": "p"}, "target": {"name": "b"}}
    scenario.server.bindings.append(elsewhere)
    scenario.server.failures = ["away"]
    assert "the API server rejected the binding" in await scenario.bind("p", "a")
    assert await scenario.bind("q", "a") == ""


async def test_replica_without_the_lease_binds_nothing() -> None:
    scenario = ExtenderScenario(node("a", 1), fenced=True)
    scenario.add_pods(pod("p"))
    assert "leadership" in await scenario.bind("p", "a")
    assert scenario.server.bindings == []
    assert scenario.cache.cluster.snapshot.placements == {}


async def test_informer_event_after_binding_changes_nothing() -> None:
    scenario = ExtenderScenario(node("a", 2))
    scenario.add_pods(pod("p"))
    await scenario.bind("p", "a")
    placement = scenario.cache.cluster.snapshot.placements["default/p"]
    scenario.add_pods(pod("p", node="a", devices="0"))
    assert scenario.cache.cluster.snapshot.placements["default/p"] is placement
    scenario.pods.remove(("default", "p"))
    assert scenario.cache.cluster.snapshot.placements == {}


async def test_bound_member_counts_in_its_gang() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 2))
    scenario.add_pods(pod("w0", node="a"), pod("w1"))
    scenario.add_gangs(gang("g", 2, "w0", "w1"))
    assert await scenario.bind("w1", "b") == ""
    victims = {"b": {"Pods": [{"UID": "uid-w1"}], "NumPDBViolations": 0}}
    answer = await scenario.call_verb(
        "preempt", {"Pod": pod("p", 2), "NodeNameToMetaVictims": victims}
    )
    assert answer == {"NodeNameToMetaVictims": {}}


async def test_restarted_extender_respects_existing_device_assignments() -> None:
    before = ExtenderScenario(node("a", 2))
    before.add_pods(pod("p"), pod("q"))
    await before.bind("p", "a")
    (written,) = before.server.bindings
    devices = written["metadata"]["annotations"]["gpu.kilonova.dev/devices"]
    after = ExtenderScenario(node("a", 2))
    after.pods.put(msgspec.convert(pod("p", node="a", devices=devices), Pod))
    after.add_pods(pod("q"))
    await after.bind("q", "a")
    assert after.server.devices() == {"q": "a:1"}
