"""Volumes: node constraints of pods, and the writes before binding."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.json import JsonObject
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.pods.members import convert_pod
from kilonova.scheduler.convert.storage.volume_pools import node_pool_amounts
from kilonova.scheduler.convert.storage.volumes import (
    NodeSelection,
    VolumePrebinding,
    VolumeRequirements,
    attach_limits,
    plan_volume_binding,
    volume_requirements,
    with_volumes,
)
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.model.gangs import Member, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.placer import Placer
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.storage_v1 import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tests.scheduler.convert.wire_pods import wire_pod
from tests.scheduler.core.support.clusters import tight

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = {
    "n0": {HOST: "n0", ZONE: "a"},
    "n1": {HOST: "n1", ZONE: "b"},
    "n2": {HOST: "n2"},
}


@dataclass
class FakeStorageLister:
    """A lister of claims and volumes in memory."""

    claims: dict[str, PersistentVolumeClaim] = field(
        default_factory=dict[str, PersistentVolumeClaim]
    )
    volumes: dict[str, PersistentVolume] = field(default_factory=dict[str, PersistentVolume])
    classes: dict[str, StorageClass] = field(default_factory=dict[str, StorageClass])
    left: list[CsiStorageCapacity] | None = None

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(name)

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        return (each for each in self.volumes.values() if each.storage_class == storage_class)

    def capacities(self, storage_class: StorageClass) -> Iterable[CsiStorageCapacity] | None:
        return self.left

    def add(
        self, *things: PersistentVolumeClaim | PersistentVolume | StorageClass
    ) -> "FakeStorageLister":
        for each in things:
            match each:
                case PersistentVolumeClaim():
                    self.claims[each.key] = each
                case PersistentVolume():
                    self.volumes[each.metadata.name] = each
                case StorageClass():
                    self.classes[each.metadata.name] = each
        return self


def metadata(name: str, **more: object) -> JsonObject:
    return {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", **more}


def claim(
    name: str = "data",
    *,
    of: str = "local",
    size: str = "10Gi",
    volume: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    notes: Mapping[str, str] | None = None,
    **more: object,
) -> PersistentVolumeClaim:
    """A claim in namespace `ns`; bound to `volume`, if given."""
    annotations = dict(notes or {})
    if volume:
        annotations[BIND_COMPLETED] = "yes"
    spec = {
        "storageClassName": of,
        "accessModes": modes,
        "resources": {"requests": {"storage": size}},
        "volumeName": volume,
    }
    known = metadata(name, namespace="ns", annotations=annotations, **more)
    return msgspec.convert({"metadata": known, "spec": spec}, PersistentVolumeClaim)


def volume(
    name: str,
    node: str = "",
    *,
    of: str = "local",
    size: str = "10Gi",
    labels: Mapping[str, str] | None = None,
    phase: str = "Available",
    **spec: object,
) -> PersistentVolume:
    """A volume; with a node, accessible only from this node."""
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}} if node else None
    wire = {
        "storageClassName": of,
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": affinity,
        **spec,
    }
    known = metadata(name, labels=dict(labels or {}))
    return msgspec.convert(
        {"metadata": known, "spec": wire, "status": {"phase": phase}}, PersistentVolume
    )


def storage_class(
    name: str = "local",
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
    zones: tuple[str, ...] = (),
) -> StorageClass:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}] if zones else []
    wire = {
        "metadata": metadata(name),
        "provisioner": provisioner,
        "volumeBindingMode": mode,
        "allowedTopologies": topologies,
    }
    return msgspec.convert(wire, StorageClass)


FAST = storage_class("fast", "csi.example.com")
LOCAL = storage_class()


def pod_with(*claims: str, name: str = "web-0") -> Pod:
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return wire_pod({"volumes": [*volumes, {"name": "tmp", "emptyDir": {}}]}, name=name)


def requirements_of_pod(storage: FakeStorageLister, pod: Pod) -> VolumeRequirements:
    needs = volume_requirements(pod, storage, NODES.__contains__)
    assert isinstance(needs, VolumeRequirements)
    return needs


def member_with_volumes(storage: FakeStorageLister, pod: Pod) -> Member:
    return with_volumes(convert_pod(pod), requirements_of_pod(storage, pod))


def snapshot_for(storage: FakeStorageLister, *pods: Pod, limit: int | None = None) -> Snapshot:
    """The nodes with the volume resources that some pods request."""
    snapshot = Snapshot()
    pools = {pool for pod in pods for pool in requirements_of_pod(storage, pod).pools}
    for name, labels in NODES.items():
        amounts = {"pods": 9}
        for pool in pools:
            amounts |= node_pool_amounts(pool, storage.volumes_of(pool.storage_class), name, labels)
        if limit is not None:
            amounts |= attach_limits(csi_node(limit))
        snapshot.put_node(Node(name, amounts, labels))
    return snapshot


def csi_node(limit: int) -> CsiNode:
    drivers = [
        {"name": "csi.example.com", "allocatable": {"count": limit}},
        {"name": "free.example.com"},
    ]
    return msgspec.convert({"metadata": metadata("n0"), "spec": {"drivers": drivers}}, CsiNode)


def find_node(snapshot: Snapshot, one: Member) -> str | None:
    pod_placements = Placer(snapshot, FeasibilityCache(snapshot, tight)).place(single_pod_gang(one))
    return None if pod_placements is None else snapshot.names[pod_placements[0].row]


def allowed_nodes(storage: FakeStorageLister, *claims: str) -> set[str]:
    """Nodes that are feasible for a pod with these claims."""
    pod = pod_with(*claims)
    snapshot = snapshot_for(storage, pod)
    free_capacity = FeasibilityCache(snapshot, tight).free_capacity(
        member_with_volumes(storage, pod).shape
    )
    return {snapshot.names[row] for row in range(snapshot.size) if free_capacity[row]}


def test_pod_without_claims_has_no_requirements() -> None:
    pod = pod_with()
    plain = convert_pod(pod)
    assert with_volumes(plain, requirements_of_pod(FakeStorageLister(), pod)) is plain
    assert plan_volume_binding(pod, FakeStorageLister(), "n0", NODES["n0"]) == ()


@pytest.mark.parametrize(
    ("bound", "nodes"),
    [
        (volume("v"), {"n0", "n1", "n2"}),
        (volume("v", "n1"), {"n1"}),
        (volume("v", labels={ZONE: "a"}), {"n0", "n2"}),
        (volume("v", labels={OLD_ZONE: "b"}), {"n1", "n2"}),
        (volume("v", labels={ZONE: "a__b"}), {"n0", "n1", "n2"}),
        (volume("v", labels={ZONE: "a__"}), {"n0", "n1", "n2"}),
        (volume("v", nodeAffinity={"required": {"nodeSelectorTerms": []}}), set[str]()),
    ],
)
def test_pod_is_placed_where_its_volume_is_accessible(
    bound: PersistentVolume, nodes: set[str]
) -> None:
    assert allowed_nodes(FakeStorageLister().add(claim(volume="v"), bound), "data") == nodes


@pytest.mark.parametrize(
    ("shelf", "reason"),
    [
        (FakeStorageLister(), "ClaimNotFound"),
        (
            FakeStorageLister().add(claim(deletionTimestamp="2026-01-01T00:00:00Z")),
            "ClaimTerminating",
        ),
        (FakeStorageLister().add(claim(volume="gone")), "VolumeNotFound"),
        (FakeStorageLister().add(claim(of="")), "ClaimNotBound"),
        (FakeStorageLister().add(claim(of="unknown")), "StorageClassNotFound"),
        (FakeStorageLister().add(claim(), storage_class(mode="Immediate")), "ClaimNotBound"),
        (FakeStorageLister().add(claim(), LOCAL), "NoMatchingVolume"),
        (FakeStorageLister().add(claim(), LOCAL, volume("v", size="9Gi")), "NoMatchingVolume"),
        (FakeStorageLister().add(claim(), LOCAL, volume("v", phase="Bound")), "NoMatchingVolume"),
        (
            FakeStorageLister().add(claim(), LOCAL, volume("v", volumeMode="Block")),
            "NoMatchingVolume",
        ),
        (
            FakeStorageLister().add(claim(modes=("ReadWriteMany",)), LOCAL, volume("v")),
            "NoMatchingVolume",
        ),
        (
            FakeStorageLister().add(claim(), LOCAL, volume("v", claimRef={"name": "other"})),
            "NoMatchingVolume",
        ),
    ],
)
def test_pod_waits_until_its_claims_are_ready(shelf: FakeStorageLister, reason: str) -> None:
    found = volume_requirements(pod_with("data"), shelf, NODES.__contains__)
    assert isinstance(found, GangNotReady)
    assert found.reason == reason
    assert found.message


def test_claim_of_a_former_pod_of_the_same_name_is_not_used() -> None:
    pod = wire_pod({"volumes": [{"name": "scratch", "ephemeral": {}}]})
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web-0",
        "uid": pod.metadata.uid,
        "controller": True,
    }
    old = FakeStorageLister().add(claim("web-0-scratch", of="fast"), FAST)
    found = volume_requirements(pod, old, NODES.__contains__)
    assert isinstance(found, GangNotReady)
    assert found.reason == "ClaimOwnedByAnotherPod"
    own = FakeStorageLister().add(claim("web-0-scratch", of="fast", ownerReferences=[owner]), FAST)
    assert requirements_of_pod(own, pod).requests == (("attach/csi.example.com", 1),)


def test_volume_is_provisioned_in_allowed_topology_or_matched() -> None:
    in_b = storage_class("fast", "csi.example.com", zones=("b",))
    assert allowed_nodes(FakeStorageLister().add(claim(of="fast"), FAST), "data") == {
        "n0",
        "n1",
        "n2",
    }
    shelf = FakeStorageLister().add(claim(of="fast"), in_b)
    assert allowed_nodes(shelf, "data") == {"n1"}
    shelf.add(volume("v", "n2", of="fast"))
    assert allowed_nodes(shelf, "data") == {"n1", "n2"}
    pod = pod_with("data")
    assert plan_volume_binding(pod, shelf, "n1", NODES["n1"]) == (NodeSelection("ns/data", "n1"),)
    assert plan_volume_binding(pod, shelf, "n2", NODES["n2"]) == (VolumePrebinding("ns/data", "v"),)


def capacity(zone: str | None = None, **amounts: str) -> CsiStorageCapacity:
    """Storage capacity in a zone, or everywhere."""
    wire: JsonObject = {"metadata": metadata("left"), "storageClassName": "fast", **amounts}
    wire["nodeTopology"] = {} if zone is None else {"matchLabels": {ZONE: zone}}
    return msgspec.convert(wire, CsiStorageCapacity)


@pytest.mark.parametrize(
    ("left", "nodes"),
    [
        (None, {"n0", "n1", "n2"}),
        ([], set[str]()),
        ([capacity("a", capacity="10Gi"), capacity("b", capacity="9Gi")], {"n0"}),
        ([capacity("b", capacity="99Gi", maximumVolumeSize="9Gi")], set[str]()),
        ([capacity("b")], set[str]()),
        ([capacity(capacity="10Gi")], {"n0", "n1", "n2"}),
    ],
)
def test_volume_is_provisioned_where_capacity_is_left(
    left: list[CsiStorageCapacity] | None, nodes: set[str]
) -> None:
    shelf = FakeStorageLister(left=left).add(claim(of="fast"), FAST)
    assert allowed_nodes(shelf, "data") == nodes
    shelf.add(storage_class("fast", "csi.example.com", zones=("b",)), volume("v", "n2", of="fast"))
    assert allowed_nodes(shelf, "data") == (nodes & {"n1"}) | {"n2"}


def test_selected_node_of_a_claim_holds_while_the_node_exists() -> None:
    noted = claim(of="fast", notes={SELECTED_NODE: "n1"})
    shelf = FakeStorageLister().add(noted, FAST)
    assert allowed_nodes(shelf, "data") == {"n1"}
    assert plan_volume_binding(pod_with("data"), shelf, "n1", NODES["n1"]) == ()
    with_deleted_node = FakeStorageLister().add(
        claim(of="fast", notes={SELECTED_NODE: "gone"}), FAST
    )
    assert allowed_nodes(with_deleted_node, "data") == set(NODES)
    assert plan_volume_binding(pod_with("data"), with_deleted_node, "n0", NODES["n0"]) == (
        NodeSelection("ns/data", "n0"),
    )


def test_prebound_volume_is_used() -> None:
    reference = {"namespace": "ns", "name": "data"}
    shelf = FakeStorageLister().add(
        claim(), LOCAL, volume("v", "n1", claimRef=reference), volume("w", "n0")
    )
    assert allowed_nodes(shelf, "data") == {"n1"}
    assert plan_volume_binding(pod_with("data"), shelf, "n1", NODES["n1"]) == ()


def test_free_volume_is_used_once_per_plan_smallest_first() -> None:
    shelf = FakeStorageLister().add(
        LOCAL,
        claim("large", size="50Gi"),
        claim("small", size="10Gi"),
        claim("tiny", size="1Gi"),
        volume("v10", "n0", size="10Gi"),
        volume("v100", "n0", size="100Gi"),
    )
    pods = [pod_with(name, name=name) for name in ("small", "large", "tiny")]
    snapshot = snapshot_for(shelf, *pods)
    assert [find_node(snapshot, member_with_volumes(shelf, pod)) for pod in pods] == [
        "n0",
        "n0",
        None,
    ]
    both = pod_with("large", "small")
    assert plan_volume_binding(both, shelf, "n0", NODES["n0"]) == (
        VolumePrebinding("ns/small", "v10"),
        VolumePrebinding("ns/large", "v100"),
    )
    elsewhere = plan_volume_binding(both, shelf, "n1", NODES["n1"])
    assert isinstance(elsewhere, GangNotReady)
    assert elsewhere.reason == "NoMatchingVolume"


def test_read_write_once_pod_claim_is_used_by_one_pod() -> None:
    shelf = FakeStorageLister().add(claim(volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    first, second = pod_with("data", name="a"), pod_with("data", name="b")
    snapshot = snapshot_for(shelf, first)
    assert find_node(snapshot, member_with_volumes(shelf, first)) is not None
    assert find_node(snapshot, member_with_volumes(shelf, second)) is None
    snapshot.remove_pod("ns/a")
    assert find_node(snapshot, member_with_volumes(shelf, second)) is not None


def test_attach_limit_is_respected() -> None:
    made = volume("v", of="fast", csi={"driver": "csi.example.com", "volumeHandle": "1"})
    shelf = FakeStorageLister().add(
        claim("data", of="fast", volume="v"), made, claim("more", of="fast"), FAST
    )
    shelf.add(claim("shared", of="fast", modes=("ReadWriteMany",)))
    pods = [pod_with("data", name="a"), pod_with("more", name="b"), pod_with("shared", name="c")]
    snapshot = snapshot_for(shelf, *pods, limit=1)
    snapshot.remove_node("n1")
    snapshot.remove_node("n2")
    assert [find_node(snapshot, member_with_volumes(shelf, pod)) for pod in pods] == [
        "n0",
        None,
        "n0",
    ]
    snapshot.put_node(Node("unlimited", {"pods": 1}))
    assert find_node(snapshot, member_with_volumes(shelf, pods[1])) == "unlimited"


@given(
    st.lists(st.integers(1, 5), max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_pool_counts_suffice_exactly_when_a_matching_exists(
    sizes: list[int], wanted: list[int]
) -> None:
    shelf = FakeStorageLister().add(LOCAL)
    for index, size in enumerate(sizes):
        shelf.add(volume(f"v{index}", "n0", size=str(size)))
    pods: list[Pod] = []
    for index, size in enumerate(wanted):
        shelf.add(claim(f"c{index}", size=str(size)))
        pods.append(pod_with(f"c{index}", name=f"p{index}"))
    possible = any(
        all(size <= has for size, has in zip(wanted, order, strict=False))
        for order in permutations(sizes, len(wanted))
    )
    if any(
        isinstance(volume_requirements(pod, shelf, NODES.__contains__), GangNotReady)
        for pod in pods
    ):
        assert not possible
        return
    snapshot = snapshot_for(shelf, *pods)
    for pod in pods:
        snapshot.add_pod(PodPlacement(member_with_volumes(shelf, pod), snapshot.row("n0")))
    assert bool((snapshot.free[:, snapshot.row("n0")] >= 0).all()) == possible


def test_node_without_csi_drivers_has_no_attach_limits() -> None:
    """kubelet creates its CSINode with `drivers: null`."""
    body = {"metadata": metadata("n0"), "spec": {"drivers": None}}
    assert attach_limits(msgspec.convert(body, CsiNode)) == {}
