"""When a gang would fit if what runs ends as expected."""

from dataclasses import replace
from random import Random

import pytest

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.reserving import Fit, earliest, expected_end
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import GPU
from tests.scheduler.core.clusters import gang, group, node, placer, snapshot_of, tight


def running(count: int) -> Cluster:
    """One node full of gangs of one pod that end one after the other, g1 at 10, g2 at 20 …"""
    cluster = Cluster()
    cluster.snapshot.put_node(node("n", count))
    jobs = [
        replace(gang(f"g{i}", group(f"g{i}", 1)), duration=10.0 * i) for i in range(1, count + 1)
    ]
    Planner(cluster, tight, Policy()).decide(jobs, 0)
    return cluster


@pytest.mark.parametrize("pods", range(1, 17))
def test_no_more_gangs_end_than_have_to(pods: int) -> None:
    cluster = running(16)
    fit = earliest(cluster, placer(cluster.snapshot), gang("x", group("x", pods)), 0)
    assert fit == Fit(10.0 * pods, tuple(f"g{i}" for i in range(1, pods + 1)))
    assert len(cluster.snapshot.bookings) == 16


def test_now_where_it_fits_and_never_where_it_cannot() -> None:
    cluster = running(4)
    cluster.snapshot.put_node(node("m", 1))
    place = placer(cluster.snapshot)
    assert earliest(cluster, place, gang("x", group("x", 1)), 3) == Fit(3, ())
    assert earliest(cluster, place, gang("x", group("x", 6)), 3) is None


def test_a_search_stops_when_too_much_would_have_to_end() -> None:
    cluster = running(64)
    place = placer(cluster.snapshot)
    assert earliest(cluster, place, gang("x", group("x", 60)), 0, most=10) is None
    assert earliest(cluster, place, gang("x", group("x", 10)), 0, most=10) is not None


def test_nodes_of_a_copy_change_by_themselves() -> None:
    snapshot = snapshot_of(node("a", rack="r0"), node("b", rack="r1"))
    labels = snapshot.labels.column("example.com/rack").codes.tolist()
    copied = snapshot.copy()
    copied.put_node(node("c", 2, rack="r2"))
    copied.put_node(node("b", 1, rack="r0"))
    copied.remove_node("a")
    assert [each.name for each in snapshot.nodes()] == ["a", "b"]
    assert snapshot.allocatable[snapshot.resources[GPU], :2].tolist() == [8, 8]
    assert snapshot.labels.column("example.com/rack").codes.tolist() == labels
    assert Rooms(snapshot, tight).room(group("x", 1).members[0].shape).tolist() == [8, 8]


def test_gangs_end_in_the_order_of_their_ends_and_names_however_many_there_are() -> None:
    dice = Random(14)
    cluster = Cluster()
    for number in range(4):
        cluster.snapshot.put_node(node(f"n{number}", 100, 1_000_000))
    names = [f"g{number:03}" for number in range(400)]
    dice.shuffle(names)
    for name in names:
        duration = dice.choice((None, 10.0, 2000.0, 3000.0))
        job = replace(gang(name, group(name, 1)), duration=duration)
        Planner(cluster, tight, Policy()).decide([job], dice.choice((0.0, 100.0, 900.0)))
    now = 1000.0
    order = sorted((expected_end(one, now), name) for name, one in cluster.standing.items())
    place = placer(cluster.snapshot)
    for pods in (1, 63, 64, 65, 200, 399, 400):
        fit = earliest(cluster, place, gang("x", group("x", pods)), now)
        assert fit == Fit(order[pods - 1][0], tuple(name for _, name in order[:pods]))
