"""The health of members by their pods and nodes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kilonova.api.gpu.annotations import Gpu, Topology, format_topology
from kilonova.instances.controllers.instance.health import assess_members
from kilonova.instances.controllers.instance.record import AllocationRecord
from kilonova.instances.repair import CONDUCTOR, MemberHealth, MemberState
from kilonova.instances.resources import Node, Pod
from tests.instances.controllers.instance.objects import allocation, node, nodes, pod

NOW = datetime(2026, 5, 1, 0, 10, tzinfo=UTC)
DEADLINE = 300.0
DEVICES = {"gpu.kilonova.dev/devices": "1"}
RESTARTED: Any = {"containerStatuses": [{"restartCount": 3}]}


def devices(*healthy: bool) -> dict[str, str]:
    gpus = tuple(Gpu(healthy=each, reason="" if each else "XID 79") for each in healthy)
    return {"gpu.kilonova.dev/topology": format_topology(Topology(gpus=gpus))}


def assess(
    one: Pod | None, *known: Node, now: datetime = NOW, created: bool = True
) -> tuple[MemberState, float | None]:
    """The first of one agent and a conductor that is ready."""
    pods = (each for each in (one, pod("llama-conductor")) if each is not None)
    observed = allocation(AllocationRecord(agents=1), *pods, created=created)
    known = known or (node(),)
    found = assess_members(observed, "llama", 1, nodes(*known), now, DEADLINE)
    return found.members[0], found.recheck_after


@pytest.mark.parametrize(
    ("one", "known", "health", "reason"),
    [
        (pod(), node(), "Ready", ""),
        (pod(ready=False), node(), "Starting", ""),
        (pod(node=""), node(), "Pending", ""),
        (None, node(), "Missing", "pod llama-agent-0 was deleted"),
        (pod(deleted=True), node(), "Missing", "pod llama-agent-0 was deleted"),
        (pod(phase="Failed"), node(), "Failed", "pod llama-agent-0 has failed"),
        (
            pod(phase="Failed", reason="OOMKilled"),
            node(),
            "Failed",
            "pod llama-agent-0 has failed (OOMKilled)",
        ),
        (pod(phase="Succeeded"), node(), "Failed", "pod llama-agent-0 has ended"),
        (pod(node="gone"), node(), "NodeLost", "node gone was deleted"),
        (pod(), node(ready="Unknown"), "NodeLost", "node n1 is not ready"),
        (pod(ready=False), node(ready="False"), "NodeLost", "node n1 is not ready"),
        (pod(), node(ready="False"), "Ready", ""),
        (pod(), node(unschedulable=True), "NodeDraining", "node n1 is cordoned"),
        (pod(), node(deleted=True), "NodeDraining", "node n1 is being deleted"),
        (
            pod(),
            node(taints=[{"key": "maintenance", "effect": "NoExecute"}]),
            "NodeDraining",
            "node n1 has the taint maintenance:NoExecute",
        ),
        (
            pod(tolerations=[{"key": "maintenance", "operator": "Exists"}]),
            node(taints=[{"key": "maintenance", "effect": "NoExecute"}]),
            "Ready",
            "",
        ),
        (
            pod(),
            node(taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
            "NodeDraining",
            "node n1 has the taint karpenter.sh/disrupted:NoSchedule",
        ),
        (pod(), node(taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]), "Ready", ""),
        (
            pod(annotations=DEVICES),
            node(annotations=devices(True, False)),
            "AcceleratorUnhealthy",
            "accelerator 1 of node n1 is unhealthy: XID 79",
        ),
        (pod(annotations=DEVICES), node(annotations=devices(False, True)), "Ready", ""),
        (
            pod(ready=False, **RESTARTED),
            node(),
            "Unready",
            "pod llama-agent-0 restarts and does not become ready",
        ),
        (pod(**RESTARTED), node(), "Ready", ""),
    ],
)
def test_health(one: Pod | None, known: Node, health: MemberHealth, reason: str) -> None:
    found, _ = assess(one, known)
    assert (found.health, found.reason) == (health, reason)


def test_pod_that_was_never_created_is_pending() -> None:
    assert assess(None, created=False)[0].health == "Pending"


@pytest.mark.parametrize(
    ("one", "after"),
    [
        (pod(node="new"), 5),
        (pod(phase="Failed"), 10),
        (pod(ready=False, **RESTARTED), DEADLINE),
    ],
    ids=["node not seen yet", "failed at once", "restarting"],
)
def test_pods_are_judged_after_a_while(one: Pod, after: float) -> None:
    created = NOW - timedelta(minutes=10)
    found, recheck = assess(one, now=created + timedelta(seconds=2))
    assert not found.is_broken
    assert recheck == after - 2
    found, recheck = assess(one, now=created + timedelta(seconds=after))
    assert found.is_broken
    assert recheck is None


def test_agents_on_many_nodes_are_not_replaced_for_restarting() -> None:
    """The program is at fault."""

    def assess_all(count: int) -> set[str]:
        pods = [
            pod(f"llama-agent-{each}", node=f"n{each}", ready=False, **RESTARTED)
            for each in range(count)
        ]
        observed = allocation(AllocationRecord(agents=count), *pods, pod("llama-conductor"))
        known = nodes(*(node(f"n{each}") for each in range(count)))
        found = assess_members(observed, "llama", count, known, NOW, DEADLINE)
        return {each.health for each in found.members if each.index != CONDUCTOR}

    assert assess_all(3) == {"Unready"}
    assert assess_all(4) == {"Starting"}


def test_conductor_stays_on_a_cordoned_node() -> None:
    observed = allocation(AllocationRecord(agents=0), pod("llama-conductor"))
    found = assess_members(observed, "llama", 0, nodes(node(unschedulable=True)), NOW, DEADLINE)
    (conductor,) = found.members
    assert (conductor.health, conductor.is_ready) == ("Ready", True)


def test_ready_means_on_a_node_that_works() -> None:
    assert assess(pod(), node(unschedulable=True))[0].is_ready
    assert not assess(pod(), node(ready="Unknown"))[0].is_ready
