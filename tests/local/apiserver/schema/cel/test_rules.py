"""Evaluation of rules on objects. The messages are those of kube-apiserver 1.36."""

from typing import Any

import pytest

from kilonova.local.apiserver.schema.cel import RuleSet, rule_set
from kilonova.local.apiserver.schema.node import parse_schema


def rules(*texts: str | dict[str, Any]) -> list[dict[str, Any]]:
    return [text if isinstance(text, dict) else {"rule": text} for text in texts]


def schema() -> dict[str, Any]:
    v = "x-kubernetes-validations"
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        v: rules({"rule": "self.v >= oldSelf.v", "message": "v shrinks"}, "self.v != 13"),
    }
    obj = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b-c": {"type": "integer"},
            "namespace": {"type": "string"},
            "x__y": {"type": "integer"},
            "d.e/f": {"type": "integer"},
        },
        v: rules(
            "self.a > 0",
            "!has(self.b__dash__c) || self.b__dash__c != 3",
            '!has(self.__namespace__) || self.__namespace__ != "x"',
            "!has(self.x__underscores__y) || self.x__underscores__y != 3",
            "!has(self.d__dot__e__slash__f) || self.d__dot__e__slash__f != 3",
        ),
    }
    spec = {
        "name": {"type": "string"},
        "legacy": {"type": "string"},
        "replicas": {
            "type": "integer",
            v: rules(
                "self<10",
                {"rule": "self != 7", "messageExpression": "self > 5 ? 'got seven' : 'other'"},
                {
                    "rule": "self != 8",
                    "messageExpression": "self/0 > 1 ? 'a' : 'b'",
                    "message": "fallback",
                },
                {"rule": "self >= oldSelf", "message": "no shrink"},
            ),
        },
        "dup": {
            "type": "string",
            v: rules(
                {"rule": 'self != "dup"', "reason": "FieldValueDuplicate", "message": "dupmsg"},
                {"rule": 'self != "req"', "reason": "FieldValueRequired", "message": "reqmsg"},
                {"rule": 'self != "req2"', "reason": "FieldValueRequired"},
            ),
        },
        "ratio": {"type": "number", v: rules("self < 2.0")},
        "ios": {"x-kubernetes-int-or-string": True, v: rules("self > 1")},
        "obj": obj,
        "m": {
            "type": "object",
            "additionalProperties": {"type": "integer", v: rules("self > 0", "self >= oldSelf")},
        },
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": item,
            v: rules({"rule": "self.size() < 4", "message": "too many"}),
        },
        "al": {"type": "array", "items": {"type": "string", v: rules('self != "bad"')}},
        "idx": {"type": "array", "items": {"type": "integer"}, v: rules("self[5] > 1")},
        "div": {"type": "integer", v: rules("10/self > 1")},
        "q": {"type": "string", v: rules('quantity(self).isGreaterThan(quantity("1Gi"))')},
        "when": {
            "type": "string",
            "format": "date-time",
            v: rules('self > timestamp("2020-01-01T00:00:00Z")'),
        },
        "dur": {"type": "string", "format": "duration", v: rules('self > duration("1h")')},
        "bytes": {"type": "string", "format": "byte", v: rules("self.size() > 3")},
        "nn": {"type": "string", "nullable": True, v: rules('self != "x"')},
    }
    root = rules(
        {
            "rule": "!has(self.spec.name) || self.metadata.name != 'bad'",
            "message": "root says no",
        },
        {
            "rule": "self.metadata.name != 'bad2'",
            "reason": "FieldValueForbidden",
            "fieldPath": ".spec.name",
            "message": " trimmed ",
        },
        {
            "rule": "oldSelf.hasValue() || !has(self.spec.legacy)",
            "optionalOldSelf": True,
            "message": "legacy only old",
            "reason": "FieldValueForbidden",
        },
    )
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec}},
        v: root,
    }


@pytest.fixture(scope="module")
def all_rules() -> RuleSet:
    compiled = rule_set(parse_schema(schema()))
    assert compiled is not None
    return compiled


def thing(spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    metadata = {"name": name, "labels": {"a": "b"}, "resourceVersion": "5"}
    return {"apiVersion": "probe.io/v1", "kind": "Thing", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({}, []),
        ({"replicas": 10}, ["spec.replicas: Invalid value: 10: failed rule: self<10"]),
        ({"replicas": 7}, ["spec.replicas: Invalid value: 7: got seven"]),
        ({"replicas": 8}, ["spec.replicas: Invalid value: 8: fallback"]),
        ({"dup": "dup"}, ['spec.dup: Duplicate value: "dup"']),
        ({"dup": "req"}, ["spec.dup: Required value: reqmsg"]),
        ({"dup": "req2"}, ['spec.dup: Required value: failed rule: self != "req2"']),
        ({"ratio": 2}, ["spec.ratio: Invalid value: 2: failed rule: self < 2.0"]),
        ({"ratio": 1}, []),
        ({"ratio": 2.5}, ["spec.ratio: Invalid value: 2.5: failed rule: self < 2.0"]),
        ({"ios": 1}, ["spec.ios: Invalid value: 1: failed rule: self > 1"]),
        (
            {"ios": "a"},
            [
                "spec.ios: Invalid value: \"\": 'no such overload': call arguments did not match a "
                "supported operator, function or macro signature for rule: self > 1"
            ],
        ),
        (
            {"obj": {}},
            [
                'spec.obj: Invalid value: "object": no such key: a evaluating rule: self.a > 0',
            ],
        ),
        (
            {"obj": {"a": 0, "b-c": 3, "namespace": "x", "x__y": 3, "d.e/f": 3}},
            [
                "spec.obj: Invalid value: failed rule: self.a > 0",
                "spec.obj: Invalid value: failed rule: "
                "!has(self.b__dash__c) || self.b__dash__c != 3",
                "spec.obj: Invalid value: failed rule: "
                '!has(self.__namespace__) || self.__namespace__ != "x"',
                "spec.obj: Invalid value: failed rule: "
                "!has(self.x__underscores__y) || self.x__underscores__y != 3",
                "spec.obj: Invalid value: failed rule: "
                "!has(self.d__dot__e__slash__f) || self.d__dot__e__slash__f != 3",
            ],
        ),
        ({"m": {"a": 0, "b": 1}}, ["spec.m[a]: Invalid value: 0: failed rule: self > 0"]),
        (
            {"l": [{"k": "a", "v": 13}, {"k": "b"}]},
            [
                "spec.l[0]: Invalid value: failed rule: self.v != 13",
                'spec.l[1]: Invalid value: "object": no such key: v evaluating rule: self.v != 13',
            ],
        ),
        (
            {"l": [{"k": key, "v": 1} for key in "abcd"]},
            ["spec.l: Invalid value: too many"],
        ),
        (
            {"al": ["ok", "bad"]},
            ['spec.al[1]: Invalid value: "bad": failed rule: self != "bad"'],
        ),
        (
            {"idx": [1]},
            [
                'spec.idx: Invalid value: "array": index out of bounds: 5 evaluating rule: '
                "self[5] > 1"
            ],
        ),
        (
            {"div": 0},
            ['spec.div: Invalid value: "integer": division by zero evaluating rule: 10/self > 1'],
        ),
        (
            {"q": "1Gi"},
            [
                'spec.q: Invalid value: "1Gi": failed rule: '
                'quantity(self).isGreaterThan(quantity("1Gi"))'
            ],
        ),
        (
            {"q": "zz"},
            [
                'spec.q: Invalid value: "string": quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$' evaluating rule: "
                'quantity(self).isGreaterThan(quantity("1Gi"))'
            ],
        ),
        (
            {"when": "2019-01-01T00:00:00Z"},
            [
                'spec.when: Invalid value: "2019-01-01T00:00:00Z": failed rule: '
                'self > timestamp("2020-01-01T00:00:00Z")'
            ],
        ),
        ({"when": "2021-01-01T00:00:00.5+02:00"}, []),
        ({"dur": "30m"}, ['spec.dur: Invalid value: "30m": failed rule: self > duration("1h")']),
        ({"dur": "1h30m"}, []),
        ({"bytes": "YWI="}, ['spec.bytes: Invalid value: "YWI=": failed rule: self.size() > 3']),
        ({"nn": None}, []),
        ({"nn": "x"}, ['spec.nn: Invalid value: "x": failed rule: self != "x"']),
        ({"legacy": "x"}, ["<nil>: Forbidden: legacy only old"]),
    ],
)
def test_new_object_is_validated_as_by_kubernetes(
    all_rules: RuleSet, spec: dict[str, Any], problems: list[str]
) -> None:
    assert [str(problem) for problem in all_rules.check(thing(spec))] == problems


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("bad", "<nil>: Invalid value: root says no"),
        ("bad2", "spec.name: Forbidden: trimmed"),
    ],
)
def test_root_rules_can_access_the_name(all_rules: RuleSet, name: str, problem: str) -> None:
    assert [str(each) for each in all_rules.check(thing({"name": "x"}, name))] == [problem]


OLD = {"replicas": 3, "m": {"a": 5}, "l": [{"k": "a", "v": 5}], "al": ["ok"]}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        (OLD, []),
        ({"replicas": 2}, ["spec.replicas: Invalid value: 2: no shrink"]),
        (
            {"m": {"a": 4, "b": 1}},
            ["spec.m[a]: Invalid value: 4: failed rule: self >= oldSelf"],
        ),
        (
            {"l": [{"k": "z", "v": 1}, {"k": "a", "v": 4}]},
            ["spec.l[1]: Invalid value: v shrinks"],
        ),
        ({"legacy": "x"}, []),
    ],
)
def test_update_is_validated_against_the_old_value(
    all_rules: RuleSet, spec: dict[str, Any], problems: list[str]
) -> None:
    assert [str(each) for each in all_rules.check(thing(spec), thing(OLD))] == problems


def test_failure_on_an_unchanged_value_is_a_warning(all_rules: RuleSet) -> None:
    old = thing({"replicas": 12, "al": ["bad"], "m": {"a": 1}})
    new = thing({"replicas": 12, "al": ["bad"], "m": {"a": 2}})
    warnings: list[str] = []
    assert all_rules.check(new, old, warnings) == []
    assert warnings == [
        "spec.replicas: Invalid value: 12: failed rule: self<10",
        'spec.al[0]: Invalid value: "bad": failed rule: self != "bad"',
    ]


def test_failure_in_a_changed_list_without_keys_is_an_error(all_rules: RuleSet) -> None:
    old, new = thing({"al": ["bad"]}), thing({"al": ["bad", "ok"]})
    assert [problem.path for problem in all_rules.check(new, old)] == ["spec.al[0]"]


def test_schema_without_rules_has_no_rule_set() -> None:
    assert (
        rule_set(parse_schema({"type": "object", "properties": {"a": {"type": "string"}}})) is None
    )


def test_slow_rule_is_cancelled_with_the_rules_after_it() -> None:
    loops = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"
    compiled = rule_set(
        parse_schema(
            {
                "type": "object",
                "properties": {
                    "l": {
                        "type": "array",
                        "items": {"type": "integer"},
                        "x-kubernetes-validations": rules(loops, "false"),
                    }
                },
            }
        )
    )
    assert compiled is not None
    assert [str(problem) for problem in compiled.check({"l": list(range(500))})] == [
        "l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no "
        f"further validation rules will be run due to call cost exceeds limit for rule: {loops}"
    ]


def test_times_are_parsed_where_a_rule_uses_them() -> None:
    root = "self.spec.times.all(t, t < self.spec.end) && self.spec.?end.orValue(self.spec.end) == "
    compiled = rule_set(
        parse_schema(
            {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {
                            "times": {
                                "type": "array",
                                "items": {"type": "string", "format": "date-time"},
                            },
                            "end": {"type": "string", "format": "date"},
                        },
                    }
                },
                "x-kubernetes-validations": rules(root + 'timestamp("2024-02-29T00:00:00Z")'),
            }
        )
    )
    assert compiled is not None
    spec = {"times": ["2024-02-28T23:59:59Z"], "end": "2024-02-29"}
    assert compiled.check({"spec": spec}) == []
    late = {"times": ["2024-02-28T23:59:59Z", "2024-03-01T00:00:00Z"], "end": "2024-02-29"}
    assert len(compiled.check({"spec": late})) == 1


def test_old_and_new_are_equal_when_only_hidden_metadata_differs() -> None:
    compiled = rule_set(
        parse_schema({"type": "object", "x-kubernetes-validations": rules("self == oldSelf")})
    )
    assert compiled is not None
    old, new = thing({}), thing({})
    new["metadata"]["resourceVersion"] = "6"
    assert compiled.check(new, old) == []
