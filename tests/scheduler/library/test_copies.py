"""How many copies of a gang fit, where, and why there are no more."""

from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.gpu.annotations import InvalidAnnotation, parse_devices
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, PackConstraint
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.library import copies as copies_module
from kilonova.scheduler.library.copies import (
    Copies,
    CopyPlacer,
    CopyPod,
    count_copies,
    number_copies,
)
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.file import encode_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support import random_clusters
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, shape

IN_ONE_RACK = PackConstraint(required=RACK)
NOW = 1_777_593_600.0


def snapshot_of(
    *nodes: Node,
    running: tuple[Gang, ...] = (),
    pending: tuple[Gang, ...] = (),
    queues: tuple[QueueSpec, ...] = (),
    levels: tuple[str, ...] = (),
) -> ClusterSnapshot:
    cluster, policy = Cluster(build_queue_forest(queues)), PlannerPolicy(levels)
    for each in nodes:
        cluster.snapshot.put_node(each)
    plan = Planner(cluster, default_scoring(), policy).schedule(running, NOW - 3600)
    assert not plan.unschedulable
    return take_snapshot(cluster, pending, queues, policy, NOW)


def racks(count: int, nodes: int = 2, gpus: int = 2) -> list[Node]:
    """Racks of equal nodes, two racks in each block."""
    return [
        node(f"r{rack}-{index}", gpus, rack=f"r{rack}", block=f"b{rack // 2}")
        for rack in range(count)
        for index in range(nodes)
    ]


def engine(
    agents: int, gpus: int = 1, name: str = "llama", pack: PackConstraint = IN_ONE_RACK
) -> Gang:
    """Agents with GPUs, and a conductor without."""
    pods = (
        replace(group(f"{name}-agent", agents, of=shape(gpus)), name="agents"),
        replace(group(f"{name}-conductor", 1, of=shape(0)), name="conductor"),
    )
    return gang(f"ns/{name}", *pods, pack=pack)


def test_every_rack_has_a_copy():
    snapshot = snapshot_of(*racks(3), levels=(BLOCK, RACK))
    copies = count_copies(snapshot, engine(4), 10)
    assert [(copy.gang, copy.domain) for copy in copies.placed] == [
        ("ns/llama", "b0/r0"),
        ("ns/llama-1", "b0/r1"),
        ("ns/llama-2", "b1/r2"),
    ]
    assert copies.is_exact
    assert copies.unplaced is not None
    assert (copies.unplaced.gang, copies.unplaced.reason) == ("ns/llama-3", "InsufficientCapacity")


def test_reason_is_that_of_why():
    full = snapshot_of(*racks(1), running=(engine(4, name="other"),))
    pending = replace(engine(4), created=NOW)
    why = report_placement(replace(full, pending_gangs=(pending,)), "ns", "llama")
    copies = count_copies(full, pending, 10)
    assert why is not None
    assert copies.count == 0
    assert copies.unplaced is not None
    assert copies.unplaced.explanation == why.explanation
    assert copies.unplaced.message == copies.unplaced.explanation.message


def test_pods_of_a_copy_come_in_order_with_node_devices_and_domain():
    layout = GpuLayout((Gpu(0), Gpu(1, healthy=False), Gpu(2)))
    cluster = snapshot_of(replace(node("n0", 3, rack="r0", block="b0"), layout=layout))
    (copy,) = count_copies(cluster, engine(2), 1).placed
    one = {"nvidia.com/gpu": 1}
    assert copy.pods == (
        CopyPod("ns/llama-agent-0", "agents", "n0", "b0/r0", "0", one),
        CopyPod("ns/llama-agent-1", "agents", "n0", "b0/r0", "2", one),
        CopyPod("ns/llama-conductor-0", "conductor", "n0", "b0/r0", "", {}),
    )


@pytest.mark.parametrize(
    ("case", "count", "reason"),
    [
        (snapshot_of(), 0, "InsufficientCapacity"),
        (snapshot_of(*racks(1)), 1, "InsufficientCapacity"),
        (snapshot_of(*racks(4)), 4, "InsufficientCapacity"),
        (snapshot_of(*racks(4, nodes=1)), 0, "InsufficientCapacity"),
        (
            snapshot_of(*racks(4), queues=(QueueSpec("default", limit={"nvidia.com/gpu": 9000}),)),
            2,
            "QueueLimitReached",
        ),
        (
            snapshot_of(*racks(4), queues=(QueueSpec("default", parent="none"),)),
            0,
            "QueueParentNotFound",
        ),
    ],
    ids=("no nodes", "one rack", "four racks", "racks too small", "queue limit", "invalid queue"),
)
def test_number_of_copies(case: ClusterSnapshot, count: int, reason: str):
    copies = count_copies(case, engine(4), 50)
    assert copies.count == count
    assert copies.unplaced is not None
    assert copies.unplaced.reason == reason


def test_more_may_fit_than_the_limit():
    copies = count_copies(snapshot_of(*racks(4)), engine(4), 3)
    assert (copies.count, copies.unplaced, copies.is_exact) == (3, None, False)
    assert count_copies(snapshot_of(*racks(4)), engine(4), 0).count == 0


def test_more_may_fit_where_the_search_ended_at_its_budget():
    found = count_copies(snapshot_of(*racks(1)), engine(4), 9)
    assert found.unplaced is not None
    assert found.is_exact
    unfinished = replace(found.unplaced, reason="SearchBudgetExceeded")
    assert not replace(found, unplaced=unfinished).is_exact


def test_pending_gangs_come_first():
    first = replace(engine(4, name="first"), priority=1)
    copies = count_copies(snapshot_of(*racks(3), pending=(first,)), engine(4), 10)
    assert copies.count == 2


def test_capacity_held_back_for_a_long_pending_gang_is_not_counted():
    running = gang("ns/old", group("old", 2, of=shape(2)), pack=IN_ONE_RACK)
    held = gang("ns/held", group("held", 4, of=shape(2)))
    waiting = replace(held, created=NOW - 3600, preempts=False)
    nodes = racks(2)
    assert count_copies(snapshot_of(*nodes, running=(running,)), engine(4), 9).count == 1
    blocked = snapshot_of(*nodes, running=(running,), pending=(waiting,))
    assert count_copies(blocked, engine(4), 9).count == 0


def test_copies_of_a_gang_that_preempts_have_victims_and_others_do_not():
    running = gang("ns/old", group("old", 2, of=shape(2)), pack=IN_ONE_RACK)
    cluster = snapshot_of(*racks(1), running=(running,))
    urgent = replace(engine(4), priority=5)
    (copy,) = count_copies(cluster, urgent, 5).placed
    assert [(each.gang, each.pods) for each in copy.evicted] == [
        ("ns/old", ("ns/old-0", "ns/old-1"))
    ]
    assert count_copies(cluster, replace(urgent, preempts=False), 5).count == 0


def test_names_in_use_are_not_given_to_copies():
    cluster = snapshot_of(*racks(3), running=(engine(4),))
    copies = count_copies(cluster, engine(4), 10)
    assert [copy.gang for copy in copies.placed] == ["ns/llama-1", "ns/llama-2"]


def test_a_series_of_copies_leaves_nothing_behind():
    cluster = snapshot_of(*racks(3))
    before = encode_snapshot(cluster)
    placer = CopyPlacer(cluster)
    first = placer.place([engine(4)])
    assert placer.place([engine(4)]) == first
    assert encode_snapshot(cluster) == before


def test_search_with_many_pending_gangs_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(copies_module, "MAX_ATTEMPTS", 25)
    running = gang("ns/old", group("old", 2, of=shape(2)), pack=IN_ONE_RACK)
    pending = tuple(
        replace(
            gang(f"ns/held{index}", group(f"held{index}", 1, of=shape(8))),
            created=NOW - 3600,
            preempts=False,
        )
        for index in range(9)
    )
    large = replace(node("large", 8), labels={})
    filler = gang("ns/filler", group("filler", 1, of=shape(8)))
    cluster = snapshot_of(*racks(5), large, running=(filler, running), pending=pending)
    copies = count_copies(cluster, engine(4), 50)
    assert (copies.count, copies.is_exact) == (2, False)


@st.composite
def random_snapshots(draw: st.DrawFn) -> ClusterSnapshot:
    """Random nodes, some with pods, queues, and pending gangs."""
    cluster = Cluster(build_queue_forest(draw(random_clusters.queues())))
    for index in range(draw(st.integers(1, 5))):
        cluster.snapshot.put_node(draw(random_clusters.nodes(f"n{index}")))
    policy = PlannerPolicy(random_clusters.LEVELS, reserve_after=100.0)
    running = [draw(random_clusters.gangs(f"r{index}")) for index in range(draw(st.integers(0, 2)))]
    Planner(cluster, default_scoring(), policy).schedule(running, NOW - 1000)
    specs = draw(random_clusters.queues())
    pending = tuple(
        replace(draw(random_clusters.gangs(f"p{index}")), created=NOW - draw(AGES))
        for index in range(draw(st.integers(0, 3)))
    )
    return take_snapshot(cluster, pending, specs, policy, NOW)


AGES = st.sampled_from((10.0, 500.0))


Decided = list[tuple[str, str, str]]
"""Pod, node and devices."""


def decide_one_by_one(snapshot: ClusterSnapshot, gang: Gang, limit: int) -> Decided:
    """Each copy is added to a snapshot of its own, taken after the decision about the last one."""
    decided: Decided = []
    for copy in islice(number_copies(gang), limit):
        offered = replace(snapshot, pending_gangs=(*snapshot.pending_gangs, copy))
        cluster = offered.to_cluster()
        plan = offered.build_planner(cluster).schedule(offered.pending_gangs, NOW)
        placed = {each.gang.name: each for each in plan.placements}
        if copy.name not in placed:
            break
        decided += (
            (each.pod, cluster.snapshot.names[each.row], encode_devices(each.devices))
            for each in placed[copy.name].pods
        )
        pending = [each.gang for each in plan.unschedulable]
        snapshot = take_snapshot(cluster, pending, snapshot.queues, snapshot.policy, NOW)
    return decided


def find_devices_used_twice(snapshot: ClusterSnapshot, copies: Copies) -> list[tuple[str, int]]:
    """Whole devices that two pods have, of copies or of those that they do not evict."""
    evicted = {pod for copy in copies.placed for unit in copy.evicted for pod in unit.pods}
    used = Counter(
        (snapshot.nodes[each.row].name, share.index)
        for each in snapshot.placements
        if each.pod not in evicted
        for share in each.devices
        if share == GpuShare(share.index)
    )
    for copy in copies.placed:
        for pod in copy.pods:
            devices = parse_devices(pod.devices) if pod.devices else ()
            assert not isinstance(devices, InvalidAnnotation)
            used.update((pod.node, each.index) for each in devices if each.is_whole)
    return [device for device, times in used.items() if times > 1]


@settings(max_examples=limit_examples(200), deadline=None)
@given(snapshot=random_snapshots(), gang=random_clusters.gangs("copy", created=NOW))
def test_copies_are_what_a_scheduler_decides_one_by_one(snapshot: ClusterSnapshot, gang: Gang):
    copies = count_copies(snapshot, gang, 4)
    placed = [(pod.pod, pod.node, pod.devices) for copy in copies.placed for pod in copy.pods]
    assert sorted(placed) == sorted(decide_one_by_one(snapshot, gang, 4))
    assert find_devices_used_twice(snapshot, copies) == []
