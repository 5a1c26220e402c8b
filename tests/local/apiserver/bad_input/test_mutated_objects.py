"""Valid objects with invalid values: rejected with the field's name, or usable afterwards."""

import copy
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.campaigns import limit_examples
from tests.local.apiserver.bad_input.fuzzed_api import GANG, GANGS, PODS, FuzzedApi, valid_objects

ODD: list[Any] = [
    None,
    True,
    -1,
    3.5,
    1e308,
    2**31,
    2**63,
    2**64,
    10**30,
    10**400,
    "",
    "NaN",
    "1e1000000",
    "-1",
    "9" * 5000,
    "\0",
    "a\0b",
    "\u202e",
    "é",
    "a" * 300,
    "-a",
    "A_B",
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "99999-01-01T00:00:00Z",
    "2026-01-01T00:00:00+23:59",
    "300.1.1.1",
    "::1%eth0",
    "10.0.0.0/99",
    "1Ei",
    "123456789012345678901234567890Ki",
    "1n",
    "99999999999999%",
    "../..",
    "\n",
    [],
    {},
    [[]],
    [{}],
    [None],
    [1],
    ["a", "a"],
    {"": ""},
    {"a": None},
    {"a/b/c": "d"},
    [{"name": "x"}, {"name": "x"}],
    [{"name": None}],
]
EXTRA = [
    "finalizers",
    "labels",
    "annotations",
    "ownerReferences",
    "generateName",
    "managedFields",
    "deletionTimestamp",
    "creationTimestamp",
    "resourceVersion",
    "uid",
    "status",
    "spec",
    "selector",
    "unknown",
    "",
]
OBJECTS = valid_objects()


def mutated(data: st.DataObject, original: Any) -> Any:
    """The object with one to three odd values in it."""
    obj = copy.deepcopy(original)
    for _ in range(data.draw(st.integers(1, 3))):
        holder: Any = obj
        for _ in range(data.draw(st.integers(0, 6))):
            below = [
                value
                for value in (holder.values() if isinstance(holder, dict) else holder)
                if isinstance(value, dict | list) and value
            ]
            if not below:
                break
            holder = data.draw(st.sampled_from(below))
        odd = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        if isinstance(holder, list):
            holder[data.draw(st.integers(0, len(holder) - 1))] = odd
        else:
            names = sorted({*holder, *EXTRA} - {"apiVersion", "kind"})
            holder[data.draw(st.sampled_from(names))] = odd
    return obj


@settings(max_examples=limit_examples(500), derandomize=True, deadline=None, database=None)
@given(
    data=st.data(),
    selected=st.sampled_from(OBJECTS),
    strictness=st.sampled_from(["Strict", "Warn", "Ignore"]),
)
def test_an_odd_object_is_rejected_or_usable(
    fuzzed_api: FuzzedApi, data: st.DataObject, selected: tuple[str, Any], strictness: str
) -> None:
    collection, original = selected
    obj, replaced, applied = (mutated(data, original) for _ in range(3))
    reply = fuzzed_api.send("POST", collection, obj, query=[("fieldValidation", strictness)])
    if reply.status != 201:
        assert json.loads(reply.body)["message"]
        return
    path = f"{collection}/{quote(json.loads(reply.body)['metadata']['name'], safe='')}"
    try:
        fuzzed_api.check_usable(path)
        fuzzed_api.send("PUT", path, replaced)
        query = [("fieldManager", "somebody"), ("force", "true")]
        fuzzed_api.send("PATCH", path, applied, "application/apply-patch+yaml", query=query)
    finally:
        fuzzed_api.remove(path)


@settings(max_examples=limit_examples(300), derandomize=True, deadline=None, database=None)
@given(
    data=st.data(),
    position=st.sampled_from(
        [
            (f"{PODS}/pod-small/binding", {"target": {"kind": "Node", "name": "n"}}),
            (f"{PODS}/pod-small/eviction", {"deleteOptions": {"gracePeriodSeconds": 1}}),
            (
                "/api/v1/namespaces/default/serviceaccounts/somebody/token",
                {"spec": {"expirationSeconds": 600, "boundObjectRef": {"kind": "Pod"}}},
            ),
            (
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                {"spec": {"user": "u", "resourceAttributes": {"verb": "get"}}},
            ),
            ("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "t"}}),
        ]
    ),
)
def test_odd_subresources_are_rejected_or_done(
    fuzzed_api: FuzzedApi, data: st.DataObject, position: tuple[str, Any]
) -> None:
    path, body = position
    if path.endswith("token"):
        account = {"metadata": {"name": "somebody"}}
        fuzzed_api.send("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    named = {"metadata": {"name": path.split("/")[-2]}, **body}
    reply = fuzzed_api.send("POST", path, mutated(data, named), query=[("dryRun", "All")])
    assert json.loads(reply.body)["kind"]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (PODS, {"metadata": "x"}, "Go struct field Pod.metadata of type v1.ObjectMeta"),
        (f"{PODS}/pod-small/binding", {"target": []}, "Go struct field Binding.target"),
        (f"{PODS}/pod-small/eviction", {"deleteOptions": 1}, "Eviction.deleteOptions"),
        (
            f"{PODS}/pod-small/eviction",
            {"deleteOptions": {"gracePeriodSeconds": "soon"}},
            "gracePeriodSeconds of type int64",
        ),
        (GANGS, {**GANG, "spec": {"mode": 1}}, "spec.mode"),
        (GANGS, {**GANG, "spec": {"mode": "a" * 60 + "B"}}, "spec.mode"),
        (GANGS, {**GANG, "spec": {"mode": "a", "replicas": 10**30}}, "spec.replicas"),
    ],
)
def test_rejection_names_the_field(fuzzed_api: FuzzedApi, path: str, body: Any, named: str) -> None:
    reply = fuzzed_api.send("POST", path, body)
    assert reply.status in (400, 422)
    assert named in json.loads(reply.body)["message"]


@pytest.mark.parametrize("depth", [100, 190, 250, 500, 990, 5000])
@pytest.mark.parametrize(("begin", "end"), [('{"a":', "}"), ("[", "]")])
def test_deeply_nested_objects_are_usable_or_rejected(
    fuzzed_api: FuzzedApi, depth: int, begin: str, end: str
) -> None:
    deep = begin * depth + "1" + end * depth
    text = json.dumps({**GANG, "metadata": {"name": "deep"}}).replace('{"x": 1}', deep)
    reply = fuzzed_api.send("POST", GANGS, text.encode())
    assert reply.status == (201 if depth < 195 else 400)
    if reply.status == 201:
        fuzzed_api.check_usable(f"{GANGS}/deep")
        fuzzed_api.remove(f"{GANGS}/deep")
