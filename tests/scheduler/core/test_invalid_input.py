"""Invalid input never stops a cycle: the error is reported, everything else is placed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import InsufficientCapacity, Plan
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache, Scores
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gang_validation import InvalidGang
from kilonova.scheduler.core.model.gangs import (
    Gang,
    Group,
    GroupBundle,
    Member,
    PackConstraint,
    SegmentConstraint,
    single_pod_gang,
)
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.node_table import MAX_AMOUNT
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueProblem, QueueSpec
from kilonova.scheduler.core.scoring.plugins import ScorePlugin, Scoring, default_scoring
from tests.scheduler.core.support import reference_model
from tests.scheduler.core.support.clusters import RACK, gang, group, node, shape
from tests.scheduler.core.support.random_clusters import SPLIT

SOUND = gang("sound", group("sound", 2))


def schedule_on(nodes: list[Node], gangs: list[Gang], *queues: QueueSpec) -> tuple[Cluster, Plan]:
    cluster = Cluster(build_queue_forest(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    plan = Planner(cluster, default_scoring()).schedule(gangs, 0.0)
    reference_model.check_queues(cluster)
    return cluster, plan


def outcome(plan: Plan, name: str) -> object:
    why = {unschedulable.gang.name: unschedulable.reason for unschedulable in plan.unschedulable}
    return why.get(name, "placed")


def _segmented(size: int) -> Gang:
    return gang("bad", replace(group("b", 2), segments=SegmentConstraint(size, RACK)))


MALFORMED = {
    "no groups": (gang("bad"), "groups"),
    "no pods": (gang("bad", group("b", 0)), "groups"),
    "minimum above number of pods": (gang("bad", group("b", 2, 3)), "groups[b].minimum"),
    "duplicate group name": (gang("bad", group("b", 1), group("b", 1)), "groups[].name"),
    "duplicate pod": (
        gang("bad", group("b", 1), replace(group("b", 1), name="c")),
        "groups[].members",
    ),
    "segments of size 0": (_segmented(0), "groups[b].segments.size"),
    "no GPUs": (
        gang("bad", group("b", 1, of=Shape((("pods", 1),), GpuRequest(0)))),
        "groups[b].members[ns/b-0].gpu",
    ),
    "negative share": (
        gang("bad", group("b", 1, of=Shape((("pods", 1),), GpuRequest(1, -5)))),
        "groups[b].members[ns/b-0].gpu",
    ),
}


@pytest.mark.parametrize(("bad", "field"), MALFORMED.values(), ids=MALFORMED)
def test_invalid_gang_is_rejected_by_field_and_others_are_placed(bad: Gang, field: str) -> None:
    cluster, plan = schedule_on([node("n0")], [bad, SOUND])
    why = outcome(plan, "bad")
    assert isinstance(why, InvalidGang)
    assert why.field == field
    assert why.fix
    assert outcome(plan, "sound") == "placed"
    assert set(cluster.running_gangs) == {"sound"}


def test_placed_pod_is_not_placed_again() -> None:
    cluster, _ = schedule_on([node("n0")], [SOUND])
    plan = Planner(cluster, default_scoring()).schedule([replace(SOUND, name="again")], 1.0)
    assert isinstance(outcome(plan, "again"), InvalidGang)
    assert len(cluster.snapshot.placements) == 2


def test_bundle_of_unknown_groups_constrains_nothing() -> None:
    bundled = replace(SOUND, bundles=(GroupBundle(("nobody",), PackConstraint(required=RACK)),))
    assert outcome(schedule_on([node("n0")], [bundled])[1], "sound") == "placed"


HUGE = 1 << 62


@pytest.mark.parametrize("amount", [HUGE, 1 << 80, MAX_AMOUNT + 1])
def test_oversized_request_is_unschedulable(amount: int) -> None:
    requests = Shape((("cpu", amount), ("memory", amount), ("pods", 1)))
    bad = gang("bad", group("b", 3, of=requests))
    cluster, plan = schedule_on(
        [node("n0"), Node("huge", {"cpu": amount, "pods": 9})], [bad, SOUND]
    )
    assert isinstance(outcome(plan, "bad"), InsufficientCapacity)
    assert outcome(plan, "sound") == "placed"
    assert all(each >= 0 for each in cluster.capacity().values())


def test_many_huge_nodes_and_pods_make_no_negative_sums() -> None:
    huge = {"cpu": HUGE, "memory": 1 << 70, GPU: 1 << 40, "pods": HUGE}
    nodes = [Node(f"n{index}", huge) for index in range(64)]
    large = Shape((("cpu", MAX_AMOUNT), ("memory", MAX_AMOUNT), ("pods", 1)))
    wanted = [single_pod_gang(Member(f"ns/{index}", large)) for index in range(80)]
    cluster, plan = schedule_on(nodes, wanted)
    assert len(plan.placements) == 64
    assert (cluster.snapshot.free[:, :64] >= 0).all()
    assert cluster.capacity()["cpu"] == 64 * MAX_AMOUNT


def test_negative_amounts_count_as_zero() -> None:
    strange = Node("strange", {"cpu": -5, "pods": 10, GPU: -3})
    below = Shape((("cpu", -1000), ("pods", 1)))
    cluster, plan = schedule_on([strange], [gang("bad", group("b", 2, of=below)), SOUND])
    assert outcome(plan, "bad") == "placed"
    assert isinstance(outcome(plan, "sound"), InsufficientCapacity)
    assert cluster.snapshot.free[cluster.snapshot.resources["cpu"], 0] == 0
    assert cluster.used.amounts_of("default").get("cpu", 0) == 0


def test_node_without_labels_is_in_no_domain() -> None:
    packed = gang("packed", group("packed", 1), pack=PackConstraint(required=RACK))
    _, plan = schedule_on([node("n0")], [packed, SOUND])
    assert isinstance(outcome(plan, "packed"), InsufficientCapacity)
    assert outcome(plan, "sound") == "placed"


def test_queue_parent_cycle_is_reported_and_others_are_placed() -> None:
    circle = [QueueSpec("a", parent="b"), QueueSpec("b", parent="a")]
    _, plan = schedule_on([node("n0")], [replace(SOUND, name="lost", queue="a"), SOUND], *circle)
    why = outcome(plan, "lost")
    assert isinstance(why, QueueProblem)
    assert outcome(plan, "sound") == "placed"


def test_slice_used_twice_is_occupied_until_both_pods_are_removed() -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9, GPU: 2}, layout=SPLIT))
    instance = Shape((("pods", 1),), GpuRequest(1, profile="1g.5gb"))
    share = GpuShare(0, 0, "1g.5gb", 0, 1)
    for pod in ("ns/a", "ns/b"):
        snapshot.add_pod(PodPlacement(Member(pod, instance), 0, (share,)))
    assert snapshot.gpu_mask[0, 0] == 1
    snapshot.remove_pod("ns/a")
    assert snapshot.gpu_mask[0, 0] == 1
    snapshot.remove_pod("ns/b")
    assert snapshot.gpu_mask[0, 0] == 0


def test_restored_device_has_no_more_than_its_capacity() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("n0", 4))
    snapshot.add_pod(PodPlacement(Member("ns/a", shape()), 0, (GpuShare(3),)))
    snapshot.put_node(node("n0", 2))
    snapshot.remove_pod("ns/a")
    reference_model.check_counts(snapshot)
    snapshot.put_node(node("n0", 4))
    reference_model.check_counts(snapshot)


def test_error_in_trial_leaves_cluster_unchanged() -> None:
    cluster, _ = schedule_on([node("n0")], [SOUND])
    before = reference_model.facts(cluster)

    def fails(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        Planner(cluster, fails).plan([gang("other", group("o", 2), group("p", 2))], 1.0)
    assert reference_model.facts(cluster) == before
    trial = cluster.snapshot.begin_trial()
    assert trial == 0
    cluster.snapshot.rollback(trial)


def _raises(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    raise ValueError("no idea")


def _nothing(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.full(len(rows), np.nan)


def _endless(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.full(len(rows), np.inf)


def _short(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.zeros(0)


@pytest.mark.parametrize("broken", [_raises, _nothing, _endless, _short])
def test_failed_score_plugin_is_left_out_and_named(
    broken: Callable[[Snapshot, Shape, Rows], Scores],
) -> None:
    def sound(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return np.where(snapshot.ranks[rows] == 1, 90.0, 10.0)

    scoring = Scoring([ScorePlugin("sound", 1, sound), ScorePlugin("broken", 99, broken)])
    cluster = Cluster()
    for name in ("n0", "n1", "n2"):
        cluster.snapshot.put_node(node(name))
    plan = Planner(cluster, scoring).schedule([single_pod_gang(Member("ns/a", shape()))], 0.0)
    assert plan.placements[0].pods[0].row == cluster.snapshot.row("n1")
    assert list(scoring.failed_plugins) == ["broken"]


def test_all_nodes_are_scored_by_same_plugins_when_one_fails() -> None:
    calls: list[int] = []

    def breaks_later(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        calls.append(len(rows))
        if len(calls) > 1:
            raise RuntimeError("no more")
        return np.full(len(rows), 100.0)

    def names(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return 10.0 * snapshot.ranks[rows].astype(np.float64)

    scoring = Scoring([ScorePlugin("names", 1, names), ScorePlugin("breaks", 9, breaks_later)])
    snapshot = Snapshot()
    for name in ("n0", "n1", "n2"):
        snapshot.put_node(node(name))
    feasibility = FeasibilityCache(snapshot, scoring)
    asked = shape()
    feasibility.ranking_keys(asked)
    snapshot.add_pod(PodPlacement(Member("ns/a", asked), 0))
    after = feasibility.ranking_keys(asked).copy()
    assert (
        after.tolist()
        == FeasibilityCache(snapshot, Scoring([ScorePlugin("names", 1, names)]))
        .ranking_keys(asked)
        .tolist()
    )
    feasibility.ranking_keys(asked)
    assert calls == [3, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -50.0, 1e30])
def test_score_that_is_not_a_number_keeps_nodes_usable(value: float) -> None:
    def strange(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return np.full(len(rows), value)

    cluster = Cluster()
    cluster.snapshot.put_node(node("n0"))
    plan = Planner(cluster, strange).schedule([single_pod_gang(Member("ns/a", shape()))], 0.0)
    assert len(plan.placements) == 1


def test_groups_without_minimum_wait_for_free_capacity() -> None:
    cluster, plan = schedule_on([node("n0", 0)], [Gang("none", (group("n", 2, 0),))])
    assert isinstance(outcome(plan, "none"), InsufficientCapacity)
    assert not cluster.running_gangs


def test_group_needs_minimum_less_placed_pods() -> None:
    assert Group("g", (), 3, placed_nodes=("n0",) * 5).needed == 0
