"""Validation of rules in a definition. The messages are those of kube-apiserver 1.36."""

from typing import Any

import pytest

from kilonova.local.apiserver.schema.cel.rule_validation import validate_rules
from kilonova.local.apiserver.schema.node import parse_schema

PATH = "spec.validation.openAPIV3Schema"
PLACE = f"{PATH}.properties[spec].x-kubernetes-validations[0]"


def reviewed(*rules: dict[str, Any]) -> list[str]:
    item = {"type": "object", "properties": {"a": {"type": "string"}}}
    spec = {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer"},
            "ratio": {"type": "number"},
            "ios": {"x-kubernetes-int-or-string": True},
            "name": {"type": "string"},
            "list": {"type": "array", "items": item},
            "when": {"type": "string", "format": "date-time"},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "x-kubernetes-validations": list(rules),
    }
    schema = parse_schema({"type": "object", "properties": {"spec": spec}})
    return [str(problem) for problem in validate_rules(schema, PATH)]


@pytest.mark.parametrize(
    ("rule", "column", "message"),
    [
        ("self.nope > 1", 5, "undefined field 'nope'"),
        ("has(self.nope)", 4, "undefined field 'nope'"),
        ("self.?nope.hasValue()", 5, "undefined field 'nope'"),
        ('self.list.all(x, x.b == "c")', 19, "undefined field 'b'"),
        ("self.list.map(x, x.zz).size() > 1", 19, "undefined field 'zz'"),
        ("self.list[0].a.b", 15, "type 'string' does not support field selection"),
        (
            'self.replicas > "a"',
            15,
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        (
            "self.replicas + 1 == 2.5",
            19,
            "found no matching overload for '_==_' applied to '(int, double)'",
        ),
        ("self.ratio == 1", 12, "found no matching overload for '_==_' applied to '(double, int)'"),
        (
            "self.name == null",
            11,
            "found no matching overload for '_==_' applied to '(string, null)'",
        ),
        ("!self.replicas", 1, "found no matching overload for '!_' applied to '(int)'"),
        (
            "self.name[0] == 'a'",
            10,
            "found no matching overload for '_[_]' applied to '(string, int)'",
        ),
        (
            "self.replicas in ['a']",
            15,
            "found no matching overload for '@in' applied to '(int, list(string))'",
        ),
        ("self.replicas > 1 && self.name", 26, "expected type 'bool' but found 'string'"),
        ('[1,"a"].size()==1', 4, "expected type 'int' but found 'string'"),
        ("nope(self)", 5, "undeclared reference to 'nope' (in container '')"),
        ("other", 1, "undeclared reference to 'other' (in container '')"),
        (
            'quantity(1).isLessThan(quantity("1"))',
            9,
            "found no matching overload for 'quantity' applied to '(int)'",
        ),
        (
            "self.name ==",
            13,
            "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', "
            "'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
    ],
)
def test_compile_error_shows_the_position(rule: str, column: int, message: str) -> None:
    served = rule.replace('"', '\\"').replace("&", "\\u0026").replace(">", "\\u003e")
    assert reviewed({"rule": rule}) == [
        f'{PLACE}.rule: Invalid value: {{"Rule":"{served}","Message":"","MessageExpression":"",'
        '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
        f"ERROR: <input>:1:{column}: {message}\n | {rule}\n | {'.' * (column - 1)}^"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.ios > 1",
        "type(self.ios) == string && self.ios.endsWith('%')",
        "self.replicas > 1.5 || self.ratio > 1",
        "self.name in self.m",
        "self.m.all(k, v, v > 0)",
        "self.list.exists(self, self.a == 'x')",
        "'%s %d'.format([self.name, self.replicas]) == 'a 1'",
        "self.?list[?0].?a.orValue('') == ''",
        "[?self.?name].size() == 1",
        "self.when.getFullYear() == 2020",
        "oldSelf == self",
        "self.list.sortBy(x, x.a).map(x, x.a) == []",
    ],
)
def test_rules_that_kubernetes_accepts_are_accepted(rule: str) -> None:
    assert reviewed({"rule": rule}) == []


@pytest.mark.parametrize(
    ("rule", "place", "message"),
    [
        ({"rule": " "}, ".rule", "Required value: rule is not specified"),
        (
            {"rule": "true", "message": " "},
            ".message",
            'Invalid value: " ": must be non-empty if specified',
        ),
        (
            {"rule": "true", "message": "a\nb"},
            ".message",
            'Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"rule": "true &&\n true"},
            ".message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            {"rule": "true", "reason": "Bad"},
            ".reason",
            'Unsupported value: "Bad": supported values: "FieldValueDuplicate", '
            '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
        ),
        (
            {"rule": "true", "fieldPath": ".zz"},
            ".fieldPath",
            'Invalid value: ".zz": must be a valid path',
        ),
        (
            {"rule": "true", "fieldPath": "zz"},
            ".fieldPath",
            'Invalid value: "zz": must be a valid path',
        ),
        (
            {"rule": "true", "optionalOldSelf": True},
            ".optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (
            {"rule": "self.replicas"},
            ".rule",
            'Invalid value: {"Rule":"self.replicas","Message":"","MessageExpression":"",'
            '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate '
            "to a bool",
        ),
        (
            {"rule": "true", "messageExpression": "1"},
            ".messageExpression",
            'Invalid value: {"Rule":"true","Message":"","MessageExpression":"1","Reason":null,'
            '"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string',
        ),
        (
            {"rule": "true", "messageExpression": "self.zz"},
            ".messageExpression",
            'Invalid value: {"Rule":"true","Message":"","MessageExpression":"self.zz",'
            '"Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression '
            "compilation failed: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz\n | ....^",
        ),
    ],
)
def test_malformed_rule_is_rejected(rule: dict[str, Any], place: str, message: str) -> None:
    assert reviewed(rule) == [f"{PLACE}{place}: {message}"]


def test_old_self_is_rejected_in_a_list_without_keys() -> None:
    item = {"type": "string", "x-kubernetes-validations": [{"rule": "self==oldSelf"}]}
    inside = {"type": "object", "properties": {"l": {"type": "array", "items": item}}}
    schema = parse_schema({"type": "object", "properties": {"spec": inside}})
    place = f"{PATH}.properties[spec].properties[l]"
    assert [str(problem) for problem in validate_rules(schema, PATH)] == [
        f'{place}.items.x-kubernetes-validations[0].rule: Invalid value: "self==oldSelf": oldSelf '
        f"cannot be used on the uncorrelatable portion of the schema within {place}"
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "self.name.find(self.?name) == ''",
        "[dyn(self.?name)].size() == 1",
        "[self.?name].map(x, x).indexOf('a') == 1",
        "'%s'.format([self.?name]) == ''",
        "isQuantity(self.?m['a'])",
        "isQuantity([self.?name][0])",
        "isQuantity(true ? self.?name : self.?name)",
        "isQuantity({'a': self.?name}.a)",
        "isQuantity(self.list.map(x, x.?a)[0])",
        "isQuantity([self.?name].filter(x, true)[0])",
        "isQuantity(self.list[?0])",
        "isQuantity(self.list.first())",
        "isQuantity([[self.?name]].flatten()[0])",
        "isQuantity(oldSelf.optMap(x, x.?name))",
    ],
)
def test_optional_argument_of_a_python_function_is_rejected(rule: str) -> None:
    """The runtime would crash on it."""
    source = {"rule": rule}
    if "oldSelf" in rule:
        source["optionalOldSelf"] = True  # type: ignore[assignment]
    assert len(reviewed(source)) == 1
