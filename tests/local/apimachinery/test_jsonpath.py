"""Paths of printer columns, compared with the results of client-go's jsonpath."""

from typing import Any

import pytest

from kilonova.local.apimachinery.jsonpath import JsonPath, JsonPathError, format_value

OBJECT: dict[str, Any] = {
    "metadata": {"name": "x", "labels": {"a.b/c": "dotted", "plain": "p"}, "annotations": None},
    "spec": {
        "replicas": 3,
        "on": True,
        "list": [1, 2, 3, 4],
        "levels": [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}],
        "text": "hi",
        "null": None,
        "empty": [],
        "mixed": [{"v": 1}, {"v": "s"}],
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 5},
            {"type": "Other", "status": "False", "n": 7},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.replicas", [3]),
        ("$.spec.text", ["hi"]),
        (".spec['replicas']", [3]),
        (".spec.missing.deep", []),
        (".spec.null", [None]),
        (".spec.null.x", []),
        (".metadata.annotations.x", []),
        (".metadata.labels['a.b/c']", []),
        (".metadata.labels['a\\.b/c']", ["dotted"]),
        (".metadata.labels.a\\.b/c", ["dotted"]),
        (".metadata.labels.*", ["dotted", "p"]),
        (".metadata.labels['plain','zzz']", ["p"]),
        (".spec.list[0]", [1]),
        (".spec.list[-1]", [4]),
        (".spec.list[1:3]", [2, 3]),
        (".spec.list[:2]", [1, 2]),
        (".spec.list[2:]", [3, 4]),
        (".spec.list[::2]", [1, 3]),
        (".spec.list[1:1]", []),
        (".spec.list[*]", [1, 2, 3, 4]),
        (".spec.list[0,2]", [1, 3]),
        (".spec.empty[*]", []),
        (".spec.levels[*].domain", ["zone", "rack"]),
        ("..domain", ["zone", "rack"]),
        (".spec..key", ["z", "r"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        ('.status.conditions[?(@.type == "Ready")].status', ["True"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@.n>5)].type", ["Other"]),
        (".status.conditions[?(@.n>=5)].type", ["Ready", "Other"]),
        (".status.conditions[?(@.n)].type", ["Ready", "Other"]),
        (".status.conditions[?(@.zz)].type", []),
        ('.status.conditions[?(@.type=="(a) or b")].status', []),
        ('.spec.missing[?(@.type=="Ready")].status', []),
    ],
)
def test_path_finds_the_values_that_client_go_finds(path: str, found: list[Any]) -> None:
    assert JsonPath(path).find(OBJECT) == found


@pytest.mark.parametrize(
    "path",
    [
        ".spec.list[9]",
        ".spec.list[-9]",
        ".spec.empty[0]",
        ".spec.text[0]",
        '.spec.text[?(@.type=="Ready")]',
        ".status.conditions[?(@.type==5)].status",
        ".spec.mixed[?(@.v==1)].v",
    ],
)
def test_path_that_does_not_apply_shows_nothing(path: str) -> None:
    compiled = JsonPath(path)
    with pytest.raises(JsonPathError):
        compiled.find(OBJECT)
    assert compiled.first(OBJECT) is None


@pytest.mark.parametrize(
    "path",
    [
        "....domain",
        ".spec.levels[",
        ".spec.levels[x]",
        "spec.replicas",
        '.spec.levels[?(@.domain=="zone"].key',
        '.spec.levels[?(@.domain=="zone" && @.key=="z")].key',
        ".spec.list[::0]",
    ],
)
def test_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(JsonPathError):
        JsonPath(path)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("hi", "hi"),
        (3, "3"),
        (1.5, "1.5"),
        (2.0, "2"),
        (1e21, "1e+21"),
        (1e-7, "1e-07"),
        (True, "true"),
        (None, "<no value>"),
        ([], "[]"),
        (["x", "y"], '["x","y"]'),
        ({"k": "v<>&"}, '{"k":"v\\u003c\\u003e\\u0026"}'),
    ],
)
def test_values_are_printed_as_go_prints_them(value: Any, text: str) -> None:
    assert format_value(value) == text
