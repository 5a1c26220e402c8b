from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.patch import PatchError, deep_copy, merge_patch

KEYS = st.sampled_from("abcd")
SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(KEYS, JSON, max_size=4)
OBJECTS_WITHOUT_LISTS = st.dictionaries(
    KEYS,
    st.recursive(SCALARS, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8),
    max_size=4,
)


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        # Kubernetes drops nulls in objects inside lists, which the RFC would keep ...
        ({}, {"a": [None, {"b": None}]}, {"a": [None, {}]}),
        ({"a": [1]}, {"a": [{"b": None}]}, {"a": [{}]}),
        # ... unless the list replaces an object.
        ({"a": {}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
        ({"a": None}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merging(document: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(document, patch) == expected


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        (
            [1],
            "error decoding patch: json: cannot unmarshal array into Go value of "
            "type map[string]interface {}",
        ),
        (
            "x",
            "error decoding patch: json: cannot unmarshal string into Go value of "
            "type map[string]interface {}",
        ),
    ],
)
def test_merge_patch_must_be_an_object(patch: Any, message: str) -> None:
    with pytest.raises(PatchError) as raised:
        merge_patch({}, patch)
    assert (raised.value.code, raised.value.message) == (400, message)


@given(OBJECTS, OBJECTS_WITHOUT_LISTS)
def test_merge_is_idempotent(document: Any, patch: Any) -> None:
    first_pass = merge_patch(document, patch)
    assert merge_patch(first_pass, patch) == first_pass


@given(OBJECTS, OBJECTS)
def test_merge_modifies_neither_patch_nor_document(document: Any, patch: Any) -> None:
    before = deep_copy(document), deep_copy(patch)
    result = merge_patch(document, patch)
    assert (document, patch) == before
    scramble(result)
    assert patch == before[1]


def scramble(value: Any) -> None:
    """Modify every mutable value, to find shared ones."""
    if isinstance(value, dict):
        for item in value.values():
            scramble(item)
        value["scrambled"] = True
    elif isinstance(value, list):
        for item in value:
            scramble(item)
        value.append("scrambled")
