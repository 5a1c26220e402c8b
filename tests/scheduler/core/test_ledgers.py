"""What is charged to a queue counts in those above it, and their limits hold."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.ledgers import Blocked, Ledger
from kilonova.scheduler.core.queues import QueueSpec
from tests.scheduler.core.queue_cases import GPU, any_specs, ledger, sound_specs, two_departments


def test_a_charge_counts_all_the_way_up() -> None:
    used = ledger(two_departments(), physics=3, biology=2, chat=1)
    assert {name: used.of(name).get(GPU) for name in ("physics", "biology", "science")} == {
        "physics": 3,
        "biology": 2,
        "science": 5,
    }
    assert used.of("products") == {GPU: 1}
    assert used.of("search") == {}


def test_the_first_limit_on_the_way_up_is_named() -> None:
    used = ledger(two_departments(), physics=8, biology=3)
    assert used.blocked("physics", {GPU: 1}) is None
    assert used.blocked("physics", {GPU: 3}) == Blocked("physics", GPU, 10, 8, 3)
    assert used.blocked("biology", {GPU: 2}) == Blocked("science", GPU, 12, 11, 2)
    assert str(used.blocked("biology", {GPU: 2})) == (
        f'queue "science" may use 12 {GPU}: 11 are in use, 2 more are asked for'
    )


def test_a_limit_says_by_how_much_it_would_be_broken() -> None:
    used = ledger(two_departments(), physics=8, biology=3)
    assert [each.over for each in used.broken("physics", {GPU: 6})] == [4, 5]


@pytest.mark.parametrize("asked", [{}, {"cpu": 10**18}, {GPU: 0}])
def test_what_has_no_limit_and_what_is_not_asked_for_is_not_blocked(asked: dict[str, int]) -> None:
    used = ledger(two_departments(), physics=10)
    assert used.blocked("physics", asked) is None


def test_a_limit_of_nothing_keeps_everybody_out() -> None:
    used = Ledger(forest_of([QueueSpec("a", limit={GPU: 0})]))
    assert used.blocked("a", {GPU: 1}) == Blocked("a", GPU, 0, 0, 1)


def test_gangs_of_a_queue_that_is_gone_still_count_somewhere() -> None:
    used = ledger(two_departments(), gone=2)
    assert used.of("gone") == {GPU: 2}
    assert used.blocked("gone", {GPU: 1}) is None
    used.discharge("gone", {GPU: 2})
    assert used.of("gone") == {}


def test_what_was_never_charged_cannot_be_taken_back() -> None:
    used = ledger(two_departments(), physics=3, biology=2)
    with pytest.raises(ValueError, match=f'4 {GPU} were never charged to queue "physics"'):
        used.discharge("physics", {GPU: 4})
    assert used.of("science") == {GPU: 5}


CHARGES = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.dictionaries(st.sampled_from(["cpu", GPU, "memory"]), st.integers(0, 9)),
    ),
    max_size=12,
)


@given(any_specs() | sound_specs(), CHARGES, CHARGES, st.randoms())
def test_taking_back_restores(
    specs: list[QueueSpec],
    kept: list[tuple[int, dict[str, int]]],
    passing: list[tuple[int, dict[str, int]]],
    random: Random,
) -> None:
    forest = forest_of(specs)
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
    assert {name: used.of(name) for name in names} == {name: expected.of(name) for name in names}
