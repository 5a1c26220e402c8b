"""Accelerators as characters, and names as one text."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.instances.fit.accelerators import Accelerator
from kilonova.instances.fit.cells import MAX_CELLS, draw_bar
from kilonova.instances.fit.folded_names import fold_names
from kilonova.instances.fit.holders import Holder
from kilonova.instances.fit.natural_order import natural_key
from kilonova.instances.fit.style import UNICODE, Style

A, B = Holder("Pod", "ns/a"), Holder("Pod", "ns/b")
STYLE = Style(UNICODE, False, {A: "A", B: "B"}, {})
USED_A, USED_B, PARTLY_A = Accelerator("Used", A), Accelerator("Used", B), Accelerator("Partial", A)
FREE, SICK, CORDONED = Accelerator("Free"), Accelerator("Unhealthy"), Accelerator("Unavailable")
NEXT = Accelerator("Free", is_next=True)
OTHER = Accelerator("Used", Holder("Pod", "ns/other"))


@pytest.mark.parametrize(
    ("amounts", "bar"),
    [
        ({}, ""),
        ({FREE: 4}, "····"),
        ({FREE: 2, USED_B: 1, USED_A: 2, SICK: 1, CORDONED: 1, NEXT: 1}, "AAB#··-×"),
        ({USED_A: 3, PARTLY_A: 2, OTHER: 1}, "*AAAaa"),
        ({USED_A: 500, FREE: 500}, "AAAAAAAA········"),
        ({USED_A: 1, FREE: 999}, "A···············"),
        ({USED_A: 999, SICK: 1}, "AAAAAAAAAAAAAAA×"),
    ],
)
def test_bar(amounts: dict[Accelerator, int], bar: str):
    assert draw_bar(Counter(amounts), STYLE) == bar


ACCELERATORS = st.sampled_from((USED_A, USED_B, PARTLY_A, OTHER, FREE, SICK, CORDONED, NEXT))


@given(st.dictionaries(ACCELERATORS, st.integers(1, 5000)))
def test_bar_has_its_length_and_shows_everything_there_is(amounts: dict[Accelerator, int]):
    bar = draw_bar(Counter(amounts), STYLE)
    assert len(bar) == min(MAX_CELLS, sum(amounts.values()))
    assert set(bar) == {STYLE.draw(each) for each in amounts}


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["h100-0"], "h100-0"),
        (["h100-0", "h100-1", "h100-2"], "h100-[0-2]"),
        (["h100-9", "h100-10", "h100-12"], "h100-[9-10,12]"),
        ([f"n{2 * number}" for number in range(20)], "n0 +19"),
        (["east", "west"], "east +1"),
        (["a-1", "b-2"], "a-1 +1"),
        (["n-01", "n-02"], "n-0[1-2]"),
        (["n-01", "n-12"], "n-01 +1"),
    ],
)
def test_folded_names(names: list[str], folded: str):
    assert fold_names(names) == folded


def test_natural_order():
    names = ["rack-10", "rack-2", "", "rack", "rack-2b", "a-3-1", "a-3"]
    assert sorted(names, key=natural_key) == [
        "",
        "a-3",
        "a-3-1",
        "rack",
        "rack-2",
        "rack-2b",
        "rack-10",
    ]
