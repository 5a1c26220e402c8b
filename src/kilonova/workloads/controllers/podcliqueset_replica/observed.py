"""The observed state of a replica at one time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from kilonova.api.grove import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
)
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Key, Reflector
from kilonova.workloads.caches import BY_CLIQUE, BY_REPLICA, Caches
from kilonova.workloads.keys import ReplicaKey
from kilonova.workloads.pods.classification import ClassifiedPods, classify_pods
from kilonova.workloads.resources import ChildObject, Pod
from kilonova.workloads.revisions import SetRevision


@dataclass(frozen=True, slots=True)
class ObservedReplica:
    """The set, and all objects of one replica by name, including those that are being deleted."""

    set_: PodCliqueSet
    index: int
    current_revision: SetRevision | None
    """The revision of the set's current templates; None until it is stored."""
    revisions: Mapping[str, SetRevision]
    """Every stored revision, by hash."""
    cliques: Mapping[str, PodClique] = field(default_factory=dict[str, PodClique])
    groups: Mapping[str, PodCliqueScalingGroup] = field(
        default_factory=dict[str, PodCliqueScalingGroup]
    )
    gangs: Mapping[str, PodGang] = field(default_factory=dict[str, PodGang])
    classified_pods: Mapping[str, ClassifiedPods] = field(default_factory=dict[str, ClassifiedPods])
    """The pods of each existing clique, by its name."""
    list_pods: Callable[[str], Sequence[Pod]] = lambda _: ()
    """Every pod with the label of this clique."""
    services: Mapping[str, ChildObject] = field(default_factory=dict[str, ChildObject])
    autoscalers: Mapping[str, ChildObject] = field(default_factory=dict[str, ChildObject])
    claims: Mapping[str, ChildObject] = field(default_factory=dict[str, ChildObject])
    compute_domains: Mapping[str, ChildObject] = field(default_factory=dict[str, ChildObject])
    topologies: Mapping[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    claim_templates: Mapping[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    """Specs of the external ResourceClaimTemplates."""
    has_claim: Callable[[str], bool] = lambda _: False
    """Whether a claim of the whole set exists."""
    now: datetime | None = None
    """The time of observation; None means that no deadline has passed."""

    @property
    def owner_uids(self) -> frozenset[str]:
        """Uids of the owners of this replica's objects."""
        parts = (*self.groups.values(), *self.cliques.values())
        return frozenset((self.set_.metadata.uid, *(each.metadata.uid for each in parts)))

    def get_classified_pods(self, clique: str) -> ClassifiedPods:
        """The pods of a clique; for one that does not exist, only the names in use."""
        found = self.classified_pods.get(clique)
        if found is not None:
            return found
        return ClassifiedPods(names=frozenset(pod.metadata.name for pod in self.list_pods(clique)))


_NamedObject = TypeVar("_NamedObject", ChildObject, PodClique, PodCliqueScalingGroup, PodGang)


def observe_replica(
    caches: Caches,
    replica: ReplicaKey,
    set_: PodCliqueSet,
    current_revision: SetRevision | None,
    revisions: Mapping[str, SetRevision],
    claim_templates: Mapping[Key, JsonObject],
    now: datetime | None = None,
) -> ObservedReplica:
    """Read a replica from the caches, by index."""

    def list_objects(cache: Reflector[_NamedObject]) -> dict[str, _NamedObject]:
        return index_by_name(cache.store.by_index(BY_REPLICA, replica))

    def list_pods(clique: str) -> Sequence[Pod]:
        return caches.pods.store.by_index(BY_CLIQUE, (replica.namespace, clique))

    cliques = list_objects(caches.cliques)
    domains = caches.compute_domains
    return ObservedReplica(
        set_=set_,
        index=replica.index,
        current_revision=current_revision,
        revisions=revisions,
        cliques=cliques,
        groups=list_objects(caches.groups),
        gangs=list_objects(caches.gangs),
        classified_pods={
            name: classify_pods(each, list_pods(name)) for name, each in cliques.items()
        },
        list_pods=list_pods,
        services=list_objects(caches.services),
        autoscalers=list_objects(caches.autoscalers),
        claims=list_objects(caches.claims),
        compute_domains={} if domains is None else list_objects(domains),
        topologies={each.metadata.name: each for each in caches.topologies.store.objects()},
        claim_templates=claim_templates,
        has_claim=lambda name: (replica.namespace, name) in caches.claims.store,
        now=now,
    )


def index_by_name(objects: Iterable[_NamedObject]) -> dict[str, _NamedObject]:
    """Objects of one namespace by their names."""
    return {each.metadata.name: each for each in objects}


def is_being_deleted(metadata: Metadata) -> bool:
    """Whether an object has been deleted and has not gone yet."""
    return metadata.deletion_timestamp is not None
