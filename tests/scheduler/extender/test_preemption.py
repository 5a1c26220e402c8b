"""Which of kube-scheduler's preemption candidates are accepted."""

from typing import Any

import pytest

from tests.scheduler.extender.extender_fixture import ExtenderScenario, gang, node, pod


def _meta_victims(*names: str, violations: int = 0) -> dict[str, Any]:
    pods = [{"UID": f"uid-{name}"} for name in names]
    return {"Pods": pods, "NumPDBViolations": violations}


async def _preempt(
    scenario: ExtenderScenario, requesting_pod: dict[str, Any], **victims: Any
) -> Any:
    answer = await scenario.call_verb(
        "preempt", {"Pod": requesting_pod, "NodeNameToMetaVictims": victims}
    )
    return answer["NodeNameToMetaVictims"]


async def test_nodes_where_eviction_frees_enough_gpus_are_kept() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 2))
    scenario.add_pods(pod("x", 2, node="a"), pod("y", node="b"), pod("z", node="b"))
    victims = {"a": _meta_victims("x", violations=2), "b": _meta_victims("y")}
    assert await _preempt(scenario, pod("p", 2), **victims) == {"a": victims["a"]}
    assert scenario.cache.cluster.snapshot.placements.keys() == {f"default/{n}" for n in "xyz"}


async def test_full_victims_are_answered_by_uid() -> None:
    scenario = ExtenderScenario(node("a", 1))
    victim = pod("x", node="a")
    scenario.add_pods(victim)
    whole = {"a": {"Pods": [victim], "NumPDBViolations": 1}}
    answer = await scenario.call_verb("preempt", {"Pod": pod("p"), "NodeNameToVictims": whole})
    assert answer == {"NodeNameToMetaVictims": {"a": _meta_victims("x", violations=1)}}


async def test_matching_counts_without_matching_devices_are_rejected() -> None:
    topology = '{"gpus": [{}, {}, {}, {}], "links": [[0, 1, 100], [2, 3, 100]]}'
    scenario = ExtenderScenario(node("a", 4, annotations={"gpu.kilonova.dev/topology": topology}))
    scenario.add_pods(*(pod(f"x{i}", node="a", devices=str(i)) for i in range(4)))
    joined = pod("p", 2, annotations={"gpu.kilonova.dev/topology": "NVLinkRequired"})
    assert await _preempt(scenario, joined, a=_meta_victims("x0", "x2")) == {}
    assert await _preempt(scenario, joined, a=_meta_victims("x0", "x1")) == {
        "a": _meta_victims("x0", "x1")
    }


@pytest.mark.parametrize(
    ("minimum", "victims", "is_accepted"),
    [
        (2, ("w0",), False),  # one of two required pods
        (1, ("w0",), True),  # a surplus pod
        (2, ("w0", "w1"), True),  # the whole gang
    ],
)
async def test_no_gang_falls_below_its_minimum(
    minimum: int, victims: tuple[str, ...], is_accepted: bool
) -> None:
    scenario = ExtenderScenario(node("a", 2))
    scenario.add_pods(pod("w0", node="a"), pod("w1", node="a"))
    scenario.add_gangs(gang("g", minimum, "w0", "w1"))
    candidates = {"a": _meta_victims(*victims)}
    assert await _preempt(scenario, pod("p"), **candidates) == (candidates if is_accepted else {})


async def test_gang_with_pods_on_other_nodes_is_not_broken() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 2))
    scenario.add_gangs(gang("g", 3, "w0", "w1", "w2"))
    scenario.add_pods(
        pod("w0", node="a"), pod("w1", node="a"), pod("w2", node="b"), pod("x", node="b")
    )
    candidates = {"a": _meta_victims("w0", "w1"), "b": _meta_victims("x")}
    assert await _preempt(scenario, pod("p"), **candidates) == {"b": candidates["b"]}


async def test_non_preemptible_pod_is_no_victim() -> None:
    scenario = ExtenderScenario(node("a", 1), node("b", 1))
    never = {"scheduling.kilonova.dev/preemptible": "false"}
    scenario.add_pods(pod("x", node="a", annotations=never), pod("y", node="b"))
    candidates = {"a": _meta_victims("x"), "b": _meta_victims("y")}
    assert await _preempt(scenario, pod("p"), **candidates) == {"b": candidates["b"]}


async def test_node_with_unknown_victim_is_dropped() -> None:
    scenario = ExtenderScenario(node("a", 1), node("b", 1))
    scenario.add_pods(pod("y", node="b"))
    candidates = {
        "a": _meta_victims("not-seen-yet"),
        "b": _meta_victims("y"),
        "unheard-of": _meta_victims("x"),
    }
    assert await _preempt(scenario, pod("p"), **candidates) == {"b": candidates["b"]}


async def test_invalid_pod_preempts_nothing() -> None:
    scenario = ExtenderScenario(node("a", 1))
    scenario.add_pods(pod("x", node="a"))
    invalid_pod = pod("p", annotations={"gpu.kilonova.dev/min-memory": "?"})
    assert await _preempt(scenario, invalid_pod, a=_meta_victims("x")) == {}
