"""Devices for claims: what is found is right, and found whenever there is something."""

from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.allocating import Candidate, allocate
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
from kilonova.scheduler.core.deviceuse import DeviceUse, amounts_taken
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.core.search_budget import SearchBudget

DRIVER = "gpu.example.com"
ROOT = "resource.example.com/root"


def device(name: str, **rest: object) -> Device:
    return Device(DeviceId(DRIVER, "pool", name), "n1", **rest)  # pyright: ignore[reportArgumentType]


def rooted(name: str, root: str) -> Device:
    return device(name, attributes={ROOT: Attribute("string", root)})


def counter(name: str, set_: str = "gpu-0") -> Counter:
    return Counter(DRIVER, "pool", set_, name)


def found(
    devices: Sequence[Device],
    *asks: ClaimAsk,
    counters: dict[Counter, int] | None = None,
    held: Sequence[str] = (),
    node: str = "n1",
) -> list[Allocation] | None:
    """What claims get. A selector is the beginning of the names that it stands for."""
    known = {each.id: each for each in devices}
    use = DeviceUse(known, counters or {})
    for name in held:
        use.take("ns/other", Given("r", DeviceId(DRIVER, "pool", name)))
    budget = SearchBudget(20_000)
    return allocate(asks, lambda option: suiting(option, devices), use, node, budget)


def suiting(option: Option, devices: Sequence[Device]) -> list[Candidate]:
    return [
        Candidate(each, amounts if each.shared else ())
        for each in devices
        if all(each.id.name.startswith(selector) for selector in option.selectors)
        and (amounts := amounts_taken(each, option.capacity)) is not None
    ]


def names(allocations: list[Allocation] | None) -> list[list[str]] | None:
    if allocations is None:
        return None
    return [[given.device.name for given in each.devices] for each in allocations]


def asking(*options: Option, constraints: Sequence[Constraint] = ()) -> ClaimAsk:
    return ClaimAsk(tuple((option,) for option in options), tuple(constraints))


G = [device(f"gpu-{index}") for index in range(4)]
HALVES = [
    device("whole", consumes=((counter("memory"), 2),)),
    device("half-0", consumes=((counter("memory"), 1),)),
    device("half-1", consumes=((counter("memory"), 1),)),
]
MEMORY = {counter("memory"): 2}
MEMORIES = {"memory": Capacity(80, default=10, minimum=10, step=10, maximum=60)}


@pytest.mark.parametrize(
    ("devices", "asks", "held", "expected"),
    [
        pytest.param(G, [asking(Option("a", count=2))], [], [["gpu-0", "gpu-1"]], id="so many"),
        pytest.param(G, [asking(Option("a", count=5))], [], None, id="more than there are"),
        pytest.param(G, [asking(Option("a"))], ["gpu-0"], [["gpu-1"]], id="not those of others"),
        pytest.param(
            G, [asking(Option("a")), asking(Option("a"))], [], [["gpu-0"], ["gpu-1"]], id="claims"
        ),
        pytest.param(
            G,
            [asking(Option("any", count=3), Option("first", ("gpu-0",)))],
            [],
            [["gpu-1", "gpu-2", "gpu-3", "gpu-0"]],
            id="greed would leave nothing for the second request",
        ),
        pytest.param(
            G, [asking(Option("a", count=ALL))], [], [[g.id.name for g in G]], id="all of them"
        ),
        pytest.param(G, [asking(Option("a", count=ALL))], ["gpu-3"], None, id="all: one is taken"),
        pytest.param(G, [asking(Option("a", ("x",), ALL))], [], None, id="all of none"),
        pytest.param(
            G,
            [ClaimAsk(((Option("a/big", ("x",)), Option("a/small", count=2)),))],
            [],
            [["gpu-0", "gpu-1"]],
            id="the first that is available",
        ),
        pytest.param(
            G, [asking(Option("a", count=4, admin=True))], ["gpu-1"], [[g.id.name for g in G]],
            id="an administrator looks at devices of others",
        ),
        pytest.param(
            G, [asking(Option("a", count=5, admin=True))], [], None,
            id="an administrator gets each device once",
        ),
        pytest.param(
            HALVES, [asking(Option("a", ("half",), 2))], [], [["half-0", "half-1"]], id="slices"
        ),
        pytest.param(
            HALVES, [asking(Option("a", ("whole",)))], ["half-1"], None,
            id="no whole device beside a slice of it",
        ),
        pytest.param(
            HALVES, [asking(Option("a"), Option("b", ("half",)))], [], [["half-0", "half-1"]],
            id="a whole one would leave nothing for the slice",
        ),
    ],
)  # fmt: skip
def test_devices_are_found(
    devices: list[Device],
    asks: list[ClaimAsk],
    held: list[str],
    expected: list[list[str]] | None,
) -> None:
    assert names(found(devices, *asks, counters=MEMORY, held=held)) == expected


def test_a_slice_is_cut_where_others_are_already() -> None:
    sets = ("gpu-0", "gpu-1")
    devices = [
        device(f"{set_}-{part}", consumes=((counter("memory", set_), 1),))
        for set_ in sets
        for part in range(2)
    ]
    counters = {counter("memory", set_): 2 for set_ in sets}
    got = found(devices, asking(Option("a")), counters=counters, held=["gpu-1-1"])
    assert names(got) == [["gpu-1-0"]]


@pytest.mark.parametrize(
    ("constraint", "count", "expected"),
    [
        (Constraint(ROOT), 2, [["b", "c"]]),
        (Constraint(ROOT), 3, None),
        (Constraint(ROOT, distinct=True), 2, [["a", "b"]]),
        (Constraint(ROOT, distinct=True), 3, None),
        (Constraint(ROOT, ("other",)), 3, [["a", "b", "c"]]),
        (Constraint("resource.example.com/absent"), 1, None),
    ],
)
def test_devices_keep_to_constraints(
    constraint: Constraint, count: int, expected: list[list[str]] | None
) -> None:
    devices = [rooted("a", "r1"), rooted("b", "r2"), rooted("c", "r2")]
    ask = asking(Option("r", count=count), constraints=[constraint])
    assert names(found(devices, ask)) == expected


def test_values_of_different_kinds_never_match() -> None:
    devices = [
        device("a", attributes={ROOT: Attribute("string", "1.0.0")}),
        device("b", attributes={ROOT: Attribute("version", "1.0.0")}),
    ]
    ask = asking(Option("r", count=2), constraints=[Constraint(ROOT)])
    assert found(devices, ask) is None


def test_an_attribute_of_the_driver_needs_no_domain() -> None:
    devices = [device("a", attributes={"numa": Attribute("int", 1)})]
    ask = asking(Option("r"), constraints=[Constraint(f"{DRIVER}/numa")])
    assert names(found(devices, ask)) == [["a"]]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [(None, 10), (1, 10), (10, 10), (11, 20), (60, 60), (61, None)],
)
def test_capacity_is_taken_in_steps(asked: int | None, taken: int | None) -> None:
    assert MEMORIES["memory"].consumed(asked) == taken


def test_only_listed_amounts_can_be_had() -> None:
    capacity = Capacity(80, default=10, values=(10, 40))
    assert [capacity.consumed(each) for each in (None, 5, 11, 41)] == [10, 10, 40, None]


def test_a_shared_device_is_given_out_until_it_is_used_up() -> None:
    shared = device("a", capacity=MEMORIES, shared=True)
    thirty = Option("r", capacity=(("memory", 30),))
    assert names(found([shared], asking(thirty), asking(thirty))) == [["a"], ["a"]]
    assert found([shared], asking(thirty), asking(thirty), asking(thirty)) is None
    got = found([shared], asking(thirty))
    assert got is not None
    assert got[0].devices[0].consumed == (("memory", 30),)


def test_capacity_that_a_device_lacks_can_not_be_had() -> None:
    assert found(G, asking(Option("r", capacity=(("memory", 1),)))) is None


def test_an_allocation_says_where_it_can_be_used() -> None:
    zone = NodeTerm((Requirement("zone", "In", ("a",)),))
    rack = NodeTerm((Requirement("rack", "In", ("1",)),))
    far = Device(DeviceId(DRIVER, "pool", "far"), terms=(zone,))
    farther = Device(DeviceId(DRIVER, "pool", "farther"), terms=(rack,))
    anywhere = Device(DeviceId(DRIVER, "pool", "anywhere"))
    binding = Device(DeviceId(DRIVER, "pool", "binding"), binds_to_node=True)

    def where(*devices: Device) -> tuple[str, tuple[NodeTerm, ...]]:
        got = found(devices, asking(Option("r", count=len(devices))), node="n7")
        assert got is not None
        return got[0].node, got[0].terms

    assert where(anywhere) == ("", ())
    assert where(anywhere, far) == ("", (zone,))
    assert where(far, farther) == ("", (NodeTerm((*zone.labels, *rack.labels)),))
    assert where(far, binding) == ("n7", ())
    assert where(far, G[0]) == ("n7", ())


# Whatever there is, and whatever is asked for.

SETS = ("s0", "s1")
LIMITS = {counter(name, set_): 4 for set_ in SETS for name in ("m", "c")}


@st.composite
def random_devices(draw: st.DrawFn) -> list[Device]:
    devices: list[Device] = []
    for index in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["a", "b"]))
        consumes: tuple[tuple[Counter, int], ...] = ()
        if draw(st.booleans()):
            set_ = draw(st.sampled_from(SETS))
            consumes = tuple((counter(name, set_), draw(st.integers(1, 4))) for name in ("m", "c"))
        attributes = (
            {ROOT: Attribute("int", draw(st.integers(0, 1)))} if draw(st.booleans()) else {}
        )
        shared = draw(st.booleans())
        capacity = {"memory": Capacity(4, default=1)} if shared or draw(st.booleans()) else {}
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
    Option,
    name=st.sampled_from(["r", "q"]),
    selectors=st.sampled_from([(), ("a",), ("b",)]),
    count=st.sampled_from([1, 1, 2, ALL]),
    admin=st.sampled_from([False, False, False, True]),
    capacity=st.sampled_from([(), (), (("memory", 2),)]),
)
constraints = st.builds(
    Constraint,
    attribute=st.just(ROOT),
    requests=st.sampled_from([(), ("r",)]),
    distinct=st.booleans(),
)
claims = st.builds(
    ClaimAsk,
    requests=st.lists(st.lists(options, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple),
    constraints=st.lists(constraints, max_size=1).map(tuple),
)


@given(random_devices(), st.lists(claims, min_size=1, max_size=2), st.data())
@settings(max_examples=400, deadline=None)
def test_devices_are_found_exactly_when_there_are_some(
    devices: list[Device], asks: list[ClaimAsk], data: st.DataObject
) -> None:
    held = data.draw(
        st.lists(st.sampled_from([each.id.name for each in devices]), unique=True, max_size=2)
        if devices
        else st.just([])
    )
    first = {each.id.name: each for each in devices}
    taken = [(Given("r", first[name].id), first[name]) for name in held]
    if not _is_right(taken, []):
        return
    got = found(devices, *asks, counters=LIMITS, held=held)
    possible = any(
        _is_right(taken, list(zip(asks, choice, strict=True)))
        for choice in product(*(_choices(ask, devices) for ask in asks))
    )
    assert (got is not None) == possible
    if got is not None:
        chosen = [[(given, first[given.device.name]) for given in each.devices] for each in got]
        assert _is_right(taken, list(zip(asks, chosen, strict=True)))


Chosen = list[tuple[Given, Device]]


def _choices(ask: ClaimAsk, devices: Sequence[Device]) -> list[Chosen]:
    """All that a claim could be given, were nothing else there."""
    requests: list[list[Chosen]] = []
    for request in ask.requests:
        ways: list[Chosen] = []
        for option in request:
            able = [
                (Given(option.name, each.device.id, option.admin, each.amounts), each.device)
                for each in suiting(option, devices)
            ]
            size = option.count if option.count != ALL else len(able)
            if size:
                ways.extend(list(each) for each in combinations(able, size))
        requests.append(ways)
    return [[one for part in parts for one in part] for parts in product(*requests)]


def _is_right(taken: Chosen, claimed: list[tuple[ClaimAsk, Chosen]]) -> bool:
    """Whether nothing is given twice or overdrawn, and all constraints hold."""
    everything = [*taken, *(one for _, chosen in claimed for one in chosen)]
    counting = [one for one in everything if not one[0].admin]
    for given_, each in counting:
        same = [other for other, _ in counting if other.device == given_.device]
        if not each.shared and len(same) > 1:
            return False
        amount = sum(amount for other in same for _, amount in other.consumed)
        if each.shared and amount > each.capacity["memory"].value:
            return False
    drawn: dict[Counter, int] = {}
    for each in {each.id: each for _, each in counting}.values():
        for key, amount in each.consumes:
            drawn[key] = drawn.get(key, 0) + amount
    if any(amount > LIMITS[key] for key, amount in drawn.items()):
        return False
    for ask, chosen in claimed:
        once = [each.id for _, each in chosen if not each.shared]
        if len(set(once)) < len(once):
            return False
        for constraint in ask.constraints:
            values = [
                each.attribute(ROOT)
                for given_, each in chosen
                if constraint.concerns(given_.option)
            ]
            if None in values:
                return False
            if len(values) > 1 and len(set(values)) != (len(values) if constraint.distinct else 1):
                return False
    return True
