"""Caches do not grow with the number of shapes ever requested."""

import gc

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from tests.scheduler.core.support.clusters import node, shape, snapshot_of, tight

MANY = 9000


def shapes_alive() -> int:
    gc.collect()
    return sum(type(each) is Shape for each in gc.get_objects())


def test_unused_shapes_are_evicted_from_caches() -> None:
    snapshot = snapshot_of(node("n0"))
    feasibility = FeasibilityCache(snapshot, tight)
    before = shapes_alive()
    for number in range(MANY):
        asked = shape(cpu=1 + number)
        assert feasibility.best_row(asked) == 0
        snapshot.add_pod(PodPlacement(Member("ns/a", asked), 0))
        snapshot.remove_pod("ns/a")
    assert shapes_alive() - before < MANY / 2
