"""Devices for claims: allocations are valid, and found whenever one exists."""

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.dra.allocator import AllocationNode, CandidateDevice, allocate_claims
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
from kilonova.scheduler.core.dra.device_usage import DeviceUsage, consumed_capacity
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.search_budget import SearchBudget
from tests.harness.campaigns import limit_examples

DRIVER = "gpu.example.com"
ROOT = "resource.example.com/root"


def device(name: str, **rest: object) -> Device:
    return Device(DeviceId(DRIVER, "pool", name), "n1", **rest)  # pyright: ignore[reportArgumentType]


def rooted(name: str, root: str) -> Device:
    return device(name, attributes={ROOT: DeviceAttribute("string", root)})


def counter(name: str, set_: str = "gpu-0") -> SharedCounter:
    return SharedCounter(DRIVER, "pool", set_, name)


def find_allocations(
    devices: Sequence[Device],
    *claims: ClaimRequest,
    counters: dict[SharedCounter, int] | None = None,
    held: Sequence[str] = (),
    node: str = "n1",
) -> list[ClaimAllocation] | None:
    """The allocations of claims. A selector is a prefix of the names that it matches."""
    known = {each.id: each for each in devices}
    use = DeviceUsage(known, counters or {})
    for name in held:
        use.add_device("ns/other", AllocatedDevice("r", DeviceId(DRIVER, "pool", name)))
    budget = SearchBudget(20_000)
    return allocate_claims(
        claims, lambda option: find_candidates(option, devices), use, AllocationNode(node), budget
    )


def find_candidates(
    option: DeviceRequestOption, devices: Sequence[Device]
) -> list[CandidateDevice]:
    return [
        CandidateDevice(each, amounts if each.shared else ())
        for each in devices
        if all(each.id.name.startswith(selector) for selector in option.selectors)
        and (amounts := consumed_capacity(each, option.capacity)) is not None
    ]


def names(allocations: list[ClaimAllocation] | None) -> list[list[str]] | None:
    if allocations is None:
        return None
    return [[given.device.name for given in each.devices] for each in allocations]


def claim_request(
    *options: DeviceRequestOption, constraints: Sequence[AttributeConstraint] = ()
) -> ClaimRequest:
    return ClaimRequest(tuple((option,) for option in options), tuple(constraints))


G = [device(f"gpu-{index}") for index in range(4)]
HALVES = [
    device("whole", consumes=((counter("memory"), 2),)),
    device("half-0", consumes=((counter("memory"), 1),)),
    device("half-1", consumes=((counter("memory"), 1),)),
]
MEMORY = {counter("memory"): 2}
MEMORIES = {"memory": ConsumableCapacity(80, default=10, minimum=10, step=10, maximum=60)}


@pytest.mark.parametrize(
    ("devices", "claims", "held", "expected"),
    [
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=2))],
            [],
            [["gpu-0", "gpu-1"]],
            id="count",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=5))],
            [],
            None,
            id="more than exist",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a"))],
            ["gpu-0"],
            [["gpu-1"]],
            id="not allocated devices",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a")), claim_request(DeviceRequestOption("a"))],
            [],
            [["gpu-0"], ["gpu-1"]],
            id="two claims",
        ),
        pytest.param(
            G,
            [
                claim_request(
                    DeviceRequestOption("any", count=3), DeviceRequestOption("first", ("gpu-0",))
                )
            ],
            [],
            [["gpu-1", "gpu-2", "gpu-3", "gpu-0"]],
            id="greedy choice would starve the second request",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=ALL_DEVICES))],
            [],
            [[g.id.name for g in G]],
            id="all devices",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=ALL_DEVICES))],
            ["gpu-3"],
            None,
            id="all devices: one is allocated",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", ("x",), ALL_DEVICES))],
            [],
            None,
            id="all devices: none matches",
        ),
        pytest.param(
            G,
            [
                ClaimRequest(
                    (
                        (
                            DeviceRequestOption("a/big", ("x",)),
                            DeviceRequestOption("a/small", count=2),
                        ),
                    )
                )
            ],
            [],
            [["gpu-0", "gpu-1"]],
            id="first available option",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=4, admin=True))],
            ["gpu-1"],
            [[g.id.name for g in G]],
            id="admin access to allocated devices",
        ),
        pytest.param(
            G,
            [claim_request(DeviceRequestOption("a", count=5, admin=True))],
            [],
            None,
            id="admin access to each device once",
        ),
        pytest.param(
            HALVES,
            [claim_request(DeviceRequestOption("a", ("half",), 2))],
            [],
            [["half-0", "half-1"]],
            id="slices",
        ),
        pytest.param(
            HALVES,
            [claim_request(DeviceRequestOption("a", ("whole",)))],
            ["half-1"],
            None,
            id="whole device conflicts with its slice",
        ),
        pytest.param(
            HALVES,
            [claim_request(DeviceRequestOption("a"), DeviceRequestOption("b", ("half",)))],
            [],
            [["half-0", "half-1"]],
            id="whole device would starve the slice",
        ),
    ],
)
def test_devices_are_found(
    devices: list[Device],
    claims: list[ClaimRequest],
    held: list[str],
    expected: list[list[str]] | None,
) -> None:
    assert names(find_allocations(devices, *claims, counters=MEMORY, held=held)) == expected


def test_slice_is_allocated_on_partly_used_device() -> None:
    sets = ("gpu-0", "gpu-1")
    devices = [
        device(f"{set_}-{part}", consumes=((counter("memory", set_), 1),))
        for set_ in sets
        for part in range(2)
    ]
    counters = {counter("memory", set_): 2 for set_ in sets}
    got = find_allocations(
        devices, claim_request(DeviceRequestOption("a")), counters=counters, held=["gpu-1-1"]
    )
    assert names(got) == [["gpu-1-0"]]


@pytest.mark.parametrize(
    ("constraint", "count", "expected"),
    [
        (AttributeConstraint(ROOT), 2, [["b", "c"]]),
        (AttributeConstraint(ROOT), 3, None),
        (AttributeConstraint(ROOT, distinct=True), 2, [["a", "b"]]),
        (AttributeConstraint(ROOT, distinct=True), 3, None),
        (AttributeConstraint(ROOT, ("other",)), 3, [["a", "b", "c"]]),
        (AttributeConstraint("resource.example.com/absent"), 1, None),
    ],
)
def test_devices_satisfy_constraints(
    constraint: AttributeConstraint, count: int, expected: list[list[str]] | None
) -> None:
    devices = [rooted("a", "r1"), rooted("b", "r2"), rooted("c", "r2")]
    request = claim_request(DeviceRequestOption("r", count=count), constraints=[constraint])
    assert names(find_allocations(devices, request)) == expected


def test_attributes_of_different_types_never_match() -> None:
    devices = [
        device("a", attributes={ROOT: DeviceAttribute("string", "1.0.0")}),
        device("b", attributes={ROOT: DeviceAttribute("version", "1.0.0")}),
    ]
    request = claim_request(
        DeviceRequestOption("r", count=2), constraints=[AttributeConstraint(ROOT)]
    )
    assert find_allocations(devices, request) is None


def test_unqualified_attribute_is_of_the_driver() -> None:
    devices = [device("a", attributes={"numa": DeviceAttribute("int", 1)})]
    request = claim_request(
        DeviceRequestOption("r"), constraints=[AttributeConstraint(f"{DRIVER}/numa")]
    )
    assert names(find_allocations(devices, request)) == [["a"]]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [(None, 10), (1, 10), (10, 10), (11, 20), (60, 60), (61, None)],
)
def test_consumed_capacity_is_rounded_up_to_steps(asked: int | None, taken: int | None) -> None:
    assert MEMORIES["memory"].amount_consumed(asked) == taken


def test_only_listed_capacity_values_are_allocated() -> None:
    capacity = ConsumableCapacity(80, default=10, values=(10, 40))
    assert [capacity.amount_consumed(each) for each in (None, 5, 11, 41)] == [10, 10, 40, None]


def test_shared_device_is_allocated_until_capacity_is_used_up() -> None:
    shared = device("a", capacity=MEMORIES, shared=True)
    thirty = DeviceRequestOption("r", capacity=(("memory", 30),))
    assert names(find_allocations([shared], claim_request(thirty), claim_request(thirty))) == [
        ["a"],
        ["a"],
    ]
    assert (
        find_allocations(
            [shared], claim_request(thirty), claim_request(thirty), claim_request(thirty)
        )
        is None
    )
    got = find_allocations([shared], claim_request(thirty))
    assert got is not None
    assert got[0].devices[0].consumed == (("memory", 30),)


def test_capacity_absent_from_device_is_not_allocated() -> None:
    assert (
        find_allocations(G, claim_request(DeviceRequestOption("r", capacity=(("memory", 1),))))
        is None
    )


def test_allocation_names_usable_nodes() -> None:
    zone = NodeSelectorTerm((Requirement("zone", "In", ("a",)),))
    rack = NodeSelectorTerm((Requirement("rack", "In", ("1",)),))
    far = Device(DeviceId(DRIVER, "pool", "far"), terms=(zone,))
    farther = Device(DeviceId(DRIVER, "pool", "farther"), terms=(rack,))
    anywhere = Device(DeviceId(DRIVER, "pool", "anywhere"))
    binding = Device(DeviceId(DRIVER, "pool", "binding"), binds_to_node=True)

    def where(*devices: Device) -> tuple[str, tuple[NodeSelectorTerm, ...]]:
        got = find_allocations(
            devices, claim_request(DeviceRequestOption("r", count=len(devices))), node="n7"
        )
        assert got is not None
        return got[0].node, got[0].terms

    assert where(anywhere) == ("", ())
    assert where(anywhere, far) == ("", (zone,))
    assert where(far, farther) == ("", (NodeSelectorTerm((*zone.labels, *rack.labels)),))
    assert where(far, binding) == ("n7", ())
    assert where(far, G[0]) == ("n7", ())


# Random devices and claims.

SETS = ("s0", "s1")
LIMITS = {counter(name, set_): 4 for set_ in SETS for name in ("m", "c")}


@st.composite
def random_devices(draw: st.DrawFn) -> list[Device]:
    devices: list[Device] = []
    for index in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["a", "b"]))
        consumes: tuple[tuple[SharedCounter, int], ...] = ()
        if draw(st.booleans()):
            set_ = draw(st.sampled_from(SETS))
            consumes = tuple((counter(name, set_), draw(st.integers(1, 4))) for name in ("m", "c"))
        attributes = (
            {ROOT: DeviceAttribute("int", draw(st.integers(0, 1)))} if draw(st.booleans()) else {}
        )
        shared = draw(st.booleans())
        capacity = (
            {"memory": ConsumableCapacity(4, default=1)} if shared or draw(st.booleans()) else {}
        )
        devices.append(
            device(
                f"{kind}{index}",
                consumes=consumes,
                attributes=attributes,
                capacity=capacity,
                shared=shared,
            )
        )
    return devices


options = st.builds(
    DeviceRequestOption,
    name=st.sampled_from(["r", "q"]),
    selectors=st.sampled_from([(), ("a",), ("b",)]),
    count=st.sampled_from([1, 1, 2, ALL_DEVICES]),
    admin=st.sampled_from([False, False, False, True]),
    capacity=st.sampled_from([(), (), (("memory", 2),)]),
)
constraints = st.builds(
    AttributeConstraint,
    attribute=st.just(ROOT),
    requests=st.sampled_from([(), ("r",)]),
    distinct=st.booleans(),
)
random_claims = st.builds(
    ClaimRequest,
    requests=st.lists(st.lists(options, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    constraints=st.lists(constraints, max_size=1).map(tuple),
)


@given(random_devices(), st.lists(random_claims, min_size=1, max_size=2), st.data())
@settings(max_examples=limit_examples(400), deadline=None)
def test_devices_are_found_exactly_when_there_are_some(
    devices: list[Device], claims: list[ClaimRequest], data: st.DataObject
) -> None:
    held = data.draw(
        st.lists(st.sampled_from([each.id.name for each in devices]), unique=True, max_size=2)
        if devices
        else st.just([])
    )
    first = {each.id.name: each for each in devices}
    taken = [(AllocatedDevice("r", first[name].id), first[name]) for name in held]
    if not _is_valid_allocation(taken, []):
        return
    got = find_allocations(devices, *claims, counters=LIMITS, held=held)
    possible = any(
        _is_valid_allocation(taken, list(zip(claims, choice, strict=True)))
        for choice in product(*(_choices(request, devices) for request in claims))
    )
    assert (got is not None) == possible
    if got is not None:
        chosen = [[(given, first[given.device.name]) for given in each.devices] for each in got]
        assert _is_valid_allocation(taken, list(zip(claims, chosen, strict=True)))


Chosen = list[tuple[AllocatedDevice, Device]]


def _choices(claim: ClaimRequest, devices: Sequence[Device]) -> list[Chosen]:
    """All possible allocations of a claim, ignoring other claims."""
    requests: list[list[Chosen]] = []
    for request in claim.requests:
        ways: list[Chosen] = []
        for option in request:
            feasible = [
                (
                    AllocatedDevice(option.name, each.device.id, option.admin, each.amounts),
                    each.device,
                )
                for each in find_candidates(option, devices)
            ]
            size = option.count if option.count != ALL_DEVICES else len(feasible)
            if size:
                ways.extend(list(each) for each in combinations(feasible, size))
        requests.append(ways)
    return [[one for part in parts for one in part] for parts in product(*requests)]


def _is_valid_allocation(taken: Chosen, claimed: list[tuple[ClaimRequest, Chosen]]) -> bool:
    """Whether no device is allocated twice, no counter is exceeded, and all constraints hold."""
    everything = [*taken, *(one for _, chosen in claimed for one in chosen)]
    counting = [one for one in everything if not one[0].admin]
    for given_, each in counting:
        same = [other for other, _ in counting if other.device == given_.device]
        if not each.shared and len(same) > 1:
            return False
        amount = sum(amount for other in same for _, amount in other.consumed)
        if each.shared and amount > each.capacity["memory"].value:
            return False
    drawn: dict[SharedCounter, int] = {}
    for each in {each.id: each for _, each in counting}.values():
        for key, amount in each.consumes:
            drawn[key] = drawn.get(key, 0) + amount
    if any(amount > LIMITS[key] for key, amount in drawn.items()):
        return False
    for request, chosen in claimed:
        once = [each.id for _, each in chosen if not each.shared]
        if len(set(once)) < len(once):
            return False
        for constraint in request.constraints:
            values = [
                each.attribute(ROOT)
                for given_, each in chosen
                if constraint.applies_to(given_.option)
            ]
            if None in values:
                return False
            if len(values) > 1 and len(set(values)) != (len(values) if constraint.distinct else 1):
                return False
    return True
