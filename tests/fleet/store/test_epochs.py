"""Epochs: they rise with terms, with stores, and whatever happened to the lease."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.fleet.store.epochs import build_epoch, choose_epoch, format_epoch, generation_of

generations = st.integers(1, 2**20 - 2)
terms = st.integers(0, 2**32 - 1)
epochs = st.builds(build_epoch, generations, terms)


@pytest.mark.parametrize(
    ("stored", "floor", "term", "epoch"),
    [
        (0, 0, 0, "1.0"),
        (build_epoch(1, 0), 0, 1, "1.1"),
        (build_epoch(1, 3), build_epoch(1, 3), 4, "1.4"),
        (build_epoch(1, 3), build_epoch(1, 2), 9, "1.9"),
        (build_epoch(1, 3), 0, 0, "2.0"),  # the lease was deleted
        (build_epoch(1, 3), 0, 3, "2.3"),
        (0, build_epoch(1, 9), 12, "2.12"),  # another store was used before
        (build_epoch(1, 3), build_epoch(4, 0), 7, "5.7"),
        (build_epoch(1, 3), build_epoch(1, 5), 9, "2.9"),
    ],
)
def test_epoch_of_a_new_term(stored: int, floor: int, term: int, epoch: str) -> None:
    assert format_epoch(choose_epoch(stored, floor, term)) == epoch


@given(st.just(0) | epochs, st.just(0) | epochs, terms)
def test_epoch_is_higher_than_all_before(stored: int, floor: int, term: int) -> None:
    epoch = choose_epoch(stored, floor, term)
    assert epoch > max(stored, floor)
    assert int(float(epoch)) == epoch, "JavaScript reads it exactly"


@given(generations, terms, generations, terms)
def test_epochs_are_ordered_by_generation_then_term(a: int, b: int, c: int, d: int) -> None:
    assert (build_epoch(a, b) < build_epoch(c, d)) == ((a, b) < (c, d))
    assert generation_of(build_epoch(a, b)) == a


@pytest.mark.parametrize(("generation", "term"), [(0, 0), (2**20, 0), (1, -1), (1, 2**32)])
def test_epoch_outside_its_range_is_an_error(generation: int, term: int) -> None:
    with pytest.raises(ValueError, match="must be from"):
        build_epoch(generation, term)
