"""Devices and claims in a snapshot and its file."""

from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimRequest,
    ConsumableCapacity,
    Device,
    DeviceAttribute,
    DeviceId,
    DeviceRequestOption,
    SharedCounter,
)
from kilonova.scheduler.core.dra.inventory import DevicePool
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member, single_pod_gang
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.snapshots.file import decode_snapshot, encode_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from tests.scheduler.harness.snapshots import UNUSED_PATH, node

DRIVER = "gpu.example.com"
COUNTER = SharedCounter(DRIVER, "pool", "card", "memory")


def device(name: str, model: str) -> Device:
    return Device(
        DeviceId(DRIVER, "pool", name),
        "a",
        attributes={"model": DeviceAttribute("string", model)},
        capacity={"memory": ConsumableCapacity(80 * 10**9)},
        consumes=((COUNTER, 1),),
    )


def pending_claim_gang(name: str, model: str) -> Gang:
    selector = f"device.attributes['{DRIVER}'].model == '{model}'"
    claim_request = ClaimRequest(((DeviceRequestOption("gpu", (selector,)),),))
    shape = Shape((("cpu", 100), ("pods", 1)), claims=(claim_request,))
    return single_pod_gang(Member(f"ns/{name}", shape, claims=(f"ns/{name}-gpu",)))


def cluster_snapshot() -> ClusterSnapshot:
    """Two devices of one model, one of them allocated, and one of another model."""
    cluster = Cluster()
    cluster.snapshot.put_node(node("a"))
    devices = (device("d0", "big"), device("d1", "big"), device("d2", "small"))
    allocation = ClaimAllocation((AllocatedDevice("gpu", devices[0].id),), "a")
    waiting = [
        pending_claim_gang("first", "big"),
        pending_claim_gang("second", "big"),
        pending_claim_gang("third", "small"),
    ]
    return take_snapshot(
        cluster,
        waiting,
        [],
        PlannerPolicy(),
        10.0,
        pools={(DRIVER, "pool"): DevicePool(devices, {COUNTER: 3}, nodes=frozenset({"a"}))},
        claims={"ns/taken": PublishedAllocation(allocation, frozenset({"ns/other"}))},
    )


def test_restored_snapshot_allocates_the_same_devices():
    before = cluster_snapshot()
    decoded = decode_snapshot(encode_snapshot(before), UNUSED_PATH)
    assert decoded == before
    decisions = replay_snapshot(decoded)
    assert decisions == replay_snapshot(before)
    assert [each.gang for each in decisions.placed] == ["ns/first", "ns/third"]
    assert [each.gang for each in decisions.rejected] == ["ns/second"]
