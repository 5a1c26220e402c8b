"""Node constraints of a pod's volumes, and the writes that bind them (VolumeBinding plugin).

An existing volume constrains the nodes that can access it. A claim with delayed binding
(WaitForFirstConsumer) gets its volume where the pod is placed: a free one, or one provisioned
there. Other claims must be bound before their pod is scheduled.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.selectors import convert_label_selector, convert_node_selector
from kilonova.scheduler.convert.storage.volume_pools import (
    VolumePool,
    claim_pool_resources,
    find_prebound_volume,
    find_smallest_volume,
)
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import NODE_NAME
from kilonova.scheduler.core.model.pod_affinity import (
    WHOLE_CLUSTER,
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
)
from kilonova.scheduler.core.model.requests import NodeSelectorTerm, attachment_resource
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.storage_v1 import (
    SELECTED_NODE,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

_ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Topology labels of volumes, and the current names of deprecated ones."""

_Terms = tuple[NodeSelectorTerm, ...]

VOLUME_REASONS = (
    "ClaimNotFound",
    "ClaimTerminating",
    "ClaimOwnedByAnotherPod",
    "VolumeNotFound",
    "StorageClassNotFound",
    "ClaimNotBound",
    "NoMatchingVolume",
)
"""Reasons why a pod waits for its volumes."""

_SHARED_ACCESS_MODES = {"ReadWriteMany", "ReadOnlyMany"}
_READ_WRITE_ONCE_POD = "ReadWriteOncePod"
_USED = "used"


class StorageLister(Protocol):
    """Lookup of claims, volumes, classes and capacities."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...
    def volume(self, name: str) -> PersistentVolume | None: ...
    def storage_class(self, name: str) -> StorageClass | None: ...
    def volumes_of(self, storage_class: str) -> Iterable[PersistentVolume]:
        """All volumes of a class, free or not."""
        ...

    def capacities(self, storage_class: StorageClass) -> Iterable[CsiStorageCapacity] | None:
        """The capacity for new volumes of a class; None if its driver does not publish it."""
        ...


@dataclass(frozen=True, slots=True)
class VolumeRequirements:
    """The requirements that the volumes of a pod add to its requests."""

    one_of: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    exclusive_claims: tuple[str, ...] = ()
    """Claims that only one pod may use at a time."""
    pools: frozenset[VolumePool] = frozenset()
    """Pools whose free volumes must be counted on nodes."""


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The selected node to write to a claim (NAMESPACE/NAME), for which its volume is
    provisioned."""

    claim: str
    node: str


@dataclass(frozen=True, slots=True)
class VolumePrebinding:
    """A free volume to bind to a claim (NAMESPACE/NAME)."""

    claim: str
    volume: str


class _VolumesNotReady(Exception):
    """Why the volumes of a pod are not ready."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.result = GangNotReady(reason, message)


def volume_requirements(
    pod: Pod, storage: StorageLister, node_exists: Callable[[str], bool]
) -> VolumeRequirements | GangNotReady:
    """The requirements of a pod's volumes. A selected node that does not exist is ignored."""
    if not pod.spec.volumes:
        return _NO_REQUIREMENTS
    try:
        return _collect_requirements(pod, storage, node_exists)
    except _VolumesNotReady as error:
        return error.result


def with_volumes(member: Member, requirements: VolumeRequirements) -> Member:
    """A pod with the requirements of its volumes."""
    if requirements == _NO_REQUIREMENTS:
        return member
    shape = member.shape
    requests = dict(shape.requests)
    for name, amount in requirements.requests:
        requests[name] = requests.get(name, 0) + amount
    pod_rules, labels = shape.pod_rules, member.labels
    if requirements.exclusive_claims:
        namespace = frozenset({member.pod.partition("/")[0]})
        labels = {
            **labels,
            **{_exclusive_claim_label(claim): _USED for claim in requirements.exclusive_claims},
        }
        exclusions = (
            AffinityTerm(
                PodSelector(
                    namespace, (Requirement(_exclusive_claim_label(claim), "In", (_USED,)),)
                ),
                WHOLE_CLUSTER,
            )
            for claim in requirements.exclusive_claims
        )
        pod_rules = pod_rules or PodAffinityRules()
        pod_rules = replace(pod_rules, anti_affinity=(*pod_rules.anti_affinity, *exclusions))
    extended_shape = replace(
        shape,
        requests=tuple(sorted(requests.items())),
        required_node_terms=(*shape.required_node_terms, *requirements.one_of),
        pod_rules=pod_rules,
    )
    return replace(member, shape=extended_shape, labels=labels)


def plan_volume_binding(
    pod: Pod, storage: StorageLister, node: str, labels: Mapping[str, str]
) -> tuple[NodeSelection | VolumePrebinding, ...] | GangNotReady:
    """The writes needed before a pod is bound to a node with these labels; none for claims that are
    bound or written already."""
    actions: list[NodeSelection | VolumePrebinding] = []
    assigned: set[str] = set()
    try:
        unbound = [claim for claim in _pod_claims(pod, storage) if not claim.is_bound]
        for claim in sorted(unbound, key=lambda each: (each.requested_bytes, each.key)):
            storage_class = _delayed_binding_class(claim, storage)
            if SELECTED_NODE in claim.metadata.annotations:
                if claim.metadata.annotations[SELECTED_NODE] != node:
                    actions.append(NodeSelection(claim.key, node))
                continue
            volumes = list(storage.volumes_of(claim.storage_class))
            if find_prebound_volume(claim, volumes) is not None:
                continue
            free = (volume for volume in volumes if volume.metadata.name not in assigned)
            volume = find_smallest_volume(claim, free, node, labels)
            if volume is not None:
                assigned.add(volume.metadata.name)
                actions.append(VolumePrebinding(claim.key, volume.metadata.name))
            elif storage_class.has_provisioner:
                actions.append(NodeSelection(claim.key, node))
            else:
                raise _no_matching_volume(claim, f" on node {node}")
    except _VolumesNotReady as error:
        return error.result
    return tuple(actions)


def attach_limits(node: CsiNode) -> dict[str, int]:
    """The attach limits of a node by driver."""
    return {
        attachment_resource(driver.name): driver.allocatable.count
        for driver in node.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _collect_requirements(
    pod: Pod, storage: StorageLister, node_exists: Callable[[str], bool]
) -> VolumeRequirements:
    one_of: list[_Terms] = []
    requests: dict[str, int] = {}
    pools: set[VolumePool] = set()
    exclusive_claims: list[str] = []
    for claim in _pod_claims(pod, storage):
        if _READ_WRITE_ONCE_POD in claim.spec.access_modes:
            exclusive_claims.append(claim.metadata.name)
        resources: list[str] = []
        if claim.is_bound:
            volume = _bound_volume(claim, storage)
            one_of.extend(_volume_topology(volume))
            driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
        else:
            storage_class = _delayed_binding_class(claim, storage)
            topologies, resources = _unbound_claim_topology(
                claim, storage_class, storage, node_exists
            )
            one_of.extend(topologies)
            if resources:
                pools.add(VolumePool.for_claim(claim))
            driver = storage_class.provisioner if storage_class.has_provisioner else ""
        # A volume that many pods share is attached once for all of them.
        if driver and not _SHARED_ACCESS_MODES & set(claim.spec.access_modes):
            resources.append(attachment_resource(driver))
        for name in resources:
            requests[name] = requests.get(name, 0) + 1
    return VolumeRequirements(
        tuple(one_of), tuple(sorted(requests.items())), tuple(exclusive_claims), frozenset(pools)
    )


def _pod_claims(pod: Pod, storage: StorageLister) -> Iterator[PersistentVolumeClaim]:
    """The claims of a pod, each once."""
    seen: set[str] = set()
    for volume in pod.spec.volumes:
        name = volume.claim_name(pod.metadata.name)
        if name is None or name in seen:
            continue
        seen.add(name)
        claim = storage.claim(pod.metadata.namespace, name)
        if claim is None:
            raise _VolumesNotReady("ClaimNotFound", f'persistentvolumeclaim "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise _VolumesNotReady(
                "ClaimTerminating", f'persistentvolumeclaim "{name}" is being deleted'
            )
        owner = claim.metadata.controller
        if volume.ephemeral is not None and (owner is None or owner.uid != pod.metadata.uid):
            message = f'persistentvolumeclaim "{name}" was not created for the pod'
            raise _VolumesNotReady("ClaimOwnedByAnotherPod", message)
        yield claim


def _bound_volume(claim: PersistentVolumeClaim, storage: StorageLister) -> PersistentVolume:
    volume = storage.volume(claim.spec.volume_name)
    if volume is None or claim.status.phase == "Lost":
        message = (
            f'persistentvolumeclaim "{claim.metadata.name}" bound to non-existent'
            f' persistentvolume "{claim.spec.volume_name}"'
        )
        raise _VolumesNotReady("VolumeNotFound", message)
    return volume


def _volume_topology(volume: PersistentVolume) -> Iterator[_Terms]:
    """The nodes that can access a volume, by its node affinity and its labels."""
    if volume.node_selector is not None:
        yield convert_node_selector(volume.node_selector)
    for key, new_key in _ZONE_LABELS.items():
        zones = tuple(zone.strip() for zone in volume.metadata.labels.get(key, "").split("__"))
        if all(zones):
            # In a cluster of a single zone nodes may lack the zone label.
            without_zone = NodeSelectorTerm(
                tuple(Requirement(each, "DoesNotExist") for each in _ZONE_LABELS)
            )
            terms = [without_zone, NodeSelectorTerm((Requirement(key, "In", zones),))]
            if new_key != key:
                terms.append(
                    NodeSelectorTerm(
                        (Requirement(key, "DoesNotExist"), Requirement(new_key, "In", zones))
                    )
                )
            yield tuple(terms)


def _delayed_binding_class(claim: PersistentVolumeClaim, storage: StorageLister) -> StorageClass:
    """The class of a claim with delayed binding; other claims must be bound already."""
    name = claim.storage_class
    storage_class = storage.storage_class(name) if name else None
    if name and storage_class is None:
        raise _VolumesNotReady("StorageClassNotFound", f'storageclass "{name}" not found')
    if (
        storage_class is None
        or not storage_class.waits_for_first_consumer
        or claim.spec.volume_name
    ):
        raise _VolumesNotReady("ClaimNotBound", "pod has unbound immediate PersistentVolumeClaims")
    return storage_class


def _unbound_claim_topology(
    claim: PersistentVolumeClaim,
    storage_class: StorageClass,
    storage: StorageLister,
    node_exists: Callable[[str], bool],
) -> tuple[list[_Terms], list[str]]:
    """The nodes where a claim can get its volume, and the pool resources that it requests."""
    selected = claim.metadata.annotations.get(SELECTED_NODE, "")
    if selected and node_exists(selected):
        return [(NodeSelectorTerm(names=(Requirement(NODE_NAME, "In", (selected,)),)),)], []
    volumes = list(storage.volumes_of(claim.storage_class))
    prebound = find_prebound_volume(claim, volumes)
    if prebound is not None:
        return [] if prebound.node_selector is None else [
            convert_node_selector(prebound.node_selector)
        ], []
    if not storage_class.has_provisioner:
        resources = claim_pool_resources(claim, volumes)
        if resources is None:
            raise _no_matching_volume(claim)
        return [], resources
    pool = VolumePool.for_claim(claim)
    free = [
        each
        for each in volumes
        if pool.matches(each) and each.capacity_bytes >= claim.requested_bytes
    ]
    if any(volume.node_selector is None for volume in free):
        return [], []
    volume_terms = [
        term
        for volume in free
        if volume.node_selector
        for term in convert_node_selector(volume.node_selector)
    ]
    return [
        (*terms, *volume_terms) for terms in _provisionable_topology(claim, storage_class, storage)
    ], []


def _provisionable_topology(
    claim: PersistentVolumeClaim, storage_class: StorageClass, storage: StorageLister
) -> Iterator[_Terms]:
    """The nodes where a volume can be provisioned: by the class, and by storage capacity."""
    if storage_class.allowed_topologies:
        yield tuple(
            NodeSelectorTerm(
                tuple(Requirement(e.key, "In", e.values) for e in term.match_label_expressions)
            )
            for term in storage_class.allowed_topologies
        )
    capacities = storage.capacities(storage_class) if claim.requested_bytes else None
    if capacities is not None:
        topologies = [
            convert_label_selector(each.node_topology)
            for each in capacities
            if each.max_volume_bytes >= claim.requested_bytes
        ]
        if () not in topologies:
            yield tuple(NodeSelectorTerm(labels) for labels in topologies if labels is not None)


def _no_matching_volume(claim: PersistentVolumeClaim, where: str = "") -> _VolumesNotReady:
    message = f'no matching free volume for persistentvolumeclaim "{claim.metadata.name}"{where}'
    return _VolumesNotReady("NoMatchingVolume", message)


def _exclusive_claim_label(claim: str) -> str:
    """A label of pods that use a claim; no Kubernetes label has such a key."""
    return f"claim:{claim}"


_NO_REQUIREMENTS = VolumeRequirements()
