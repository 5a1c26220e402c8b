"""The rules of preemption and reclaim, as tables; and reclaim terminates."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    can_reclaim,
    find_preemption_protection,
    find_reclaim_protection,
)
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueSpec
from tests.scheduler.core.support.queue_cases import (
    GPU,
    RESOURCES,
    leaves,
    ledger,
    sound_specs,
    two_departments,
)

NOW = 1000.0


def build_preemptor(queue: str, gpus: int = 2, **others: int) -> Preemptor:
    return Preemptor(queue, {GPU: gpus, **others})


def build_victim(queue: str, gpus: int = 2, **others: int) -> PotentialVictim:
    return PotentialVictim(queue, {GPU: gpus, **others}, started=0.0)


RECLAIMED: dict[str, tuple[dict[str, int], Preemptor, PotentialVictim, str | None]] = {
    "queue reclaims what it deserves": (
        {"chat": 2, "search": 6},
        build_preemptor("chat"),
        build_victim("search"),
        None,
    ),
    "not more than deserved": (
        {"chat": 3, "search": 6},
        build_preemptor("chat"),
        build_victim("search"),
        "AboveDeserved",
    ),
    "not from a queue within its deserved amounts": (
        {"chat": 0, "search": 5},
        build_preemptor("chat"),
        build_victim("search"),
        "WithinDeserved",
    ),
    "not from its own queue": (
        {"chat": 2},
        build_preemptor("chat"),
        build_victim("chat"),
        "SameQueue",
    ),
    "from a borrowing department": (
        {"chat": 2, "physics": 10},
        build_preemptor("chat"),
        build_victim("physics"),
        None,
    ),
    "not from a department within its deserved amounts": (
        {"chat": 0, "physics": 8},
        build_preemptor("chat"),
        build_victim("physics"),
        "WithinDeserved",
    ),
    "not for a department at its deserved amounts": (
        {"chat": 0, "search": 7, "physics": 12},
        build_preemptor("chat"),
        build_victim("physics"),
        "AboveDeserved",
    ),
    "within a department regardless of its deserved amounts": (
        {"chat": 0, "search": 8},
        build_preemptor("chat"),
        build_victim("search"),
        None,
    ),
    "from a deleted queue": (
        {"chat": 0, "gone": 2},
        build_preemptor("chat"),
        build_victim("gone"),
        None,
    ),
    "from the default queue, which deserves nothing": (
        {"default": 2},
        build_preemptor("chat"),
        build_victim("default"),
        None,
    ),
    "not by a queue without deserved amounts": (
        {"search": 8},
        build_preemptor("default"),
        build_victim("search"),
        "AboveDeserved",
    ),
    "not by a deleted queue": (
        {"search": 8},
        build_preemptor("gone"),
        build_victim("search"),
        "AboveDeserved",
    ),
    "not a resource that is not deserved": (
        {"search": 8},
        Preemptor("chat", {"cpu": 1}),
        build_victim("search", cpu=4),
        "AboveDeserved",
    ),
    "not a resource that is not requested": (
        {"search": 8},
        build_preemptor("chat"),
        PotentialVictim("search", {"cpu": 1}, started=0.0),
        "WithinDeserved",
    ),
    "not from a non-preemptible gang": (
        {"search": 8},
        build_preemptor("chat"),
        replace(build_victim("search"), preemptible=False),
        "NotPreemptible",
    ),
}


@pytest.mark.parametrize(("gpus", "wants", "has", "kept"), RECLAIMED.values(), ids=RECLAIMED)
def test_reclaim(
    gpus: dict[str, int], wants: Preemptor, has: PotentialVictim, kept: str | None
) -> None:
    used = ledger(two_departments(), **gpus)
    if "cpu" in has.amounts:
        used.charge(has.queue, {"cpu": 100})
    assert find_reclaim_protection(used, wants, has, NOW) == kept


def ledger_of_gpus_and_cpus(**queues: tuple[dict[str, int], dict[str, int]]) -> Ledger:
    """Queues by their deserved amounts and their usage."""
    forest = build_queue_forest(
        [QueueSpec(name, deserved=deserved) for name, (deserved, _) in queues.items()]
    )
    used = Ledger(forest)
    for name, (_, amounts) in queues.items():
        used.charge(name, amounts)
    return used


def test_borrowed_gpus_are_reclaimable_despite_few_cpus() -> None:
    both = {GPU: 4, "cpu": 100}
    used = ledger_of_gpus_and_cpus(a=(both, {}), b=(both, {GPU: 8, "cpu": 20}))
    assert (
        find_reclaim_protection(used, build_preemptor("a", cpu=5), build_victim("b", cpu=5), NOW)
        is None
    )


def test_queues_with_different_deserved_resources_do_not_reclaim_in_cycles() -> None:
    used = ledger_of_gpus_and_cpus(a=({GPU: 4}, {}), b=({"cpu": 10}, {GPU: 4, "cpu": 10}))
    wants, has = build_preemptor("a", cpu=5), build_victim("b", cpu=5)
    assert find_reclaim_protection(used, wants, has, NOW) == "WithinDeserved"
    used.charge("b", {"cpu": 5})
    assert find_reclaim_protection(used, wants, has, NOW) is None


def test_queue_deserving_only_cpus_does_not_reclaim_deserved_gpus() -> None:
    used = ledger_of_gpus_and_cpus(a=({"cpu": 8}, {}), b=({GPU: 4, "cpu": 1}, {GPU: 4, "cpu": 4}))
    wants, has = build_preemptor("a", gpus=2, cpu=2), build_victim("b", gpus=2, cpu=2)
    assert find_reclaim_protection(used, wants, has, NOW) == "WithinDeserved"
    used.charge("b", {GPU: 2})
    assert find_reclaim_protection(used, wants, has, NOW) is None


def test_queue_deserving_only_cpus_reclaims_gpus_no_queue_deserves() -> None:
    used = ledger_of_gpus_and_cpus(a=({"cpu": 8}, {}), b=({"cpu": 1}, {GPU: 4, "cpu": 4}))
    wants, has = build_preemptor("a", gpus=2, cpu=2), build_victim("b", gpus=2, cpu=2)
    assert find_reclaim_protection(used, wants, has, NOW) is None


PREEMPTED: dict[str, tuple[str, int, bool, str | None]] = {
    "by higher priority in the same queue": ("chat", 1, True, None),
    "not by equal priority": ("chat", 0, True, "PriorityNotHigher"),
    "not by another queue": ("search", 9, True, "OtherQueue"),
    "not a non-preemptible gang": ("chat", 9, False, "NotPreemptible"),
}


@pytest.mark.parametrize(
    ("queue", "priority", "preemptible", "kept"), PREEMPTED.values(), ids=PREEMPTED
)
def test_preemption(queue: str, priority: int, preemptible: bool, kept: str | None) -> None:
    used = ledger(two_departments(), chat=4)
    wants = Preemptor(queue, {GPU: 2}, priority)
    has = replace(build_victim("chat"), preemptible=preemptible)
    assert find_preemption_protection(used, wants, has, NOW) == kept


@pytest.mark.parametrize(
    ("age", "reclaimed", "preempted"),
    [
        (0, False, False),
        (59, False, False),
        (60, True, False),
        (119, True, False),
        (120, True, True),
    ],
)
def test_gang_is_protected_until_min_runtime(age: float, reclaimed: bool, preempted: bool) -> None:
    forest = build_queue_forest(
        [
            QueueSpec("top", preempt_min_runtime=120, reclaim_min_runtime=60),
            QueueSpec("a", parent="top"),
            QueueSpec("b", deserved={GPU: 4}),
        ]
    )
    used = ledger(forest, a=4)
    has = PotentialVictim("a", {GPU: 4}, started=NOW - age)
    kept = find_reclaim_protection(used, build_preemptor("b"), has, NOW)
    assert kept == (None if reclaimed else "MinRuntime")
    kept = find_preemption_protection(used, Preemptor("a", {GPU: 4}, 5), has, NOW)
    assert kept == (None if preempted else "MinRuntime")


def gangs_of(most: int) -> st.SearchStrategy[list[tuple[int, dict[str, int], bool]]]:
    """Gangs by queue, requests, and whether they run."""
    asked = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, most), min_size=1)
    return st.lists(st.tuples(st.integers(0, 20), asked, st.booleans()), max_size=12)


def competing_queue_specs() -> st.SearchStrategy[list[QueueSpec]]:
    """Sibling queues that deserve different resources."""
    deserved = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 4), min_size=1)
    return st.lists(deserved, min_size=2, max_size=3).map(
        lambda listed: [QueueSpec(f"q{at}", deserved=each) for at, each in enumerate(listed)]
    )


@given(st.one_of(sound_specs(), competing_queue_specs()), gangs_of(most=3), st.data())
def test_reclaim_terminates_and_keeps_deserved_shares(
    specs: list[QueueSpec],
    drawn: list[tuple[int, dict[str, int], bool]],
    data: st.DataObject,
) -> None:
    forest = build_queue_forest(specs)
    names = leaves(forest)
    used = Ledger(forest)
    gangs = [(names[index % len(names)], amounts) for index, amounts, _ in drawn]
    placed = {number for number, (_, _, has_place) in enumerate(drawn) if has_place}
    for number in placed:
        used.charge(*gangs[number])
    came: set[int] = set()
    while True:
        entitlement = [
            (new, old)
            for new in sorted(set(range(len(gangs))) - placed)
            if can_reclaim(used, Preemptor(*gangs[new]))
            for old in sorted(placed)
            if not find_reclaim_protection(
                used, Preemptor(*gangs[new]), PotentialVictim(*gangs[old], 0.0), NOW
            )
        ]
        if not entitlement:
            return
        new, old = data.draw(st.sampled_from(entitlement))
        assert old not in came
        used.discharge(*gangs[old])
        used.charge(*gangs[new])
        placed = placed - {old} | {new}
        came.add(new)
        queue, amounts = gangs[new]
        deserved = forest.queues[queue].deserved
        row = used.amounts_of(queue)
        assert all(row[each] <= deserved[each] for each in amounts if each in deserved)
