"""What is remembered between decisions does not grow with all that was ever asked for."""

import gc

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking
from tests.scheduler.core.clusters import node, shape, snapshot_of, tight

MANY = 9000


def shapes_alive() -> int:
    gc.collect()
    return sum(type(each) is Shape for each in gc.get_objects())


def test_shapes_that_nobody_uses_any_more_are_forgotten() -> None:
    snapshot = snapshot_of(node("n0"))
    rooms = Rooms(snapshot, tight)
    before = shapes_alive()
    for number in range(MANY):
        asked = shape(cpu=1 + number)
        assert rooms.best(asked) == 0
        snapshot.book(Booking(Member("ns/a", asked), 0))
        snapshot.release("ns/a")
    assert shapes_alive() - before < MANY / 2
