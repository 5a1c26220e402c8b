"""Strategic merge patch; the expectations were compared with kube-apiserver."""

from typing import Any

import pytest

from kilonova.local.apimachinery.patch import PatchError, deep_copy, strategic_merge_patch
from kilonova.local.apiserver.schema.builtin import builtin_schema

DEPLOYMENT = builtin_schema("apps", "v1", "Deployment")


def deployment() -> dict[str, Any]:
    return {
        "metadata": {"name": "d", "finalizers": ["x/a", "x/b"], "labels": {"a": "1", "b": "2"}},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "x",
                            "image": "i",
                            "args": ["1"],
                            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        },
                        {"name": "y", "image": "j"},
                        {"name": "z", "image": "k"},
                    ],
                    "tolerations": [{"key": "a"}],
                    "nodeSelector": {"n": "1"},
                }
            },
        },
    }


def pod(**fields: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": fields}}}


def patched(patch: Any) -> dict[str, Any]:
    return strategic_merge_patch(deployment(), patch, DEPLOYMENT)


def pod_of(obj: dict[str, Any]) -> dict[str, Any]:
    return obj["spec"]["template"]["spec"]


def container_names(patch: Any) -> str:
    return "".join(each["name"] for each in pod_of(patched(patch))["containers"])


def test_keyed_items_are_merged() -> None:
    containers = pod_of(patched(pod(containers=[{"name": "y", "image": "new"}])))["containers"]
    assert containers[1] == {"name": "y", "image": "new"}
    assert [each["name"] for each in containers] == ["x", "y", "z"]


def test_lists_inside_keyed_items_are_merged() -> None:
    change = {"name": "x", "env": [{"name": "B", "value": "9"}, {"name": "C", "value": "3"}]}
    assert pod_of(patched(pod(containers=[change])))["containers"][0]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "9"},
        {"name": "C", "value": "3"},
    ]


def test_merging_empty_lists_gives_an_empty_list() -> None:
    """Lists of objects, and of scalars as sets; also with $deleteFromPrimitiveList."""
    empty: dict[str, Any] = {"metadata": {"name": "d", "finalizers": []}, **pod(volumes=[])}
    changes: dict[str, Any] = {
        "metadata": {"finalizers": [], "$deleteFromPrimitiveList/finalizers": []},
        **pod(volumes=[]),
    }
    assert strategic_merge_patch(deep_copy(empty), changes, DEPLOYMENT) == empty
    some = {"metadata": {"finalizers": ["x/a"]}, **pod(volumes=[{"name": "v"}])}
    result = strategic_merge_patch(deep_copy(empty), some, DEPLOYMENT)
    assert result["metadata"]["finalizers"] == ["x/a"]
    assert pod_of(result)["volumes"] == [{"name": "v"}]
    result = strategic_merge_patch(result, changes, DEPLOYMENT)
    assert result["metadata"]["finalizers"] == ["x/a"]
    assert pod_of(result)["volumes"] == [{"name": "v"}]


def test_lists_without_a_strategy_are_replaced() -> None:
    change = pod(tolerations=[{"key": "b"}], containers=[{"name": "x", "args": ["2", "3"]}])
    result = pod_of(patched(change))
    assert result["tolerations"] == [{"key": "b"}]
    assert result["containers"][0]["args"] == ["2", "3"]


@pytest.mark.parametrize(
    ("patch", "names"),
    [
        pytest.param(pod(containers=[{"name": "n"}]), "nxyz", id="new-items-come-first"),
        pytest.param(
            pod(containers=[{"name": "z"}, {"name": "x"}]), "yzx", id="order-of-the-patch"
        ),
        pytest.param(
            pod(**{"$setElementOrder/containers": [{"name": "z"}, {"name": "x"}]}),
            "yzx",
            id="order-directive-alone",
        ),
        pytest.param(
            pod(
                containers=[{"name": "n"}],
                **{"$setElementOrder/containers": [{"name": "x"}, {"name": "n"}, {"name": "z"}]},
            ),
            "xnyz",
            id="order-directive-with-a-new-item",
        ),
        pytest.param(
            pod(containers=[{"name": "y", "$patch": "delete"}]), "xz", id="delete-an-item"
        ),
        pytest.param(
            pod(
                containers=[{"name": "n"}, {"name": "y", "$patch": "delete"}],
                **{"$setElementOrder/containers": [{"name": "n"}, {"name": "x"}]},
            ),
            "znx",
            id="a-new-item-takes-the-place-of-a-deleted-one",
        ),
        pytest.param(
            pod(containers=[{"$patch": "replace"}, {"name": "only"}]), "only", id="replace-the-list"
        ),
    ],
)
def test_order_of_items(patch: Any, names: str) -> None:
    assert container_names(patch) == names


@pytest.mark.parametrize(
    ("patch", "finalizers"),
    [
        ({"finalizers": ["x/c", "x/a"]}, ["x/c", "x/a", "x/b"]),
        ({"$deleteFromPrimitiveList/finalizers": ["x/a", "x/z"]}, ["x/b"]),
        ({"$setElementOrder/finalizers": ["x/b", "x/a"]}, ["x/b", "x/a"]),
        (
            {"finalizers": ["x/c"], "$setElementOrder/finalizers": ["x/b", "x/c", "x/a"]},
            ["x/b", "x/c", "x/a"],
        ),
        ({"finalizers": None}, None),
    ],
)
def test_lists_of_scalars_are_merged_as_sets(patch: Any, finalizers: Any) -> None:
    assert patched({"metadata": patch})["metadata"].get("finalizers") == finalizers


@pytest.mark.parametrize(
    ("patch", "labels"),
    [
        ({"a": None, "c": "3"}, {"b": "2", "c": "3"}),
        ({"$patch": "replace", "q": "1"}, {"q": "1"}),
        ({"$patch": "delete"}, {}),
        ({"$retainKeys": ["a"], "a": "9"}, {"a": "9"}),
        (None, None),
    ],
)
def test_maps(patch: Any, labels: Any) -> None:
    assert patched({"metadata": {"labels": patch}})["metadata"].get("labels") == labels


def test_retain_keys_removes_other_keys() -> None:
    change = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert patched({"spec": change})["spec"]["strategy"] == {"type": "Recreate"}


def test_new_objects_have_no_nulls_and_directives() -> None:
    change = {"a": {"b": None, "c": {"$patch": "delete"}, "d": [{"$patch": "delete"}, {"e": None}]}}
    assert patched({"metadata": {"annotations": change}})["metadata"]["annotations"] == {
        "a": {"d": [{}]}
    }


def test_null_patch_changes_nothing() -> None:
    assert patched(None) == deployment()


def test_patch_is_not_modified() -> None:
    patch = pod(
        containers=[{"name": "x", "$patch": "delete"}, {"name": "n", "env": [{"name": "Q"}]}],
        **{"$setElementOrder/containers": [{"name": "n"}], "$retainKeys": ["containers"]},
    )
    before = deep_copy(patch)
    result = strategic_merge_patch(deployment(), patch, DEPLOYMENT)
    for container in pod_of(result)["containers"]:
        container.get("env", []).append("changed")
    assert patch == before


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            [1],
            400,
            "json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            pod(containers=[{"image": "q"}]),
            500,
            "map: map[image:q] does not contain declared merge key: name",
        ),
        (
            pod(containers=[{"$patch": "delete"}]),
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            pod(containers=[{"name": "x", "$patch": "bad"}]),
            500,
            "unknown patch type: bad in map: map[$patch:bad name:x]",
        ),
        (
            pod(containers=[{"name": "x", "$patch": "merge"}]),
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (pod(**{"$patch": "bad"}), 500, "unknown patch type: bad in map: map[$patch:bad]"),
        (
            {"metadata": {"finalizers": [1]}},
            500,
            "list element types are not identical: [[x/a x/b] [1]]",
        ),
        (
            {"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}},
            400,
            "invalid patch format of retainKeys",
        ),
        ({"spec": {"strategy": {"$retainKeys": "x"}}}, 400, "invalid patch format of retainKeys"),
        (
            {"metadata": {"$deleteFromPrimitiveList": ["x"]}},
            400,
            "invalid patch format of primitive list",
        ),
        (
            pod(**{"$setElementOrder": []}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            pod(**{"$setElementOrder/containers": 3}),
            500,
            "expected a []interface {}, but received a int64",
        ),
        (
            pod(**{"$setElementOrder/nope": []}),
            500,
            'unable to find api field in struct PodSpec for the json field "nope"',
        ),
        (
            pod(
                containers=[{"name": "x", "image": "z"}],
                **{"$setElementOrder/containers": [{"name": "y"}]},
            ),
            500,
            "The order in patch list:\n[map[image:z name:x]]\n doesn't match $setElementOrder "
            "list:\n[map[name:y]]\n",
        ),
    ],
)
def test_errors_are_those_of_kube_apiserver(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as raised:
        patched(patch)
    assert (raised.value.code, raised.value.message) == (code, message)
