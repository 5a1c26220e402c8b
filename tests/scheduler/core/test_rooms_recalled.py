"""What is remembered of rows in the same state is what would be worked out anew."""

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Rooms, Scores
from kilonova.scheduler.core.scores import Part, Scoring, default_scoring
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.core.taints import Taint
from tests.scheduler.core.clusters import node, shape, snapshot_of

SHAPES = (shape(1), shape(2, 3000), shape(1, milli=250), shape(0, 500), shape(0, 64_000))
SOFT = Taint("dedicated", "PreferNoSchedule", "others")


def nodes() -> Snapshot:
    alike = [node(f"n{number}") for number in range(4)]
    others = [node("cpu", 0), node("small", 2, 8000), replace(node("soft"), taints=(SOFT,))]
    return snapshot_of(*alike, *others)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), max_size=40))
def test_ranks_are_the_same_as_if_all_rows_were_ranked_anew(
    steps: list[tuple[Shape, bool]],
) -> None:
    snapshot, scoring = nodes(), default_scoring()
    rooms = Rooms(snapshot, scoring)
    for number, (wanted, leaves) in enumerate(steps):
        row = rooms.best(wanted)
        if row >= 0:
            member = Member(f"ns/p{number}", wanted)
            snapshot.book_all(bookings_for(snapshot, row, [member], "g"))
        if leaves and snapshot.bookings:
            snapshot.release(sorted(snapshot.bookings)[number % len(snapshot.bookings)])
        for each in SHAPES:
            assert np.array_equal(rooms.keys(each), Rooms(snapshot, scoring).keys(each))


def test_many_rows_in_few_states_are_ranked_as_if_each_were_asked_about() -> None:
    def each(snapshot: Snapshot, wanted: Shape, rows: Rows) -> Scores:
        return default_scoring()(snapshot, wanted, rows)  # nobody knows that it goes by state

    dice = Random(7)
    sizes = [(f"n{number:03}", dice.choice((8, 8, 8, 4, 0))) for number in range(200)]
    snapshot = snapshot_of(*(node(name, gpus) for name, gpus in sizes))
    rooms = Rooms(snapshot, default_scoring())
    for number in range(60):
        wanted = dice.choice(SHAPES[:4])
        rows = np.flatnonzero(rooms.room(wanted) > 0)
        member = Member(f"ns/p{number}", wanted)
        snapshot.book_all(bookings_for(snapshot, int(dice.choice(rows)), [member], "g"))
        if number % 20 == 19:
            snapshot.put_node(node(f"new-{number}", 8))
            asked = shape(1, 100 + number)
            assert np.array_equal(rooms.keys(asked), Rooms(snapshot, each).keys(asked))


def test_rows_in_the_same_state_are_asked_about_once() -> None:
    asked: list[int] = []

    class Counting(Scoring):
        def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
            asked.append(len(rows))
            return super().__call__(snapshot, shape, rows)

    snapshot = snapshot_of(*(node(f"n{number}") for number in range(500)))
    rooms = Rooms(snapshot, Counting(default_scoring().parts))
    for number in range(20):
        row = rooms.best(shape(1, 1000 + number))
        member = Member(f"ns/p{number}", shape(1))
        snapshot.book_all(bookings_for(snapshot, row, [member], "g"))
    assert max(asked) <= 21


def test_more_shapes_in_turn_than_once_were_kept_are_remembered() -> None:
    asked: list[Shape] = []

    class Counting(Scoring):
        def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
            asked.append(shape)
            return super().__call__(snapshot, shape, rows)

    rooms = Rooms(nodes(), Counting(default_scoring().parts))
    shapes = [shape(1, 1000 + number) for number in range(1000)]
    for _ in range(3):
        for each in shapes:
            rooms.best(each)
    assert len(asked) == len(set(asked))


def test_what_is_plugged_in_may_look_at_names() -> None:
    def by_name(snapshot: Snapshot, _: Shape, rows: Rows) -> Scores:
        return np.array([100.0 if snapshot.names[row] == "n2" else 0.0 for row in rows.tolist()])

    snapshot = nodes()
    rooms = Rooms(snapshot, Scoring([Part("name", 1, by_name)]))
    for number in range(8):
        row = rooms.best(shape(1))
        assert snapshot.names[row] == "n2"
        member = Member(f"ns/p{number}", shape(1))
        snapshot.book_all(bookings_for(snapshot, row, [member], "g"))
