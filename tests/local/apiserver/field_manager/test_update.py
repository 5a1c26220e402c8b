from typing import Any

import pytest

from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apiserver.field_manager import (
    exclude_fields,
    keep_unchanged_times,
    record_update,
)
from kilonova.local.apiserver.schema.builtin import builtin_schema

CONFIG_MAP = builtin_schema("", "v1", "ConfigMap")
POD = builtin_schema("", "v1", "Pod")
LEAF: dict[str, Any] = {}
MAIN = exclude_fields("status")
STATUS = exclude_fields("spec", "metadata")


def config_map(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "c", "uid": "1", "resourceVersion": "5"}, "data": data}


def recorded(
    live: dict[str, Any] | None, new: dict[str, Any], manager: str, second: int = 0, **more: Any
) -> dict[str, Any]:
    schema = more.pop("schema", CONFIG_MAP)
    time = f"2026-01-01T00:00:{second:02}Z"
    record_update(live, new, schema, manager=manager, api_version="v1", time=time, **more)
    return new


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {each["manager"]: each["fieldsV1"] for each in obj["metadata"].get("managedFields", ())}


def test_creator_owns_all_fields_but_the_identity() -> None:
    obj = config_map(a="1")
    obj["metadata"]["labels"] = {"x": "y"}
    recorded(None, obj, "creator")
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": LEAF, "f:a": LEAF},
                "f:metadata": {"f:labels": {".": LEAF, "f:x": LEAF}},
            },
        }
    ]


def test_changed_field_changes_its_owner() -> None:
    live = recorded(None, config_map(a="1", b="1"), "one")
    new = recorded(live, config_map(a="1", b="2"), "two", 1)
    assert owners(new) == {
        "one": {"f:data": {".": LEAF, "f:a": LEAF}},
        "two": {"f:data": {"f:b": LEAF}},
    }


def test_removed_field_has_no_owner() -> None:
    live = recorded(None, config_map(a="1", b="1"), "one")
    new = recorded(live, config_map(a="1"), "two", 1)
    assert owners(new) == {"one": {"f:data": {".": LEAF, "f:a": LEAF}}}


def test_manager_without_a_name_is_unknown() -> None:
    assert list(owners(recorded(None, config_map(a="1"), ""))) == ["unknown"]


def test_entry_time_changes_when_the_owner_changes_its_field() -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = recorded(live, config_map(a="2"), "one", 7)
    assert [each["time"] for each in new["metadata"]["managedFields"]] == ["2026-01-01T00:00:07Z"]


def test_managed_fields_survive_an_update_without_them() -> None:
    live = recorded(None, config_map(a="1"), "one")
    assert recorded(live, config_map(a="1"), "two")["metadata"] == live["metadata"]


@pytest.mark.parametrize("sent", [[], [{}]])
def test_client_may_reset_managed_fields(sent: Any) -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = config_map(a="2")
    new["metadata"]["managedFields"] = sent
    assert "managedFields" not in recorded(live, new, "two")["metadata"]


def test_subresource_cannot_write_managed_fields() -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = config_map(a="1")
    new["metadata"]["managedFields"] = [{}]
    assert owners(recorded(live, new, "two", subresource="status")) == owners(live)


def test_reset_managed_fields_stay_empty() -> None:
    live = config_map(a="1")
    assert "managedFields" not in recorded(live, config_map(a="2"), "one")["metadata"]


def test_client_may_write_managed_fields() -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = config_map(a="1", b="1")
    new["metadata"]["managedFields"] = [
        {
            "manager": "other",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2020-01-01T02:00:00.5+02:00",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}, "z:?": {}}},
        }
    ]
    recorded(live, new, "one")
    assert owners(new) == {"other": {"f:data": {"f:a": LEAF}}, "one": {"f:data": {"f:b": LEAF}}}
    assert new["metadata"]["managedFields"][0]["time"] == "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Nope"},
        {"apiVersion": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"nope": {}}},
        {"time": "yesterday"},
    ],
)
def test_malformed_managed_fields_are_ignored(change: Any) -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = config_map(a="1")
    new["metadata"]["managedFields"] = [{**live["metadata"]["managedFields"][0], **change}]
    assert owners(recorded(live, new, "two")) == owners(live)


def test_reset_fields_are_not_owned() -> None:
    live = {"metadata": {"name": "p"}, "spec": {"nodeName": "a"}, "status": {"phase": "x"}}
    recorded(None, live, "one", schema=POD, ignored=MAIN)
    assert owners(live) == {"one": {"f:spec": {"f:nodeName": LEAF}}}
    new: dict[str, Any] = deep_copy(live)
    new["spec"]["nodeName"], new["status"]["phase"] = "b", "y"
    recorded(live, new, "two", schema=POD, subresource="status", ignored=STATUS)
    assert owners(new) == {
        "one": {"f:spec": {"f:nodeName": LEAF}},
        "two": {"f:status": {"f:phase": LEAF}},
    }
    assert new["metadata"]["managedFields"][1]["subresource"] == "status"


def test_update_entries_beyond_ten_are_merged() -> None:
    obj = recorded(None, config_map(k0="v"), "m0")
    for number in range(1, 13):
        new = deep_copy(obj)
        new["data"][f"k{number}"] = "v"
        obj = recorded(obj, new, f"m{number}", number)
    names = [each["manager"] for each in obj["metadata"]["managedFields"]]
    assert names == ["ancient-changes", *(f"m{number}" for number in range(4, 13))]
    assert owners(obj)["ancient-changes"] == {
        "f:data": {".": LEAF, "f:k0": LEAF, "f:k1": LEAF, "f:k2": LEAF, "f:k3": LEAF}
    }


def test_items_with_the_same_key_are_owned_together() -> None:
    def pod(*values: str) -> dict[str, Any]:
        env = [{"name": "A", "value": value} for value in values]
        return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "env": env}]}}

    def env_of(obj: dict[str, Any], manager: str) -> Any:
        containers = owners(obj)[manager]["f:spec"]["f:containers"]
        return containers['k:{"name":"c"}']["f:env"]

    live = recorded(None, pod("1", "2"), "one", schema=POD)
    assert env_of(live, "one") == {".": LEAF, 'k:{"name":"A"}': LEAF}
    new = recorded(live, pod("1", "3"), "two", 1, schema=POD)
    assert env_of(new, "two") == {'k:{"name":"A"}': LEAF}
    single = recorded(new, pod("1"), "three", 2, schema=POD)
    assert env_of(single, "three") == {
        'k:{"name":"A"}': {".": LEAF, "f:name": LEAF, "f:value": LEAF}
    }


def test_field_that_became_atomic_is_owned_as_a_whole(cluster: Any) -> None:
    cluster.update("one", {"string": "x"})
    entry = cluster.live["metadata"]["managedFields"][0]
    entry["fieldsV1"] = {"f:spec": {"f:atomicStruct": {"f:a": {}}, "f:string": {}}}
    cluster.live["spec"]["atomicStruct"] = {"a": 1}
    cluster.update("two", {"string": "y", "atomicStruct": {"a": 1}})
    assert cluster.owned("one") == {"f:atomicStruct": LEAF}


def test_change_from_one_to_true_is_detected(cluster: Any) -> None:
    cluster.update("one", {"free": {"a": {"b": 1}}})
    cluster.update("two", {"free": {"a": {"b": True}}})
    assert cluster.owned("two") == {"f:free": {"f:a": {"f:b": LEAF}}}


def test_entry_times_are_kept_only_without_other_changes() -> None:
    live = recorded(None, config_map(a="1"), "one")
    new = recorded(live, config_map(a="2"), "one", 9)
    keep_unchanged_times(live, new)
    assert new["metadata"]["managedFields"][0]["time"] == "2026-01-01T00:00:09Z"
    new["data"]["a"] = "1"
    keep_unchanged_times(live, new)
    assert new == live
