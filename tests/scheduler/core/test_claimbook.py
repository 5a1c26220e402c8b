"""Claims in a snapshot: where there is room, who has what, and gangs that share."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.claimbook import Written
from kilonova.scheduler.core.claims import (
    Allocation,
    ClaimAsk,
    Counter,
    Device,
    DeviceId,
    Given,
    Option,
)
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import explain
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.inventory import ANY, Pool
from kilonova.scheduler.core.plan import NoRoom, Planner, Policy
from kilonova.scheduler.core.requirements import NodeTerm, Requirement
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Snapshot
from tests.scheduler.core.clusters import RACK, node, placer, snapshot_of, tight

DRIVER = "gpu.example.com"
ONE = ClaimAsk(((Option("gpu"),),))


def shape(*asks: ClaimAsk, cpu: int = 1000) -> Shape:
    return Shape((("cpu", cpu), ("pods", 1)), claims=asks)


def member(name: str, of: Shape, *claims: str) -> Member:
    return Member(f"ns/{name}", of, claims=claims)


def pool_on(name: str, count: int) -> Pool:
    devices = tuple(Device(DeviceId(DRIVER, name, f"gpu-{each}"), name) for each in range(count))
    return Pool(devices, nodes=frozenset({name}))


def put(snapshot: Snapshot, name: str, pool: Pool) -> None:
    snapshot.claims.select_by(lambda selector, device: device.id.name.startswith(selector))
    snapshot.note_facts(snapshot.claims.put_pool((DRIVER, name), pool))


def stage(**devices: int) -> Snapshot:
    """Nodes with so many devices each."""
    snapshot = snapshot_of(*(node(name, rack=name[0]) for name in devices))
    for name, count in devices.items():
        put(snapshot, name, pool_on(name, count))
    return snapshot


def rooms(snapshot: Snapshot, of: Shape) -> dict[str, int]:
    room = Rooms(snapshot, tight).room(of)
    return {each.name: int(room[snapshot.row(each.name)]) for each in snapshot.nodes()}


def gang(name: str, *groups: Sequence[Member]) -> Gang:
    return Gang(
        name,
        tuple(Group(f"g{n}", tuple(each), len(each)) for n, each in enumerate(groups)),
    )


def where(snapshot: Snapshot) -> dict[str, str]:
    return {
        pod.partition("/")[2]: snapshot.names[booking.row]
        for pod, booking in snapshot.bookings.items()
    }


def test_room_is_as_many_pods_as_there_are_devices_for() -> None:
    snapshot = stage(a0=4, a1=1, b0=0)
    two = ClaimAsk(((Option("gpu", count=2),),))
    assert rooms(snapshot, shape(ONE)) == {"a0": 4, "a1": 1, "b0": 0}
    assert rooms(snapshot, shape(two)) == {"a0": 2, "a1": 0, "b0": 0}
    assert rooms(snapshot, shape(two, ONE)) == {"a0": 1, "a1": 0, "b0": 0}
    assert rooms(snapshot, shape(ONE, cpu=32_000)) == {"a0": 2, "a1": 1, "b0": 0}


def test_reasons_name_what_is_wrong_for_ever() -> None:
    snapshot = stage(a0=1, a1=1, b0=0)
    elsewhere = Allocation((Given("gpu", DeviceId(DRIVER, "a1", "gpu-0")),), "a1")
    snapshot.note_facts(snapshot.claims.put_claim("ns/c", Written(elsewhere)))
    found = Rooms(snapshot, tight).reasons(shape(replace(ONE, name="ns/c"), ONE))
    reasons = {each.name: Reason(found[snapshot.row(each.name)]) for each in snapshot.nodes()}
    assert reasons == {
        "a0": Reason.CLAIM_ELSEWHERE,
        "a1": Reason.FITS,
        "b0": Reason.CLAIM_ELSEWHERE,
    }
    found = Rooms(snapshot, tight).reasons(shape(ONE))
    assert found[snapshot.row("b0")] == Reason.NO_DEVICES


def test_what_is_booked_is_taken_and_free_when_it_is_released() -> None:
    snapshot = stage(a0=2)
    one = member("p", shape(ONE), "ns/p-gpu")
    (booking,) = bookings_for(snapshot, 0, [one], "g")
    snapshot.book(booking)
    assert rooms(snapshot, shape(ONE)) == {"a0": 1}
    snapshot.release("ns/p")
    assert rooms(snapshot, shape(ONE)) == {"a0": 2}


def test_what_is_written_is_taken_once() -> None:
    snapshot = stage(a0=2)
    one = member("p", shape(ONE), "ns/p-gpu")
    (booking,) = bookings_for(snapshot, 0, [one], "g")
    snapshot.book(booking)
    (allocation,) = booking.claims
    assert allocation is not None
    written = Written(allocation, frozenset({"ns/p"}))
    snapshot.note_facts(snapshot.claims.put_claim("ns/p-gpu", written))
    assert rooms(snapshot, shape(ONE)) == {"a0": 1}
    mark = snapshot.mark()
    snapshot.release("ns/p")
    assert rooms(snapshot, shape(ONE)) == {"a0": 2}
    assert not snapshot.claims.may_be_written("ns/other", allocation)
    snapshot.undo(mark)
    assert rooms(snapshot, shape(ONE)) == {"a0": 1}
    snapshot.release("ns/p")
    snapshot.note_facts(snapshot.claims.put_claim("ns/p-gpu", None))
    assert rooms(snapshot, shape(ONE)) == {"a0": 2}
    assert snapshot.claims.may_be_written("ns/other", allocation)


def test_a_trial_of_a_pod_with_written_devices_does_not_free_them() -> None:
    snapshot = stage(a0=1)
    allocation = Allocation((Given("gpu", DeviceId(DRIVER, "a0", "gpu-0")),), "a0")
    written = Written(allocation, frozenset({"ns/p"}))
    snapshot.note_facts(snapshot.claims.put_claim("ns/c", written))
    one = member("p", shape(replace(ONE, name="ns/c")), "ns/c")
    mark = snapshot.mark()
    snapshot.book_all(bookings_for(snapshot, 0, [one], "g"))
    snapshot.undo(mark)
    assert rooms(snapshot, shape(ONE)) == {"a0": 0}
    assert rooms(snapshot, one.shape)["a0"] > 0


def test_gang_of_pods_with_claims_is_spread_over_devices() -> None:
    snapshot = stage(a0=2, a1=2, b0=1)
    members = [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(5)]
    bookings = placer(snapshot).place(gang("g", members))
    assert bookings is not None
    taken = [g.device for each in bookings for a in each.claims if a for g in a.devices]
    assert len(set(taken)) == 5
    assert placer(snapshot).place(gang("h", [member("q", shape(ONE), "ns/q")])) is None


def test_network_devices_are_not_counted_for_every_node() -> None:
    snapshot = stage(a0=0, a1=0, b0=0)
    term = NodeTerm((Requirement(RACK, "In", ("a",)),))
    far = tuple(Device(DeviceId(DRIVER, "net", f"n{n}"), terms=(term,)) for n in range(2))
    put(snapshot, "net", Pool(far, nodes=frozenset({ANY})))
    assert rooms(snapshot, shape(ONE)) == {"a0": 2, "a1": 2, "b0": 0}
    three = [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(3)]
    assert placer(snapshot).place(gang("g", three)) is None
    bookings = placer(snapshot).place(gang("g", three[:2]))
    assert bookings is not None
    assert {each.terms for booking in bookings for each in booking.claims if each} == {(term,)}
    assert rooms(snapshot, shape(ONE)) == {"a0": 0, "a1": 0, "b0": 0}


def test_groups_that_share_a_claim_find_the_node_that_holds_both() -> None:
    """The first would rather stand where the second has no room."""
    snapshot = stage(a0=1, a1=1, b0=1)
    for name in ("a0", "a1"):
        snapshot.put_node(node(name, gpus=1, cpu=10_000))
    shared = replace(ONE, name="ns/shared")
    leader = member("leader", shape(shared), "ns/shared")
    worker = member("worker", shape(shared, cpu=40_000), "ns/shared")
    other = member("other", shape(cpu=20_000))
    assert placer(snapshot).place(gang("g", [leader], [worker], [other])) is not None
    assert where(snapshot)["leader"] == where(snapshot)["worker"] == "b0"


def test_more_pods_than_a_claim_may_have_find_no_place() -> None:
    snapshot = stage(a0=1)
    snapshot.put_node(node("a0", cpu=10**9))
    allocation = Allocation((Given("gpu", DeviceId(DRIVER, "a0", "gpu-0")),), "a0")
    consumers = frozenset(f"ns/other-{n}" for n in range(255))
    snapshot.note_facts(snapshot.claims.put_claim("ns/c", Written(allocation, consumers)))
    shared = shape(replace(ONE, name="ns/c"))
    assert rooms(snapshot, shared) == {"a0": 1}


def test_all_devices_are_not_given_while_some_are_unknown() -> None:
    snapshot = stage(a0=2)
    everything = shape(ClaimAsk(((Option("gpu", count=0),),)))
    assert rooms(snapshot, everything) == {"a0": 1}
    put(snapshot, "more", Pool(complete=False, nodes=frozenset({"a0"})))
    assert rooms(snapshot, everything) == {"a0": 0}
    assert rooms(snapshot, shape(ONE)) == {"a0": 2}


def test_devices_that_change_are_counted_anew() -> None:
    snapshot = stage(a0=2)
    snapshot.book_all(bookings_for(snapshot, 0, [member("p", shape(ONE), "ns/c")], "g"))
    put(snapshot, "a0", pool_on("a0", 3))
    assert rooms(snapshot, shape(ONE)) == {"a0": 2}
    put(snapshot, "a0", pool_on("a0", 1))
    assert rooms(snapshot, shape(ONE)) == {"a0": 0}
    snapshot.release("ns/p")
    assert rooms(snapshot, shape(ONE)) == {"a0": 1}


def test_a_refusal_says_that_devices_are_lacking() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("a0"))
    put(cluster.snapshot, "a0", pool_on("a0", 1))
    waiting = gang("g", [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(2)])
    plan = Planner(cluster, tight, Policy()).plan([waiting], 0.0)
    assert [type(each.why) for each in plan.refusals] == [NoRoom]
    assert "claimed devices" in explain(cluster, tight, Policy(), waiting, NoRoom(), 0.0).message


@pytest.mark.parametrize("count", [3, 200])
def test_a_copy_has_its_own_devices(count: int) -> None:
    snapshot = stage(a0=2, a1=count)
    snapshot.book_all(bookings_for(snapshot, 0, [member("p", shape(ONE), "ns/c")], "g"))
    copy = snapshot.copy()
    copy.release("ns/p")
    assert rooms(copy, shape(ONE))["a0"] == 2
    assert rooms(snapshot, shape(ONE))["a0"] == 1


# Whatever happens.

PARTS = tuple(
    Device(
        DeviceId(DRIVER, "n0", name),
        "n0",
        consumes=((Counter(DRIVER, "n0", "set", "memory"), amount),),
    )
    for name, amount in (("whole", 4), ("half-0", 2), ("half-1", 2), ("quarter", 1))
)
ASKS = [
    shape(ONE),
    shape(ClaimAsk(((Option("gpu", ("half",)),),))),
    shape(ClaimAsk(((Option("gpu", ("whole",)), Option("gpu", ("q",))),))),
    shape(replace(ONE, name="ns/shared")),
]
steps = st.lists(
    st.tuples(st.sampled_from(["book", "release", "mark", "undo", "keep"]), st.integers(0, 7)),
    max_size=40,
)


@given(steps)
@settings(max_examples=200, deadline=None)
def test_nothing_is_given_twice_and_trials_leave_no_trace(story: list[tuple[str, int]]) -> None:
    snapshot = snapshot_of(node("n0"), node("n1"))
    counters = {Counter(DRIVER, "n0", "set", "memory"): 4}
    put(snapshot, "n0", Pool(PARTS, counters, nodes=frozenset({"n0"})))
    put(snapshot, "n1", pool_on("n1", 2))
    marks: list[tuple[int, list[list[int]]]] = []
    for number, (act, which) in enumerate(story):
        if act == "book":
            of = ASKS[which % len(ASKS)]
            room = Rooms(snapshot, tight).room(of)
            row = int(room.argmax())
            if room[row]:
                claim = of.claims[0].name or f"ns/c{number}"
                one = member(f"p{number}", of, claim)
                snapshot.book_all(bookings_for(snapshot, row, [one], "g"))
        elif act == "release" and snapshot.bookings:
            snapshot.release(sorted(snapshot.bookings)[which % len(snapshot.bookings)])
        elif act == "mark":
            marks.append((snapshot.mark(), _all_rooms(snapshot)))
        elif act == "undo" and marks:
            mark, before = marks.pop()
            snapshot.undo(mark)
            assert _all_rooms(snapshot) == before
        elif act == "keep" and marks:
            snapshot.keep(marks.pop()[0])
        _check(snapshot)


def _all_rooms(snapshot: Snapshot) -> list[list[int]]:
    return [Rooms(snapshot, tight).room(of).tolist() for of in ASKS]


def _check(snapshot: Snapshot) -> None:
    """Devices of claims that are held, each claim once."""
    held = {
        claim: allocation
        for booking in snapshot.bookings.values()
        for claim, allocation in zip(booking.member.claims, booking.claims, strict=True)
        if allocation is not None
    }
    devices = [given.device for each in held.values() for given in each.devices]
    assert len(set(devices)) == len(devices)
    amounts = {each.id: each.consumes[0][1] for each in PARTS}
    assert sum(amounts.get(each, 0) for each in devices) <= 4
    for claim, allocation in held.items():
        assert snapshot.claims.allocation(claim) == allocation


def test_vectors_kept_between_decisions_are_right() -> None:
    """Rooms that look only at rows that changed find what fresh ones do."""
    snapshot = stage(a0=1, a1=1, b0=1)
    kept = Rooms(snapshot, tight)
    shared = shape(replace(ONE, name="ns/shared"))
    for of in (shape(ONE), shared):
        assert kept.room(of).tolist() == Rooms(snapshot, tight).room(of).tolist()
    snapshot.book_all(bookings_for(snapshot, 0, [member("p", shared, "ns/shared")], "g"))
    for of in (shape(ONE), shared):
        assert np.array_equal(kept.room(of), Rooms(snapshot, tight).room(of))
    snapshot.release("ns/p")
    for of in (shape(ONE), shared):
        assert np.array_equal(kept.room(of), Rooms(snapshot, tight).room(of))
