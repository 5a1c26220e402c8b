"""What-if: where additional pods would be placed, their victims, and reasons."""

from dataclasses import replace
from typing import Any

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.snapshots.file import encode_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from kilonova.scheduler.library.what_if import what_if
from kilonova.scheduler.objects.core_v1 import Pod
from tests.scheduler.harness import embedded_scheduler
from tests.scheduler.harness.snapshots import example_snapshot, pending_gang

RACK = "example.com/rack"
ASSIGNED_DEVICES = {"uid": "", "resourceVersion": "", "creationTimestamp": "2026-05-01T00:00:00Z"}


def pod(name: str, gpus: int, *, gang: str = "", **spec: Any) -> Pod:
    body = embedded_scheduler.pod(name, gpus, gang=gang, **spec)
    body["metadata"] |= ASSIGNED_DEVICES
    for container in body["spec"]["containers"]:
        resources = container["resources"]
        resources["requests"] = {**resources["requests"], **resources["limits"]}
    return msgspec.convert(body, Pod)


def gang(name: str, groups: dict[str, list[str]], **spec: Any) -> PodGang:
    body = embedded_scheduler.gang(name, groups, **spec)
    body["metadata"] |= {**ASSIGNED_DEVICES, "labels": {"set": "s"}}
    return msgspec.convert(body, PodGang)


def cluster_snapshot(*running: str, racks: int = 2) -> ClusterSnapshot:
    """Nodes of two GPUs, each in a rack of its own, and running gangs of one pod with a GPU."""
    cluster = Cluster()
    amounts = {"cpu": 8000, "memory": 64 << 30, "pods": 10, "nvidia.com/gpu": 2}
    for index in range(racks):
        cluster.snapshot.put_node(Node(f"n{index}", amounts, {RACK: f"r{index}"}))
    planner = Planner(cluster, default_scoring(), PlannerPolicy())
    planner.schedule([pending_gang(name, GpuRequest(1)) for name in running], 0.0)
    return take_snapshot(cluster, [], [], PlannerPolicy(), 1_777_593_600.0)


def test_gang_is_evicted_as_a_whole_or_not_at_all():
    pods = [pod(name, 2, gang="g") for name in ("a", "b", "c")]
    decisions = what_if(cluster_snapshot(), pods, [gang("g", {"w": ["a", "b", "c"]})])
    assert decisions.placed == ()
    (rejected,) = decisions.rejected
    assert (rejected.gang, rejected.reason) == ("default/g", "InsufficientCapacity")
    fewer = what_if(cluster_snapshot(), pods[:2], [gang("g", {"w": ["a", "b"]})])
    assert {each.node for each in fewer.placed[0].pods} == {"n0", "n1"}


def test_what_if_reports_victims():
    decisions = what_if(cluster_snapshot("old", racks=1), [pod("new", 2, priority=5)], [])
    (placed,) = decisions.placed
    assert [(each.gang, each.pods) for each in placed.evicted] == [("ns/old", ("ns/old",))]


def test_what_if_schedules_pending_gangs_first():
    earlier = replace(
        cluster_snapshot(racks=1), pending_gangs=(pending_gang("earlier", GpuRequest(2)),)
    )
    decisions = what_if(earlier, [pod("new", 2)], [])
    assert decisions.placed == ()
    assert [each.gang for each in decisions.rejected] == ["pod/default/new"]


def test_scaled_gang_waits_for_its_base():
    pods = [pod("a", 1, gang="base"), pod("b", 1, gang="more")]
    ref = {"namespace": "default", "name": "base"}
    pack = {"packConstraint": {"required": RACK}}
    base = gang("base", {"w": ["a"]}, topologyConstraint=pack)
    more = gang("more", {"w": ["b"]}, baseRef=ref, topologyConstraint=pack)
    decisions = what_if(cluster_snapshot(), pods, [more, base])
    assert [each.gang for each in decisions.placed] == ["default/base", "default/more"]
    assert decisions.placed[0].pods[0].node == decisions.placed[1].pods[0].node
    without = what_if(cluster_snapshot(), pods[1:], [more])
    assert [each.reason for each in without.rejected] == ["BaseGangNotScheduled"]


def test_what_if_honours_gang_anti_affinity_among_new_gangs():
    pods = [pod(name, 1, gang=name) for name in ("a", "b", "c")]
    spread = {"topologyKey": RACK, "among": "set", "required": True}
    gangs = [gang(name, {"w": [name]}, spread=spread) for name in ("a", "b", "c")]
    decisions = what_if(cluster_snapshot(), pods, gangs)
    assert sorted(each.pods[0].node for each in decisions.placed) == ["n0", "n1"]
    assert [each.gang for each in decisions.rejected] == ["default/c"]


def test_what_if_changes_nothing():
    before = example_snapshot()
    text = encode_snapshot(before)
    what_if(before, [pod("a", 1)], [])
    assert encode_snapshot(before) == text


def test_what_if_with_other_rules():
    tight = replace(
        cluster_snapshot("old", racks=1),
        pending_gangs=(replace(pending_gang("w", GpuRequest(2)), priority=9),),
    )
    assert replay_snapshot(tight).placed[0].evicted
    assert (
        replay_snapshot(
            tight.with_rules(PlannerPolicy(preemption_enabled=False), default_scoring())
        ).placed
        == ()
    )
