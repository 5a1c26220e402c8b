"""The order of pending gangs: by fair share, priority and usage, deterministic."""

import tracemalloc
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.fair_shares import FairShares, compute_fair_shares
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueForest, QueueSpec
from kilonova.scheduler.core.queueing.scheduling_queue import SchedulingQueue
from tests.scheduler.core.support.queue_cases import GPU, Job, leaves, sound_specs


def build_scheduling_queue(
    forest: QueueForest,
    jobs: Sequence[Job],
    capacity: int = 8,
    used: Ledger | None = None,
    past: dict[str, float] | None = None,
) -> SchedulingQueue[Job]:
    used = used or Ledger(forest)
    requested = Ledger(forest)
    for name in leaves(forest):
        requested.charge(name, used.amounts_of(name))
    for job in jobs:
        requested.charge(job.queue, job.amounts)
    queue = SchedulingQueue[Job](used, compute_fair_shares({GPU: capacity}, requested), past)
    for job in jobs:
        assert queue.add(job) is None
    return queue


def drain(queue: SchedulingQueue[Job]) -> str:
    """Names of gangs in scheduling order, each being placed."""
    names: list[str] = []
    for job in queue:
        queue.charge(job.queue, job.amounts)
        names.append(job.name)
    return " ".join(names)


def jobs(queue: str, count: int, **fields: int) -> list[Job]:
    return [Job(f"{queue}{index}", queue, created=index, **fields) for index in range(count)]


def test_within_a_queue_by_priority_then_age_then_name() -> None:
    pending = [
        Job("young", created=5),
        Job("b", created=3),
        Job("a", created=3),
        Job("important", priority=9, created=7),
    ]
    assert drain(build_scheduling_queue(build_queue_forest([]), pending)) == "important a b young"


def test_queues_alternate() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    queue = build_scheduling_queue(forest, [*jobs("a", 3), *jobs("b", 3)], capacity=6)
    assert drain(queue) == "a0 b0 a1 b1 a2 b2"


def test_higher_weight_is_scheduled_more_often() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b", weight=2)])
    queue = build_scheduling_queue(forest, [*jobs("a", 6), *jobs("b", 6)], capacity=6)
    assert drain(queue).split()[:6] == ["a0", "b0", "b1", "a1", "b2", "b3"]


def test_large_gangs_use_up_fair_share_sooner() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    queue = build_scheduling_queue(forest, [*jobs("a", 2, gpus=3), *jobs("b", 4)], capacity=8)
    assert drain(queue) == "a0 b0 b1 b2 a1 b3"


def test_priority_does_not_override_deserved_share_of_others() -> None:
    forest = build_queue_forest([QueueSpec("a", deserved={GPU: 2}), QueueSpec("high", priority=1)])
    queue = build_scheduling_queue(forest, [*jobs("a", 3), *jobs("high", 4)], capacity=4)
    assert drain(queue) == "high0 high1 a0 a1 high2 high3 a2"


def test_queue_with_zero_share_comes_last() -> None:
    forest = build_queue_forest(
        [QueueSpec("a", weight=0), QueueSpec("b"), QueueSpec("c", weight=0)]
    )
    queue = build_scheduling_queue(
        forest, [*jobs("a", 2), *jobs("b", 4), *jobs("c", 2)], capacity=3
    )
    assert drain(queue) == "b0 b1 b2 a0 c0 a1 c1 b3"


def test_child_queue_is_chosen_within_its_parent() -> None:
    forest = build_queue_forest(
        [
            QueueSpec("x"),
            QueueSpec("xa", parent="x"),
            QueueSpec("xb", parent="x"),
            QueueSpec("y"),
        ]
    )
    queue = build_scheduling_queue(forest, [*jobs("xa", 2), *jobs("xb", 2), *jobs("y", 4)])
    assert drain(queue) == "xa0 y0 xb0 y1 xa1 y2 xb1 y3"


def test_past_usage_lowers_rank() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    pending = [*jobs("a", 4), *jobs("b", 4)]
    assert (
        drain(build_scheduling_queue(forest, pending, past={"a": 0.5})) == "b0 b1 a0 b2 a1 b3 a2 a3"
    )


def test_discharged_amounts_no_longer_count() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    used = Ledger(forest)
    used.charge("a", {GPU: 3})
    queue = build_scheduling_queue(forest, [*jobs("a", 1), *jobs("b", 1)], used=used)
    queue.discharge("a", {GPU: 3})
    assert drain(queue) == "a0 b0"


def test_new_fair_shares_change_the_order() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    used = Ledger(forest)
    for queue in ("a", "b"):
        used.charge(queue, {GPU: 2})
    scheduling_queue = build_scheduling_queue(forest, [*jobs("a", 1), *jobs("b", 1)], used=used)
    scheduling_queue.set_fair_shares(FairShares({GPU: 8}, {"a": {GPU: 3}, "b": {GPU: 5}}))
    assert drain(scheduling_queue) == "b0 a0"


def test_removed_gang_is_not_popped() -> None:
    queue = build_scheduling_queue(build_queue_forest([]), [Job("a"), Job("b"), Job("c")])
    queue.remove("b")
    queue.remove("b")
    queue.remove("nobody")
    assert len(queue) == 2
    assert drain(queue) == "a c"
    assert queue.pop() is None


def test_gang_added_twice_is_popped_once() -> None:
    queue = build_scheduling_queue(
        build_queue_forest([]), [Job("a", created=1), Job("b", created=2)]
    )
    queue.add(Job("a", created=3))
    assert len(queue) == 2
    assert drain(queue) == "b a"


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ("nowhere", "QueueNotFound"),
        ("parent", "QueueHasChildren"),
        ("orphan", "QueueParentNotFound"),
    ],
)
def test_queue_that_admits_no_gangs_returns_problem(queue: str, reason: str) -> None:
    forest = build_queue_forest(
        [
            QueueSpec("parent"),
            QueueSpec("child", parent="parent"),
            QueueSpec("orphan", parent="gone"),
        ]
    )
    scheduling_queue = SchedulingQueue[Job](Ledger(forest), FairShares({}, {}))
    problem = scheduling_queue.add(Job("a", queue))
    assert problem is not None
    assert problem.reason == reason
    assert len(scheduling_queue) == 0


def test_stale_entries_are_bounded() -> None:
    forest = build_queue_forest([QueueSpec("a"), QueueSpec("b")])
    queue = build_scheduling_queue(forest, [*jobs("a", 1), *jobs("b", 1)])

    def use(rounds: int) -> int:
        for created in range(rounds):
            queue.charge("a", {GPU: 1})
            queue.discharge("a", {GPU: 1})
            queue.add(Job("passing", "a", priority=-1, created=created))
            queue.remove("passing")
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = use(200)
        assert use(2000) - before < 20_000
    finally:
        tracemalloc.stop()
    assert drain(queue) == "a0 b0"


PENDING = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 2), st.integers(0, 3), st.integers(1, 4)),
    max_size=15,
)


def pending_jobs(forest: QueueForest, drawn: list[tuple[int, int, int, int]]) -> list[Job]:
    names = leaves(forest)
    return [
        Job(f"g{index:02}", names[queue % len(names)], priority, created, gpus)
        for index, (queue, priority, created, gpus) in enumerate(drawn)
    ]


@given(sound_specs(), PENDING, st.integers(0, 30), st.randoms())
def test_order_is_independent_of_insertion(
    specs: list[QueueSpec],
    drawn: list[tuple[int, int, int, int]],
    capacity: int,
    random: Random,
) -> None:
    pending = pending_jobs(build_queue_forest(specs), drawn)
    expected = drain(build_scheduling_queue(build_queue_forest(specs), pending, capacity))
    random.shuffle(specs)
    random.shuffle(pending)
    assert drain(build_scheduling_queue(build_queue_forest(specs), pending, capacity)) == expected
    assert sorted(expected.split()) == sorted(job.name for job in pending)


@given(sound_specs(), PENDING, st.integers(0, 30), st.lists(st.booleans(), max_size=15))
def test_heaps_agree_with_linear_search(
    specs: list[QueueSpec],
    drawn: list[tuple[int, int, int, int]],
    capacity: int,
    fits: list[bool],
) -> None:
    forest = build_queue_forest(specs)
    pending = pending_jobs(forest, drawn)
    queue = build_scheduling_queue(forest, pending, capacity)
    requested = Ledger(forest)
    for job in pending:
        requested.charge(job.queue, job.amounts)
    shares = compute_fair_shares({GPU: capacity}, requested)
    used = Ledger(forest)
    for has_capacity in [*fits, *(True for _ in pending[len(fits) :])][: len(pending)]:
        expected = search_next(forest, used, shares, pending)
        assert queue.pop() == expected
        pending.remove(expected)
        if has_capacity:
            queue.charge(expected.queue, expected.amounts)
            used.charge(expected.queue, expected.amounts)


def search_next(forest: QueueForest, used: Ledger, shares: FairShares, pending: list[Job]) -> Job:
    """The next gang, by a linear search."""
    ways = {job.queue: forest.path(job.queue) for job in pending}

    def standing(name: str) -> tuple[bool, int, float, str]:
        fair, has = shares.by_queue[name].get(GPU, 0), used.amounts_of(name).get(GPU, 0)
        whole = fair or shares.capacity[GPU]
        share = has / whole if whole else 0.0
        return not fair or share >= 1, -forest.queues[name].priority, share, name

    names = forest.roots
    while True:
        present = [name for name in names if any(name in way for way in ways.values())]
        chosen = min(present, key=standing)
        names = forest.queues[chosen].children
        if not names:
            line = [job for job in pending if job.queue == chosen]
            return min(line, key=lambda job: (-job.priority, job.created, job.name))
