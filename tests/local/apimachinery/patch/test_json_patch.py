from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.patch import MAX_OPERATIONS, PatchError, deep_copy, json_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def document() -> dict[str, Any]:
    return {
        "a": {"b": "1", "list": [1, 2, 3], "x/y": {"m~n": True}, "null": None},
        "items": [{"name": "p"}, {"name": "q"}],
    }


@pytest.mark.parametrize(
    ("operations", "path", "expected"),
    [
        pytest.param([("add", "/a/c", 5)], "a.c", 5, id="add-a-key"),
        pytest.param([("add", "/a/b", "2")], "a.b", "2", id="add-replaces-a-key"),
        pytest.param([("add", "/a/list/0", 0)], "a.list", [0, 1, 2, 3], id="add-at-the-start"),
        pytest.param([("add", "/a/list/3", 4)], "a.list", [1, 2, 3, 4], id="add-at-the-end"),
        pytest.param([("add", "/a/list/-", 4)], "a.list", [1, 2, 3, 4], id="append"),
        pytest.param([("add", "/a/list/-1", 4)], "a.list", [1, 2, 3, 4], id="add-from-the-end"),
        pytest.param([("add", "/a/x~1y/m~0n", 1)], "a.x/y.m~n", 1, id="escapes"),
        pytest.param([("remove", "/a/list/1")], "a.list", [1, 3], id="remove-an-item"),
        pytest.param([("remove", "/a/list/-1")], "a.list", [1, 2], id="remove-the-last-item"),
        pytest.param(
            [("remove", "/items/0/name")], "items", [{}, {"name": "q"}], id="remove-a-key"
        ),
        pytest.param([("replace", "/a/list/0", 9)], "a.list", [9, 2, 3], id="replace-an-item"),
        pytest.param([("replace", "/a/absent", 9)], "a.absent", 9, id="replace-an-absent-key"),
        pytest.param([("test", "/a/list", [1, 2, 3]), ("remove", "/a/b")], "a.b", None, id="test"),
        pytest.param([("test", "/a/absent", None)], "a.b", "1", id="test-absent-as-null"),
        pytest.param([("replace", "", {"z": 1})], "z", 1, id="replace-the-document"),
    ],
)
def test_operations(operations: list[tuple[Any, ...]], path: str, expected: object) -> None:
    steps = [dict(zip(("op", "path", "value"), each, strict=False)) for each in operations]
    result: Any = json_patch(document(), steps)
    for part in path.split("."):
        result = result.get(part)
    assert result == expected


def test_move_moves_the_value() -> None:
    result = json_patch(document(), [{"op": "move", "from": "/items/0", "path": "/first"}])
    assert result["first"] == {"name": "p"}
    assert result["items"] == [{"name": "q"}]


def test_copy_is_independent_of_its_source() -> None:
    result = json_patch(
        document(),
        [
            {"op": "copy", "from": "/items/0", "path": "/first"},
            {"op": "add", "path": "/first/name", "value": "changed"},
        ],
    )
    assert result["items"][0] == {"name": "p"}
    assert result["first"] == {"name": "changed"}


def test_absent_value_is_null() -> None:
    assert json_patch({}, [{"op": "add", "path": "/a"}]) == {"a": None}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/b", "value": "2"},
        {"op": "test", "path": "/a/list", "value": [1.0, 2, 3]},
        {"op": "test", "path": "/a/list/0", "value": True},
        {"op": "test", "path": "", "value": {}},
        {"op": "replace", "path": "/absent/b", "value": 1},
        {"op": "replace", "path": "/a/list/3", "value": 1},
        {"op": "replace", "path": "", "value": 3},
        {"op": "remove", "path": "/a/absent"},
        {"op": "remove", "path": "/a/list/3"},
        {"op": "remove", "path": "/a/list/x"},
        {"op": "remove", "path": ""},
        {"op": "add", "path": "/a/list/4", "value": 1},
        {"op": "add", "path": "/a/list/-5", "value": 1},
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "add", "path": "/a/null/c", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "add", "value": 1},
        {"op": "move", "from": "/a/absent", "path": "/x"},
        {"op": "move", "from": "/a/b"},
        {"op": "copy", "path": "/a/b"},
        {"op": "copy", "from": "/absent/x", "path": "/a/b"},
        {"op": "unknown", "path": "/a"},
        {"path": "/a"},
        None,
    ],
)
def test_inapplicable_operation_is_unprocessable(operation: Any) -> None:
    with pytest.raises(PatchError) as raised:
        json_patch(document(), [operation])
    assert raised.value.detail
    assert raised.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({}, "cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([1], "cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        (
            [{"op": "add", "path": 3}],
            "cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ],
)
def test_malformed_patch_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(PatchError) as raised:
        json_patch(document(), patch)
    assert (raised.value.code, raised.value.reason) == (400, "BadRequest")
    assert raised.value.message == f"error decoding patch: json: {message}"


def test_the_number_of_operations_is_limited() -> None:
    step = {"op": "test", "path": "/a/b", "value": "1"}
    assert json_patch(document(), [step] * MAX_OPERATIONS) == document()
    with pytest.raises(PatchError) as raised:
        json_patch(document(), [step] * (MAX_OPERATIONS + 1))
    assert raised.value.code == 413
    assert raised.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001"
    )


@given(JSON, JSON)
def test_added_value_can_be_tested_and_removed(value: Any, other: Any) -> None:
    before = {"held": other}
    copy = deep_copy(before)
    steps = [
        {"op": "add", "path": "/~0~1", "value": value},
        {"op": "test", "path": "/~0~1", "value": value},
        {"op": "remove", "path": "/~0~1"},
    ]
    assert json_patch(before, steps) == copy == before
