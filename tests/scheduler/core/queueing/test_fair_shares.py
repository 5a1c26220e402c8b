"""Fair shares: deserved amounts first, the rest by priority and weight, nothing left over."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.fair_shares import (
    compute_fair_shares,
    divide_by_weight,
    dominant_share,
)
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueForest, QueueSpec
from tests.scheduler.core.support.queue_cases import (
    GPU,
    RESOURCES,
    leaves,
    ledger,
    sound_specs,
    two_departments,
)


def gpus(capacity: int, requested: Ledger) -> dict[str, int]:
    """The fair share of GPUs of every queue that requests some."""
    shares = compute_fair_shares({GPU: capacity}, requested)
    return {name: row[GPU] for name, row in shares.by_queue.items() if GPU in row}


@pytest.mark.parametrize(
    ("available", "needs", "weights", "given"),
    [
        (10, [10, 10], [1, 1], [5, 5]),
        (8, [10, 10], [1, 3], [2, 6]),
        (10, [2, 10, 10], [1, 1, 1], [2, 4, 4]),
        (10, [2, 3], [1, 9], [2, 3]),
        (10, [10, 10, 10], [1, 1, 1], [4, 3, 3]),
        (10, [10, 10], [0, 1], [0, 10]),
        (10, [0, 4], [5, 1], [0, 4]),
        (0, [3], [1], [0]),
        (10**18, [10**18, 10**18], [2, 1], [666666666666666667, 333333333333333333]),
        (5, [], [], []),
        (150, [200, *[9] * 60], [100, *[1] * 60], [100, *[1] * 50, *[0] * 10]),
        (150, [95, *[9] * 60], [100, *[1] * 60], [95, *[1] * 55, *[0] * 5]),
    ],
)
def test_divide_by_weight(
    available: int, needs: list[int], weights: list[int], given: list[int]
) -> None:
    assert divide_by_weight(available, needs, weights) == given


CASES = {
    "deserved amounts first": (
        [QueueSpec("a", deserved={GPU: 6}), QueueSpec("b", weight=9)],
        {"a": 9, "b": 9},
        {"a": 6, "b": 2},
    ),
    "the rest by weight": (
        [QueueSpec("a", deserved={GPU: 2}), QueueSpec("b", weight=2)],
        {"a": 9, "b": 9},
        {"a": 4, "b": 4},
    ),
    "the rest by priority before weight": (
        [QueueSpec("a", priority=1), QueueSpec("b", deserved={GPU: 3}, weight=5)],
        {"a": 4, "b": 9},
        {"a": 4, "b": 4},
    ),
    "weight 0 gets the remainder": (
        [QueueSpec("a"), QueueSpec("b", weight=0, priority=5), QueueSpec("c", weight=0)],
        {"a": 4, "b": 9, "c": 9},
        {"a": 4, "b": 2, "c": 2},
    ),
    "never above the limit": (
        [QueueSpec("a", limit={GPU: 1}), QueueSpec("b")],
        {"a": 9, "b": 9},
        {"a": 1, "b": 7},
    ),
    "deserved but not requested amounts are lent": (
        [QueueSpec("a", deserved={GPU: 8}), QueueSpec("b")],
        {"a": 1, "b": 9},
        {"a": 1, "b": 7},
    ),
    "deserved beyond capacity: in proportion": (
        [QueueSpec("a", deserved={GPU: 12}), QueueSpec("b", deserved={GPU: 4})],
        {"a": 20, "b": 20},
        {"a": 6, "b": 2},
    ),
    "children share the parent's amount": (
        [
            QueueSpec("p", limit={GPU: 6}),
            QueueSpec("a", parent="p", weight=2),
            QueueSpec("b", parent="p"),
            QueueSpec("c"),
        ],
        {"a": 9, "b": 9, "c": 1},
        {"p": 6, "a": 4, "b": 2, "c": 1},
    ),
    "gangs placed before the queue had children keep their share": (
        [QueueSpec("p"), QueueSpec("a", parent="p")],
        {"p": 3, "a": 9},
        {"p": 8, "a": 5},
    ),
    "blocked queue has no share": (
        [QueueSpec("a", parent="nowhere"), QueueSpec("b")],
        {"a": 4, "b": 9},
        {"b": 8},
    ),
}


@pytest.mark.parametrize(("specs", "requested", "expected"), CASES.values(), ids=CASES)
def test_shares_of_eight(
    specs: list[QueueSpec], requested: dict[str, int], expected: dict[str, int]
) -> None:
    assert gpus(8, ledger(build_queue_forest(specs), **requested)) == expected


def test_requesting_queue_without_share_has_zero_entry() -> None:
    specs = [QueueSpec("a", deserved={GPU: 8}), QueueSpec("b", deserved={"cpu": 2})]
    requested = ledger(build_queue_forest(specs), a=9, b=1)
    requested.charge("b", {"cpu": 4})
    assert compute_fair_shares({GPU: 8, "cpu": 3}, requested).by_queue["b"] == {GPU: 0, "cpu": 3}


def test_dominant_share_ignores_absent_resources() -> None:
    whole = {GPU: 8, "cpu": 64, "memory": 0}
    assert dominant_share({GPU: 2, "cpu": 32, "memory": 5}, whole) == ("cpu", 0.5)
    assert dominant_share({GPU: 4, "cpu": 32}, whole) == ("cpu", 0.5)
    assert dominant_share({}, {}) == ("", 0.0)


REQUESTS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(RESOURCES), st.integers(1, 15)), max_size=10
)
CAPACITY = st.fixed_dictionaries({name: st.integers(0, 40) for name in RESOURCES})


def requested_by(forest: QueueForest, requests: list[tuple[int, str, int]]) -> Ledger:
    names = leaves(forest)
    result = Ledger(forest)
    for index, resource, amount in requests:
        result.charge(names[index % len(names)], {resource: amount})
    return result


def limited_request(requested: Ledger, name: str, resource: str) -> int:
    """What a queue can use: its requests within the limits below it and its own."""
    queue = requested.forest.queues[name]
    below = sum(limited_request(requested, child, resource) for child in queue.children)
    total = below if queue.children else requested.amounts_of(name).get(resource, 0)
    return min(total, queue.limit.get(resource, total))


@given(sound_specs(), REQUESTS, CAPACITY)
def test_capacity_is_fully_shared_and_not_exceeded(
    specs: list[QueueSpec], requests: list[tuple[int, str, int]], capacity: dict[str, int]
) -> None:
    forest = build_queue_forest(specs)
    requested = requested_by(forest, requests)
    shares = compute_fair_shares(capacity, requested)
    for resource in RESOURCES:
        wants = {name: limited_request(requested, name, resource) for name in forest.queues}
        given = {name: shares.by_queue[name].get(resource, 0) for name in forest.queues}
        assert all(given[name] <= wants[name] for name in forest.queues)
        siblings = [(capacity[resource], forest.roots)]
        siblings += [(given[name], each.children) for name, each in forest.queues.items()]
        for available, names in siblings:
            if names:
                total = sum(wants[name] for name in names)
                assert sum(given[name] for name in names) == min(available, total)


@given(sound_specs(most=4), REQUESTS, CAPACITY)
def test_deserved_amounts_are_granted_where_possible(
    specs: list[QueueSpec], requests: list[tuple[int, str, int]], capacity: dict[str, int]
) -> None:
    forest = build_queue_forest(specs)
    assume(all(each.reason != "DeservedAboveParent" for each in forest.problems))
    requested = requested_by(forest, requests)
    shares = compute_fair_shares(capacity, requested)
    for resource in RESOURCES:
        promised = sum(forest.queues[name].deserved.get(resource, 0) for name in forest.roots)
        if promised <= capacity[resource]:
            for name, queue in forest.queues.items():
                least = min(
                    queue.deserved.get(resource, 0), limited_request(requested, name, resource)
                )
                assert shares.by_queue[name].get(resource, 0) >= least


@given(sound_specs(), REQUESTS, CAPACITY, st.integers(0, 20), st.integers(1, 9))
def test_more_weight_never_gets_less(
    specs: list[QueueSpec],
    requests: list[tuple[int, str, int]],
    capacity: dict[str, int],
    index: int,
    more: int,
) -> None:
    chosen = specs[index % len(specs)]
    heavier = [
        replace(each, weight=each.weight + more) if each is chosen else each for each in specs
    ]
    before, after = (
        compute_fair_shares(capacity, requested_by(build_queue_forest(each), requests)).by_queue[
            chosen.name
        ]
        for each in (specs, heavier)
    )
    assert all(after[resource] >= amount for resource, amount in before.items())


def test_parent_share_is_divided_among_children() -> None:
    requested = ledger(two_departments(), physics=20, biology=1, chat=20)
    assert gpus(24, requested) == {
        "science": 11,
        "physics": 10,
        "biology": 1,
        "products": 13,
        "chat": 13,
    }
