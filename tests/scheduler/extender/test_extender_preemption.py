"""Which of kube-scheduler's victims are worth it."""

from typing import Any

import pytest

from tests.scheduler.extender.scene import Scene, gang, node, pod


def _meta(*names: str, violations: int = 0) -> dict[str, Any]:
    pods = [{"UID": f"uid-{name}"} for name in names]
    return {"Pods": pods, "NumPDBViolations": violations}


async def _asked(scene: Scene, asking: dict[str, Any], **victims: Any) -> Any:
    answer = await scene.ask("preempt", {"Pod": asking, "NodeNameToMetaVictims": victims})
    return answer["NodeNameToMetaVictims"]


async def test_nodes_where_the_victims_make_gpus_fit_are_kept_as_they_are() -> None:
    scene = Scene(node("a", 2), node("b", 2))
    scene.show(pod("x", 2, node="a"), pod("y", node="b"), pod("z", node="b"))
    victims = {"a": _meta("x", violations=2), "b": _meta("y")}
    assert await _asked(scene, pod("p", 2), **victims) == {"a": victims["a"]}
    assert scene.world.cluster.snapshot.bookings.keys() == {f"default/{n}" for n in "xyz"}


async def test_whole_victims_are_answered_by_their_ids() -> None:
    scene = Scene(node("a", 1))
    victim = pod("x", node="a")
    scene.show(victim)
    whole = {"a": {"Pods": [victim], "NumPDBViolations": 1}}
    answer = await scene.ask("preempt", {"Pod": pod("p"), "NodeNameToVictims": whole})
    assert answer == {"NodeNameToMetaVictims": {"a": _meta("x", violations=1)}}


async def test_counts_that_would_do_are_not_enough_where_devices_do_not() -> None:
    topology = '{"gpus": [{}, {}, {}, {}], "links": [[0, 1, 100], [2, 3, 100]]}'
    scene = Scene(node("a", 4, annotations={"gpu.kilonova.dev/topology": topology}))
    scene.show(*(pod(f"x{i}", node="a", devices=str(i)) for i in range(4)))
    joined = pod("p", 2, annotations={"gpu.kilonova.dev/topology": "NVLinkRequired"})
    assert await _asked(scene, joined, a=_meta("x0", "x2")) == {}
    assert await _asked(scene, joined, a=_meta("x0", "x1")) == {"a": _meta("x0", "x1")}


@pytest.mark.parametrize(
    ("minimum", "victims", "kept"),
    [
        (2, ("w0",), False),  # one of two that need each other
        (1, ("w0",), True),  # one that the gang can do without
        (2, ("w0", "w1"), True),  # the whole gang
    ],
)
async def test_no_gang_is_left_without_what_it_needs(
    minimum: int, victims: tuple[str, ...], kept: bool
) -> None:
    scene = Scene(node("a", 2))
    scene.show(pod("w0", node="a"), pod("w1", node="a"))
    scene.show_gang(gang("g", minimum, "w0", "w1"))
    asked = {"a": _meta(*victims)}
    assert await _asked(scene, pod("p"), **asked) == (asked if kept else {})


async def test_a_gang_that_also_stands_elsewhere_is_not_torn_apart() -> None:
    scene = Scene(node("a", 2), node("b", 2))
    scene.show_gang(gang("g", 3, "w0", "w1", "w2"))
    scene.show(pod("w0", node="a"), pod("w1", node="a"), pod("w2", node="b"), pod("x", node="b"))
    asked = {"a": _meta("w0", "w1"), "b": _meta("x")}
    assert await _asked(scene, pod("p"), **asked) == {"b": asked["b"]}


async def test_who_must_never_make_room_does_not() -> None:
    scene = Scene(node("a", 1), node("b", 1))
    never = {"scheduling.kilonova.dev/preemptible": "false"}
    scene.show(pod("x", node="a", annotations=never), pod("y", node="b"))
    asked = {"a": _meta("x"), "b": _meta("y")}
    assert await _asked(scene, pod("p"), **asked) == {"b": asked["b"]}


async def test_what_the_cache_does_not_show_is_not_judged() -> None:
    scene = Scene(node("a", 1), node("b", 1))
    scene.show(pod("y", node="b"))
    asked = {"a": _meta("not-seen-yet"), "b": _meta("y"), "unheard-of": _meta("x")}
    assert await _asked(scene, pod("p"), **asked) == {"b": asked["b"]}


async def test_a_pod_that_nobody_can_read_pushes_nobody_out() -> None:
    scene = Scene(node("a", 1))
    scene.show(pod("x", node="a"))
    asking = pod("p", annotations={"gpu.kilonova.dev/min-memory": "?"})
    assert await _asked(scene, asking, a=_meta("x")) == {}
