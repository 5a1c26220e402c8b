"""Room that is kept: nobody gets it but those who name it, and nothing of it is given twice."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.keeping import is_inside, remaining
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Placement, Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.snapshot import GPU, Booking
from tests.scheduler.core import naive
from tests.scheduler.core import random_clusters as random
from tests.scheduler.core.clusters import gang, group, node, shape, tight

KEPT = "rsv/ns/night"


def a_cluster(*nodes: Node, limit: int | None = None) -> tuple[Cluster, Planner]:
    spec = QueueSpec("default", limit={} if limit is None else {GPU: limit * 1000})
    cluster = Cluster(forest_of([spec]))
    for each in nodes:
        cluster.snapshot.put_node(each)
    return cluster, Planner(cluster, tight, Policy())


def keep(planner: Planner, pods: int, gpus: int = 4, cpu: int = 1000, memory: int = 1) -> Placement:
    wanted = gang(KEPT, group("kept", pods, of=_asks(gpus, cpu, memory)))
    (placement,) = planner.decide([replace(wanted, preemptible=False)], 0.0).placements
    return placement


def names_room(name: str, pods: int, gpus: int = 4, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=shape(gpus))), room=KEPT, **facts)


def test_nobody_else_gets_kept_room() -> None:
    _, planner = a_cluster(node("a"))
    keep(planner, 2)
    plan = planner.decide([gang("other", group("other", 1))], 1.0)
    assert [refusal.gang.name for refusal in plan.refusals] == ["other"]


def test_who_names_kept_room_stands_in_it_on_its_devices() -> None:
    cluster, planner = a_cluster(node("a"), node("b"))
    kept = keep(planner, 1)
    (placement,) = planner.decide([names_room("mine", 1)], 1.0).placements
    assert placement.bookings[0].row == kept.bookings[0].row
    assert placement.bookings[0].devices == kept.bookings[0].devices
    assert KEPT not in cluster.standing


def test_what_is_not_taken_is_kept_on() -> None:
    cluster, planner = a_cluster(node("a"))
    keep(planner, 2)
    planner.decide([names_room("mine", 1, gpus=1)], 1.0)
    assert cluster.snapshot.free[cluster.snapshot.column(GPU), 0] == 0
    left = [cluster.snapshot.bookings[pod] for pod in cluster.standing[KEPT].pods]
    assert sum(len(booking.devices) for booking in left) == 7


def test_kept_room_stays_whole_where_its_gang_finds_no_place() -> None:
    cluster, planner = a_cluster(node("a"))
    keep(planner, 2)
    before = naive.facts(cluster)
    plan = planner.decide([names_room("mine", 3)], 1.0)
    assert [refusal.gang.name for refusal in plan.refusals] == ["mine"]
    assert naive.facts(cluster) == before


def test_a_gang_larger_than_the_room_takes_more_beside_it() -> None:
    cluster, planner = a_cluster(node("a"), node("b"))
    keep(planner, 2)
    (placement,) = planner.decide([names_room("mine", 4)], 1.0).placements
    assert Counter(booking.row for booking in placement.bookings) == {0: 2, 1: 2}
    assert KEPT not in cluster.standing


def test_kept_room_counts_once_in_its_queue() -> None:
    cluster, planner = a_cluster(node("a"), limit=8)
    keep(planner, 2)
    assert cluster.used.of("default")[GPU] == 8000
    planner.decide([names_room("mine", 2)], 1.0)
    assert cluster.used.of("default")[GPU] == 8000


def test_kept_room_makes_way_for_nobody() -> None:
    _, planner = a_cluster(node("a"))
    keep(planner, 2)
    other = replace(gang("other", group("other", 1)), priority=1000)
    assert planner.decide([other], 1.0).placements == ()


def test_a_gang_takes_over_the_nodes_of_the_one_before_it() -> None:
    cluster, planner = a_cluster(node("a"), node("b"), node("c"))
    wanted = replace(gang("new", group("new", 2, of=shape(4))), before=("b", "gone"))
    (placement,) = planner.decide([wanted], 1.0).placements
    names = {cluster.snapshot.names[booking.row] for booking in placement.bookings}
    assert names == {"b"}


def test_who_uses_no_more_than_is_kept_is_inside() -> None:
    room = [_booking("kept", 0, 4, (0, 1, 2, 3), cpu=4000, memory=2)]
    assert is_inside(room, [_booking("a", 0, 2, (0, 1)), _booking("b", 0, 2, (2, 3))])
    assert not is_inside(room, [_booking("a", 0, 2, (3, 4))])
    assert not is_inside(room, [_booking("a", 1, 1, (0,))])
    assert not is_inside(room, [_booking("a", 0, 1, (0,), cpu=5000)])


def test_several_small_pods_stand_in_one_large_place() -> None:
    cluster, planner = a_cluster(node("a"), node("b"))
    keep(planner, 1, gpus=8, cpu=8000, memory=8)
    (placement,) = planner.decide([names_room("mine", 8, gpus=1)], 1.0).placements
    assert {booking.row for booking in placement.bookings} == {0}
    assert cluster.used.of("default")[GPU] == 8000


def test_of_a_share_the_rest_is_kept() -> None:
    half = Booking(Member("kept", shape(1, milli=500)), 0, (Share(2, 500),), KEPT)
    user = Booking(Member("user", shape(1, milli=300)), 0, (Share(2, 300),))
    (left,) = remaining([half], [user])
    assert left.devices == (Share(2, 200),)


def _booking(
    pod: str, row: int, gpus: int, devices: tuple[int, ...], cpu: int = 0, memory: int = 1
) -> Booking:
    return Booking(Member(pod, _asks(gpus, cpu, memory)), row, tuple(map(Share, devices)), pod)


def _asks(gpus: int, cpu: int, memory: int) -> Shape:
    requests = {"cpu": cpu, "memory": memory << 30, "pods": 1, GPU: gpus}
    return Shape(tuple(sorted(requests.items())), GpuAsk(gpus))


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.tuples(*(random.nodes(f"n{index}") for index in range(4))),
    specs=random.queues(),
    kept=st.tuples(*(random.gangs(f"rsv/ns/r{index}") for index in range(2))),
    data=st.data(),
)
def test_nothing_is_given_twice_and_no_other_gang_stands_on_kept_room(
    nodes: tuple[Node, ...],
    specs: list[QueueSpec],
    kept: tuple[Gang, ...],
    data: st.DataObject,
) -> None:
    cluster = Cluster(forest_of(specs))
    for each in nodes:
        cluster.snapshot.put_node(each)
    planner = Planner(cluster, random.SCORING, Policy(random.LEVELS, reserve_after=100.0))
    holding = planner.decide([replace(each, preemptible=False) for each in kept], 0.0)
    rooms = {each.gang.name: list(each.bookings) for each in holding.placements}
    users: dict[str, list[Booking]] = {name: [] for name in rooms}
    for turn in range(3):
        coming: list[Gang] = []
        for index in range(3):
            room = data.draw(st.sampled_from(("", *rooms, "rsv/ns/unheard-of")))
            one = data.draw(random.gangs(f"g{turn}{index}", 150.0 * turn))
            coming.append(replace(one, room=room, preemptible=one.preemptible and not room))
        plan = planner.decide(coming, 150.0 * turn)
        naive.check_counts(cluster.snapshot)
        naive.check_queues(cluster)
        new = [booking for placement in plan.placements for booking in placement.bookings]
        naive.check_new_bookings(cluster.snapshot, new)
        for placement in plan.placements:
            assert not {unit.gang for unit in placement.evicted} & rooms.keys()
            users.get(placement.gang.room, []).extend(placement.bookings)
        for name, room in rooms.items():
            _check_kept(cluster, name, room, users[name])


def _check_kept(cluster: Cluster, name: str, room: list[Booking], users: list[Booking]) -> None:
    """What was kept is kept still, or somebody has it who named it."""
    standing = cluster.standing.get(name)
    left = [cluster.snapshot.bookings[pod] for pod in standing.pods] if standing else []
    for row in {booking.row for booking in room}:
        had, has = _amounts(room, row), _amounts([*left, *users], row)
        assert all(has[each] >= amount for each, amount in had.items()), (had, has)
        milli, masks = naive.devices_on(each for each in room if each.row == row)
        now, slices = naive.devices_on(each for each in [*left, *users] if each.row == row)
        for index, mask in masks.items():
            assert now[index] or slices[index] & mask == mask
        assert all(now[index] or slices[index] for index in milli)


def _amounts(bookings: list[Booking], row: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for booking in bookings:
        if booking.row == row:
            total.update({name: n for name, n in booking.shape.requests if name != GPU})
    return total
