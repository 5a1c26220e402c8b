"""Whose turn it is: by fair share, priority, use, and always the same."""

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Forest, QueueSpec
from kilonova.scheduler.core.shares import Shares, fair_shares
from kilonova.scheduler.core.turns import Turns
from tests.scheduler.core.queue_cases import GPU, Job, leaves, sound_specs


def turns_of(
    forest: Forest,
    jobs: Sequence[Job],
    capacity: int = 8,
    used: Ledger | None = None,
    past: dict[str, float] | None = None,
) -> Turns[Job]:
    used = used or Ledger(forest)
    requested = Ledger(forest)
    for name in leaves(forest):
        requested.charge(name, used.of(name))
    for job in jobs:
        requested.charge(job.queue, job.amounts)
    turns = Turns[Job](used, fair_shares({GPU: capacity}, requested), past)
    for job in jobs:
        assert turns.add(job) is None
    return turns


def order(turns: Turns[Job]) -> str:
    """Names of gangs as their turns come, each getting a place."""
    names: list[str] = []
    for job in turns:
        turns.charge(job.queue, job.amounts)
        names.append(job.name)
    return " ".join(names)


def jobs(queue: str, count: int, **fields: int) -> list[Job]:
    return [Job(f"{queue}{index}", queue, created=index, **fields) for index in range(count)]


def test_within_a_queue_by_priority_then_age_then_name() -> None:
    waiting = [
        Job("young", created=5),
        Job("b", created=3),
        Job("a", created=3),
        Job("important", priority=9, created=7),
    ]
    assert order(turns_of(forest_of([]), waiting)) == "important a b young"


def test_queues_take_turns() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    turns = turns_of(forest, [*jobs("a", 3), *jobs("b", 3)], capacity=6)
    assert order(turns) == "a0 b0 a1 b1 a2 b2"


def test_weights_say_how_often() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b", weight=2)])
    turns = turns_of(forest, [*jobs("a", 6), *jobs("b", 6)], capacity=6)
    assert order(turns).split()[:6] == ["a0", "b0", "b1", "a1", "b2", "b3"]


def test_big_gangs_use_up_their_share_sooner() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    turns = turns_of(forest, [*jobs("a", 2, gpus=3), *jobs("b", 4)], capacity=8)
    assert order(turns) == "a0 b0 b1 b2 a1 b3"


def test_priority_comes_first_but_not_before_what_others_deserve() -> None:
    forest = forest_of([QueueSpec("a", deserved={GPU: 2}), QueueSpec("high", priority=1)])
    turns = turns_of(forest, [*jobs("a", 3), *jobs("high", 4)], capacity=4)
    assert order(turns) == "high0 high1 a0 a1 high2 high3 a2"


def test_who_can_count_on_nothing_comes_after_those_who_can() -> None:
    forest = forest_of([QueueSpec("a", weight=0), QueueSpec("b"), QueueSpec("c", weight=0)])
    turns = turns_of(forest, [*jobs("a", 2), *jobs("b", 4), *jobs("c", 2)], capacity=3)
    assert order(turns) == "b0 b1 b2 a0 c0 a1 c1 b3"


def test_a_team_is_chosen_within_its_department() -> None:
    forest = forest_of(
        [
            QueueSpec("x"),
            QueueSpec("xa", parent="x"),
            QueueSpec("xb", parent="x"),
            QueueSpec("y"),
        ]
    )
    turns = turns_of(forest, [*jobs("xa", 2), *jobs("xb", 2), *jobs("y", 4)])
    assert order(turns) == "xa0 y0 xb0 y1 xa1 y2 xb1 y3"


def test_heavy_users_of_the_past_stand_back() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    waiting = [*jobs("a", 4), *jobs("b", 4)]
    assert order(turns_of(forest, waiting, past={"a": 0.5})) == "b0 b1 a0 b2 a1 b3 a2 a3"


def test_what_leaves_its_place_counts_no_more() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    used = Ledger(forest)
    used.charge("a", {GPU: 3})
    turns = turns_of(forest, [*jobs("a", 1), *jobs("b", 1)], used=used)
    turns.discharge("a", {GPU: 3})
    assert order(turns) == "a0 b0"


def test_new_shares_change_the_order() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    used = Ledger(forest)
    for queue in ("a", "b"):
        used.charge(queue, {GPU: 2})
    turns = turns_of(forest, [*jobs("a", 1), *jobs("b", 1)], used=used)
    turns.share(Shares({GPU: 8}, {"a": {GPU: 3}, "b": {GPU: 5}}))
    assert order(turns) == "b0 a0"


def test_who_is_removed_has_no_turn() -> None:
    turns = turns_of(forest_of([]), [Job("a"), Job("b"), Job("c")])
    turns.remove("b")
    turns.remove("b")
    turns.remove("nobody")
    assert len(turns) == 2
    assert order(turns) == "a c"
    assert turns.pop() is None


def test_who_comes_again_stands_in_line_once() -> None:
    turns = turns_of(forest_of([]), [Job("a", created=1), Job("b", created=2)])
    turns.add(Job("a", created=3))
    assert len(turns) == 2
    assert order(turns) == "b a"


@pytest.mark.parametrize(
    ("queue", "reason"),
    [("nowhere", "UnknownQueue"), ("parent", "HasChildren"), ("orphan", "UnknownParent")],
)
def test_a_queue_that_takes_no_gangs_says_why(queue: str, reason: str) -> None:
    forest = forest_of(
        [
            QueueSpec("parent"),
            QueueSpec("child", parent="parent"),
            QueueSpec("orphan", parent="gone"),
        ]
    )
    turns = Turns[Job](Ledger(forest), Shares({}, {}))
    problem = turns.add(Job("a", queue))
    assert problem is not None
    assert problem.reason == reason
    assert len(turns) == 0


def test_long_use_leaves_nothing_behind() -> None:
    forest = forest_of([QueueSpec("a"), QueueSpec("b")])
    turns = turns_of(forest, [*jobs("a", 1), *jobs("b", 1)])

    def use(rounds: int) -> int:
        for created in range(rounds):
            turns.charge("a", {GPU: 1})
            turns.discharge("a", {GPU: 1})
            turns.add(Job("passing", "a", priority=-1, created=created))
            turns.remove("passing")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = use(200)
        assert use(2000) - before < 20_000
    finally:
        tracemalloc.stop()
    assert order(turns) == "a0 b0"


WAITING = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 3), st.integers(1, 4)),
    max_size=15,
)


def waiting_in(forest: Forest, drawn: list[tuple[int, int, int, int]]) -> list[Job]:
    names = leaves(forest)
    return [
        Job(f"g{index:02}", names[queue % len(names)], priority, created, gpus)
        for index, (queue, priority, created, gpus) in enumerate(drawn)
    ]


@given(sound_specs(), WAITING, st.integers(0, 30), st.randoms())
def test_the_order_does_not_depend_on_who_came_first(
    specs: list[QueueSpec],
    drawn: list[tuple[int, int, int, int]],
    capacity: int,
    random: Random,
) -> None:
    waiting = waiting_in(forest_of(specs), drawn)
    expected = order(turns_of(forest_of(specs), waiting, capacity))
    random.shuffle(specs)
    random.shuffle(waiting)
    assert order(turns_of(forest_of(specs), waiting, capacity)) == expected
    assert sorted(expected.split()) == sorted(job.name for job in waiting)


@given(sound_specs(), WAITING, st.integers(0, 30), st.lists(st.booleans(), max_size=15))
def test_heaps_give_what_a_search_would(
    specs: list[QueueSpec],
    drawn: list[tuple[int, int, int, int]],
    capacity: int,
    fits: list[bool],
) -> None:
    forest = forest_of(specs)
    waiting = waiting_in(forest, drawn)
    turns = turns_of(forest, waiting, capacity)
    requested = Ledger(forest)
    for job in waiting:
        requested.charge(job.queue, job.amounts)
    shares = fair_shares({GPU: capacity}, requested)
    used = Ledger(forest)
    for has_room in [*fits, *(True for _ in waiting[len(fits) :])][: len(waiting)]:
        expected = searched(forest, used, shares, waiting)
        assert turns.pop() == expected
        waiting.remove(expected)
        if has_room:
            turns.charge(expected.queue, expected.amounts)
            used.charge(expected.queue, expected.amounts)


def searched(forest: Forest, used: Ledger, shares: Shares, waiting: list[Job]) -> Job:
    """Whose turn it is, by looking at all."""
    ways = {job.queue: forest.path(job.queue) for job in waiting}

    def standing(name: str) -> tuple[bool, int, float, str]:
        fair, has = shares.of[name].get(GPU, 0), used.of(name).get(GPU, 0)
        whole = fair or shares.capacity[GPU]
        share = has / whole if whole else 0.0
        return not fair or share >= 1, -forest.queues[name].priority, share, name

    names = forest.roots
    while True:
        present = [name for name in names if any(name in way for way in ways.values())]
        chosen = min(present, key=standing)
        names = forest.queues[chosen].children
        if not names:
            line = [job for job in waiting if job.queue == chosen]
            return min(line, key=lambda job: (-job.priority, job.created, job.name))
