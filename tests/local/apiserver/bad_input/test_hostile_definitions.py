"""Definitions of custom kinds with arbitrary schemas, and with expensive patterns and rules."""

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.campaigns import limit_examples
from tests.local.apiserver.bad_input.fuzzed_api import DEFINITIONS, FuzzedApi, definition

THINGS = "/apis/fuzz.example/v1/namespaces/default/things"
DEFINITION = f"{DEFINITIONS}/things.fuzz.example"

ODD: list[Any] = [
    None,
    True,
    -1,
    1e308,
    2**64,
    "",
    "x",
    "(((a{100}){100}){100})",
    "(",
    [],
    {},
    ["a"],
    [{}],
    [{"rule": "self == oldSelf"}],
    [{"rule": "[" * 200}],
    [{"rule": "1/0 == 1"}],
    [{"rule": "self.a[0] == 1", "messageExpression": "1"}],
    [{"rule": "true", "fieldPath": "["}],
]
KEYS = [
    "format",
    "pattern",
    "required",
    "default",
    "enum",
    "nullable",
    "maximum",
    "multipleOf",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "allOf",
    "not",
    "items",
    "additionalProperties",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "$ref",
    "definitions",
]
leaves = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "integer", "number", "boolean", "odd"])}
)
odd_keys = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ODD), max_size=2)
schemas: Any = st.recursive(
    leaves,
    lambda inner: (
        st.builds(
            lambda properties, odd: {"type": "object", "properties": properties, **odd},
            st.dictionaries(st.sampled_from(["a", "b", "metadata", "x-y", ""]), inner, max_size=3),
            odd_keys,
        )
        | st.builds(lambda items, odd: {"type": "array", "items": items, **odd}, inner, odd_keys)
    ),
    max_leaves=6,
)
values: Any = st.recursive(
    st.sampled_from([None, True, 0, 1.5, 2**64, "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=6,
)


@settings(max_examples=limit_examples(250), derandomize=True, deadline=None, database=None)
@given(spec=schemas, instances=st.lists(values, min_size=1, max_size=4))
def test_any_schema_is_rejected_or_works(
    fuzzed_api: FuzzedApi, spec: Any, instances: list[Any]
) -> None:
    schema = {"type": "object", "properties": {"spec": copy.deepcopy(spec)}}
    reply = fuzzed_api.send("POST", DEFINITIONS, definition("things", "Thing", schema))
    if reply.status != 201:
        assert reply.status in (400, 422)
        assert json.loads(reply.body)["message"]
        return
    try:
        assert fuzzed_api.send("GET", "/openapi/v3/apis/fuzz.example/v1").status == 200
        for value in instances:
            thing = _thing(value)
            if fuzzed_api.send("POST", THINGS, thing).status == 201:
                fuzzed_api.check_usable(f"{THINGS}/thing")
                fuzzed_api.remove(f"{THINGS}/thing")
    finally:
        fuzzed_api.remove(DEFINITION)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 100_000 + "b"),
        ("^(a|a)*$", "a" * 100_000 + "b"),
        ("(.*a){20}$", "a" * 50_000 + "b"),
        ("a+b", "a" * 200_000),
        ("(a?){30}a{30}$", "a" * 29),
    ],
)
def test_no_pattern_blocks_the_server(fuzzed_api: FuzzedApi, pattern: str, text: str) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "string", "pattern": pattern}},
    }
    assert fuzzed_api.send("POST", DEFINITIONS, definition("things", "Thing", schema)).status == 201
    try:
        started = time.process_time()
        reply = fuzzed_api.send("POST", THINGS, _thing(text))
        assert time.process_time() - started < 5
        assert reply.status == 422
        assert "should match" in json.loads(reply.body)["message"]
    finally:
        fuzzed_api.remove(DEFINITION)


def test_no_rule_blocks_the_server(fuzzed_api: FuzzedApi) -> None:
    numbers = {"type": "array", "maxItems": 10_000, "items": {"type": "integer"}}
    rule = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    spec = {**numbers, "x-kubernetes-validations": [{"rule": rule}]}
    schema = {"type": "object", "properties": {"spec": spec}}
    reply = fuzzed_api.send("POST", DEFINITIONS, definition("things", "Thing", schema))
    if reply.status != 201:
        assert reply.status == 422
        return
    try:
        started = time.process_time()
        reply = fuzzed_api.send("POST", THINGS, _thing([0] * 5_000))
        assert time.process_time() - started < 5
        assert reply.status == 422
    finally:
        fuzzed_api.remove(DEFINITION)


def _thing(spec: Any) -> Any:
    return {
        "apiVersion": "fuzz.example/v1",
        "kind": "Thing",
        "metadata": {"name": "thing"},
        "spec": spec,
    }
