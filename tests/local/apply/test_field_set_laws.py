from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apply.elements import shown
from kilonova.local.apply.fields import (
    Fields,
    contains,
    decoded,
    difference,
    from_paths,
    ignoring,
    intersection,
    leaves,
    only,
    paths,
    union,
    without_branches,
)

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'v:"s"', "v:3", "i:0"])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
PATH_SETS = st.frozensets(PATHS, max_size=8)


def tree(these: frozenset[tuple[str, ...]]) -> Fields:
    return from_paths(*these)


def members(fields: Fields) -> frozenset[tuple[str, ...]]:
    return frozenset(paths(fields))


def below(path: tuple[str, ...], others: frozenset[tuple[str, ...]]) -> bool:
    return any(path[: len(other)] == other for other in others)


@given(PATH_SETS)
def test_a_set_holds_the_paths_it_was_made_of(these: Any) -> None:
    assert members(tree(these)) == these
    assert all(contains(tree(these), path) for path in these)


@given(PATH_SETS, PATH_SETS)
def test_operations_are_those_of_sets(left: Any, right: Any) -> None:
    assert members(union(tree(left), tree(right))) == left | right
    assert members(difference(tree(left), tree(right))) == left - right
    assert members(intersection(tree(left), tree(right))) == left & right
    assert members(without_branches(tree(left), tree(right))) == {
        path for path in left if not below(path, right)
    }


@given(PATH_SETS, PATH_SETS)
def test_equal_sets_are_equal_trees_in_the_same_order(left: Any, right: Any) -> None:
    one = union(tree(left), tree(right))
    two = union(tree(right), tree(left))
    assert one == two == tree(left | right)
    assert str(one) == str(two) == str(tree(left | right))
    assert str(difference(one, tree(right))) == str(tree(left - right))


@given(PATH_SETS, PATH_SETS)
def test_operations_leave_their_operands_alone(left: Any, right: Any) -> None:
    one, two = tree(left), tree(right)
    for operation in (union, difference, intersection, without_branches):
        operation(one, two)
    assert (one, two) == (tree(left), tree(right))


@given(PATH_SETS)
def test_leaves_have_nothing_below_them(these: Any) -> None:
    assert members(leaves(tree(these))) == {
        path
        for path in these
        if not any(other != path and other[: len(path)] == path for other in these)
    }


@given(PATH_SETS)
def test_decoding_gives_back_what_was_encoded(these: Any) -> None:
    assert str(decoded(tree(these))) == str(tree(these))


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        ({'k:{"b":1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}),
        ({"v: 1": {}}, {"v:1": {}}),
        ({"f:a": {".": {}}}, {"f:a": {}}),
        ({"f:a": {"z:later": {}, "f:b": {}}}, {"f:a": {"f:b": {}}}),
        ({".": {}, "f:a": {}}, {"f:a": {}}),
        (None, {}),
    ],
)
def test_sets_of_clients_are_made_canonical(sent: Any, canonical: Any) -> None:
    assert decoded(sent) == canonical


@pytest.mark.parametrize("sent", [[], {"a": {}}, {"f:a": 1}, {"k:[]": {}}, {"v:": {}}, {"i:x": {}}])
def test_what_is_no_set_is_refused(sent: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (whatever the reason)
        decoded(sent)


def test_steps_are_sorted_by_sort_then_by_value() -> None:
    steps = [
        'k:{"port":443}',
        'k:{"port":80}',
        "v:10",
        'v:"a"',
        "v:9",
        "v:true",
        "i:10",
        "i:9",
        "f:b",
    ]
    assert list(from_paths(*((step,) for step in steps))) == [
        "f:b",
        'k:{"port":80}',
        'k:{"port":443}',
        "v:9",
        "v:10",
        'v:"a"',
        "v:true",
        "i:9",
        "i:10",
    ]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("f:spec", ".spec"),
        ('k:{"name":"x"}', '[name="x"]'),
        ('k:{"port":80,"protocol":"TCP"}', '[port=80,protocol="TCP"]'),
        ('v:"a"', '[="a"]'),
        ("v:true", "[=true]"),
        ("i:3", "[3]"),
    ],
)
def test_steps_are_shown_as_users_know_them(step: str, text: str) -> None:
    assert shown(step) == text


def test_filters() -> None:
    fields = from_paths(
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:finalizers"),
        ("f:spec", "f:replicas"),
        ("f:status",),
    )
    assert ignoring("status", "metadata.labels")(fields) == from_paths(
        ("f:metadata", "f:finalizers"), ("f:spec", "f:replicas")
    )
    assert only("status")(fields) == from_paths(("f:status",))
