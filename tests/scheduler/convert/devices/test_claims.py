"""Conversion of slices, selectors, claims and allocations."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.binding.claim_allocations import (
    AllocationConflict,
    released_status,
    reserved_status,
)
from kilonova.scheduler.convert.devices.allocations import (
    convert_allocation,
    convert_claim_status,
    encode_allocation,
)
from kilonova.scheduler.convert.devices.cel_selectors import (
    SelectorError,
    check_expression,
    matches_device,
)
from kilonova.scheduler.convert.devices.claims import ClaimNotReady, with_claims
from kilonova.scheduler.convert.devices.resource_slices import convert_resource_pool
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import (
    ALL_DEVICES,
    AllocatedDevice,
    AttributeConstraint,
    ClaimAllocation,
    ClaimRequest,
    ConsumableCapacity,
    Device,
    DeviceAttribute,
    DeviceId,
    DeviceRequestOption,
    SharedCounter,
)
from kilonova.scheduler.core.dra.inventory import ANY_NODE
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.model.taints import Taint, Toleration
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.resource_v1 import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimConsumer,
    ResourceSlice,
)

DRIVER = "gpu.example.com"
GIB = 2**30 * 10**9


def metadata(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **fields}


def slice_(name: str = "s", *, generation: int = 1, slices: int = 1, **spec: Any) -> ResourceSlice:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": slices}
    body = {"metadata": metadata(name), "spec": {"driver": DRIVER, "pool": pool, **spec}}
    return msgspec.convert(body, ResourceSlice)


def named_devices(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


# Slices.

CONSUMES_COUNTER = {"counterSet": "absent", "counters": {"c": {"value": 1}}}


def test_device_is_converted_with_all_fields() -> None:
    counters = [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}]
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}
    device = {
        "name": "gpu-0",
        "attributes": {
            "index": {"int": 0},
            "ok": {"bool": True},
            "model": {"string": "H100"},
            "driver": {"version": "1.2.3"},
        },
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
        "consumesCounters": [{"counterSet": "set", "counters": {"memory": {"value": "10Gi"}}}],
        "taints": [
            {"key": "broken", "effect": "NoExecute"},
            {"key": "note", "effect": "None"},
        ],
        "allowMultipleAllocations": True,
    }
    pool = convert_resource_pool(
        [
            slice_("counters", slices=2, nodeName="n1", sharedCounters=counters),
            slice_("devices", slices=2, nodeName="n1", devices=[device]),
        ]
    )
    counter = SharedCounter(DRIVER, "pool", "set", "memory")
    assert pool is not None
    assert pool.complete
    assert pool.nodes == {"n1"}
    assert pool.counters == {counter: 80 * GIB}
    assert pool.devices == (
        Device(
            DeviceId(DRIVER, "pool", "gpu-0"),
            "n1",
            attributes={
                "index": DeviceAttribute("int", 0),
                "ok": DeviceAttribute("bool", True),
                "model": DeviceAttribute("string", "H100"),
                "driver": DeviceAttribute("version", "1.2.3"),
            },
            capacity={"memory": ConsumableCapacity(80 * GIB, GIB, GIB, 8 * GIB, GIB)},
            taints=(Taint("broken", "NoExecute"),),
            consumes=((counter, 10 * GIB),),
            shared=True,
        ),
    )


@pytest.mark.parametrize(
    ("slices", "devices", "complete"),
    [
        ([slice_(nodeName="n", devices=named_devices("a", "b"))], ["a", "b"], True),
        ([slice_(slices=2, nodeName="n", devices=named_devices("a"))], [], False),
        (
            [
                slice_("old", generation=1, nodeName="n", devices=named_devices("a")),
                slice_("new", generation=2, nodeName="n", devices=named_devices("b")),
            ],
            ["b"],
            True,
        ),
        ([slice_(nodeName="n", devices=named_devices("a", "a"))], [], False),
        (
            [
                slice_(
                    nodeName="n",
                    devices=[
                        {
                            "name": "a",
                            "consumesCounters": [CONSUMES_COUNTER],
                        }
                    ],
                )
            ],
            [],
            False,
        ),
        (
            [slice_(nodeName="n", devices=[{"name": "a", "bindingConditions": ["Attached"]}])],
            [],
            True,
        ),
    ],
    ids=["complete", "missing slice", "newest", "duplicate", "unknown counter", "conditional"],
)  # fmt: skip
def test_only_complete_pools_count(
    slices: list[ResourceSlice], devices: list[str], complete: bool
) -> None:
    pool = convert_resource_pool(slices)
    assert pool is not None
    assert [each.id.name for each in pool.devices] == devices
    assert pool.complete == complete


def test_devices_are_usable_on_their_nodes() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    devices = [
        {"name": "here", "nodeName": "n1"},
        {"name": "near", "nodeSelector": selector},
        {"name": "anywhere", "allNodes": True},
    ]
    pool = convert_resource_pool([slice_(perDeviceNodeSelection=True, devices=devices)])
    assert pool is not None
    term = NodeSelectorTerm((Requirement("zone", "In", ("a",)),))
    assert [(each.node, each.terms) for each in pool.devices] == [
        ("n1", ()),
        ("", (term,)),
        ("", ()),
    ]
    assert pool.nodes == {"n1", ANY_NODE}


# Selectors.

DEVICE = Device(
    DeviceId(DRIVER, "pool", "gpu-0"),
    attributes={
        "type": DeviceAttribute("string", "gpu"),
        "index": DeviceAttribute("int", 3),
        "ok": DeviceAttribute("bool", True),
        "version": DeviceAttribute("version", "580.1.2"),
        "build": DeviceAttribute("version", "1.2.3+a-b"),
        "resource.kubernetes.io/pcieRoot": DeviceAttribute("string", "pci0000:00"),
    },
    capacity={"memory": ConsumableCapacity(80 * GIB)},
)
OWN_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'{OWN_ATTRIBUTES}.type == "gpu" && {OWN_ATTRIBUTES}.index >= 3', True),
        (f'{OWN_ATTRIBUTES}.type in ["mig", "vfio"]', False),
        (f"{OWN_ATTRIBUTES}.ok", True),
        (f'cel.bind(mine, {OWN_ATTRIBUTES}, mine.ok && mine.type.matches("^g"))', True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
        (f'{MEMORY}.compareTo(quantity("80Gi")) == 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("80Gi"))', False),
        (f'{MEMORY}.sub(quantity("79Gi")).asInteger() == 1073741824', True),
        (f'{OWN_ATTRIBUTES}.version.isGreaterThan(semver("580.1.1"))', True),
        (f'{OWN_ATTRIBUTES}.version.isLessThan(semver("580.1.2-rc.1"))', False),
        (f'{OWN_ATTRIBUTES}.version.major() == 580 && semver("v1.2", true).minor() == 2', True),
        (
            f'{OWN_ATTRIBUTES}.build == semver("1.2.3") && semver("1.2.3+b") == semver("1.2.3")',
            True,
        ),
        (f'{OWN_ATTRIBUTES}.type.find("p.") == "pu" && ip("10.0.0.1").family() == 4', True),
        ("device.allowMultipleAllocations", False),
        (f"has({OWN_ATTRIBUTES}.absent)", False),
        (f"{OWN_ATTRIBUTES}.absent == 1", False),
        ('"x" in device.attributes["other.example.com"]', False),
        ('device.attributes["other.example.com"].x == 1', False),
        (f"{OWN_ATTRIBUTES}.index", False),
    ],
)
def test_selectors_choose_devices(expression: str, expected: bool) -> None:
    assert matches_device(expression, DEVICE) == expected


@pytest.mark.parametrize(
    "expression",
    [
        'dyn(optional.of({"quantity": "1"})).compareTo(quantity("1")) == 0',
        "[dyn(optional.of(1))].min() == 1",
    ],
)
def test_selector_that_would_crash_the_runtime_is_invalid(expression: str) -> None:
    with pytest.raises(SelectorError, match="found no matching overload"):
        check_expression(expression)


def test_invalid_selector_is_reported() -> None:
    with pytest.raises(SelectorError, match="Syntax error"):
        check_expression("device.driver == ")


# Claims.


def claim(
    name: str = "c", *, status: Any = None, meta: Any = None, **devices: Any
) -> ResourceClaim:
    body = {
        "metadata": metadata(name, namespace="ns", **(meta or {})),
        "spec": {"devices": devices},
        "status": status or {},
    }
    return msgspec.convert(body, ResourceClaim)


def exactly(name: str = "gpu", **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def pod(statuses: Any = (), *claims: dict[str, Any]) -> Pod:
    body = {
        "metadata": metadata("p", namespace="ns"),
        "spec": {"resourceClaims": list(claims)},
        "status": {"resourceClaimStatuses": list(statuses)},
    }
    return msgspec.convert(body, Pod)


def cel(expression: str) -> dict[str, Any]:
    return {"cel": {"expression": expression}}


GPU_CLASS = msgspec.convert(
    {"metadata": metadata("gpu"), "spec": {"selectors": [cel("true")]}}, DeviceClass
)
IMPLICIT_GPU_RESOURCE = "deviceclass.resource.kubernetes.io/gpu"
NAMED_CLAIM = {"name": "devices", "resourceClaimName": "c"}
FROM_TEMPLATE = {"name": "devices", "resourceClaimTemplateName": "t"}
CREATED_STATUS = [{"name": "devices", "resourceClaimName": "c"}]
OWNER_METADATA = {
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    ]
}


def convert(claiming_pod: Pod, *claims: ResourceClaim) -> Member:
    claims_by_key = {each.key: each for each in claims}
    return with_claims(
        claiming_pod, Member("ns/p", Shape()), claims_by_key.get, {"gpu": GPU_CLASS}.get
    )


def test_user_created_claim_is_referenced_by_key() -> None:
    member = convert(pod((), NAMED_CLAIM), claim(requests=[exactly(count=2)]))
    assert member.claims == ("ns/c",)
    option = DeviceRequestOption("gpu", ("true",), 2, resource=IMPLICIT_GPU_RESOURCE)
    assert member.shape.claims == (ClaimRequest(((option,),), (), "ns/c"),)


@pytest.mark.parametrize(
    ("extended_resource", "counts_as"),
    [("nvidia.com/gpu", "nvidia.com/gpu"), ("", IMPLICIT_GPU_RESOURCE)],
)
def test_devices_count_as_the_resource_of_their_class(
    extended_resource: str, counts_as: str
) -> None:
    spec = {"selectors": [cel("true")], "extendedResourceName": extended_resource}
    class_ = msgspec.convert({"metadata": metadata("gpu"), "spec": spec}, DeviceClass)
    claiming_pod, named_claim = pod((), NAMED_CLAIM), claim(requests=[exactly()])
    member = with_claims(
        claiming_pod, Member("ns/p", Shape()), {"ns/c": named_claim}.get, {"gpu": class_}.get
    )
    assert member.shape.claims[0].requests[0][0].resource == counts_as


def test_claims_of_equal_pods_are_equal_until_they_have_devices() -> None:
    generated = claim(requests=[exactly()], meta=OWNER_METADATA)
    assert convert(pod(CREATED_STATUS, FROM_TEMPLATE), generated).shape.claims[0].name == ""
    has = claim(requests=[exactly()], meta=OWNER_METADATA, status={"allocation": {}})
    assert convert(pod(CREATED_STATUS, FROM_TEMPLATE), has).shape.claims[0].name == "ns/c"


def test_device_requests_are_converted_with_all_fields() -> None:
    first = {"name": "big", "deviceClassName": "gpu", "selectors": [cel("device.driver == 'x'")]}
    second = {"name": "small", "deviceClassName": "gpu", "allocationMode": "All"}
    toleration = {"key": "broken", "operator": "Exists"}
    member = convert(
        pod((), NAMED_CLAIM),
        claim(
            requests=[
                {"name": "any", "firstAvailable": [first, second]},
                exactly(
                    "other",
                    adminAccess=True,
                    tolerations=[toleration],
                    capacity={"requests": {"memory": "1Gi"}},
                ),
            ],
            constraints=[
                {"matchAttribute": "a/b"},
                {"requests": ["other"], "distinctAttribute": "c/d"},
            ],
        ),
    )
    (claim_request,) = member.shape.claims
    assert claim_request.requests == (
        (
            DeviceRequestOption(
                "any/big", ("true", "device.driver == 'x'"), resource=IMPLICIT_GPU_RESOURCE
            ),
            DeviceRequestOption(
                "any/small", ("true",), ALL_DEVICES, resource=IMPLICIT_GPU_RESOURCE
            ),
        ),
        (
            DeviceRequestOption(
                "other",
                ("true",),
                admin=True,
                tolerations=(Toleration("broken", "Exists"),),
                capacity=(("memory", GIB),),
                resource=IMPLICIT_GPU_RESOURCE,
            ),
        ),
    )
    assert claim_request.constraints == (
        AttributeConstraint("a/b"),
        AttributeConstraint("c/d", ("other",), distinct=True),
    )


def test_pod_whose_claim_is_not_needed_requests_none() -> None:
    assert convert(pod([{"name": "devices"}], FROM_TEMPLATE)).shape.claims == ()


@pytest.mark.parametrize(
    ("pod_with_claims", "claims", "message"),
    [
        (pod((), NAMED_CLAIM), [], "which does not exist"),
        (pod((), FROM_TEMPLATE), [], "not yet created from its template"),
        (pod(CREATED_STATUS, FROM_TEMPLATE), [claim()], "not created for this pod"),
        (
            pod((), NAMED_CLAIM),
            [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            "deleted",
        ),
        (
            pod((), NAMED_CLAIM),
            [claim(requests=[{"name": "r", "exactly": {"deviceClassName": "odd"}}])],
            "'odd' is not an existing DeviceClass",
        ),
    ],
)
def test_pod_waits_for_its_claims(
    pod_with_claims: Pod, claims: list[ResourceClaim], message: str
) -> None:
    with pytest.raises(ClaimNotReady, match=message):
        convert(pod_with_claims, *claims)


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ({"requests": [exactly(allocationMode="Some")]}, "use ExactCount or All"),
        ({"requests": [exactly(count=33)]}, "at most 32"),
        ({"requests": [exactly(selectors=[cel("device.")])]}, "cannot be evaluated"),
        ({"requests": [exactly(selectors=[{}])]}, "not CEL"),
        ({"constraints": [{"sameAttribute": "a/b"}]}, "use matchAttribute"),
    ],
)
def test_unsupported_claim_is_an_invalid_request(devices: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        convert(pod((), NAMED_CLAIM), claim(**devices))


# Allocations.

ALLOCATED_DEVICE = AllocatedDevice("gpu", DeviceId(DRIVER, "pool", "gpu-0"))
NODE_ALLOCATION = ClaimAllocation((ALLOCATED_DEVICE,), "n1")


def test_allocation_round_trips() -> None:
    requesting_claim = claim(requests=[exactly(tolerations=[{"key": "k", "operator": "Exists"}])])
    shared = AllocatedDevice("gpu", ALLOCATED_DEVICE.device, consumed=(("memory", 4 * GIB),))
    term = NodeSelectorTerm((Requirement("zone", "In", ("a",)),), (Requirement("x", "Exists"),))
    for allocation in (
        NODE_ALLOCATION,
        ClaimAllocation((shared,)),
        ClaimAllocation((ALLOCATED_DEVICE,), terms=(term,)),
    ):
        body = encode_allocation(
            requesting_claim, allocation, {"gpu": GPU_CLASS}.get, lambda: "share"
        )
        has = claim(status={"allocation": body}).status.allocation
        assert has is not None
        assert convert_allocation(has) == allocation
    assert body["devices"]["results"][0]["tolerations"] == [{"key": "k", "operator": "Exists"}]


def test_class_and_claim_config_are_written() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {}}}
    class_ = msgspec.convert(
        {"metadata": metadata("gpu"), "spec": {"config": [opaque]}}, DeviceClass
    )
    requesting_claim = claim(
        requests=[exactly("a"), exactly("b")],
        config=[opaque, {"requests": ["b"], **opaque}, {"requests": ["c"], **opaque}],
    )
    devices = tuple(AllocatedDevice(name, DeviceId(DRIVER, "pool", name)) for name in ("a", "b"))
    body = encode_allocation(
        requesting_claim, ClaimAllocation(devices), lambda _: class_, lambda: ""
    )
    assert body["devices"]["config"] == [
        {"source": "FromClass", "requests": ["a", "b"], **opaque},
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", "requests": ["b"], **opaque},
    ]


US, THEM = (
    ResourceClaimConsumer("pods", "us", "uid-us"),
    ResourceClaimConsumer("pods", "them", "uid-them"),
)


def claim_with_consumers(*consumers: ResourceClaimConsumer) -> ResourceClaim:
    body = encode_allocation(
        claim(requests=[exactly()]), NODE_ALLOCATION, lambda _: None, lambda: ""
    )
    status = {"allocation": body, "reservedFor": msgspec.to_builtins(consumers)}
    return claim(requests=[exactly()], status=status)


def test_claim_consumers_are_converted() -> None:
    assert convert_claim_status(claim()) is None
    assert convert_claim_status(claim_with_consumers(US)) == PublishedAllocation(
        NODE_ALLOCATION, frozenset({"ns/us"})
    )


def test_allocation_and_reservation_are_written_together() -> None:
    assert reserved_status(claim(), NODE_ALLOCATION, [US], lambda: {"devices": {}}) == {
        "allocation": {"devices": {}},
        "reservedFor": [{"resource": "pods", "name": "us", "uid": "uid-us"}],
    }
    more = reserved_status(claim_with_consumers(THEM), NODE_ALLOCATION, [US, THEM], dict)
    assert more is not None
    assert [each["name"] for each in more["reservedFor"]] == ["them", "us"]
    assert "allocation" not in more
    assert reserved_status(claim_with_consumers(US), NODE_ALLOCATION, [US], dict) is None


def test_claim_with_other_allocation_is_not_patched() -> None:
    with pytest.raises(AllocationConflict, match="other devices"):
        reserved_status(
            claim_with_consumers(), ClaimAllocation((ALLOCATED_DEVICE,), "n2"), [US], dict
        )


@pytest.mark.parametrize(
    ("known", "used", "expected"),
    [
        (claim(), False, None),
        (claim_with_consumers(US), False, {"reservedFor": None, "allocation": None}),
        (claim_with_consumers(US, THEM), False, {"reservedFor": [msgspec.to_builtins(THEM)]}),
        (claim_with_consumers(US), True, {"reservedFor": None}),
        (claim_with_consumers(THEM), False, None),
    ],
    ids=["not allocated", "last consumer", "other consumers", "future consumers", "not reserved"],
)
def test_allocation_is_removed_with_the_last_consumer(
    known: ResourceClaim, used: bool, expected: dict[str, Any] | None
) -> None:
    assert released_status(known, {"uid-us"}, used=used) == expected
