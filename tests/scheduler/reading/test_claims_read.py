"""Slices, selectors, claims and allocations, from what drivers and people write."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.allocations import Unfit, reserved, unreserved
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.claimbook import Written
from kilonova.scheduler.core.claims import (
    ALL,
    Allocation,
    Attribute,
    Capacity,
    ClaimAsk,
    Constraint,
    Counter,
    Device,
    DeviceId,
    Given,
    Option,
)
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.inventory import ANY
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.core.taints import Taint, Toleration
from kilonova.scheduler.deviceobjects import Consumer, DeviceClass, ResourceClaim, ResourceSlice
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.allocations import allocation_body, allocation_of, written_of
from kilonova.scheduler.reading.cel import SelectorError, check, matches
from kilonova.scheduler.reading.claims import NoClaim, claimed
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.slices import pool_of

DRIVER = "gpu.example.com"
GIB = 2**30 * 10**9


def metadata(name: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **rest}


def slice_(name: str = "s", *, generation: int = 1, slices: int = 1, **spec: Any) -> ResourceSlice:
    pool = {"name": "pool", "generation": generation, "resourceSliceCount": slices}
    body = {"metadata": metadata(name), "spec": {"driver": DRIVER, "pool": pool, **spec}}
    return msgspec.convert(body, ResourceSlice)


def named(*names: str) -> list[dict[str, Any]]:
    return [{"name": name} for name in names]


# Slices.

DRAWING = {"counterSet": "absent", "counters": {"c": {"value": 1}}}


def test_a_device_is_read_with_all_that_is_known_of_it() -> None:
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
    pool = pool_of(
        [
            slice_("counters", slices=2, nodeName="n1", sharedCounters=counters),
            slice_("devices", slices=2, nodeName="n1", devices=[device]),
        ]
    )
    counter = Counter(DRIVER, "pool", "set", "memory")
    assert pool is not None
    assert pool.complete
    assert pool.nodes == {"n1"}
    assert pool.counters == {counter: 80 * GIB}
    assert pool.devices == (
        Device(
            DeviceId(DRIVER, "pool", "gpu-0"),
            "n1",
            attributes={
                "index": Attribute("int", 0),
                "ok": Attribute("bool", True),
                "model": Attribute("string", "H100"),
                "driver": Attribute("version", "1.2.3"),
            },
            capacity={"memory": Capacity(80 * GIB, GIB, GIB, 8 * GIB, GIB)},
            taints=(Taint("broken", "NoExecute"),),
            consumes=((counter, 10 * GIB),),
            shared=True,
        ),
    )


@pytest.mark.parametrize(
    ("slices", "devices", "complete"),
    [
        ([slice_(nodeName="n", devices=named("a", "b"))], ["a", "b"], True),
        ([slice_(slices=2, nodeName="n", devices=named("a"))], [], False),
        (
            [
                slice_("old", generation=1, nodeName="n", devices=named("a")),
                slice_("new", generation=2, nodeName="n", devices=named("b")),
            ],
            ["b"],
            True,
        ),
        ([slice_(nodeName="n", devices=named("a", "a"))], [], False),
        (
            [
                slice_(
                    nodeName="n",
                    devices=[
                        {
                            "name": "a",
                            "consumesCounters": [DRAWING],
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
    ids=["whole", "a slice is missing", "newest", "twice", "no such counter", "to be prepared"],
)  # fmt: skip
def test_only_whole_pools_count(
    slices: list[ResourceSlice], devices: list[str], complete: bool
) -> None:
    pool = pool_of(slices)
    assert pool is not None
    assert [each.id.name for each in pool.devices] == devices
    assert pool.complete == complete


def test_devices_say_where_they_can_be_used() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    devices = [
        {"name": "here", "nodeName": "n1"},
        {"name": "near", "nodeSelector": selector},
        {"name": "anywhere", "allNodes": True},
    ]
    pool = pool_of([slice_(perDeviceNodeSelection=True, devices=devices)])
    assert pool is not None
    term = NodeTerm((Requirement("zone", "In", ("a",)),))
    assert [(each.node, each.terms) for each in pool.devices] == [
        ("n1", ()),
        ("", (term,)),
        ("", ()),
    ]
    assert pool.nodes == {"n1", ANY}


# Selectors.

DEVICE = Device(
    DeviceId(DRIVER, "pool", "gpu-0"),
    attributes={
        "type": Attribute("string", "gpu"),
        "index": Attribute("int", 3),
        "ok": Attribute("bool", True),
        "version": Attribute("version", "580.1.2"),
        "resource.kubernetes.io/pcieRoot": Attribute("string", "pci0000:00"),
    },
    capacity={"memory": Capacity(80 * GIB)},
)
MINE = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (f'device.driver == "{DRIVER}"', True),
        (f'{MINE}.type == "gpu" && {MINE}.index >= 3', True),
        (f'{MINE}.type in ["mig", "vfio"]', False),
        (f"{MINE}.ok", True),
        (f'cel.bind(mine, {MINE}, mine.ok && mine.type.matches("^g"))', True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"', True),
        (f'{MEMORY}.compareTo(quantity("80Gi")) == 0', True),
        (f'{MEMORY}.isGreaterThan(quantity("80Gi"))', False),
        (f'{MEMORY}.sub(quantity("79Gi")).asInteger() == 1073741824', True),
        (f'{MINE}.version.isGreaterThan(semver("580.1.1"))', True),
        (f'{MINE}.version.isLessThan(semver("580.1.2-rc.1"))', False),
        (f'{MINE}.version.major() == 580 && semver("v1.2", true).minor() == 2', True),
        ("device.allowMultipleAllocations", False),
        (f"has({MINE}.absent)", False),
        (f"{MINE}.absent == 1", False),
        ('"x" in device.attributes["other.example.com"]', False),
        ('device.attributes["other.example.com"].x == 1', False),
        (f"{MINE}.index", False),
    ],
)
def test_selectors_choose_devices(expression: str, expected: bool) -> None:
    assert matches(expression, DEVICE) == expected


def test_a_selector_that_is_wrong_is_told_so() -> None:
    with pytest.raises(SelectorError, match="Syntax error"):
        check("device.driver == ")


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


def exactly(name: str = "gpu", **rest: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **rest}}


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
ANY_GPU = "deviceclass.resource.kubernetes.io/gpu"
NAMED = {"name": "devices", "resourceClaimName": "c"}
FROM_TEMPLATE = {"name": "devices", "resourceClaimTemplateName": "t"}
MADE = [{"name": "devices", "resourceClaimName": "c"}]
OWNED = {
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "uid-p", "controller": True}
    ]
}


def read(asked: Pod, *claims: ResourceClaim) -> Member:
    known = {each.key: each for each in claims}
    return claimed(asked, Member("ns/p", Shape()), known.get, {"gpu": GPU_CLASS}.get)


def test_a_claim_that_people_made_is_known_by_its_name() -> None:
    member = read(pod((), NAMED), claim(requests=[exactly(count=2)]))
    assert member.claims == ("ns/c",)
    option = Option("gpu", ("true",), 2, resource=ANY_GPU)
    assert member.shape.claims == (ClaimAsk(((option,),), (), "ns/c"),)


@pytest.mark.parametrize(
    ("said", "counts_as"), [("nvidia.com/gpu", "nvidia.com/gpu"), ("", ANY_GPU)]
)
def test_devices_count_as_the_resource_of_their_class(said: str, counts_as: str) -> None:
    spec = {"selectors": [cel("true")], "extendedResourceName": said}
    class_ = msgspec.convert({"metadata": metadata("gpu"), "spec": spec}, DeviceClass)
    asked, made = pod((), NAMED), claim(requests=[exactly()])
    member = claimed(asked, Member("ns/p", Shape()), {"ns/c": made}.get, {"gpu": class_}.get)
    assert member.shape.claims[0].requests[0][0].resource == counts_as


def test_claims_of_equal_pods_are_equal_until_they_have_devices() -> None:
    made = claim(requests=[exactly()], meta=OWNED)
    assert read(pod(MADE, FROM_TEMPLATE), made).shape.claims[0].name == ""
    has = claim(requests=[exactly()], meta=OWNED, status={"allocation": {}})
    assert read(pod(MADE, FROM_TEMPLATE), has).shape.claims[0].name == "ns/c"


def test_requests_are_read_with_all_that_they_say() -> None:
    first = {"name": "big", "deviceClassName": "gpu", "selectors": [cel("device.driver == 'x'")]}
    second = {"name": "small", "deviceClassName": "gpu", "allocationMode": "All"}
    toleration = {"key": "broken", "operator": "Exists"}
    member = read(
        pod((), NAMED),
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
    (ask,) = member.shape.claims
    assert ask.requests == (
        (
            Option("any/big", ("true", "device.driver == 'x'"), resource=ANY_GPU),
            Option("any/small", ("true",), ALL, resource=ANY_GPU),
        ),
        (
            Option(
                "other",
                ("true",),
                admin=True,
                tolerations=(Toleration("broken", "Exists"),),
                capacity=(("memory", GIB),),
                resource=ANY_GPU,
            ),
        ),
    )
    assert ask.constraints == (Constraint("a/b"), Constraint("c/d", ("other",), distinct=True))


def test_a_pod_that_needs_no_claim_after_all_asks_for_none() -> None:
    assert read(pod([{"name": "devices"}], FROM_TEMPLATE)).shape.claims == ()


@pytest.mark.parametrize(
    ("asked", "known", "said"),
    [
        (pod((), NAMED), [], "not there"),
        (pod((), FROM_TEMPLATE), [], "not made yet"),
        (pod(MADE, FROM_TEMPLATE), [claim()], "not made for this pod"),
        (pod((), NAMED), [claim(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})], "deleted"),
        (
            pod((), NAMED),
            [claim(requests=[{"name": "r", "exactly": {"deviceClassName": "odd"}}])],
            "'odd' is no DeviceClass",
        ),
    ],
)
def test_a_pod_waits_for_its_claims(asked: Pod, known: list[ResourceClaim], said: str) -> None:
    with pytest.raises(NoClaim, match=said):
        read(asked, *known)


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        ({"requests": [exactly(allocationMode="Some")]}, "use ExactCount or All"),
        ({"requests": [exactly(count=33)]}, "at most 32"),
        ({"requests": [exactly(selectors=[cel("device.")])]}, "can not be evaluated"),
        ({"requests": [exactly(selectors=[{}])]}, "not in CEL"),
        ({"constraints": [{"sameAttribute": "a/b"}]}, "use matchAttribute"),
    ],
)
def test_a_claim_that_nobody_understands_is_told_so(devices: dict[str, Any], said: str) -> None:
    with pytest.raises(Misread, match=said):
        read(pod((), NAMED), claim(**devices))


# Allocations.

GIVEN = Given("gpu", DeviceId(DRIVER, "pool", "gpu-0"))
HERE = Allocation((GIVEN,), "n1")


def test_an_allocation_is_read_as_it_was_written() -> None:
    asked = claim(requests=[exactly(tolerations=[{"key": "k", "operator": "Exists"}])])
    shared = Given("gpu", GIVEN.device, consumed=(("memory", 4 * GIB),))
    term = NodeTerm((Requirement("zone", "In", ("a",)),), (Requirement("x", "Exists"),))
    for allocation in (HERE, Allocation((shared,)), Allocation((GIVEN,), terms=(term,))):
        body = allocation_body(asked, allocation, {"gpu": GPU_CLASS}.get, lambda: "share")
        has = claim(status={"allocation": body}).status.allocation
        assert has is not None
        assert allocation_of(has) == allocation
    assert body["devices"]["results"][0]["tolerations"] == [{"key": "k", "operator": "Exists"}]


def test_devices_are_set_up_as_class_and_claim_say() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {}}}
    class_ = msgspec.convert(
        {"metadata": metadata("gpu"), "spec": {"config": [opaque]}}, DeviceClass
    )
    asked = claim(
        requests=[exactly("a"), exactly("b")],
        config=[opaque, {"requests": ["b"], **opaque}, {"requests": ["c"], **opaque}],
    )
    devices = tuple(Given(name, DeviceId(DRIVER, "pool", name)) for name in ("a", "b"))
    body = allocation_body(asked, Allocation(devices), lambda _: class_, lambda: "")
    assert body["devices"]["config"] == [
        {"source": "FromClass", "requests": ["a", "b"], **opaque},
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", "requests": ["b"], **opaque},
    ]


US, THEM = Consumer("pods", "us", "uid-us"), Consumer("pods", "them", "uid-them")


def having(*consumers: Consumer) -> ResourceClaim:
    body = allocation_body(claim(requests=[exactly()]), HERE, lambda _: None, lambda: "")
    status = {"allocation": body, "reservedFor": msgspec.to_builtins(consumers)}
    return claim(requests=[exactly()], status=status)


def test_who_uses_a_claim_is_known() -> None:
    assert written_of(claim()) is None
    assert written_of(having(US)) == Written(HERE, frozenset({"ns/us"}))


def test_a_claim_is_reserved_with_its_devices_at_once() -> None:
    assert reserved(claim(), HERE, [US], lambda: {"devices": {}}) == {
        "allocation": {"devices": {}},
        "reservedFor": [{"resource": "pods", "name": "us", "uid": "uid-us"}],
    }
    more = reserved(having(THEM), HERE, [US, THEM], dict)
    assert more is not None
    assert [each["name"] for each in more["reservedFor"]] == ["them", "us"]
    assert "allocation" not in more
    assert reserved(having(US), HERE, [US], dict) is None


def test_a_claim_with_other_devices_is_not_touched() -> None:
    with pytest.raises(Unfit, match="other devices"):
        reserved(having(), Allocation((GIVEN,), "n2"), [US], dict)


@pytest.mark.parametrize(
    ("known", "used", "expected"),
    [
        (claim(), False, None),
        (having(US), False, {"reservedFor": None, "allocation": None}),
        (having(US, THEM), False, {"reservedFor": [msgspec.to_builtins(THEM)]}),
        (having(US), True, {"reservedFor": None}),
        (having(THEM), False, None),
    ],
    ids=["has nothing", "the last user", "others use it", "others will use it", "not ours"],
)
def test_devices_go_with_the_last_user(
    known: ResourceClaim, used: bool, expected: dict[str, Any] | None
) -> None:
    assert unreserved(known, {"uid-us"}, used=used) == expected
