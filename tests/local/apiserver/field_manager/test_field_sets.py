from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.field_manager.field_sets import (
    FieldSet,
    contains,
    decode_field_set,
    difference,
    exclude_fields,
    field_set_from_paths,
    include_fields,
    intersection,
    iterate_paths,
    leaves,
    union,
    without_branches,
)
from kilonova.local.apiserver.field_manager.path_elements import format_element

STEPS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'k:{"port":80}', 'v:"s"', "v:3", "i:0"])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
PATH_SETS = st.frozensets(PATHS, max_size=8)


def tree(these: frozenset[tuple[str, ...]]) -> FieldSet:
    return field_set_from_paths(*these)


def members(fields: FieldSet) -> frozenset[tuple[str, ...]]:
    return frozenset(iterate_paths(fields))


def below(path: tuple[str, ...], others: frozenset[tuple[str, ...]]) -> bool:
    return any(path[: len(other)] == other for other in others)


@given(PATH_SETS)
def test_set_contains_the_paths_it_was_made_of(these: Any) -> None:
    assert members(tree(these)) == these
    assert all(contains(tree(these), path) for path in these)


@given(PATH_SETS, PATH_SETS)
def test_operations_agree_with_python_sets(left: Any, right: Any) -> None:
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
def test_operations_do_not_modify_their_operands(left: Any, right: Any) -> None:
    one, two = tree(left), tree(right)
    for operation in (union, difference, intersection, without_branches):
        operation(one, two)
    assert (one, two) == (tree(left), tree(right))


@given(PATH_SETS)
def test_leaves_have_no_longer_paths(these: Any) -> None:
    assert members(leaves(tree(these))) == {
        path
        for path in these
        if not any(other != path and other[: len(path)] == path for other in these)
    }


@given(PATH_SETS)
def test_decoding_reverses_encoding(these: Any) -> None:
    assert str(decode_field_set(tree(these))) == str(tree(these))


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
def test_decoded_sets_are_canonical(sent: Any, canonical: Any) -> None:
    assert decode_field_set(sent) == canonical


@pytest.mark.parametrize("sent", [[], {"a": {}}, {"f:a": 1}, {"k:[]": {}}, {"v:": {}}, {"i:x": {}}])
def test_invalid_set_is_rejected(sent: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  (whatever the reason)
        decode_field_set(sent)


def test_elements_are_sorted_by_type_then_by_value() -> None:
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
    assert list(field_set_from_paths(*((step,) for step in steps))) == [
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
def test_elements_are_formatted_as_in_messages(step: str, text: str) -> None:
    assert format_element(step) == text


def test_filters() -> None:
    fields = field_set_from_paths(
        ("f:metadata", "f:labels", "f:a"),
        ("f:metadata", "f:finalizers"),
        ("f:spec", "f:replicas"),
        ("f:status",),
    )
    assert exclude_fields("status", "metadata.labels")(fields) == field_set_from_paths(
        ("f:metadata", "f:finalizers"), ("f:spec", "f:replicas")
    )
    assert include_fields("status")(fields) == field_set_from_paths(("f:status",))
