"""Volumes: where a pod may stand because of them, and what is written before it is bound."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.gangs import Member, single
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.freevolumes import pool_amounts
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.pods import member_of
from kilonova.scheduler.reading.volumes import (
    ClaimSelection,
    VolumeGrant,
    VolumeNeeds,
    attach_limits,
    promises,
    volume_needs,
    with_volumes,
)
from kilonova.scheduler.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CsiNode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeClaim,
)
from tests.scheduler.core.clusters import tight
from tests.scheduler.reading.wire_pods import wire_pod

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = {
    "n0": {HOST: "n0", ZONE: "a"},
    "n1": {HOST: "n1", ZONE: "b"},
    "n2": {HOST: "n2"},
}


@dataclass
class Shelf:
    """Claims and volumes at hand."""

    claims: dict[str, VolumeClaim] = field(default_factory=dict[str, VolumeClaim])
    volumes: dict[str, PersistentVolume] = field(default_factory=dict[str, PersistentVolume])
    classes: dict[str, StorageClass] = field(default_factory=dict[str, StorageClass])
    left: list[StorageCapacity] | None = None

    def claim(self, namespace: str, name: str) -> VolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.classes.get(name)

    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        return (each for each in self.volumes.values() if each.storage_class == storage_class)

    def capacities(self, storage_class: StorageClass) -> Iterable[StorageCapacity] | None:
        return self.left

    def add(self, *things: VolumeClaim | PersistentVolume | StorageClass) -> "Shelf":
        for each in things:
            match each:
                case VolumeClaim():
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
) -> VolumeClaim:
    """A claim of namespace `ns`; with a volume, it is bound to it."""
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
    return msgspec.convert({"metadata": known, "spec": spec}, VolumeClaim)


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
    """A volume; with a node, one that only this node reaches."""
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


def needs_of(shelf: Shelf, pod: Pod) -> VolumeNeeds:
    needs = volume_needs(pod, shelf, NODES.__contains__)
    assert isinstance(needs, VolumeNeeds)
    return needs


def member(shelf: Shelf, pod: Pod) -> Member:
    return with_volumes(member_of(pod), needs_of(shelf, pod))


def snapshot_for(shelf: Shelf, *pods: Pod, limit: int | None = None) -> Snapshot:
    """The nodes with the volumes that they reach, for what some pods ask for."""
    snapshot = Snapshot()
    pools = {pool for pod in pods for pool in needs_of(shelf, pod).pools}
    for name, labels in NODES.items():
        amounts = {"pods": 9}
        for pool in pools:
            amounts |= pool_amounts(pool, shelf.volumes_of(pool.storage_class), name, labels)
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


def place(snapshot: Snapshot, one: Member) -> str | None:
    booked = Placer(snapshot, Rooms(snapshot, tight)).place(single(one))
    return None if booked is None else snapshot.names[booked[0].row]


def allowed(shelf: Shelf, *claims: str) -> set[str]:
    """Nodes on which a pod with such claims could be."""
    pod = pod_with(*claims)
    snapshot = snapshot_for(shelf, pod)
    rooms = Rooms(snapshot, tight).room(member(shelf, pod).shape)
    return {snapshot.names[row] for row in range(snapshot.size) if rooms[row]}


def test_pods_without_claims_ask_for_nothing_more() -> None:
    pod = pod_with()
    plain = member_of(pod)
    assert with_volumes(plain, needs_of(Shelf(), pod)) is plain
    assert promises(pod, Shelf(), "n0", NODES["n0"]) == ()


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
def test_a_pod_stands_where_its_volume_is_reached(bound: PersistentVolume, nodes: set[str]) -> None:
    assert allowed(Shelf().add(claim(volume="v"), bound), "data") == nodes


@pytest.mark.parametrize(
    ("shelf", "reason"),
    [
        (Shelf(), "ClaimNotFound"),
        (Shelf().add(claim(deletionTimestamp="2026-01-01T00:00:00Z")), "ClaimGoes"),
        (Shelf().add(claim(volume="gone")), "VolumeNotFound"),
        (Shelf().add(claim(of="")), "ClaimNotBound"),
        (Shelf().add(claim(of="unknown")), "ClassNotFound"),
        (Shelf().add(claim(), storage_class(mode="Immediate")), "ClaimNotBound"),
        (Shelf().add(claim(), LOCAL), "NoVolume"),
        (Shelf().add(claim(), LOCAL, volume("v", size="9Gi")), "NoVolume"),
        (Shelf().add(claim(), LOCAL, volume("v", phase="Bound")), "NoVolume"),
        (Shelf().add(claim(), LOCAL, volume("v", volumeMode="Block")), "NoVolume"),
        (Shelf().add(claim(modes=("ReadWriteMany",)), LOCAL, volume("v")), "NoVolume"),
        (Shelf().add(claim(), LOCAL, volume("v", claimRef={"name": "other"})), "NoVolume"),
    ],
)
def test_a_pod_waits_until_its_claims_are_ready(shelf: Shelf, reason: str) -> None:
    found = volume_needs(pod_with("data"), shelf, NODES.__contains__)
    assert isinstance(found, NotYet)
    assert found.reason == reason
    assert found.message


def test_a_claim_of_a_pod_of_the_same_name_before_is_not_used() -> None:
    pod = wire_pod({"volumes": [{"name": "scratch", "ephemeral": {}}]})
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web-0",
        "uid": pod.metadata.uid,
        "controller": True,
    }
    old = Shelf().add(claim("web-0-scratch", of="fast"), FAST)
    found = volume_needs(pod, old, NODES.__contains__)
    assert isinstance(found, NotYet)
    assert found.reason == "ClaimOfAnother"
    own = Shelf().add(claim("web-0-scratch", of="fast", ownerReferences=[owner]), FAST)
    assert needs_of(own, pod).requests == (("attach/csi.example.com", 1),)


def test_a_volume_is_made_where_its_class_allows_or_taken_where_a_free_one_is() -> None:
    in_b = storage_class("fast", "csi.example.com", zones=("b",))
    assert allowed(Shelf().add(claim(of="fast"), FAST), "data") == {"n0", "n1", "n2"}
    shelf = Shelf().add(claim(of="fast"), in_b)
    assert allowed(shelf, "data") == {"n1"}
    shelf.add(volume("v", "n2", of="fast"))
    assert allowed(shelf, "data") == {"n1", "n2"}
    pod = pod_with("data")
    assert promises(pod, shelf, "n1", NODES["n1"]) == (ClaimSelection("ns/data", "n1"),)
    assert promises(pod, shelf, "n2", NODES["n2"]) == (VolumeGrant("ns/data", "v"),)


def capacity(zone: str | None = None, **amounts: str) -> StorageCapacity:
    """What is left for volumes in a zone, or everywhere."""
    wire: JsonObject = {"metadata": metadata("left"), "storageClassName": "fast", **amounts}
    wire["nodeTopology"] = {} if zone is None else {"matchLabels": {ZONE: zone}}
    return msgspec.convert(wire, StorageCapacity)


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
def test_a_volume_is_made_where_enough_is_left(
    left: list[StorageCapacity] | None, nodes: set[str]
) -> None:
    shelf = Shelf(left=left).add(claim(of="fast"), FAST)
    assert allowed(shelf, "data") == nodes
    shelf.add(storage_class("fast", "csi.example.com", zones=("b",)), volume("v", "n2", of="fast"))
    assert allowed(shelf, "data") == (nodes & {"n1"}) | {"n2"}


def test_what_was_noted_on_a_claim_holds_while_the_node_is_there() -> None:
    noted = claim(of="fast", notes={SELECTED_NODE: "n1"})
    shelf = Shelf().add(noted, FAST)
    assert allowed(shelf, "data") == {"n1"}
    assert promises(pod_with("data"), shelf, "n1", NODES["n1"]) == ()
    gone = Shelf().add(claim(of="fast", notes={SELECTED_NODE: "gone"}), FAST)
    assert allowed(gone, "data") == set(NODES)
    assert promises(pod_with("data"), gone, "n0", NODES["n0"]) == (ClaimSelection("ns/data", "n0"),)


def test_a_volume_that_was_set_aside_for_a_claim_is_the_one_it_gets() -> None:
    reference = {"namespace": "ns", "name": "data"}
    shelf = Shelf().add(claim(), LOCAL, volume("v", "n1", claimRef=reference), volume("w", "n0"))
    assert allowed(shelf, "data") == {"n1"}
    assert promises(pod_with("data"), shelf, "n1", NODES["n1"]) == ()


def test_free_volumes_are_given_once_in_a_plan_and_the_smallest_first() -> None:
    shelf = Shelf().add(
        LOCAL,
        claim("large", size="50Gi"),
        claim("small", size="10Gi"),
        claim("tiny", size="1Gi"),
        volume("v10", "n0", size="10Gi"),
        volume("v100", "n0", size="100Gi"),
    )
    pods = [pod_with(name, name=name) for name in ("small", "large", "tiny")]
    snapshot = snapshot_for(shelf, *pods)
    assert [place(snapshot, member(shelf, pod)) for pod in pods] == ["n0", "n0", None]
    both = pod_with("large", "small")
    assert promises(both, shelf, "n0", NODES["n0"]) == (
        VolumeGrant("ns/small", "v10"),
        VolumeGrant("ns/large", "v100"),
    )
    elsewhere = promises(both, shelf, "n1", NODES["n1"])
    assert isinstance(elsewhere, NotYet)
    assert elsewhere.reason == "NoVolume"


def test_a_claim_that_one_pod_may_use_is_used_by_one_pod() -> None:
    shelf = Shelf().add(claim(volume="v", modes=("ReadWriteOncePod",)), volume("v"))
    first, second = pod_with("data", name="a"), pod_with("data", name="b")
    snapshot = snapshot_for(shelf, first)
    assert place(snapshot, member(shelf, first)) is not None
    assert place(snapshot, member(shelf, second)) is None
    snapshot.release("ns/a")
    assert place(snapshot, member(shelf, second)) is not None


def test_a_node_attaches_so_many_volumes_as_it_can() -> None:
    made = volume("v", of="fast", csi={"driver": "csi.example.com", "volumeHandle": "1"})
    shelf = Shelf().add(claim("data", of="fast", volume="v"), made, claim("more", of="fast"), FAST)
    shelf.add(claim("shared", of="fast", modes=("ReadWriteMany",)))
    pods = [pod_with("data", name="a"), pod_with("more", name="b"), pod_with("shared", name="c")]
    snapshot = snapshot_for(shelf, *pods, limit=1)
    snapshot.remove_node("n1")
    snapshot.remove_node("n2")
    assert [place(snapshot, member(shelf, pod)) for pod in pods] == ["n0", None, "n0"]
    snapshot.put_node(Node("unlimited", {"pods": 1}))
    assert place(snapshot, member(shelf, pods[1])) == "unlimited"


@given(
    st.lists(st.integers(1, 5), max_size=4),
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
)
def test_what_is_counted_is_enough_where_every_claim_can_have_its_volume(
    sizes: list[int], wanted: list[int]
) -> None:
    shelf = Shelf().add(LOCAL)
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
    if any(isinstance(volume_needs(pod, shelf, NODES.__contains__), NotYet) for pod in pods):
        assert not possible
        return
    snapshot = snapshot_for(shelf, *pods)
    for pod in pods:
        snapshot.book(Booking(member(shelf, pod), snapshot.row("n0")))
    assert bool((snapshot.free[:, snapshot.row("n0")] >= 0).all()) == possible
