"""Patches that are too expensive, or that remove the object."""

import json
import time
import tracemalloc
from typing import Any

import pytest

from tests.local.apiserver.bad_input.fuzzed_api import DEPLOYMENTS, GANGS, PODS, FuzzedApi

GANG = f"{GANGS}/gang"
JSON_PATCH = "application/json-patch+json"


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "replace", "path": "", "value": []}],
        [{"op": "replace", "path": "", "value": {}}],
        [{"op": "remove", "path": ""}],
        [{"op": "remove", "path": "/metadata"}],
        [{"op": "replace", "path": "/metadata", "value": None}],
        [{"op": "replace", "path": "/metadata", "value": "x"}],
        [{"op": "move", "from": "/spec", "path": "/spec/any"}],
        [{"op": "add", "path": "/spec/members/" + "9" * 5000, "value": 1}],
        [{"op": "add", "path": "/spec/members/99999999999999999999", "value": 1}],
        [{"op": "add", "path": "/" * 5000, "value": 1}],
        [{"op": "test", "path": "/spec/mode", "value": "x"}],
        [{"op": "leap", "path": "/spec"}],
        [{"op": 1}],
        [1],
        {"op": "add"},
    ],
    ids=lambda operations: str(operations)[:60],
)
@pytest.mark.parametrize("path", [GANG, f"{PODS}/pod-small", f"{DEPLOYMENTS}/deployment/scale"])
def test_json_patch_that_removes_the_object_is_rejected(
    fuzzed_api: FuzzedApi, path: str, operations: Any
) -> None:
    assert fuzzed_api.send("PATCH", path, operations, JSON_PATCH).status in (400, 422, 500)


def test_patch_with_too_many_operations_is_rejected(fuzzed_api: FuzzedApi) -> None:
    operations = [{"op": "test", "path": "/kind", "value": "Gang"}] * 10_001
    reply = fuzzed_api.send("PATCH", GANG, operations, JSON_PATCH)
    assert reply.status == 413
    assert "10000" in json.loads(reply.body)["message"]


def test_exponential_copy_operations_are_stopped(fuzzed_api: FuzzedApi) -> None:
    """Forty of them would create 10^12 objects."""
    operations = [{"op": "add", "path": "/spec/any", "value": {"x": "y" * 1000}}] + [
        {"op": "copy", "from": "/spec", "path": f"/spec/any/{number}"} for number in range(40)
    ]
    tracemalloc.start()
    started = time.process_time()
    try:
        reply = fuzzed_api.send("PATCH", GANG, operations, JSON_PATCH)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reply.status == 422
    assert peak < 64 << 20
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "patch",
    [
        {"$patch": "delete"},
        {"$patch": 1},
        {"metadata": 1},
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"labels": []}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": 1}},
        {"metadata": {"managedFields": [{"fieldsType": "FieldsV1", "fieldsV1": {"k:{": {}}}]}},
        {"spec": {"containers": [{"$patch": "delete"}]}},
        {"spec": {"containers": [1]}},
        {"spec": {"$setElementOrder/containers": "x"}},
        {"spec": {"$setElementOrder/containers": [1], "containers": []}},
        {"spec": {"$retainKeys": 1}},
        [1],
        "x",
    ],
    ids=str,
)
def test_hostile_merge_patches_get_a_response(fuzzed_api: FuzzedApi, patch: Any) -> None:
    for kind in ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"):
        for path in (GANG, f"{PODS}/pod-small", f"{DEPLOYMENTS}/deployment"):
            query = [("fieldManager", "somebody"), ("dryRun", "All")]
            reply = fuzzed_api.send("PATCH", path, patch, f"application/{kind}", query=query)
            assert reply.status >= 200


@pytest.mark.parametrize("depth", [250, 900, 9000])
def test_deeply_nested_patch_is_rejected(fuzzed_api: FuzzedApi, depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    merge = f'{{"spec":{{"any":{deep}}}}}'.encode()
    add = f'[{{"op":"add","path":"/spec/any","value":{deep}}}]'.encode()
    dig = [{"op": "add", "path": "/spec/any", "value": {}}] + [
        {"op": "add", "path": "/spec/any" + "/a" * level, "value": {}} for level in range(1, 400)
    ]
    for body, kind in ((merge, "merge-patch+json"), (add, "json-patch+json")):
        assert fuzzed_api.send("PATCH", GANG, body, f"application/{kind}").status in (400, 422)
    assert fuzzed_api.send("PATCH", GANG, dig, JSON_PATCH).status in (400, 422)
    fuzzed_api.check_usable(GANG)
