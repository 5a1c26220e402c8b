"""What may be moved, and who gets the room that was held."""

from dataclasses import replace

import pytest

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.relocating import Budget, Move
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.holds import Hold, Holds, hold_for, seated
from kilonova.scheduler.movelimits import Made, MoveLimits, allowance
from tests.scheduler.core.clusters import node, shape

NOW = 10_000.0
LIMITS = MoveLimits(at_once=4, per_hour=5, lost_work=1000.0)


@pytest.mark.parametrize(
    ("limits", "made", "under_way", "arrived", "budget"),
    [
        (LIMITS, [], 0, 0, Budget(4, 1000.0)),
        (LIMITS, [], 3, 0, Budget(1, 1000.0)),
        (LIMITS, [Made(NOW - 10, 100.0)] * 3, 0, 0, Budget(2, 700.0)),
        (LIMITS, [Made(NOW - 3600, 100.0)] * 3, 0, 0, Budget(4, 1000.0)),
        (LIMITS, [Made(NOW - 10, 600.0)] * 6, 0, 0, Budget(0, 0.0)),
        (replace(LIMITS, arrivals_each=100), [], 0, 99, Budget(0, 1000.0)),
        (replace(LIMITS, arrivals_each=100), [], 0, 250, Budget(2, 1000.0)),
        (replace(LIMITS, arrivals_each=100), [Made(0.0, 1.0)], 0, 250, Budget(1, 1000.0)),
    ],
)
def test_what_is_left_of_the_limits(
    limits: MoveLimits, made: list[Made], under_way: int, arrived: int, budget: Budget
) -> None:
    assert allowance(limits, made, under_way, arrived, NOW) == budget


def test_who_comes_back_gets_the_seat_of_its_group_and_kind() -> None:
    hold = held()
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    found = seated(back, hold)
    assert found is not None
    assert [(seat.left, member.pod) for seat, member in found] == [
        ("ns/a0", "ns/a9"),
        ("ns/b0", "ns/b9"),
    ]


def test_a_gang_that_asks_for_something_else_now_gets_no_seat() -> None:
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]}, gpus=2)
    assert seated(back, held()) is None


def test_a_pod_beyond_the_minimum_gets_no_seat_and_does_not_matter() -> None:
    back = gang({"a": ["ns/a9", "ns/a8"], "b": ["ns/b9"]}, minimum=1)
    found = seated(back, held())
    assert found is not None
    assert len(found) == 2


def test_held_room_counts_in_the_queue_until_it_is_given() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0", gpus=2))
    holds, hold = Holds(cluster), held()
    holds.take(hold, NOW)
    assert cluster.used.of("default")["nvidia.com/gpu"] == 2000
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    placement = holds.give(back, hold, NOW)
    assert placement is not None
    assert sorted(cluster.snapshot.bookings) == ["ns/a9", "ns/b9"]
    assert cluster.used.of("default")["nvidia.com/gpu"] == 2000
    assert cluster.standing.keys() == {"ns/g"}
    assert len(holds) == 0


def test_a_node_that_takes_no_pods_any_more_is_not_held_to_its_promise() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0", gpus=2))
    holds, hold = Holds(cluster), held()
    holds.take(hold, NOW)
    cluster.snapshot.put_node(node("n0", gpus=1))
    back = gang({"a": ["ns/a9"], "b": ["ns/b9"]})
    assert holds.give(back, hold, NOW) is None
    assert cluster.snapshot.bookings == {}
    assert cluster.standing == {}


def held() -> Hold:
    """Room on the first node for a gang of two groups with a pod each."""
    before = gang({"a": ["ns/a0"], "b": ["ns/b0"]})
    members = [member for group in before.groups for member in group.members]
    bookings = tuple(Booking(member, 0, (), before.name) for member in members)
    return hold_for(Move(before, bookings, bookings, 0.0))


def gang(groups: dict[str, list[str]], *, gpus: int = 1, minimum: int | None = None) -> Gang:
    return Gang(
        "ns/g",
        tuple(
            Group(
                name,
                tuple(Member(pod, shape(gpus)) for pod in pods),
                len(pods) if minimum is None else minimum,
            )
            for name, pods in groups.items()
        ),
    )
