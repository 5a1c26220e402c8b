"""A GPU that is published both by its node and for claims is one GPU."""

from dataclasses import replace

import pytest

from kilonova.catalog.mig import MEDIA_EXTENSION, geometry_named
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimRequest,
    Device,
    DeviceId,
    DeviceRequestOption,
)
from kilonova.scheduler.core.dra.inventory import DevicePool
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.gpu.assignment import make_placements
from kilonova.scheduler.core.gpu.identity import GpuId, GpuReference
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import tight

DRIVER = "gpu.nvidia.com"
H100 = geometry_named("H100-80GB")
ONE = ClaimRequest(((DeviceRequestOption("gpu", ("whole",)),),))
SLICE = ClaimRequest(((DeviceRequestOption("mig", ("part",)),),))
BY_CLAIM = Shape((("pods", 1),), claims=(ONE,))
BY_SLICE = Shape((("pods", 1),), claims=(SLICE,))
WHOLE = Shape(((GPU, 1), ("pods", 1)), GpuRequest(1))
SHARE = Shape((("pods", 1),), GpuRequest(1, 500))
INSTANCE = Shape((("pods", 1),), GpuRequest(1, profile="3g.40gb"))


def node(count: int, *, ids: bool = True, name: str = "a") -> Node:
    return Node(
        name,
        {"pods": 110, GPU: count},
        layout=GpuLayout(tuple(Gpu(index, 81559, mig=H100) for index in range(count))),
        gpu_ids=tuple(GpuId(f"GPU-{name}{n}") for n in range(count)) if ids else (),
    )


def device(name: str, reference: GpuReference | None, on: str = "a") -> Device:
    return Device(DeviceId(DRIVER, on, name), on, gpu=reference)


def whole(index: int, on: str = "a") -> Device:
    return device(f"whole-{index}", GpuReference(f"GPU-{on}{index}"), on)


def part(index: int, mask: int, on: str = "a") -> Device:
    return device(f"part-{index}-{mask}", GpuReference(f"GPU-{on}{index}", mask=mask), on)


def cluster(of: Node, *devices: Device) -> Snapshot:
    snapshot = Snapshot()
    snapshot.put_node(of)
    snapshot.claims.set_selector_matcher(lambda prefix, each: each.id.name.startswith(prefix))
    snapshot.put_pool((DRIVER, of.name), DevicePool(devices, nodes=frozenset({of.name})))
    return snapshot


def free(snapshot: Snapshot, shape: Shape) -> int:
    return int(FeasibilityCache(snapshot, tight).free_capacity(shape)[snapshot.row("a")])


def place(snapshot: Snapshot, pod: str, shape: Shape) -> PodPlacement:
    claims = tuple(f"{pod}-{number}" for number in range(len(shape.claims)))
    [placement] = make_placements(
        snapshot, snapshot.row("a"), [Member(pod, shape, claims=claims)], pod
    )
    snapshot.add_pod(placement)
    return placement


def allocation(*names: str, on: str = "a") -> ClaimAllocation:
    return ClaimAllocation(
        tuple(AllocatedDevice("gpu", DeviceId(DRIVER, on, name)) for name in names), on
    )


def test_claimed_gpu_is_not_given_to_pods() -> None:
    snapshot = cluster(node(2), whole(0), whole(1))
    place(snapshot, "ns/claim", BY_CLAIM)
    assert [free(snapshot, shape) for shape in (WHOLE, SHARE, INSTANCE, BY_CLAIM)] == [1, 2, 2, 1]
    assert place(snapshot, "ns/pod", WHOLE).devices == (GpuShare(1),)
    assert [free(snapshot, shape) for shape in (WHOLE, SHARE, INSTANCE, BY_CLAIM)] == [0] * 4


@pytest.mark.parametrize("shape", [WHOLE, SHARE, INSTANCE])
def test_gpu_of_a_pod_is_not_claimed(shape: Shape) -> None:
    snapshot = cluster(node(2), whole(0), whole(1))
    placement = place(snapshot, "ns/pod", shape)
    assert free(snapshot, BY_CLAIM) == 1
    used = placement.devices[0].index
    assert place(snapshot, "ns/claim", BY_CLAIM).claims == (allocation(f"whole-{1 - used}"),)
    snapshot.remove_pod("ns/pod")
    assert free(snapshot, BY_CLAIM) == 1


def test_claimed_instances_and_those_of_pods_have_different_slices() -> None:
    snapshot = cluster(node(1), whole(0), part(0, 0b1111), part(0, 0b11110000))
    placement = place(snapshot, "ns/pod", INSTANCE)
    assert free(snapshot, BY_SLICE) == 1
    assert free(snapshot, BY_CLAIM) == 0
    place(snapshot, "ns/claim", BY_SLICE)
    assert [free(snapshot, shape) for shape in (WHOLE, SHARE, INSTANCE, BY_SLICE)] == [0] * 4
    masks = int(snapshot.gpu_claimed[0, 0]), placement.devices[0].mask
    assert sorted(masks) == [0b1111, 0b11110000]


def test_parts_of_one_gpu_exclude_each_other_without_counters() -> None:
    snapshot = cluster(node(1), whole(0), part(0, 0b1111), part(0, 0b11), part(0, 0b11110000))
    assert free(snapshot, BY_SLICE) == 2
    place(snapshot, "ns/claim", BY_CLAIM)
    assert free(snapshot, BY_SLICE) == 0


def test_extended_profile_occupies_the_media_extension() -> None:
    extended = part(0, 1 | MEDIA_EXTENSION)
    snapshot = cluster(node(1), extended)
    place(snapshot, "ns/claim", BY_SLICE)
    assert free(snapshot, Shape((("pods", 1),), GpuRequest(1, profile="1g.10gb+me"))) == 0
    assert free(snapshot, Shape((("pods", 1),), GpuRequest(1, profile="1g.10gb"))) == 6


@pytest.mark.parametrize(
    ("reference", "ids", "same"),
    [
        (GpuReference("GPU-a0"), (GpuId("GPU-a0"),), True),
        (GpuReference("GPU-b0", index=0), (GpuId("GPU-a0"),), False),
        (GpuReference(pci="0000:18:00.0"), (GpuId("GPU-a0", "0000:18:00.0"),), True),
        (GpuReference(pci="0000:19:00.0", index=0), (GpuId("", "0000:18:00.0"),), False),
        (GpuReference("GPU-a0", index=0), (), True),
        (GpuReference(index=0), (GpuId("GPU-a0"),), True),
        (GpuReference(index=1), (GpuId("GPU-a0"),), False),
        (None, (GpuId("GPU-a0"),), False),
    ],
)
def test_gpu_is_identified_by_uuid_else_pci_address_else_index(
    reference: GpuReference | None, ids: tuple[GpuId, ...], same: bool
) -> None:
    snapshot = cluster(replace(node(1), gpu_ids=ids), device("whole", reference))
    place(snapshot, "ns/claim", BY_CLAIM)
    assert free(snapshot, WHOLE) == (0 if same else 1)


def test_pod_with_gpu_and_claim_gets_two_gpus() -> None:
    snapshot = cluster(node(3), *map(whole, range(3)))
    both = replace(WHOLE, claims=(ONE,))
    assert free(snapshot, both) == 1
    placement = place(snapshot, "ns/both", both)
    [claimed] = [each for each in placement.claims if each is not None]
    assert claimed.devices[0].device.name != f"whole-{placement.devices[0].index}"
    assert free(snapshot, both) == 0
    assert free(snapshot, WHOLE) == free(snapshot, BY_CLAIM) == 1


def test_gpus_of_claims_are_known_in_any_order_of_events() -> None:
    published = PublishedAllocation(allocation("whole-0"), frozenset({"ns/x"}))
    pool = DevicePool((whole(0), whole(1)), nodes=frozenset({"a"}))
    snapshot = Snapshot()
    snapshot.put_claim("ns/c", published)
    snapshot.put_pool((DRIVER, "a"), pool)
    snapshot.put_node(node(2))
    assert free(snapshot, WHOLE) == 1
    snapshot.remove_node("a")
    snapshot.put_node(node(2))
    assert free(snapshot, WHOLE) == 1
    assert free(snapshot.copy(), WHOLE) == 1
    snapshot.put_claim("ns/c", None)
    assert free(snapshot, WHOLE) == 2


def test_claimed_gpu_stays_in_use_while_its_driver_restarts() -> None:
    snapshot = cluster(node(2), whole(0), whole(1))
    snapshot.put_claim("ns/c", PublishedAllocation(allocation("whole-0")))
    snapshot.put_pool((DRIVER, "a"), None)
    assert free(snapshot, WHOLE) == 1
    assert free(snapshot.copy(), WHOLE) == 1
    snapshot.put_claim("ns/c", None)
    assert free(snapshot, WHOLE) == 2


def test_trial_with_claims_is_rolled_back() -> None:
    snapshot = cluster(node(2), whole(0), whole(1))
    trial = snapshot.begin_trial()
    place(snapshot, "ns/claim", BY_CLAIM)
    place(snapshot, "ns/pod", WHOLE)
    assert free(snapshot, WHOLE) == 0
    snapshot.rollback(trial)
    assert [free(snapshot, shape) for shape in (WHOLE, BY_CLAIM)] == [2, 2]


def test_foreign_allocation_of_a_pods_gpu_is_a_conflict() -> None:
    snapshot = cluster(node(1), whole(0))
    placement = place(snapshot, "ns/pod", WHOLE)
    assert not snapshot.has_device_conflict(placement)
    snapshot.put_claim("ns/c", PublishedAllocation(allocation("whole-0"), frozenset({"ns/x"})))
    assert snapshot.has_device_conflict(placement)
    assert snapshot.claims.is_overallocated(placement.row, (allocation("whole-0"),))


@pytest.mark.parametrize(("victim", "preemptor"), [(BY_CLAIM, WHOLE), (WHOLE, BY_CLAIM)])
def test_preemption_frees_gpus_across_claims_and_counts(victim: Shape, preemptor: Shape) -> None:
    snapshot = cluster(node(1), whole(0))
    subject = Cluster()
    subject.snapshot = snapshot
    planner = Planner(subject, tight, PlannerPolicy())

    def gang(name: str, shape: Shape, priority: int) -> Gang:
        claims = (f"ns/{name}-claim",) if shape.claims else ()
        members = (Member(f"ns/{name}", shape, claims=claims),)
        return Gang(name, (Group("g", members, 1),), priority=priority)

    first = planner.schedule([gang("low", victim, 0)], 0.0)
    assert [each.gang.name for each in first.placements] == ["low"]
    second = planner.schedule([gang("high", preemptor, 10)], 1.0)
    assert [each.gang.name for each in second.placements] == ["high"]
    assert [pod for each in second.placements for unit in each.victims for pod in unit.pods] == [
        "ns/low"
    ]


def test_overlapping_instances_are_a_conflict() -> None:
    snapshot = cluster(node(1))
    two = Shape((("pods", 1),), GpuRequest(2, profile="1g.10gb"))
    shares = tuple(GpuShare(0, 0, "1g.10gb", start, 1 << start) for start in (0, 5))
    placement = PodPlacement(Member("ns/two", two), 0, shares)
    snapshot.add_pod(placement)
    assert not snapshot.has_device_conflict(placement)
    beside = PodPlacement(Member("ns/beside", INSTANCE), 0, (GpuShare(0, 0, "1g.10gb", 1, 0b10),))
    snapshot.add_pod(beside)
    assert not snapshot.has_device_conflict(placement)
    over = PodPlacement(Member("ns/over", INSTANCE), 0, (GpuShare(0, 0, "2g.20gb", 0, 0b11),))
    snapshot.add_pod(over)
    assert snapshot.has_device_conflict(placement)
