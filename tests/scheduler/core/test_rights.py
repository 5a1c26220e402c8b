"""Who may take room from whom, as tables; and reclaim comes to an end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    kept_from_preemption,
    kept_from_reclaim,
    may_reclaim,
)
from tests.scheduler.core.queue_cases import (
    GPU,
    RESOURCES,
    leaves,
    ledger,
    sound_specs,
    two_departments,
)

NOW = 1000.0


def claimant(queue: str, gpus: int = 2, **others: int) -> Claimant:
    return Claimant(queue, {GPU: gpus, **others})


def holder(queue: str, gpus: int = 2, **others: int) -> Holder:
    return Holder(queue, {GPU: gpus, **others}, started=0.0)


RECLAIMED: dict[str, tuple[dict[str, int], Claimant, Holder, str | None]] = {
    "a queue gets back what it deserves": (
        {"chat": 2, "search": 6},
        claimant("chat"),
        holder("search"),
        None,
    ),
    "not more than it deserves": (
        {"chat": 3, "search": 6},
        claimant("chat"),
        holder("search"),
        "AboveDeserved",
    ),
    "not from one that would have less than it deserves": (
        {"chat": 0, "search": 5},
        claimant("chat"),
        holder("search"),
        "WithinDeserved",
    ),
    "not from its own queue": ({"chat": 2}, claimant("chat"), holder("chat"), "SameQueue"),
    "from another department that borrows": (
        {"chat": 2, "physics": 10},
        claimant("chat"),
        holder("physics"),
        None,
    ),
    "not from a department that does not borrow": (
        {"chat": 0, "physics": 8},
        claimant("chat"),
        holder("physics"),
        "WithinDeserved",
    ),
    "not for a department that has what it deserves": (
        {"chat": 0, "search": 7, "physics": 12},
        claimant("chat"),
        holder("physics"),
        "AboveDeserved",
    ),
    "within a department whatever the department deserves": (
        {"chat": 0, "search": 8},
        claimant("chat"),
        holder("search"),
        None,
    ),
    "from a queue that is gone": (
        {"chat": 0, "gone": 2},
        claimant("chat"),
        holder("gone"),
        None,
    ),
    "from the default queue, which deserves nothing": (
        {"default": 2},
        claimant("chat"),
        holder("default"),
        None,
    ),
    "nothing by a queue that deserves nothing": (
        {"search": 8},
        claimant("default"),
        holder("search"),
        "AboveDeserved",
    ),
    "nothing by a queue that is gone": (
        {"search": 8},
        claimant("gone"),
        holder("search"),
        "AboveDeserved",
    ),
    "not by what it does not deserve": (
        {"search": 8},
        Claimant("chat", {"cpu": 1}),
        holder("search", cpu=4),
        "AboveDeserved",
    ),
    "not what is of no use": (
        {"search": 8},
        claimant("chat"),
        Holder("search", {"cpu": 1}, started=0.0),
        "WithinDeserved",
    ),
    "not from one that must not be stopped": (
        {"search": 8},
        claimant("chat"),
        replace(holder("search"), preemptible=False),
        "NotPreemptible",
    ),
}


@pytest.mark.parametrize(("gpus", "wants", "has", "kept"), RECLAIMED.values(), ids=RECLAIMED)
def test_reclaim(gpus: dict[str, int], wants: Claimant, has: Holder, kept: str | None) -> None:
    used = ledger(two_departments(), **gpus)
    if "cpu" in has.amounts:
        used.charge(has.queue, {"cpu": 100})
    assert kept_from_reclaim(used, wants, has, NOW) == kept


def of_gpus_and_cpus(**queues: tuple[dict[str, int], dict[str, int]]) -> Ledger:
    """Queues by what they deserve, and what they use."""
    forest = forest_of(
        [QueueSpec(name, deserved=deserved) for name, (deserved, _) in queues.items()]
    )
    used = Ledger(forest)
    for name, (_, amounts) in queues.items():
        used.charge(name, amounts)
    return used


def test_who_borrows_gpus_cannot_keep_them_for_having_few_cpus() -> None:
    both = {GPU: 4, "cpu": 100}
    used = of_gpus_and_cpus(a=(both, {}), b=(both, {GPU: 8, "cpu": 20}))
    assert kept_from_reclaim(used, claimant("a", cpu=5), holder("b", cpu=5), NOW) is None


def test_queues_that_deserve_different_things_do_not_take_them_in_turns() -> None:
    used = of_gpus_and_cpus(a=({GPU: 4}, {}), b=({"cpu": 10}, {GPU: 4, "cpu": 10}))
    wants, has = claimant("a", cpu=5), holder("b", cpu=5)
    assert kept_from_reclaim(used, wants, has, NOW) == "WithinDeserved"
    used.charge("b", {"cpu": 5})
    assert kept_from_reclaim(used, wants, has, NOW) is None


def test_who_deserves_only_cpus_takes_no_gpus_that_another_deserves() -> None:
    used = of_gpus_and_cpus(a=({"cpu": 8}, {}), b=({GPU: 4, "cpu": 1}, {GPU: 4, "cpu": 4}))
    wants, has = claimant("a", gpus=2, cpu=2), holder("b", gpus=2, cpu=2)
    assert kept_from_reclaim(used, wants, has, NOW) == "WithinDeserved"
    used.charge("b", {GPU: 2})
    assert kept_from_reclaim(used, wants, has, NOW) is None


def test_who_deserves_only_cpus_takes_gpus_of_one_that_deserves_none() -> None:
    used = of_gpus_and_cpus(a=({"cpu": 8}, {}), b=({"cpu": 1}, {GPU: 4, "cpu": 4}))
    wants, has = claimant("a", gpus=2, cpu=2), holder("b", gpus=2, cpu=2)
    assert kept_from_reclaim(used, wants, has, NOW) is None


PREEMPTED: dict[str, tuple[str, int, bool, str | None]] = {
    "by a more important gang of the queue": ("chat", 1, True, None),
    "not by an equal": ("chat", 0, True, "NotMoreImportant"),
    "not by a gang of another queue": ("search", 9, True, "OtherQueue"),
    "not one that must not be stopped": ("chat", 9, False, "NotPreemptible"),
}


@pytest.mark.parametrize(
    ("queue", "priority", "preemptible", "kept"), PREEMPTED.values(), ids=PREEMPTED
)
def test_preemption(queue: str, priority: int, preemptible: bool, kept: str | None) -> None:
    used = ledger(two_departments(), chat=4)
    wants = Claimant(queue, {GPU: 2}, priority)
    has = replace(holder("chat"), preemptible=preemptible)
    assert kept_from_preemption(used, wants, has, NOW) == kept


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
def test_a_gang_is_safe_while_it_is_young(age: float, reclaimed: bool, preempted: bool) -> None:
    forest = forest_of(
        [
            QueueSpec("top", preempt_min_runtime=120, reclaim_min_runtime=60),
            QueueSpec("a", parent="top"),
            QueueSpec("b", deserved={GPU: 4}),
        ]
    )
    used = ledger(forest, a=4)
    has = Holder("a", {GPU: 4}, started=NOW - age)
    kept = kept_from_reclaim(used, claimant("b"), has, NOW)
    assert kept == (None if reclaimed else "TooYoung")
    kept = kept_from_preemption(used, Claimant("a", {GPU: 4}, 5), has, NOW)
    assert kept == (None if preempted else "TooYoung")


def gangs_of(most: int) -> st.SearchStrategy[list[tuple[int, dict[str, int], bool]]]:
    """Which queue they are in, what they ask for, whether they have a place."""
    asked = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, most), min_size=1)
    return st.lists(st.tuples(st.integers(0, 20), asked, st.booleans()), max_size=12)


def rivals() -> st.SearchStrategy[list[QueueSpec]]:
    """Queues beside each other that deserve some of this or of that."""
    deserved = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 4), min_size=1)
    return st.lists(deserved, min_size=2, max_size=3).map(
        lambda listed: [QueueSpec(f"q{at}", deserved=each) for at, each in enumerate(listed)]
    )


@given(st.one_of(sound_specs(), rivals()), gangs_of(most=3), st.data())
def test_reclaim_alone_comes_to_an_end_and_harms_nobody(
    specs: list[QueueSpec],
    drawn: list[tuple[int, dict[str, int], bool]],
    data: st.DataObject,
) -> None:
    forest = forest_of(specs)
    names = leaves(forest)
    used = Ledger(forest)
    gangs = [(names[index % len(names)], amounts) for index, amounts, _ in drawn]
    placed = {number for number, (_, _, has_place) in enumerate(drawn) if has_place}
    for number in placed:
        used.charge(*gangs[number])
    came: set[int] = set()
    while True:
        rights = [
            (new, old)
            for new in sorted(set(range(len(gangs))) - placed)
            if may_reclaim(used, Claimant(*gangs[new]))
            for old in sorted(placed)
            if not kept_from_reclaim(used, Claimant(*gangs[new]), Holder(*gangs[old], 0.0), NOW)
        ]
        if not rights:
            return
        new, old = data.draw(st.sampled_from(rights))
        assert old not in came
        used.discharge(*gangs[old])
        used.charge(*gangs[new])
        placed = placed - {old} | {new}
        came.add(new)
        queue, amounts = gangs[new]
        deserved = forest.queues[queue].deserved
        row = used.of(queue)
        assert all(row[each] <= deserved[each] for each in amounts if each in deserved)
