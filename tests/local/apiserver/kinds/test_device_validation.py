"""ResourceClaims, DeviceClasses and ResourceSlices: defaults and validation."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import KindStrategy
from tests.local.apiserver.kinds.recorded_objects import served_kinds

_BORN = {"name": "a", "uid": "UID", "creationTimestamp": "2026-01-02T03:04:05Z"}
_POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}


def strategy(kind: str) -> KindStrategy:
    return served_kinds()["resource.k8s.io/v1", kind].strategy


def created(kind: str, **parts: Any) -> JsonObject:
    """An object as it is stored, if it is valid."""
    obj: JsonObject = {"metadata": dict(_BORN), **deepcopy(parts)}
    strategy(kind).default(obj)
    strategy(kind).prepare_create(obj)
    return obj


def rejections_of(kind: str, spec: Any) -> list[str]:
    obj, rules = created(kind, spec=spec), strategy(kind)
    return [str(problem) for problem in [*rules.validate(obj), *rules.validate_create(obj)]]


def claim_spec(*requests: Any, **more: Any) -> Any:
    return {"devices": {"requests": list(requests), **more}}


def slice_spec(**more: Any) -> Any:
    return {"driver": "gpu.example.com", "pool": _POOL, "allNodes": True, **more}


ONE = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
OPAQUE = {"opaque": {"driver": "d", "parameters": {"a": 1}}}


def test_request_defaults_to_one_device() -> None:
    spec = claim_spec(
        ONE,
        {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        {"name": "some", "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 3}]},
    )
    one, all_, some = created("ResourceClaim", spec=spec)["spec"]["devices"]["requests"]
    assert one["exactly"] == {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert all_["exactly"] == {"deviceClassName": "gpu", "allocationMode": "All"}
    assert some["firstAvailable"][0]["count"] == 3


def test_new_claim_has_no_status() -> None:
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
    assert created("ResourceClaim", spec=claim_spec(ONE), status=status)["status"] == {}


def test_driver_parameters_may_be_an_empty_object() -> None:
    config = [{"opaque": {"driver": "d", "parameters": {}}}]
    assert rejections_of("DeviceClass", {"config": config}) == []


def test_new_taint_gets_its_time() -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}]
    obj = created("ResourceSlice", spec=slice_spec(devices=[{"name": "x", "taints": taints}]))
    assert obj["spec"]["devices"][0]["taints"][0]["timeAdded"] == _BORN["creationTimestamp"]


def test_fields_of_disabled_features_are_dropped() -> None:
    device = {
        "name": "x",
        "attributes": {"a": {"int": 1}, "b": {"ints": [1, 2]}},
        "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": "1"}},
    }
    obj = created("ResourceSlice", spec=slice_spec(devices=[device]))
    assert obj["spec"]["devices"] == [{"name": "x", "attributes": {"a": {"int": 1}, "b": {}}}]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ('device.driver == "x" && device.attributes["x"].fast', ""),
        ('device.capacity["x"].memory.compareTo(quantity("1Gi")) > 0', ""),
        ('cel.bind(x, device.attributes["x"], x.one || x.two)', ""),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("device.model", "undefined field 'model'"),
        ("node == 'x'", "undeclared reference to 'node'"),
    ],
)
def test_selectors_are_cel_conditions_on_a_device(expression: str, error: str) -> None:
    found = rejections_of("DeviceClass", {"selectors": [{"cel": {"expression": expression}}]})
    assert (error in found[0]) if error else found == []


REFUSED: list[tuple[str, Any, list[str]]] = [
    (
        "ResourceClaim",
        claim_spec({"name": "gpu"}),
        [
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or "
            "`firstAvailable` is required"
        ],
    ),
    (
        "ResourceClaim",
        claim_spec(ONE, ONE),
        ['spec.devices.requests[1]: Duplicate value: "gpu"'],
    ),
    (
        "ResourceClaim",
        claim_spec(ONE, constraints=[{"requests": ["x"], "matchAttribute": "a/b"}]),
        [
            'spec.devices.constraints[0].requests[0]: Invalid value: "x": must be the name of a '
            "request in the claim or the name of a request and a subrequest separated by '/'"
        ],
    ),
    (
        "ResourceClaimTemplate",
        {"metadata": {"name": "x"}, "spec": claim_spec(ONE, config=[OPAQUE] * 33)},
        [
            "spec.metadata.name: Forbidden: cannot be set",
            "spec.spec.devices.config: Too many: 33: must have at most 32 items",
        ],
    ),
    (
        "ResourceSlice",
        slice_spec(nodeName="n"),
        [
            'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
            "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple "
            "fields are set"
        ],
    ),
    (
        "ResourceSlice",
        slice_spec(devices=[{"name": f"x{index}"} for index in range(129)]),
        ["spec.devices: Too many: 129: must have at most 128 items"],
    ),
    (
        "ResourceSlice",
        slice_spec(
            devices=[
                {"name": f"x{index}", "taints": [{"key": "a", "effect": "NoSchedule"}]}
                for index in range(65)
            ]
        ),
        ["spec.devices: Too many: 65: must have at most 64 items"],
    ),
    (
        "ResourceSlice",
        slice_spec(devices=[{"name": "x", "capacity": {f"c{n}": {"value": 1} for n in range(33)}}]),
        [
            "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities "
            "must not exceed 32"
        ],
    ),
]


@pytest.mark.parametrize(("kind", "spec", "expected"), REFUSED)
def test_invalid_spec_is_rejected(kind: str, spec: Any, expected: list[str]) -> None:
    assert rejections_of(kind, spec) == expected


RESULT = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
ALLOCATION = {"devices": {"results": [RESULT]}}
POD = {"resource": "pods", "name": "p", "uid": "u"}


def status_change(old: JsonObject, new: JsonObject, **metadata: Any) -> tuple[Any, list[str]]:
    """The claim after a write to its status, and the validation errors."""
    claim = created("ResourceClaim", spec=claim_spec(ONE))
    claim["metadata"] = {**claim["metadata"], "resourceVersion": "7", **metadata}
    before, after = {**claim, "status": old}, {**deepcopy(claim), "status": deepcopy(new)}
    strategy("ResourceClaim").prepare_status(after, before)
    problems = strategy("ResourceClaim").validate_update(after, before)
    return after, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"allocation": ALLOCATION, "reservedFor": [POD]}, []),
        ({"allocation": ALLOCATION, "reservedFor": [POD]}, {}, []),
        (
            {},
            {"reservedFor": [POD]},
            [
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ],
        ),
        (
            {"allocation": ALLOCATION},
            {"allocation": {"devices": {}}},
            ['status.allocation: Invalid value: {"devices":{}}: field is immutable'],
        ),
        (
            {},
            {"allocation": ALLOCATION, "reservedFor": [{**POD, "uid": str(n)} for n in range(257)]},
            ["status.reservedFor: Too many: 257: must have at most 256 items"],
        ),
    ],
)
def test_claim_status_update_is_validated(old: Any, new: Any, expected: list[str]) -> None:
    assert status_change(old, new)[1] == expected


def test_terminating_claim_accepts_no_new_consumer() -> None:
    old = {"allocation": ALLOCATION, "reservedFor": [POD]}
    new = {"allocation": ALLOCATION, "reservedFor": [POD, {**POD, "uid": "v"}]}
    _, found = status_change(old, new, deletionTimestamp="2026-01-02T03:04:05Z")
    assert found == [
        "status.reservedFor: Forbidden: new entries may not be added while "
        "`deallocationRequested` or `deletionTimestamp` are set"
    ]


def test_device_status_is_removed_with_its_allocation() -> None:
    expected = {"driver": "d", "pool": "p", "device": "x", "conditions": []}
    after, found = status_change(
        {"allocation": ALLOCATION, "devices": [expected]}, {"devices": [expected]}
    )
    assert (after["status"], found) == ({}, [])
