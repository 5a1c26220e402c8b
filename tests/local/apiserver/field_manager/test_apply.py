from typing import Any

import pytest

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.field_manager import ApplyConflict, apply
from kilonova.local.apiserver.schema.builtin import builtin_schema

LEAF: dict[str, Any] = {}


def named(**values: int) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


# Each case: manager and applied spec, in order ("!" forces), and the resulting spec.
MERGING = [
    pytest.param(
        [("one", {"numeric": 1}), ("two", {"string": "x"})],
        {"numeric": 1, "string": "x"},
        id="different-fields-are-both-set",
    ),
    pytest.param(
        [("one", {"numeric": 1, "string": "x"}), ("one", {"numeric": 2})],
        {"numeric": 2},
        id="a-field-no-longer-applied-is-removed",
    ),
    pytest.param(
        [("one", {"numeric": 1}), ("two", {"numeric": 1}), ("one", {"string": "x"})],
        {"numeric": 1, "string": "x"},
        id="a-shared-field-stays-until-its-last-owner-leaves",
    ),
    pytest.param(
        [
            ("one", {"numeric": 1, "string": "x"}),
            ("two", {"numeric": 1}),
            ("one", {"string": "x"}),
            ("two", {"flag": True}),
        ],
        {"string": "x", "flag": True},
        id="a-shared-field-goes-with-its-last-owner",
    ),
    pytest.param(
        [("one", {"set": ["a", "b"]}), ("two", {"set": ["c", "a"]})],
        {"set": ["c", "a", "b"]},
        id="sets-are-united-in-the-order-applied-last",
    ),
    pytest.param(
        [("one", {"set": ["a", "b"]}), ("two", {"set": ["c", "a"]}), ("one", {"set": ["b"]})],
        {"set": ["c", "a", "b"]},
        id="an-item-of-a-set-stays-while-another-owns-it",
    ),
    pytest.param(
        [("one", {"set": ["a", "b"]}), ("two", {"set": ["c"]}), ("one", {})],
        {"set": ["c"]},
        id="items-of-a-set-go-with-their-owner",
    ),
    pytest.param(
        [("one", {"list": named(a=1, b=2)}), ("two", {"list": named(c=3)})],
        {"list": named(a=1, b=2, c=3)},
        id="items-of-a-keyed-list-are-united",
    ),
    pytest.param(
        [
            ("one", {"list": named(a=1, b=2)}),
            ("two", {"list": [{"name": "b"}, {"name": "a"}]}),
        ],
        {"list": named(b=2, a=1)},
        id="the-order-applied-last-wins",
    ),
    pytest.param(
        [
            ("one", {"list": named(a=1)}),
            ("two", {"list": [{"name": "a", "nested": {"x": 1}}]}),
            ("one", {"list": []}),
        ],
        {"list": [{"name": "a", "nested": {"x": 1}}]},
        id="an-item-stays-with-what-others-own-of-it",
    ),
    pytest.param(
        [("one", {"ports": [{"port": 1}]}), ("two", {"ports": [{"port": 1, "protocol": "UDP"}]})],
        {"ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]},
        id="a-default-is-part-of-the-key",
    ),
    pytest.param(
        [("one", {"ports": [{"port": 1}]}), ("two", {"ports": [{"port": 1, "protocol": "TCP"}]})],
        {"ports": [{"port": 1, "protocol": "TCP"}]},
        id="a-default-key-equals-the-same-key-written",
    ),
    pytest.param(
        [("one", {"atomicList": ["a"]}), ("two!", {"atomicList": ["b"]})],
        {"atomicList": ["b"]},
        id="an-atomic-list-is-replaced",
    ),
    pytest.param(
        [("one", {"atomicStruct": {"a": 1}}), ("two!", {"atomicStruct": {"b": 2}})],
        {"atomicStruct": {"b": 2}},
        id="an-atomic-struct-is-replaced",
    ),
    pytest.param(
        [("one", {"struct": {"a": 1}}), ("two", {"struct": {"b": 2}}), ("one", {})],
        {"struct": {"b": 2}},
        id="a-struct-stays-with-what-others-own-of-it",
    ),
    pytest.param(
        [("one", {"map": {"a": 1, "b": 2}}), ("one", {"map": {"b": 2}})],
        {"map": {"b": 2}},
        id="a-key-of-a-map-is-removed",
    ),
    pytest.param(
        [("one", {"mapOfMaps": {"a": {"b": 1}}}), ("two", {"mapOfMaps": {"a": {"c": 2}}})],
        {"mapOfMaps": {"a": {"b": 1, "c": 2}}},
        id="maps-of-maps-are-merged",
    ),
    pytest.param(
        [("one", {"free": {"a": {"b": 1}}}), ("two", {"free": {"a": {"c": [1]}, "d": True}})],
        {"free": {"a": {"b": 1, "c": [1]}, "d": True}},
        id="maps-without-a-schema-are-merged",
    ),
    pytest.param(
        [("one", {"free": {"a": [1, 2]}}), ("two!", {"free": {"a": [3]}})],
        {"free": {"a": [3]}},
        id="lists-without-a-schema-are-atomic",
    ),
    pytest.param(
        [("one", {"free": {"a": {"b": 1}}}), ("two!", {"free": {"a": "text"}})],
        {"free": {"a": "text"}},
        id="a-value-of-another-sort-takes-the-place",
    ),
    pytest.param(
        [("one", {"numeric": 1}), ("two!", {"numeric": 2}), ("one", {})],
        {"numeric": 2},
        id="what-was-taken-by-force-is-not-removed-by-its-former-owner",
    ),
    pytest.param(
        [("one", {"map": {"a": 1}}), ("two", {"map": None})],
        {"map": {"a": 1}},
        id="null-leaves-a-map-alone",
    ),
]


@pytest.mark.parametrize(("applies", "spec"), MERGING)
def test_merging(cluster: Any, applies: list[tuple[str, Any]], spec: Any) -> None:
    for manager, expected in applies:
        cluster.apply(manager.rstrip("!"), expected, force=manager.endswith("!"))
    assert cluster.spec == spec


@pytest.mark.parametrize(
    ("first", "second", "conflicts"),
    [
        ({"numeric": 1}, {"numeric": 2}, [".spec.numeric"]),
        ({"flag": True}, {"flag": False}, [".spec.flag"]),
        (
            {"struct": {"a": 1, "b": 1}},
            {"struct": {"a": 2, "b": 2}},
            [".spec.struct.a", ".spec.struct.b"],
        ),
        ({"list": named(a=1)}, {"list": named(a=2)}, ['.spec.list[name="a"].value']),
        (
            {"ports": [{"port": 80, "name": "a"}]},
            {"ports": [{"port": 80, "name": "b"}]},
            ['.spec.ports[port=80,protocol="TCP"].name'],
        ),
        ({"atomicList": ["a"]}, {"atomicList": ["b"]}, [".spec.atomicList"]),
        ({"atomicStruct": {"a": 1}}, {"atomicStruct": {"b": 1}}, [".spec.atomicStruct"]),
        ({"map": {"a.b/c": 1}}, {"map": {"a.b/c": 2}}, [".spec.map.a.b/c"]),
        ({"free": {"a": 1}}, {"free": {"a": True}}, [".spec.free.a"]),
        ({"quantity": 1}, {"quantity": "1"}, [".spec.quantity"]),
    ],
)
def test_fields_of_other_managers_conflict(
    cluster: Any, first: Any, second: Any, conflicts: list[str]
) -> None:
    cluster.apply("first", first)
    before = cluster.live
    with pytest.raises(ApplyConflict) as raised:
        cluster.apply("second", second)
    assert [each.field_path for each in raised.value.conflicts] == conflicts
    assert {each.owner.manager for each in raised.value.conflicts} == {"first"}
    assert cluster.live == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"numeric": 1}, {"numeric": 1}),
        ({"set": ["a"]}, {"set": ["b"]}),
        ({"list": named(a=1)}, {"list": [{"name": "a"}]}),
        ({"map": {"a": 1}}, {"map": {"b": 1}}),
        ({"struct": {"a": 1}}, {"struct": {"b": 1}}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": {"c": 1}}}),
        ({"atomicList": ["a"]}, {"atomicList": ["a"]}),
    ],
)
def test_equal_values_do_not_conflict(cluster: Any, first: Any, second: Any) -> None:
    cluster.apply("first", first)
    cluster.apply("second", second)
    assert cluster.owned("first") is not None
    assert cluster.owned("second") is not None


def test_conflicts_with_several_managers_are_listed_by_manager(cluster: Any) -> None:
    cluster.update("updater", {"string": "x"})
    cluster.apply("b", {"numeric": 1, "flag": True})
    cluster.apply("a", {"numeric": 1})
    with pytest.raises(ApplyConflict) as raised:
        cluster.apply("c", {"numeric": 2, "flag": False, "string": "y"})
    assert raised.value.message == (
        "Apply failed with 4 conflicts: "
        'conflicts with "a":\n- .spec.numeric\n'
        'conflicts with "b":\n- .spec.flag\n- .spec.numeric\n'
        'conflicts with "updater" using example.com/v1:\n- .spec.string'
    )


def test_force_takes_over_ownership(cluster: Any) -> None:
    cluster.apply("first", {"numeric": 1, "string": "x"})
    cluster.apply("second", {"numeric": 2}, force=True)
    assert cluster.owned("first") == {"f:string": LEAF}
    assert cluster.owned("second") == {"f:numeric": LEAF}


def test_empty_entry_is_removed(cluster: Any) -> None:
    cluster.apply("first", {"numeric": 1})
    cluster.apply("second", {"numeric": 2}, force=True)
    assert cluster.owned("first") is None


@pytest.mark.parametrize(
    ("spec", "owned"),
    [
        ({"set": ["b", "a"]}, {"f:set": {'v:"a"': LEAF, 'v:"b"': LEAF}}),
        ({"set": []}, {}),
        ({"atomicList": []}, {"f:atomicList": LEAF}),
        ({"map": {}}, {"f:map": LEAF}),
        ({"map": None}, {"f:map": LEAF}),
        ({"struct": {"a": 1}}, {"f:struct": {"f:a": LEAF}}),
        ({"list": [{"name": "a"}]}, {"f:list": {'k:{"name":"a"}': {".": LEAF, "f:name": LEAF}}}),
        ({"mapOfMaps": {"a": {"b": 1}}}, {"f:mapOfMaps": {"f:a": {".": LEAF, "f:b": LEAF}}}),
        ({"free": {"a": {"b": [{}]}}}, {"f:free": {"f:a": {".": LEAF, "f:b": LEAF}}}),
        (
            {"ports": [{"port": 443}, {"port": 80}]},
            {
                "f:ports": {
                    'k:{"port":80,"protocol":"TCP"}': {".": LEAF, "f:port": LEAF},
                    'k:{"port":443,"protocol":"TCP"}': {".": LEAF, "f:port": LEAF},
                }
            },
        ),
    ],
)
def test_applier_owns_the_applied_fields(cluster: Any, spec: Any, owned: Any) -> None:
    cluster.apply("one", {"string": "x", **spec})
    assert list(cluster.owned("one").items()) == sorted({"f:string": LEAF, **owned}.items())


def test_applying_again_changes_nothing_not_even_the_time(cluster: Any) -> None:
    cluster.apply("one", {"list": named(a=1), "set": ["x"]})
    before = cluster.live
    cluster.apply("one", {"list": named(a=1), "set": ["x"]})
    assert cluster.live == before


def test_co_owner_without_changes_has_no_time(cluster: Any) -> None:
    cluster.apply("one", {"numeric": 1})
    cluster.apply("two", {"numeric": 1})
    entries = {each["manager"]: each for each in cluster.live["metadata"]["managedFields"]}
    assert "time" not in entries["two"]
    assert entries["one"]["time"]


def test_object_without_managed_fields_gets_them_at_its_first_apply(cluster: Any) -> None:
    cluster.update("somebody", {"numeric": 1})
    del cluster.live["metadata"]["managedFields"]
    with pytest.raises(ApplyConflict, match="before-first-apply"):
        cluster.apply("one", {"numeric": 2})
    cluster.apply("one", {"string": "x"})
    assert cluster.owned("before-first-apply") == {".": LEAF, "f:numeric": LEAF}


def test_pruning_a_shared_map_leaves_null_as_in_kubernetes(cluster: Any) -> None:
    cluster.apply("one", {"mapOfMaps": {"a": {"b": 1}}})
    cluster.update("two", {"mapOfMaps": {"a": {"b": 1, "c": 2}}})
    cluster.apply("one", {})
    assert cluster.spec == {"mapOfMaps": None}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"numeric": "1"}, ".spec.numeric: expected numeric (int or float), got string"),
        ({"string": 1}, ".spec.string: expected string, got &value.valueUnstructured{Value:1}"),
        ({"flag": "x"}, ".spec.flag: expected boolean, got &{x}"),
        ({"map": [1]}, ".spec.map: expected map, got &{[1]}"),
        ({"set": "x"}, ".spec.set: expected list, got &{x}"),
        ({"set": ["a", "a"]}, '.spec.set: duplicate entries for key [="a"]'),
        ({"list": named(a=1) * 2}, '.spec.list: duplicate entries for key [name="a"]'),
        (
            {"list": [None]},
            ".spec.list: element 0: associative list with keys may not have a null element",
        ),
        (
            {"list": [{"value": 1}]},
            ".spec.list: element 0: associative list with keys has an element that omits all "
            'key fields ["name"] (and doesn\'t have default values for any key fields)',
        ),
        (
            {"list": [{"name": "a", "value": "x"}]},
            '.spec.list[name="a"].value: expected numeric (int or float), got string',
        ),
        (
            {"string": 1, "flag": 2},
            "errors:\n  .spec.string: expected string, got &value.valueUnstructured{Value:1}\n"
            "  .spec.flag: expected boolean, got &{2}",
        ),
    ],
)
def test_configuration_that_violates_the_schema_is_rejected(
    cluster: Any, spec: Any, problem: str
) -> None:
    with pytest.raises(ApiError) as raised:
        cluster.apply("one", spec)
    assert raised.value.code == 500
    assert raised.value.message == (
        f"failed to create typed patch object (/x; example.com/v1, Kind=Thing): {problem}"
    )


def test_live_object_that_violates_its_schema_is_reported(cluster: Any) -> None:
    cluster.apply("one", {"list": named(a=1)})
    cluster.live["spec"]["list"] = [{"value": 1}]
    with pytest.raises(ApiError, match="failed to create typed live object"):
        cluster.apply("two", {"list": named(b=1)})


def test_last_applied_annotation_is_updated_up_to_its_size_limit() -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    live: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "annotations": {name: "{}"}},
    }

    def annotation(value: str) -> Any:
        expected = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c"},
            "data": {"a": value},
        }
        result = apply(
            live,
            expected,
            builtin_schema("", "v1", "ConfigMap"),
            manager="kubectl",
            api_version="v1",
            time="2026-01-01T00:00:00Z",
        )
        return result["metadata"]["annotations"].get(name)

    assert annotation("<x>") == (
        '{"apiVersion":"v1","data":{"a":"\\u003cx\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"name":"c"}}\n'
    )
    assert annotation("x" * 300_000) is None


def test_managed_fields_cannot_be_applied() -> None:
    with pytest.raises(ApiError) as raised:
        apply(
            None,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}},
            builtin_schema("", "v1", "ConfigMap"),
            manager="m",
            api_version="v1",
            time="2026-01-01T00:00:00Z",
        )
    assert (raised.value.code, raised.value.message) == (
        400,
        "metadata.managedFields must be nil",
    )


def test_result_shares_no_mutable_value_with_its_inputs(cluster: Any) -> None:
    cluster.apply("one", {"free": {"a": [1]}, "list": named(a=1)})
    source = cluster.live
    expected = {"atomicList": ["x"]}
    cluster.apply("two", expected)
    cluster.spec["free"]["a"].append(2)
    cluster.spec["list"][0]["value"] = 9
    cluster.spec["atomicList"].append("y")
    assert source["spec"] == {"free": {"a": [1]}, "list": named(a=1)}
    assert expected == {"atomicList": ["x"]}
