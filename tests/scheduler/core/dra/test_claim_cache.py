"""Claims in a snapshot: free capacity, allocations, and gangs that share claims."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.scheduler.core.decisions import InsufficientCapacity
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimRequest,
    Device,
    DeviceId,
    DeviceRequestOption,
    SharedCounter,
)
from kilonova.scheduler.core.dra.inventory import ANY_NODE, DevicePool
from kilonova.scheduler.core.explain import explain
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm, Requirement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support.clusters import RACK, node, placer, snapshot_of, tight

DRIVER = "gpu.example.com"
ONE = ClaimRequest(((DeviceRequestOption("gpu"),),))


def shape(*claims: ClaimRequest, cpu: int = 1000) -> Shape:
    return Shape((("cpu", cpu), ("pods", 1)), claims=claims)


def member(name: str, of: Shape, *claims: str) -> Member:
    return Member(f"ns/{name}", of, claims=claims)


def pool_on(name: str, count: int) -> DevicePool:
    devices = tuple(Device(DeviceId(DRIVER, name, f"gpu-{each}"), name) for each in range(count))
    return DevicePool(devices, nodes=frozenset({name}))


def put(snapshot: Snapshot, name: str, pool: DevicePool) -> None:
    snapshot.claims.set_selector_matcher(
        lambda selector, device: device.id.name.startswith(selector)
    )
    snapshot.put_pool((DRIVER, name), pool)


def cluster_with_pool(**devices: int) -> Snapshot:
    """Nodes with a number of devices each."""
    snapshot = snapshot_of(*(node(name, rack=name[0]) for name in devices))
    for name, count in devices.items():
        put(snapshot, name, pool_on(name, count))
    return snapshot


def free_capacities(snapshot: Snapshot, of: Shape) -> dict[str, int]:
    capacity = FeasibilityCache(snapshot, tight).free_capacity(of)
    return {each.name: int(capacity[snapshot.row(each.name)]) for each in snapshot.nodes()}


def gang(name: str, *groups: Sequence[Member]) -> Gang:
    return Gang(
        name,
        tuple(Group(f"g{n}", tuple(each), len(each)) for n, each in enumerate(groups)),
    )


def where(snapshot: Snapshot) -> dict[str, str]:
    return {
        pod.partition("/")[2]: snapshot.names[placement.row]
        for pod, placement in snapshot.placements.items()
    }


def test_free_capacity_is_number_of_pods_with_devices() -> None:
    snapshot = cluster_with_pool(a0=4, a1=1, b0=0)
    two = ClaimRequest(((DeviceRequestOption("gpu", count=2),),))
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 4, "a1": 1, "b0": 0}
    assert free_capacities(snapshot, shape(two)) == {"a0": 2, "a1": 0, "b0": 0}
    assert free_capacities(snapshot, shape(two, ONE)) == {"a0": 1, "a1": 0, "b0": 0}
    assert free_capacities(snapshot, shape(ONE, cpu=32_000)) == {"a0": 2, "a1": 1, "b0": 0}


def test_filter_reasons_name_permanent_rejections() -> None:
    snapshot = cluster_with_pool(a0=1, a1=1, b0=0)
    elsewhere = ClaimAllocation((AllocatedDevice("gpu", DeviceId(DRIVER, "a1", "gpu-0")),), "a1")
    snapshot.put_claim("ns/c", PublishedAllocation(elsewhere))
    found = FeasibilityCache(snapshot, tight).rejection_reasons(
        shape(replace(ONE, name="ns/c"), ONE)
    )
    reasons = {each.name: FilterReason(found[snapshot.row(each.name)]) for each in snapshot.nodes()}
    assert reasons == {
        "a0": FilterReason.CLAIM_ON_OTHER_NODE,
        "a1": FilterReason.FITS,
        "b0": FilterReason.CLAIM_ON_OTHER_NODE,
    }
    found = FeasibilityCache(snapshot, tight).rejection_reasons(shape(ONE))
    assert found[snapshot.row("b0")] == FilterReason.NO_DEVICES


def test_placed_pod_holds_devices_until_removed() -> None:
    snapshot = cluster_with_pool(a0=2)
    one = member("p", shape(ONE), "ns/p-gpu")
    (placement,) = make_placements(snapshot, 0, [one], "g")
    snapshot.add_pod(placement)
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 1}
    snapshot.remove_pod("ns/p")
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2}


def test_published_allocation_is_counted_once() -> None:
    snapshot = cluster_with_pool(a0=2)
    one = member("p", shape(ONE), "ns/p-gpu")
    (placement,) = make_placements(snapshot, 0, [one], "g")
    snapshot.add_pod(placement)
    (allocation,) = placement.claims
    assert allocation is not None
    written = PublishedAllocation(allocation, frozenset({"ns/p"}))
    snapshot.put_claim("ns/p-gpu", written)
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 1}
    trial = snapshot.begin_trial()
    snapshot.remove_pod("ns/p")
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2}
    assert not snapshot.claims.can_publish("ns/other", allocation)
    snapshot.rollback(trial)
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 1}
    snapshot.remove_pod("ns/p")
    snapshot.put_claim("ns/p-gpu", None)
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2}
    assert snapshot.claims.can_publish("ns/other", allocation)


def test_trial_does_not_free_published_devices() -> None:
    snapshot = cluster_with_pool(a0=1)
    allocation = ClaimAllocation((AllocatedDevice("gpu", DeviceId(DRIVER, "a0", "gpu-0")),), "a0")
    written = PublishedAllocation(allocation, frozenset({"ns/p"}))
    snapshot.put_claim("ns/c", written)
    one = member("p", shape(replace(ONE, name="ns/c")), "ns/c")
    trial = snapshot.begin_trial()
    snapshot.add_pods(make_placements(snapshot, 0, [one], "g"))
    snapshot.rollback(trial)
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 0}
    assert free_capacities(snapshot, one.shape)["a0"] > 0


def test_gang_of_pods_with_claims_is_spread_over_devices() -> None:
    snapshot = cluster_with_pool(a0=2, a1=2, b0=1)
    members = [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(5)]
    placements = placer(snapshot).place(gang("g", members))
    assert placements is not None
    taken = [g.device for each in placements for a in each.claims if a for g in a.devices]
    assert len(set(taken)) == 5
    assert placer(snapshot).place(gang("h", [member("q", shape(ONE), "ns/q")])) is None


def test_network_devices_are_not_counted_for_every_node() -> None:
    snapshot = cluster_with_pool(a0=0, a1=0, b0=0)
    term = NodeSelectorTerm((Requirement(RACK, "In", ("a",)),))
    far = tuple(Device(DeviceId(DRIVER, "net", f"n{n}"), terms=(term,)) for n in range(2))
    put(snapshot, "net", DevicePool(far, nodes=frozenset({ANY_NODE})))
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2, "a1": 2, "b0": 0}
    three = [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(3)]
    assert placer(snapshot).place(gang("g", three)) is None
    placements = placer(snapshot).place(gang("g", three[:2]))
    assert placements is not None
    assert {each.terms for placement in placements for each in placement.claims if each} == {
        (term,)
    }
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 0, "a1": 0, "b0": 0}


def test_groups_with_shared_claim_get_node_that_fits_both() -> None:
    """The first group prefers a node on which the second does not fit."""
    snapshot = cluster_with_pool(a0=1, a1=1, b0=1)
    for name in ("a0", "a1"):
        snapshot.put_node(node(name, gpus=1, cpu=10_000))
    shared = replace(ONE, name="ns/shared")
    leader = member("leader", shape(shared), "ns/shared")
    worker = member("worker", shape(shared, cpu=40_000), "ns/shared")
    other = member("other", shape(cpu=20_000))
    assert placer(snapshot).place(gang("g", [leader], [worker], [other])) is not None
    assert where(snapshot)["leader"] == where(snapshot)["worker"] == "b0"


def test_pods_beyond_consumer_limit_are_unschedulable() -> None:
    snapshot = cluster_with_pool(a0=1)
    snapshot.put_node(node("a0", cpu=10**9))
    allocation = ClaimAllocation((AllocatedDevice("gpu", DeviceId(DRIVER, "a0", "gpu-0")),), "a0")
    consumers = frozenset(f"ns/other-{n}" for n in range(255))
    snapshot.record_spec_changes(
        snapshot.claims.put_claim("ns/c", PublishedAllocation(allocation, consumers))
    )
    shared = shape(replace(ONE, name="ns/c"))
    assert free_capacities(snapshot, shared) == {"a0": 1}


def test_all_devices_are_not_allocated_while_pool_is_incomplete() -> None:
    snapshot = cluster_with_pool(a0=2)
    everything = shape(ClaimRequest(((DeviceRequestOption("gpu", count=0),),)))
    assert free_capacities(snapshot, everything) == {"a0": 1}
    put(snapshot, "more", DevicePool(complete=False, nodes=frozenset({"a0"})))
    assert free_capacities(snapshot, everything) == {"a0": 0}
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2}


def test_changed_devices_are_recounted() -> None:
    snapshot = cluster_with_pool(a0=2)
    snapshot.add_pods(make_placements(snapshot, 0, [member("p", shape(ONE), "ns/c")], "g"))
    put(snapshot, "a0", pool_on("a0", 3))
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 2}
    put(snapshot, "a0", pool_on("a0", 1))
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 0}
    snapshot.remove_pod("ns/p")
    assert free_capacities(snapshot, shape(ONE)) == {"a0": 1}


def test_unschedulable_reason_names_missing_devices() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("a0"))
    put(cluster.snapshot, "a0", pool_on("a0", 1))
    pending = gang("g", [member(f"p{n}", shape(ONE), f"ns/c{n}") for n in range(2)])
    plan = Planner(cluster, tight, PlannerPolicy()).plan([pending], 0.0)
    assert [type(each.reason) for each in plan.unschedulable] == [InsufficientCapacity]
    assert (
        "claimed devices"
        in explain(cluster, tight, PlannerPolicy(), pending, InsufficientCapacity(), 0.0).message
    )


@pytest.mark.parametrize("count", [3, 200])
def test_copy_has_its_own_devices(count: int) -> None:
    snapshot = cluster_with_pool(a0=2, a1=count)
    snapshot.add_pods(make_placements(snapshot, 0, [member("p", shape(ONE), "ns/c")], "g"))
    copy = snapshot.copy()
    copy.remove_pod("ns/p")
    assert free_capacities(copy, shape(ONE))["a0"] == 2
    assert free_capacities(snapshot, shape(ONE))["a0"] == 1


# Random sequences of changes.

PARTS = tuple(
    Device(
        DeviceId(DRIVER, "n0", name),
        "n0",
        consumes=((SharedCounter(DRIVER, "n0", "set", "memory"), amount),),
    )
    for name, amount in (("whole", 4), ("half-0", 2), ("half-1", 2), ("quarter", 1))
)
ASKS = [
    shape(ONE),
    shape(ClaimRequest(((DeviceRequestOption("gpu", ("half",)),),))),
    shape(
        ClaimRequest(
            ((DeviceRequestOption("gpu", ("whole",)), DeviceRequestOption("gpu", ("q",))),)
        )
    ),
    shape(replace(ONE, name="ns/shared")),
]
steps = st.lists(
    st.tuples(st.sampled_from(["book", "release", "mark", "undo", "keep"]), st.integers(0, 7)),
    max_size=40,
)


@given(steps)
@settings(max_examples=limit_examples(200), deadline=None)
def test_no_device_is_allocated_twice_and_trials_roll_back(steps: list[tuple[str, int]]) -> None:
    snapshot = snapshot_of(node("n0"), node("n1"))
    counters = {SharedCounter(DRIVER, "n0", "set", "memory"): 4}
    put(snapshot, "n0", DevicePool(PARTS, counters, nodes=frozenset({"n0"})))
    put(snapshot, "n1", pool_on("n1", 2))
    marks: list[tuple[int, list[list[int]]]] = []
    for number, (act, which) in enumerate(steps):
        if act == "book":
            of = ASKS[which % len(ASKS)]
            capacity = FeasibilityCache(snapshot, tight).free_capacity(of)
            row = int(capacity.argmax())
            if capacity[row]:
                claim = of.claims[0].name or f"ns/c{number}"
                one = member(f"p{number}", of, claim)
                snapshot.add_pods(make_placements(snapshot, row, [one], "g"))
        elif act == "release" and snapshot.placements:
            snapshot.remove_pod(sorted(snapshot.placements)[which % len(snapshot.placements)])
        elif act == "mark":
            marks.append((snapshot.begin_trial(), _all_free_capacities(snapshot)))
        elif act == "undo" and marks:
            trial, before = marks.pop()
            snapshot.rollback(trial)
            assert _all_free_capacities(snapshot) == before
        elif act == "keep" and marks:
            snapshot.commit(marks.pop()[0])
        _check_claims(snapshot)


def _all_free_capacities(snapshot: Snapshot) -> list[list[int]]:
    return [FeasibilityCache(snapshot, tight).free_capacity(of).tolist() for of in ASKS]


def _check_claims(snapshot: Snapshot) -> None:
    """The devices of allocated claims, each claim once."""
    held = {
        claim: allocation
        for placement in snapshot.placements.values()
        for claim, allocation in zip(placement.member.claims, placement.claims, strict=True)
        if allocation is not None
    }
    devices = [given.device for each in held.values() for given in each.devices]
    assert len(set(devices)) == len(devices)
    amounts = {each.id: each.consumes[0][1] for each in PARTS}
    assert sum(amounts.get(each, 0) for each in devices) <= 4
    for claim, allocation in held.items():
        assert snapshot.claims.allocation_of(claim) == allocation


def test_cached_vectors_match_recomputation() -> None:
    """Incrementally updated vectors equal recomputed ones."""
    snapshot = cluster_with_pool(a0=1, a1=1, b0=1)
    kept = FeasibilityCache(snapshot, tight)
    shared = shape(replace(ONE, name="ns/shared"))
    for of in (shape(ONE), shared):
        assert (
            kept.free_capacity(of).tolist()
            == FeasibilityCache(snapshot, tight).free_capacity(of).tolist()
        )
    snapshot.add_pods(make_placements(snapshot, 0, [member("p", shared, "ns/shared")], "g"))
    for of in (shape(ONE), shared):
        assert np.array_equal(
            kept.free_capacity(of), FeasibilityCache(snapshot, tight).free_capacity(of)
        )
    snapshot.remove_pod("ns/p")
    for of in (shape(ONE), shared):
        assert np.array_equal(
            kept.free_capacity(of), FeasibilityCache(snapshot, tight).free_capacity(of)
        )
