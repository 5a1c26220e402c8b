"""What a pod's volumes say about where it may stand, and what must be written before it is bound.

A volume that is there says which nodes reach it. A claim whose class waits for the first pod gets
its volume where the pod is to be: one of the free ones, or one that is made there. Other claims
must have their volumes before their pod is placed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kilonova.scheduler.core.asks import NodeTerm, attachment
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import NAME
from kilonova.scheduler.core.peers import EVERYWHERE, Kind, Peers, Term
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.freevolumes import Pool, pool_requests, set_aside, smallest_free
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.selectors import node_terms_of, requirements_of
from kilonova.scheduler.storage import (
    SELECTED_NODE,
    CsiNode,
    PersistentVolume,
    StorageCapacity,
    StorageClass,
    VolumeClaim,
)

_ZONES = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say where a volume is, and what the old ones are called now."""

_Terms = tuple[NodeTerm, ...]

REASONS = (
    "ClaimNotFound",
    "ClaimGoes",
    "ClaimOfAnother",
    "VolumeNotFound",
    "ClassNotFound",
    "ClaimNotBound",
    "NoVolume",
)
"""Why pods wait for their volumes."""

_SHARED_MODES = {"ReadWriteMany", "ReadOnlyMany"}
_ONE_POD = "ReadWriteOncePod"
_USED = "used"


class Storage(Protocol):
    """What is known of claims and volumes."""

    def claim(self, namespace: str, name: str) -> VolumeClaim | None: ...
    def volume(self, name: str) -> PersistentVolume | None: ...
    def storage_class(self, name: str) -> StorageClass | None: ...
    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        """All volumes of a class, free or not."""
        ...

    def capacities(self, storage_class: StorageClass) -> Iterable[StorageCapacity] | None:
        """What is left to make volumes of a class from; None if its driver does not say."""
        ...


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What the volumes of a pod add to what it asks for."""

    one_of: tuple[tuple[NodeTerm, ...], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    alone: tuple[str, ...] = ()
    """Claims that no other pod may use at the same time."""
    pools: frozenset[Pool] = frozenset()
    """Pools of which nodes must say how much they have."""


@dataclass(frozen=True, slots=True)
class ClaimSelection:
    """A claim (NAMESPACE/NAME) on which the node is to be noted for which its volume is made."""

    claim: str
    node: str


@dataclass(frozen=True, slots=True)
class VolumeGrant:
    """A free volume that is to be set aside for a claim (NAMESPACE/NAME)."""

    claim: str
    volume: str


class _Wait(Exception):
    """Why a pod cannot be placed yet."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.why = NotYet(reason, message)


def volume_needs(
    pod: Pod, storage: Storage, is_node: Callable[[str], bool]
) -> VolumeNeeds | NotYet:
    """What the volumes of a pod ask for. A node that was noted on a claim and is gone counts as
    none."""
    if not pod.spec.volumes:
        return _NOTHING
    try:
        return _needs(pod, storage, is_node)
    except _Wait as error:
        return error.why


def with_volumes(member: Member, needs: VolumeNeeds) -> Member:
    """A pod that asks for what its volumes need, too."""
    if needs == _NOTHING:
        return member
    shape = member.shape
    requests = dict(shape.requests)
    for name, amount in needs.requests:
        requests[name] = requests.get(name, 0) + amount
    peers, labels = shape.peers, member.labels
    if needs.alone:
        namespace = frozenset({member.pod.partition("/")[0]})
        labels = {**labels, **{_label(claim): _USED for claim in needs.alone}}
        alone = (
            Term(Kind(namespace, (Requirement(_label(claim), "In", (_USED,)),)), EVERYWHERE)
            for claim in needs.alone
        )
        peers = peers or Peers()
        peers = replace(peers, apart=(*peers.apart, *alone))
    asked = replace(
        shape,
        requests=tuple(sorted(requests.items())),
        one_of=(*shape.one_of, *needs.one_of),
        peers=peers,
    )
    return replace(member, shape=asked, labels=labels)


def promises(
    pod: Pod, storage: Storage, node: str, labels: Mapping[str, str]
) -> tuple[ClaimSelection | VolumeGrant, ...] | NotYet:
    """What is to be written before a pod is bound to a node with such labels; nothing if all its
    claims are bound, or wait for what was written already."""
    written: list[ClaimSelection | VolumeGrant] = []
    given: set[str] = set()
    try:
        unbound = [claim for claim in _claims(pod, storage) if not claim.is_bound]
        for claim in sorted(unbound, key=lambda each: (each.size, each.key)):
            storage_class = _waiting_class(claim, storage)
            if SELECTED_NODE in claim.metadata.annotations:
                if claim.metadata.annotations[SELECTED_NODE] != node:
                    written.append(ClaimSelection(claim.key, node))
                continue
            volumes = list(storage.volumes_of(claim.storage_class))
            if set_aside(claim, volumes) is not None:
                continue
            free = (volume for volume in volumes if volume.metadata.name not in given)
            volume = smallest_free(claim, free, node, labels)
            if volume is not None:
                given.add(volume.metadata.name)
                written.append(VolumeGrant(claim.key, volume.metadata.name))
            elif storage_class.provisions:
                written.append(ClaimSelection(claim.key, node))
            else:
                raise _no_volume(claim, f" on node {node}")
    except _Wait as error:
        return error.why
    return tuple(written)


def attach_limits(node: CsiNode) -> dict[str, int]:
    """How many volumes of each driver a node can have, where that is limited."""
    return {
        attachment(driver.name): driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _needs(pod: Pod, storage: Storage, is_node: Callable[[str], bool]) -> VolumeNeeds:
    one_of: list[_Terms] = []
    requests: dict[str, int] = {}
    pools: set[Pool] = set()
    alone: list[str] = []
    for claim in _claims(pod, storage):
        if _ONE_POD in claim.spec.access_modes:
            alone.append(claim.metadata.name)
        asked: list[str] = []
        if claim.is_bound:
            volume = _bound_volume(claim, storage)
            one_of.extend(_reach(volume))
            driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        else:
            storage_class = _waiting_class(claim, storage)
            lists, asked = _where(claim, storage_class, storage, is_node)
            one_of.extend(lists)
            if asked:
                pools.add(Pool.of(claim))
            driver = storage_class.provisioner if storage_class.provisions else ""
        # A volume that many pods share is attached once for all of them.
        if driver and not _SHARED_MODES & set(claim.spec.access_modes):
            asked.append(attachment(driver))
        for name in asked:
            requests[name] = requests.get(name, 0) + 1
    return VolumeNeeds(
        tuple(one_of), tuple(sorted(requests.items())), tuple(alone), frozenset(pools)
    )


def _claims(pod: Pod, storage: Storage) -> Iterator[VolumeClaim]:
    """The claims of a pod, each once."""
    seen: set[str] = set()
    for volume in pod.spec.volumes:
        name = volume.claim_name(pod.metadata.name)
        if name is None or name in seen:
            continue
        seen.add(name)
        claim = storage.claim(pod.metadata.namespace, name)
        if claim is None:
            raise _Wait("ClaimNotFound", f'persistentvolumeclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise _Wait("ClaimGoes", f'persistentvolumeclaim "{name}" is being deleted')
        owner = claim.metadata.controller
        if volume.ephemeral is not None and (owner is None or owner.uid != pod.metadata.uid):
            message = f'persistentvolumeclaim "{name}" was not created for the pod'
            raise _Wait("ClaimOfAnother", message)
        yield claim


def _bound_volume(claim: VolumeClaim, storage: Storage) -> PersistentVolume:
    volume = storage.volume(claim.spec.volume_name)
    if volume is None or claim.status.phase == "Lost":
        message = (
            f'persistentvolumeclaim "{claim.metadata.name}" bound to non-existent'
            f' persistentvolume "{claim.spec.volume_name}"'
        )
        raise _Wait("VolumeNotFound", message)
    return volume


def _reach(volume: PersistentVolume) -> Iterator[_Terms]:
    """From where a volume can be reached, by what it says and by its labels."""
    if volume.nodes is not None:
        yield node_terms_of(volume.nodes)
    for key, new_key in _ZONES.items():
        zones = tuple(zone.strip() for zone in volume.metadata.labels.get(key, "").split("__"))
        if all(zones):
            # A cluster in one zone may have nodes that do not say so.
            nowhere = NodeTerm(tuple(Requirement(each, "DoesNotExist") for each in _ZONES))
            terms = [nowhere, NodeTerm((Requirement(key, "In", zones),))]
            if new_key != key:
                terms.append(
                    NodeTerm((Requirement(key, "DoesNotExist"), Requirement(new_key, "In", zones)))
                )
            yield tuple(terms)


def _waiting_class(claim: VolumeClaim, storage: Storage) -> StorageClass:
    """The class of a claim that waits for its pod; other claims should have been bound."""
    name = claim.storage_class
    storage_class = storage.storage_class(name) if name else None
    if name and storage_class is None:
        raise _Wait("ClassNotFound", f'storageclass "{name}" not found')
    if storage_class is None or not storage_class.waits_for_pod or claim.spec.volume_name:
        raise _Wait("ClaimNotBound", "pod has unbound immediate PersistentVolumeClaims")
    return storage_class


def _where(
    claim: VolumeClaim,
    storage_class: StorageClass,
    storage: Storage,
    is_node: Callable[[str], bool],
) -> tuple[list[_Terms], list[str]]:
    """On which nodes a claim could get its volume, and what it takes of a pool."""
    selected = claim.metadata.annotations.get(SELECTED_NODE, "")
    if selected and is_node(selected):
        return [(NodeTerm(names=(Requirement(NAME, "In", (selected,)),)),)], []
    volumes = list(storage.volumes_of(claim.storage_class))
    own = set_aside(claim, volumes)
    if own is not None:
        return [] if own.nodes is None else [node_terms_of(own.nodes)], []
    if not storage_class.provisions:
        asked = pool_requests(claim, volumes)
        if asked is None:
            raise _no_volume(claim)
        return [], asked
    wanted = Pool.of(claim)
    free = [each for each in volumes if wanted.holds(each) and each.size >= claim.size]
    if any(volume.nodes is None for volume in free):
        return [], []
    there = [term for volume in free if volume.nodes for term in node_terms_of(volume.nodes)]
    return [(*terms, *there) for terms in _makeable(claim, storage_class, storage)], []


def _makeable(
    claim: VolumeClaim, storage_class: StorageClass, storage: Storage
) -> Iterator[_Terms]:
    """Where a volume could be made for a claim: by its class, and by what is left there."""
    if storage_class.allowed_topologies:
        yield tuple(
            NodeTerm(
                tuple(Requirement(e.key, "In", e.values) for e in term.match_label_expressions)
            )
            for term in storage_class.allowed_topologies
        )
    capacities = storage.capacities(storage_class) if claim.size else None
    if capacities is not None:
        enough = [
            requirements_of(each.node_topology) for each in capacities if each.largest >= claim.size
        ]
        if () not in enough:
            yield tuple(NodeTerm(labels) for labels in enough if labels is not None)


def _no_volume(claim: VolumeClaim, where: str = "") -> _Wait:
    message = f'no free volume will do for persistentvolumeclaim "{claim.metadata.name}"{where}'
    return _Wait("NoVolume", message)


def _label(claim: str) -> str:
    """What a pod that uses a claim is labelled with; no label of Kubernetes has such a key."""
    return f"claim:{claim}"


_NOTHING = VolumeNeeds()
