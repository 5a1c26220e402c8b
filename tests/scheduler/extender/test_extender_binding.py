"""Bindings: devices are chosen, booked before they are written, and never given twice."""

import asyncio
from typing import Any

import msgspec
import pytest

from kilonova.scheduler.objects import Pod
from tests.scheduler.extender.scene import Scene, gang, node, pod

pytestmark = pytest.mark.looptime


async def test_a_pod_is_bound_with_its_devices_in_the_annotation() -> None:
    scene = Scene(node("a", 4))
    scene.show(pod("x", 2, node="a", devices="0,1"), pod("p", 2))
    assert await scene.bind("p", "a") == ""
    (written,) = scene.server.bindings
    assert written["metadata"] == {
        "name": "p",
        "namespace": "default",
        "uid": "uid-p",
        "annotations": {"gpu.kilonova.dev/devices": "2,3"},
    }
    assert written["target"]["name"] == "a"


async def test_pods_bound_at_the_same_time_get_different_devices() -> None:
    scene = Scene(node("a", 3))
    scene.show(*(pod(f"p{i}") for i in range(5)))
    scene.server.held = asyncio.Event()
    asking = [asyncio.create_task(scene.bind(f"p{i}", "a")) for i in range(5)]
    await asyncio.sleep(0.1)
    scene.server.held.set()
    answers = await asyncio.gather(*asking)
    assert answers[:3] == ["", "", ""]
    assert all("Insufficient nvidia.com/gpu" in answer for answer in answers[3:])
    assert sorted(scene.server.devices().values()) == ["a:0", "a:1", "a:2"]


async def test_a_pod_without_gpus_is_bound_without_an_annotation() -> None:
    scene = Scene(node("a", 0))
    scene.show(pod("p", 0))
    assert await scene.bind("p", "a") == ""
    assert scene.server.devices() == {"p": "a:"}


async def test_a_pod_that_the_cache_shows_late_is_waited_for() -> None:
    scene = Scene(node("a"))
    scene.show(pod("p", 2) | {"metadata": {**pod("p")["metadata"], "uid": "uid-before"}})
    asking = asyncio.create_task(scene.bind("p", "a"))
    await asyncio.sleep(1)
    assert not asking.done()
    scene.show(pod("p"))
    assert await asking == ""
    assert scene.server.devices() == {"p": "a:0"}


async def test_a_pod_that_never_shows_is_refused_before_kube_scheduler_gives_up() -> None:
    scene = Scene(node("a"))
    begin = asyncio.get_running_loop().time()
    assert await scene.bind("nobody", "a") == "default/nobody is not in the extender's cache yet"
    assert asyncio.get_running_loop().time() - begin < 5


REFUSED = {
    "an unknown node": ([pod("p")], "unheard-of", "node unheard-of will not do any more"),
    "elsewhere already": ([pod("p", node="b")], "a", "is on node b already"),
    "misread": (
        [pod("p", annotations={"gpu.kilonova.dev/min-memory": "?"})],
        "a",
        "'?' is no memory of a GPU",
    ),
    "no room any more": (
        [pod("x", 8, node="a"), pod("p")],
        "a",
        "node a will not do any more: Insufficient",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_cannot_be_is_refused_and_nothing_is_booked(case: str) -> None:
    pods, chosen, text = REFUSED[case]
    scene = Scene(node("a"), node("b"))
    scene.show(*pods)
    booked = dict(scene.world.cluster.snapshot.bookings)
    assert text in await scene.bind("p", chosen)
    assert scene.world.cluster.snapshot.bookings == booked
    assert scene.server.bindings == []


async def test_a_pod_that_is_going_is_not_bound() -> None:
    scene = Scene(node("a"))
    going = pod("p")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scene.show(going)
    assert "is being deleted" in await scene.bind("p", "a")


async def test_asking_again_for_what_was_done_is_no_error() -> None:
    scene = Scene(node("a"))
    scene.show(pod("p", node="a", devices="0"))
    assert await scene.bind("p", "a") == ""
    assert scene.server.bindings == []


@pytest.mark.parametrize("code", [404, 409, 403])
async def test_room_of_a_refused_binding_is_free_again(code: int) -> None:
    scene = Scene(node("a", 1))
    scene.show(pod("p"), pod("q"))
    scene.server.failures = [code]
    assert "the binding was refused" in await scene.bind("p", "a")
    assert await scene.bind("q", "a") == ""
    assert scene.server.devices() == {"q": "a:0"}


@pytest.mark.parametrize("failure", ["away", "lost", 500, 429])
async def test_a_write_of_which_nobody_knows_is_tried_again(failure: Any) -> None:
    scene = Scene(node("a", 1))
    scene.show(pod("p"), pod("q"))
    scene.server.failures = [failure]
    assert await scene.bind("p", "a") == ""
    assert scene.server.devices() == {"p": "a:0"}
    assert "Insufficient" in await scene.bind("q", "a")


async def test_while_the_server_is_away_the_devices_stay_booked() -> None:
    scene = Scene(node("a", 1))
    scene.show(pod("p"), pod("q"))
    scene.server.failures = ["away"] * 12
    answer = await scene.bind("p", "a")
    assert answer == "the API server has not answered: default/p is still being bound"
    assert "is being bound already" in await scene.bind("p", "a")
    assert "Insufficient" in await scene.bind("q", "a")
    async with asyncio.timeout(120):
        while not scene.server.bindings:
            await asyncio.sleep(1)
    assert scene.server.devices() == {"p": "a:0"}


async def test_a_pod_that_another_bound_after_our_answer_was_lost_is_given_back() -> None:
    scene = Scene(node("a", 1), node("b", 1))
    scene.show(pod("p"), pod("q"))
    elsewhere = {"metadata": {"name": "p"}, "target": {"name": "b"}}
    scene.server.bindings.append(elsewhere)
    scene.server.failures = ["away"]
    assert "the binding was refused" in await scene.bind("p", "a")
    assert await scene.bind("q", "a") == ""


async def test_a_copy_that_does_not_lead_binds_nothing() -> None:
    scene = Scene(node("a", 1), fenced=True)
    scene.show(pod("p"))
    assert "leadership" in await scene.bind("p", "a")
    assert scene.server.bindings == []
    assert scene.world.cluster.snapshot.bookings == {}


async def test_what_the_cache_shows_afterwards_changes_nothing() -> None:
    scene = Scene(node("a", 2))
    scene.show(pod("p"))
    await scene.bind("p", "a")
    booking = scene.world.cluster.snapshot.bookings["default/p"]
    scene.show(pod("p", node="a", devices="0"))
    assert scene.world.cluster.snapshot.bookings["default/p"] is booking
    scene.pods.remove(("default", "p"))
    assert scene.world.cluster.snapshot.bookings == {}


async def test_a_bound_member_counts_in_its_gang() -> None:
    scene = Scene(node("a", 2), node("b", 2))
    scene.show(pod("w0", node="a"), pod("w1"))
    scene.show_gang(gang("g", 2, "w0", "w1"))
    assert await scene.bind("w1", "b") == ""
    victims = {"b": {"Pods": [{"UID": "uid-w1"}], "NumPDBViolations": 0}}
    answer = await scene.ask("preempt", {"Pod": pod("p", 2), "NodeNameToMetaVictims": victims})
    assert answer == {"NodeNameToMetaVictims": {}}


async def test_a_restarted_extender_gives_nobody_what_others_have() -> None:
    before = Scene(node("a", 2))
    before.show(pod("p"), pod("q"))
    await before.bind("p", "a")
    (written,) = before.server.bindings
    devices = written["metadata"]["annotations"]["gpu.kilonova.dev/devices"]
    after = Scene(node("a", 2))
    after.pods.put(msgspec.convert(pod("p", node="a", devices=devices), Pod))
    after.show(pod("q"))
    await after.bind("q", "a")
    assert after.server.devices() == {"q": "a:1"}
