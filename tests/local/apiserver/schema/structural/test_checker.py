"""Pruning, defaulting and validation of custom resources, as by a real API server."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apimachinery.errors import ApiError, FieldError
from kilonova.local.apiserver.schema.builtin import custom_schema
from kilonova.local.apiserver.schema.checker import schema_checker
from tests.local.apiserver.schema.cases import KIND, VERSION, custom_object, load, strict_error

TABLE = load("custom_cases.yaml")


@pytest.fixture(scope="module")
def foo() -> Any:
    return schema_checker(custom_schema(TABLE["schema"]))


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_object_is_accepted_or_rejected_as_by_kubernetes(foo: Any, case: dict[str, Any]) -> None:
    obj = custom_object(deepcopy(case))
    answer: dict[str, Any]
    try:
        unknown = foo.conform(obj, KIND, VERSION)
    except ApiError as error:
        answer = {"rejected": error.message}
    else:
        foo.default(obj)
        problems: list[FieldError] = foo.validate(obj)
        if unknown:
            answer = {"rejected": strict_error(KIND, VERSION, unknown)}
        elif problems:
            answer = {"problems": sorted(map(str, problems))}
        else:
            answer = {"stored": obj.get("spec")}
    assert answer == {key: case[key] for key in answer}


def validate(source: dict[str, Any], value: Any, old: Any = None) -> list[str]:
    schema = {"type": "object", "properties": {"spec": source}}
    before = None if old is None else {"spec": old}
    found = schema_checker(custom_schema(schema)).validate({"spec": value}, before)
    return [str(problem) for problem in found]


INTEGER_MAP = {"type": "object", "additionalProperties": {"type": "integer"}}


def test_unchanged_invalid_value_is_ignored() -> None:
    assert validate(INTEGER_MAP, {"a": "x", "b": 1}, {"a": "x"}) == []


def test_changed_invalid_value_is_an_error() -> None:
    problems = validate(INTEGER_MAP, {"a": "x"}, {"a": 1})
    assert problems == [
        'spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"'
    ]


def test_keyed_list_items_are_correlated_by_key() -> None:
    items = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "maximum": 5}},
    }
    keyed = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": items,
    }
    old = [{"name": "big", "size": 9}]
    assert validate(keyed, [{"name": "new", "size": 1}, *old], old) == []
    assert len(validate(keyed, [{"name": "new", "size": 9}, *old], old)) == 1


def test_integral_number_loses_its_decimal_point() -> None:
    schema = {"type": "object", "properties": {"spec": INTEGER_MAP}}
    obj = {"spec": {"a": 1.0, "b": 1.5}}
    schema_checker(custom_schema(schema)).conform(obj, KIND, VERSION)
    assert repr(obj) == repr({"spec": {"a": 1, "b": 1.5}})


@pytest.mark.parametrize(
    ("minimum", "value", "shown"),
    [
        (1e21, 2.0, "1e+21"),
        (2.5, 1, "2"),
        (0.0001, 0.0, "0.0001"),
        (0.00001, 0.0, "1e-05"),
        (123456.0, 1.5, "123456"),
        (1234567.5, 1.5, "1.2345675e+06"),
        (3, 1.5, "3"),
    ],
)
def test_limits_are_formatted_as_by_go(minimum: float, value: float, shown: str) -> None:
    problems = validate({"type": "number", "minimum": minimum}, value)
    assert problems[0].endswith(f"should be greater than or equal to {shown}")


def test_true_is_not_one() -> None:
    assert validate({"enum": [1]}, True) == ['spec: Unsupported value: true: supported values: "1"']


def test_errors_are_those_of_the_best_alternative() -> None:
    source = {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
        "oneOf": [
            {"required": ["c"]},
            {"properties": {"a": {"required": ["b"]}}},
        ],
    }
    assert validate(source, {"a": {}})[1:] == ["spec.a.b: Required value"]


def test_defaults_are_set_inside_defaults() -> None:
    source = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "default": {},
                "properties": {
                    "mode": {"type": "string", "default": "fast"},
                    "ports": {
                        "type": "array",
                        "default": [{"port": 80}],
                        "items": {
                            "type": "object",
                            "properties": {"protocol": {"type": "string", "default": "TCP"}},
                        },
                    },
                },
            }
        },
    }
    foo = schema_checker(custom_schema(source))
    first: dict[str, Any] = {}
    foo.default(first)
    assert first == {"spec": {"mode": "fast", "ports": [{"port": 80, "protocol": "TCP"}]}}

    first["spec"]["ports"].append("changed")
    second: dict[str, Any] = {}
    foo.default(second)
    assert len(second["spec"]["ports"]) == 1


@pytest.mark.parametrize(
    ("field", "given_value", "expected"),
    [
        ({"type": "string"}, {"f": None}, {}),
        ({"type": "string", "nullable": True}, {"f": None}, {"f": None}),
        ({"type": "string", "default": "d"}, {"f": None}, {"f": "d"}),
        ({"type": "string", "default": "d", "nullable": True}, {"f": None}, {"f": None}),
        ({"type": "string", "default": "d", "nullable": True}, {}, {"f": "d"}),
    ],
)
def test_null_is_defaulted_or_dropped_unless_nullable(
    field: dict[str, Any], given_value: dict[str, Any], expected: dict[str, Any]
) -> None:
    source = {"type": "object", "properties": {"f": field}}
    schema_checker(custom_schema(source)).default(given_value)
    assert given_value == expected


def test_deep_nesting_is_kept_where_allowed_and_never_crashes() -> None:
    source = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    foo = schema_checker(custom_schema(source))
    obj = {"spec": {"deep": deep}, "other": deep}
    assert foo.conform(obj, KIND, VERSION) == ["other"]
    foo.default(obj)
    assert foo.validate(obj) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*TABLE["schema"]["properties"]["spec"]["properties"]]), inner
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_is_processed_and_a_second_pass_changes_nothing(spec: Any) -> None:
    foo = schema_checker(custom_schema(TABLE["schema"]))
    obj = {"metadata": {"name": "a"}, "spec": spec}
    try:
        foo.conform(obj, KIND, VERSION)
    except ApiError:  # an embedded resource that cannot be decoded
        return
    foo.default(obj)
    foo.validate(obj)
    first_pass = deepcopy(obj)
    assert foo.conform(obj, KIND, VERSION) == []
    foo.default(obj)
    assert obj == first_pass
