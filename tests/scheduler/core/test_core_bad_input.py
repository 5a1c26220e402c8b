"""Whatever people write, a round goes on: what is wrong is named, everything else is placed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.flaws import Flaw
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Bundle, Gang, Group, Member, Pack, Segments, single
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import NoRoom, Plan, Planner
from kilonova.scheduler.core.queues import Problem, QueueSpec
from kilonova.scheduler.core.rooms import Rooms, Scores
from kilonova.scheduler.core.scores import Part, Scoring, default_scoring
from kilonova.scheduler.core.snapshot import GPU, MOST, Booking, Snapshot
from tests.scheduler.core import naive
from tests.scheduler.core.clusters import RACK, gang, group, node, shape
from tests.scheduler.core.random_clusters import SPLIT

SOUND = gang("sound", group("sound", 2))


def decided(nodes: list[Node], gangs: list[Gang], *queues: QueueSpec) -> tuple[Cluster, Plan]:
    cluster = Cluster(forest_of(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    plan = Planner(cluster, default_scoring()).decide(gangs, 0.0)
    naive.check_queues(cluster)
    return cluster, plan


def outcome(plan: Plan, name: str) -> object:
    why = {refusal.gang.name: refusal.why for refusal in plan.refusals}
    return why.get(name, "placed")


def _segmented(size: int) -> Gang:
    return gang("bad", replace(group("b", 2), segments=Segments(size, RACK)))


MALFORMED = {
    "no groups": (gang("bad"), "groups"),
    "no pods": (gang("bad", group("b", 0)), "groups"),
    "a minimum above its pods": (gang("bad", group("b", 2, 3)), "groups[b].minimum"),
    "two groups of one name": (gang("bad", group("b", 1), group("b", 1)), "groups[].name"),
    "a pod twice": (
        gang("bad", group("b", 1), replace(group("b", 1), name="c")),
        "groups[].members",
    ),
    "segments of nothing": (_segmented(0), "groups[b].segments.size"),
    "no GPUs": (
        gang("bad", group("b", 1, of=Shape((("pods", 1),), GpuAsk(0)))),
        "groups[b].members[ns/b-0].gpu",
    ),
    "less than no share": (
        gang("bad", group("b", 1, of=Shape((("pods", 1),), GpuAsk(1, -5)))),
        "groups[b].members[ns/b-0].gpu",
    ),
}


@pytest.mark.parametrize(("bad", "field"), MALFORMED.values(), ids=MALFORMED)
def test_a_gang_with_a_flaw_is_refused_by_its_field_and_others_are_placed(
    bad: Gang, field: str
) -> None:
    cluster, plan = decided([node("n0")], [bad, SOUND])
    why = outcome(plan, "bad")
    assert isinstance(why, Flaw)
    assert why.field == field
    assert why.fix
    assert outcome(plan, "sound") == "placed"
    assert set(cluster.standing) == {"sound"}


def test_a_pod_that_has_a_place_is_not_placed_again() -> None:
    cluster, _ = decided([node("n0")], [SOUND])
    plan = Planner(cluster, default_scoring()).decide([replace(SOUND, name="again")], 1.0)
    assert isinstance(outcome(plan, "again"), Flaw)
    assert len(cluster.snapshot.bookings) == 2


def test_a_bundle_of_unknown_groups_binds_nobody() -> None:
    bundled = replace(SOUND, bundles=(Bundle(("nobody",), Pack(required=RACK)),))
    assert outcome(decided([node("n0")], [bundled])[1], "sound") == "placed"


HUGE = 1 << 62


@pytest.mark.parametrize("amount", [HUGE, 1 << 80, MOST + 1])
def test_what_asks_for_more_than_there_can_be_has_no_place(amount: int) -> None:
    asks = Shape((("cpu", amount), ("memory", amount), ("pods", 1)))
    bad = gang("bad", group("b", 3, of=asks))
    cluster, plan = decided([node("n0"), Node("huge", {"cpu": amount, "pods": 9})], [bad, SOUND])
    assert isinstance(outcome(plan, "bad"), NoRoom)
    assert outcome(plan, "sound") == "placed"
    assert all(each >= 0 for each in cluster.capacity().values())


def test_many_huge_nodes_and_pods_make_no_negative_sums() -> None:
    huge = {"cpu": HUGE, "memory": 1 << 70, GPU: 1 << 40, "pods": HUGE}
    nodes = [Node(f"n{index}", huge) for index in range(64)]
    large = Shape((("cpu", MOST), ("memory", MOST), ("pods", 1)))
    wanted = [single(Member(f"ns/{index}", large)) for index in range(80)]
    cluster, plan = decided(nodes, wanted)
    assert len(plan.placements) == 64
    assert (cluster.snapshot.free[:, :64] >= 0).all()
    assert cluster.capacity()["cpu"] == 64 * MOST


def test_amounts_below_nothing_are_nothing() -> None:
    strange = Node("strange", {"cpu": -5, "pods": 10, GPU: -3})
    below = Shape((("cpu", -1000), ("pods", 1)))
    cluster, plan = decided([strange], [gang("bad", group("b", 2, of=below)), SOUND])
    assert outcome(plan, "bad") == "placed"
    assert isinstance(outcome(plan, "sound"), NoRoom)
    assert cluster.snapshot.free[cluster.snapshot.resources["cpu"], 0] == 0
    assert cluster.used.of("default").get("cpu", 0) == 0


def test_a_node_without_labels_is_in_no_domain() -> None:
    packed = gang("packed", group("packed", 1), pack=Pack(required=RACK))
    _, plan = decided([node("n0")], [packed, SOUND])
    assert isinstance(outcome(plan, "packed"), NoRoom)
    assert outcome(plan, "sound") == "placed"


def test_queues_in_a_circle_are_named_and_others_go_on() -> None:
    circle = [QueueSpec("a", parent="b"), QueueSpec("b", parent="a")]
    _, plan = decided([node("n0")], [replace(SOUND, name="lost", queue="a"), SOUND], *circle)
    why = outcome(plan, "lost")
    assert isinstance(why, Problem)
    assert outcome(plan, "sound") == "placed"


def test_two_pods_on_one_slice_leave_it_occupied_until_both_are_gone() -> None:
    snapshot = Snapshot()
    snapshot.put_node(Node("n0", {"pods": 9, GPU: 2}, layout=SPLIT))
    instance = Shape((("pods", 1),), GpuAsk(1, profile="1g.5gb"))
    share = Share(0, 0, "1g.5gb", 0, 1)
    for pod in ("ns/a", "ns/b"):
        snapshot.book(Booking(Member(pod, instance), 0, (share,)))
    assert snapshot.gpu_mask[0, 0] == 1
    snapshot.release("ns/a")
    assert snapshot.gpu_mask[0, 0] == 1
    snapshot.release("ns/b")
    assert snapshot.gpu_mask[0, 0] == 0


def test_a_device_that_is_gone_comes_back_with_no_more_than_it_has() -> None:
    snapshot = Snapshot()
    snapshot.put_node(node("n0", 4))
    snapshot.book(Booking(Member("ns/a", shape()), 0, (Share(3),)))
    snapshot.put_node(node("n0", 2))
    snapshot.release("ns/a")
    naive.check_counts(snapshot)
    snapshot.put_node(node("n0", 4))
    naive.check_counts(snapshot)


def test_an_error_in_a_trial_leaves_nothing_behind() -> None:
    cluster, _ = decided([node("n0")], [SOUND])
    before = naive.facts(cluster)

    def fails(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        Planner(cluster, fails).plan([gang("other", group("o", 2), group("p", 2))], 1.0)
    assert naive.facts(cluster) == before
    mark = cluster.snapshot.mark()
    assert mark == 0
    cluster.snapshot.undo(mark)


def _raises(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    raise ValueError("no idea")


def _nothing(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.full(len(rows), np.nan)


def _endless(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.full(len(rows), np.inf)


def _short(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.zeros(0)


@pytest.mark.parametrize("broken", [_raises, _nothing, _endless, _short])
def test_a_broken_part_of_the_score_is_left_out_and_named(
    broken: Callable[[Snapshot, Shape, Rows], Scores],
) -> None:
    def sound(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return np.where(snapshot.ranks[rows] == 1, 90.0, 10.0)

    scoring = Scoring([Part("sound", 1, sound), Part("broken", 99, broken)])
    cluster = Cluster()
    for name in ("n0", "n1", "n2"):
        cluster.snapshot.put_node(node(name))
    plan = Planner(cluster, scoring).decide([single(Member("ns/a", shape()))], 0.0)
    assert plan.placements[0].bookings[0].row == cluster.snapshot.row("n1")
    assert list(scoring.broken) == ["broken"]


def test_all_nodes_are_judged_by_the_same_parts_when_one_breaks() -> None:
    calls: list[int] = []

    def breaks_later(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        calls.append(len(rows))
        if len(calls) > 1:
            raise RuntimeError("no more")
        return np.full(len(rows), 100.0)

    def names(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return 10.0 * snapshot.ranks[rows].astype(np.float64)

    scoring = Scoring([Part("names", 1, names), Part("breaks", 9, breaks_later)])
    snapshot = Snapshot()
    for name in ("n0", "n1", "n2"):
        snapshot.put_node(node(name))
    rooms = Rooms(snapshot, scoring)
    asked = shape()
    rooms.keys(asked)
    snapshot.book(Booking(Member("ns/a", asked), 0))
    after = rooms.keys(asked).copy()
    assert (
        after.tolist() == Rooms(snapshot, Scoring([Part("names", 1, names)])).keys(asked).tolist()
    )
    rooms.keys(asked)
    assert calls == [3, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -50.0, 1e30])
def test_a_score_that_is_no_number_keeps_no_node_from_being_used(value: float) -> None:
    def strange(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        return np.full(len(rows), value)

    cluster = Cluster()
    cluster.snapshot.put_node(node("n0"))
    plan = Planner(cluster, strange).decide([single(Member("ns/a", shape()))], 0.0)
    assert len(plan.placements) == 1


def test_groups_without_a_minimum_wait_without_a_place_of_their_own() -> None:
    cluster, plan = decided([node("n0", 0)], [Gang("none", (group("n", 2, 0),))])
    assert isinstance(outcome(plan, "none"), NoRoom)
    assert not cluster.standing


def test_groups_are_values_that_say_what_they_need() -> None:
    assert Group("g", (), 3, placed=("n0",) * 5).needed == 0
