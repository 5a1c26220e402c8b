"""A charge counts in the queue and its ancestors, and limits are checked."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger, LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueSpec
from tests.scheduler.core.support.queue_cases import (
    GPU,
    any_specs,
    ledger,
    sound_specs,
    two_departments,
)


def test_charge_counts_in_all_ancestors() -> None:
    used = ledger(two_departments(), physics=3, biology=2, chat=1)
    assert {name: used.amounts_of(name).get(GPU) for name in ("physics", "biology", "science")} == {
        "physics": 3,
        "biology": 2,
        "science": 5,
    }
    assert used.amounts_of("products") == {GPU: 1}
    assert used.amounts_of("search") == {}


def test_first_exceeded_limit_of_path_is_returned() -> None:
    used = ledger(two_departments(), physics=8, biology=3)
    assert used.first_exceeded_limit("physics", {GPU: 1}) is None
    assert used.first_exceeded_limit("physics", {GPU: 3}) == LimitExceeded("physics", GPU, 10, 8, 3)
    assert used.first_exceeded_limit("biology", {GPU: 2}) == LimitExceeded(
        "science", GPU, 12, 11, 2
    )
    assert str(used.first_exceeded_limit("biology", {GPU: 2})) == (
        f'queue "science" may use 12 {GPU}: 11 are in use, 2 more are requested'
    )


def test_excess_over_limit() -> None:
    used = ledger(two_departments(), physics=8, biology=3)
    assert [each.excess for each in used.exceeded_limits("physics", {GPU: 6})] == [4, 5]


@pytest.mark.parametrize("asked", [{}, {"cpu": 10**18}, {GPU: 0}])
def test_unlimited_and_unrequested_resources_are_not_exceeded(asked: dict[str, int]) -> None:
    used = ledger(two_departments(), physics=10)
    assert used.first_exceeded_limit("physics", asked) is None


def test_zero_limit_admits_no_gang() -> None:
    used = Ledger(build_queue_forest([QueueSpec("a", limit={GPU: 0})]))
    assert used.first_exceeded_limit("a", {GPU: 1}) == LimitExceeded("a", GPU, 0, 0, 1)


def test_gangs_of_deleted_queue_still_count() -> None:
    used = ledger(two_departments(), gone=2)
    assert used.amounts_of("gone") == {GPU: 2}
    assert used.first_exceeded_limit("gone", {GPU: 1}) is None
    used.discharge("gone", {GPU: 2})
    assert used.amounts_of("gone") == {}


def test_uncharged_amounts_cannot_be_discharged() -> None:
    used = ledger(two_departments(), physics=3, biology=2)
    with pytest.raises(ValueError, match=f'4 {GPU} were never charged to queue "physics"'):
        used.discharge("physics", {GPU: 4})
    assert used.amounts_of("science") == {GPU: 5}


CHARGES = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.dictionaries(st.sampled_from(["cpu", GPU, "memory"]), st.integers(0, 9)),
    ),
    max_size=12,
)


@given(any_specs() | sound_specs(), CHARGES, CHARGES, st.randoms())
def test_discharge_restores_amounts(
    specs: list[QueueSpec],
    kept: list[tuple[int, dict[str, int]]],
    passing: list[tuple[int, dict[str, int]]],
    random: Random,
) -> None:
    forest = build_queue_forest(specs)
    names = [*forest.queues, "gone"]
    used, expected = Ledger(forest), Ledger(forest)
    both = [*kept, *passing]
    random.shuffle(both)
    for index, amounts in both:
        used.charge(names[index % len(names)], amounts)
    for index, amounts in passing:
        used.discharge(names[index % len(names)], amounts)
    for index, amounts in kept:
        expected.charge(names[index % len(names)], amounts)
    assert {name: used.amounts_of(name) for name in names} == {
        name: expected.amounts_of(name) for name in names
    }
