"""Moves: for a gang that waits, and when nobody does."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.defragmenting import Consolidation
from kilonova.scheduler.core.demand import Ask, Demand
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.fit import left_on
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.fragments import Largest, Worth
from kilonova.scheduler.core.gangs import Apart, Gang, Pack
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Placement, Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.relocating import Budget, Move
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.core.snapshot import GPU, Booking
from tests.scheduler.core import clusters, naive
from tests.scheduler.core import random_clusters as random
from tests.scheduler.core.clusters import BLOCK, RACK, gang, group, node, shape, tight

POLICY = Policy((BLOCK, RACK), evicts=False, reserve_after=1e9)
MUCH = Budget(100)
HALVES = Worth(Demand({Ask(0, 0, 1, 500): 1.0}), Largest(64_000, 256 << 30, 8))


def cluster_of(*nodes: Node, queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    cluster = Cluster(forest_of(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster


def racks(count: int, queues: tuple[QueueSpec, ...] = ()) -> Cluster:
    """Racks of two nodes with eight GPUs each."""
    nodes = (node(f"n{index}", rack=f"r{index // 2}") for index in range(2 * count))
    return cluster_of(*nodes, queues=queues)


def put(cluster: Cluster, one: Gang, on: str, *, since: float = 0.0, first: int = 0) -> None:
    """A gang whose pods stand on a node, on GPUs from the `first` on."""
    bookings: list[Booking] = []
    for member in (member for part in one.groups for member in part.members):
        ask = member.shape.gpu
        shares = tuple(Share(first + index, ask.milli) for index in range(ask.count)) if ask else ()
        first += len(shares) if ask and ask.whole else 0
        bookings.append(Booking(member, cluster.snapshot.row(on), shares, one.name))
    cluster.snapshot.book_all(bookings)
    cluster.stand(one, bookings, since)


def job(name: str, pods: int, gpus: int = 1, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=shape(gpus))), **facts)


def rack_wide(name: str = "big", pods: int = 16) -> Gang:
    return gang(name, group(name, pods), pack=Pack(required=RACK))


def consolidated(
    cluster: Cluster,
    waiting: Gang | None,
    budget: Budget = MUCH,
    now: float = 1000.0,
    worth: Worth | None = None,
) -> Consolidation:
    before = naive.facts(cluster)
    found = Planner(cluster, tight, POLICY).consolidate(waiting, budget, now, worth=worth)
    assert naive.facts(cluster) == before
    return found


def names(found: Consolidation) -> list[str]:
    return sorted(move.gang.name for move in found.moves)


def carry_out(cluster: Cluster, moves: tuple[Move, ...], now: float) -> None:
    for move in moves:
        cluster.snapshot.release_all(move.pods)
        cluster.leave(move.gang.name, move.pods)
    for move in moves:
        cluster.snapshot.book_all(move.bookings)
        cluster.stand(move.gang, move.bookings, now)


def test_a_rack_is_freed_for_a_gang_by_moving_two_small_ones() -> None:
    cluster = racks(2)
    put(cluster, job("a", 1, 2), "n0")
    put(cluster, job("b", 1, 2), "n1")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    big = rack_wide()
    found = consolidated(cluster, big)
    assert names(found) == ["a", "b"]
    assert {booking.row for move in found.moves for booking in move.bookings} == {3}
    assert len(found.bookings) == 16
    carry_out(cluster, found.moves, 1000.0)
    cluster.snapshot.book_all(found.bookings)
    naive.check_counts(cluster.snapshot)
    naive.check_gang(cluster.snapshot, Placement(big, found.bookings))


def test_who_is_not_in_the_way_stays() -> None:
    cluster = racks(2)
    put(cluster, job("small", 1, 2), "n0")
    put(cluster, job("large", 1, 4), "n1")
    put(cluster, job("other", 8, preemptible=False), "n2")
    found = consolidated(cluster, rack_wide(pods=12))
    assert names(found) == ["small"]


def test_the_domain_where_least_work_is_lost_is_chosen() -> None:
    cluster = racks(3)
    put(cluster, job("old", 1, 2), "n0", since=0.0)
    put(cluster, job("young", 1, 2), "n2", since=900.0)
    put(cluster, job("rest", 4, preemptible=False), "n4")
    assert names(consolidated(cluster, rack_wide())) == ["young"]


def test_pods_move_within_a_domain_too() -> None:
    cluster = racks(1)
    put(cluster, job("a", 1, 4), "n0")
    put(cluster, job("b", 1, 4), "n1")
    whole = gang("big", group("big", 1, of=shape(8)))
    found = consolidated(cluster, whole)
    assert len(found.moves) == 1
    assert found.moves[0].bookings[0].row != found.bookings[0].row


def test_only_the_pod_beyond_the_minimum_moves() -> None:
    cluster = racks(2)
    elastic = gang("e", group("e", 3, 2, of=shape(2)))
    for member, on in zip(elastic.groups[0].members, ("n2", "n2", "n0"), strict=True):
        first = 2 * len(cluster.snapshot.pods_on[cluster.snapshot.row(on)])
        row, shares = cluster.snapshot.row(on), (Share(first, 1000), Share(first + 1, 1000))
        cluster.snapshot.book(Booking(member, row, shares, "e"))
        cluster.stand(elastic, [cluster.snapshot.bookings[member.pod]], 0.0)
    found = consolidated(cluster, rack_wide())
    assert [move.pods for move in found.moves] == [("ns/e-2",)]


@pytest.mark.parametrize(
    ("budget", "moves"),
    [
        (Budget(2), 2),
        (Budget(1), 0),
        (Budget(0), 0),
        (Budget(9, work=5200.0), 2),
        (Budget(9, work=5100.0), 0),
        (Budget(2, spent=((500.0, 0.0),)), 0),
        (Budget(2, spent=((-2600.0, 0.0),)), 2),
    ],
)
def test_the_budget_is_kept(budget: Budget, moves: int) -> None:
    cluster = racks(2)
    put(cluster, job("a", 1, 2), "n0")
    put(cluster, job("b", 1, 2), "n1")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert len(consolidated(cluster, rack_wide(), budget).moves) == moves


def test_a_budget_comes_back_when_its_period_is_over() -> None:
    cluster = racks(2)
    put(cluster, job("a", 1, 2), "n0")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    moves = consolidated(cluster, rack_wide()).moves
    spent = Budget(1).after(moves, 1000.0)
    assert not spent.allows(moves, 4599.0)
    assert spent.allows(moves, 4600.0)


def _with_member(one: Gang, **facts: object) -> Gang:
    first = one.groups[0]
    members = tuple(replace(member, **facts) for member in first.members)
    return replace(one, groups=(replace(first, members=members),))


SMALL = job("a", 1, 2)


@pytest.mark.parametrize(
    "stays",
    [
        replace(SMALL, preemptible=False),
        replace(SMALL, apart=Apart(RACK)),
        replace(SMALL, queue="slow"),
        _with_member(SMALL, budgets=("ns/tight",)),
        _with_member(SMALL, leaving=True),
        replace(SMALL, groups=(replace(SMALL.groups[0], minimum=2),)),
    ],
    ids=["not preemptible", "apart", "too young", "disruption budget", "leaving", "half"],
)
def test_the_protected_stay(stays: Gang) -> None:
    cluster = racks(2, queues=(QueueSpec("slow", preempt_min_runtime=3600.0),))
    put(cluster, stays, "n0")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert consolidated(cluster, rack_wide()) == Consolidation()
    assert consolidated(cluster, None) == Consolidation()


def test_a_gang_that_others_belong_to_stays() -> None:
    cluster = racks(2)
    put(cluster, SMALL, "n0")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    belongs = replace(job("more", 1), pack=Pack(required=RACK), within=("n0",))
    put(cluster, belongs, "n1")
    assert consolidated(cluster, rack_wide()) == Consolidation()


def test_those_that_the_caller_names_stay() -> None:
    cluster = racks(2)
    put(cluster, SMALL, "n0")
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    planner = Planner(cluster, tight, POLICY)
    assert planner.consolidate(rack_wide(), MUCH, 0.0, keep=["a"]) == Consolidation()
    assert names(planner.consolidate(rack_wide(), MUCH, 0.0)) == ["a"]


def test_nobody_moves_who_would_have_no_place() -> None:
    cluster = racks(2)
    put(cluster, job("a", 1, 4), "n0")
    put(cluster, job("b", 7, preemptible=False), "n2")
    put(cluster, job("c", 7, preemptible=False), "n3")
    assert consolidated(cluster, rack_wide()) == Consolidation()


def test_another_gang_moves_where_one_finds_no_other_place() -> None:
    cluster = racks(2)
    put(cluster, job("wide", 1, 4), "n0", since=900.0)
    put(cluster, job("slim", 4), "n1", since=0.0)
    put(cluster, job("b", 6, preemptible=False), "n2")
    put(cluster, job("c", 6, preemptible=False), "n3")
    assert names(consolidated(cluster, rack_wide(pods=12))) == ["slim"]


def test_nobody_moves_for_a_gang_that_fits_or_may_not_be_placed() -> None:
    cluster = racks(2, queues=(QueueSpec("poor", limit={"nvidia.com/gpu": 1000}),))
    put(cluster, SMALL, "n0")
    assert consolidated(cluster, rack_wide()) == Consolidation()
    put(cluster, job("c", 4, 2, preemptible=False), "n2")
    assert consolidated(cluster, replace(rack_wide(), queue="poor")) == Consolidation()
    assert consolidated(cluster, replace(rack_wide(), queue="none")) == Consolidation()


def test_a_moved_gang_stands_where_it_must() -> None:
    cluster = racks(3)
    pair = replace(job("pair", 2, 4), pack=Pack(required=RACK))
    put(cluster, pair, "n0")
    for index, gpus in enumerate((6, 4, 4, 4)):
        put(cluster, job(f"x{index}", 1, gpus, preemptible=False), f"n{index + 2}")
    found = consolidated(cluster, rack_wide())
    assert names(found) == ["pair"]
    assert {booking.row for booking in found.moves[0].bookings} == {4, 5}


def test_little_used_nodes_are_emptied_when_nobody_waits() -> None:
    cluster = racks(2)
    put(cluster, job("a", 1, 2), "n0")
    put(cluster, job("b", 1, 2), "n1")
    put(cluster, job("c", 1, 4), "n2")
    found = consolidated(cluster, None)
    assert names(found) == ["a", "b"]
    assert {booking.row for move in found.moves for booking in move.bookings} == {2}
    carry_out(cluster, found.moves, 1000.0)
    assert consolidated(cluster, None) == Consolidation()


def test_a_node_that_only_gangs_without_gpus_use_is_in_use() -> None:
    cluster = racks(1)
    put(cluster, job("web", 1, 0, preemptible=False), "n0")
    put(cluster, job("a", 1, 2), "n1")
    found = consolidated(cluster, None)
    assert names(found) == ["a"]
    assert {booking.row for move in found.moves for booking in move.bookings} == {0}


def test_pods_of_others_without_gpus_do_not_make_a_node_used() -> None:
    cluster = racks(1)
    agent = clusters.group("agent", 1, of=shape(0)).members[0]
    cluster.snapshot.book(Booking(agent, cluster.snapshot.row("n0")))
    put(cluster, job("a", 1, 2), "n1")
    assert consolidated(cluster, None) == Consolidation()


def test_many_do_not_move_for_one_node() -> None:
    cluster = racks(1)
    for index in range(4):
        put(cluster, job(f"a{index}", 1), "n0", first=index)
        put(cluster, job(f"b{index}", 1), "n1", first=index)
    assert consolidated(cluster, None) == Consolidation()


def test_halves_of_a_device_meet() -> None:
    cluster = cluster_of(node("n0", 2), node("n1", 2))
    half = shape(1, milli=500)
    put(cluster, gang("a", group("a", 1, of=half)), "n0", first=0)
    put(cluster, replace(job("x", 1), preemptible=False), "n0", first=1)
    put(cluster, gang("b", group("b", 1, of=half)), "n1", first=0)
    put(cluster, replace(job("y", 1), preemptible=False), "n1", first=1)
    demand = Worth(Demand({Ask(0, 0, 1): 1.0}), Largest(64_000, 256 << 30, 2))
    found = consolidated(cluster, None, worth=demand)
    assert len(found.moves) == 1
    carry_out(cluster, found.moves, 1000.0)
    assert consolidated(cluster, None, worth=demand) == Consolidation()


def objective(cluster: Cluster) -> tuple[int, float]:
    snapshot = cluster.snapshot
    left = left_on(snapshot, np.flatnonzero(snapshot.alive[: snapshot.size]))
    return unused_places(cluster), round(float(HALVES.of(left).sum()), 6)


def unused_places(cluster: Cluster) -> int:
    """Nodes with GPUs, and domains of such nodes, without a pod of a gang or one with GPUs."""
    snapshot = cluster.snapshot
    used: dict[str, bool] = {}
    for each in snapshot.nodes():
        if not each.allocatable.get(GPU, 0):
            continue
        pods = snapshot.pods_on[snapshot.row(each.name)].values()
        busy = any(pod.gang in cluster.standing or pod.shape.gpu is not None for pod in pods)
        for level in ("", *POLICY.levels):
            value = each.labels.get(level) if level else each.name
            if value is not None:
                place = f"{level}={value}"
                used[place] = used.get(place, False) or busy
    return sum(not busy for busy in used.values())


def told(cluster: Cluster, found: Consolidation) -> object:
    """Moves and the place they make in words that do not depend on rows."""
    nodes = cluster.snapshot.names
    places = [(move.gang.name, sorted(move.pods), move.bookings) for move in found.moves]
    return [
        (name, pods, sorted((b.pod, nodes[b.row], b.devices) for b in bookings))
        for name, pods, bookings in (*places, ("", [], found.bookings))
    ]


def check_moves(cluster: Cluster, moves: tuple[Move, ...], now: float) -> None:
    """Carries moves out: all who moved have a place where they must stand, and no one more."""
    pods = set(cluster.snapshot.bookings)
    carry_out(cluster, moves, now)
    assert set(cluster.snapshot.bookings) == pods
    naive.check_counts(cluster.snapshot)
    naive.check_queues(cluster)
    for move in moves:
        assert move.gang.preemptible
        assert sorted(move.pods) == sorted(booking.pod for booking in move.bookings)
        naive.check_new_bookings(cluster.snapshot, move.bookings)
        standing = cluster.standing[move.gang.name]
        stands = tuple(cluster.snapshot.bookings[pod] for pod in standing.pods)
        naive.check_gang(cluster.snapshot, Placement(move.gang, stands))


@st.composite
def varied_clusters(draw: st.DrawFn) -> Cluster:
    """Gangs of every kind came to nodes of every kind, and some went."""
    cluster = cluster_of(*(draw(random.nodes(f"n{index}")) for index in range(6)))
    cluster.budgets = dict.fromkeys(random.BUDGETS, draw(st.integers(0, 8)))
    gangs = [draw(random.gangs(f"g{index}", most=2)) for index in range(draw(st.integers(2, 8)))]
    gangs = [replace(one, queue="default") for one in gangs]
    Planner(cluster, default_scoring(), POLICY).decide(gangs, 0.0)
    for name in sorted(cluster.standing):
        if draw(st.booleans()):
            pods = list(cluster.standing[name].pods)
            cluster.snapshot.release_all(pods)
            cluster.leave(name, pods)
    return cluster


@st.composite
def scattered_clusters(draw: st.DrawFn) -> Cluster:
    """Small gangs on nodes that are alike, each of them anywhere."""
    cluster = cluster_of(*(node(f"n{index}", 4, rack=f"r{index // 2}") for index in range(6)))
    placer = clusters.placer(cluster.snapshot)
    for index in range(draw(st.integers(4, 14))):
        name = f"g{index}"
        of = shape(draw(st.integers(1, 2)), milli=draw(st.sampled_from((1000, 1000, 500, 300))))
        pods = draw(st.integers(1, 3))
        one = replace(
            gang(name, group(name, pods, draw(st.integers(1, pods)), of=of)),
            pack=draw(st.sampled_from((Pack(), Pack(), Pack(required=RACK)))),
            preemptible=draw(st.integers(0, 5)) < 5,
        )
        some = draw(st.sets(st.integers(0, 2), min_size=1))
        rows = [row for rack in sorted(some) for row in (2 * rack, 2 * rack + 1)]
        bookings = placer.place(one, np.array(rows[draw(st.integers(0, 1)) :], np.intp))
        if bookings is not None:
            cluster.stand(one, bookings, draw(st.sampled_from((0.0, 500.0))))
    return cluster


@st.composite
def large_gangs(draw: st.DrawFn) -> Gang:
    """Gangs that want a rack or whole nodes."""
    pods, gpus = draw(st.sampled_from(((1, 4), (2, 4), (3, 4), (6, 1), (7, 1), (8, 1), (3, 2))))
    pack = draw(st.sampled_from((Pack(), Pack(required=RACK))))
    return gang("new", group("new", pods, of=shape(gpus)), pack=pack)


clusters_of_all_kinds = st.one_of(scattered_clusters(), varied_clusters())
waiting_gangs = st.one_of(large_gangs(), random.gangs("new", most=2))


@settings(max_examples=200, deadline=None)
@given(cluster=clusters_of_all_kinds)
def test_tidying_wins_with_every_step_and_comes_to_an_end(cluster: Cluster) -> None:
    planner = Planner(cluster, default_scoring(), POLICY)
    now, steps = 1000.0, 0
    while moves := (found := planner.consolidate(None, Budget(3), now, worth=HALVES)).moves:
        other = naive.rebuilt(cluster)
        elsewhere = Planner(other, default_scoring(), POLICY)
        again = elsewhere.consolidate(None, Budget(3), now, worth=HALVES)
        assert told(other, again) == told(cluster, found)
        before = objective(cluster)
        assert len(moves) <= 3
        check_moves(cluster, moves, now)
        assert objective(cluster) > before
        now, steps = now + 10_000.0, steps + 1
        assert steps < 50


@settings(max_examples=300, deadline=None)
@given(cluster=clusters_of_all_kinds, waiting=waiting_gangs)
def test_after_the_moves_a_gang_fits_and_nobody_lost_a_place(
    cluster: Cluster, waiting: Gang
) -> None:
    planner = Planner(cluster, default_scoring(), POLICY)
    waiting = replace(waiting, queue="default")
    before = naive.facts(cluster)
    found = planner.consolidate(waiting, Budget(4), 1000.0)
    assert naive.facts(cluster) == before
    other = naive.rebuilt(cluster)
    again = Planner(other, default_scoring(), POLICY).consolidate(waiting, Budget(4), 1000.0)
    assert told(other, again) == told(cluster, found)
    if not found.moves:
        assert not found.bookings
        return
    assert not planner.plan([waiting], 1000.0).placements
    check_moves(cluster, found.moves, 1000.0)
    cluster.snapshot.book_all(found.bookings)
    naive.check_new_bookings(cluster.snapshot, found.bookings)
    naive.check_gang(cluster.snapshot, Placement(waiting.at_least(), found.bookings))


@settings(max_examples=200, deadline=None)
@given(
    used=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    fixed=st.integers(0, 3),
    pods=st.integers(1, 8),
)
def test_no_fewer_moves_would_do_for_pods_that_are_alike(
    used: list[int], fixed: int, pods: int
) -> None:
    cluster = cluster_of(*(node(f"n{index}", 4, rack=f"r{index // 2}") for index in range(6)))
    for index, count in enumerate(used):
        for rank in range(count):
            one = job(f"g{index}{rank}", 1, preemptible=rank >= fixed)
            put(cluster, one, f"n{index}", first=rank)
    free = [8 - used[2 * rack] - used[2 * rack + 1] for rack in range(3)]
    movable = [sum(max(0, count - fixed) for count in used[2 * r : 2 * r + 2]) for r in range(3)]
    missing = [max(0, pods - has) for has in free]
    possible = [lacks for lacks, some in zip(missing, movable, strict=True) if lacks <= some]
    found = consolidated(cluster, rack_wide(pods=pods))
    fits = sum(free) >= pods and bool(possible)
    assert len(found.moves) == (min(possible) if fits else 0)
    assert len(found.bookings) == (pods if found.moves else 0)
