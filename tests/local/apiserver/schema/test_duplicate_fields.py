"""Duplicate fields in JSON text."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.schema.checker import find_duplicate_json_fields


def duplicates(raw: bytes) -> list[str]:
    return find_duplicate_json_fields(raw, msgspec.json.decode(raw))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"a":1,"b":{"a":2}}', []),
        (b'{"a":1,"a":2}', ['duplicate field "a"']),
        (b'{"s":{"c":[{"n":1},{"n":1,"n":2,"n":3}]}}', ['duplicate field "s.c[1].n"']),
        (b'{"a":"\\u0022\\u0022","b":1,"b":2}', ['duplicate field "b"']),
        (b'{"a":"\\"","b":"x"}', []),
    ],
)
def test_each_duplicate_is_reported_once_with_its_path(raw: bytes, expected: list[str]) -> None:
    assert duplicates(raw) == expected


def test_modified_object_reports_only_duplicates_of_the_text() -> None:
    raw = b'{"metadata":{"creationTimestamp":null}}'
    assert find_duplicate_json_fields(raw, {"metadata": {}}) == []


@given(
    st.recursive(
        st.text(max_size=4) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    ),
    st.booleans(),
)
def test_text_without_duplicates_has_none_in_any_escaping(value: Any, ascii: bool) -> None:
    assert duplicates(json.dumps(value, ensure_ascii=ascii).encode()) == []
