"""What is there of a replica, at one time."""

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
from kilonova.workloads.cliques.roster import Roster, roster_of
from kilonova.workloads.keys import Replica
from kilonova.workloads.resources import Child, Pod
from kilonova.workloads.revisions import SetRevision


@dataclass(frozen=True, slots=True)
class Observed:
    """The set, and all of one replica by name, what is going as well."""

    set_: PodCliqueSet
    index: int
    current: SetRevision | None
    """The set as it is now; None while its revision has not been written down."""
    revisions: Mapping[str, SetRevision]
    """Every revision that is known, by hash."""
    cliques: Mapping[str, PodClique] = field(default_factory=dict[str, PodClique])
    groups: Mapping[str, PodCliqueScalingGroup] = field(
        default_factory=dict[str, PodCliqueScalingGroup]
    )
    gangs: Mapping[str, PodGang] = field(default_factory=dict[str, PodGang])
    rosters: Mapping[str, Roster] = field(default_factory=dict[str, Roster])
    """The pods of each clique that is there, by its name."""
    pods_of: Callable[[str], Sequence[Pod]] = lambda _: ()
    """Every pod that names this clique."""
    services: Mapping[str, Child] = field(default_factory=dict[str, Child])
    autoscalers: Mapping[str, Child] = field(default_factory=dict[str, Child])
    claims: Mapping[str, Child] = field(default_factory=dict[str, Child])
    compute_domains: Mapping[str, Child] = field(default_factory=dict[str, Child])
    topologies: Mapping[str, ClusterTopologyBinding] = field(
        default_factory=dict[str, ClusterTopologyBinding]
    )
    claim_templates: Mapping[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    """Specs of the ResourceClaimTemplates that the set names but does not hold."""
    has_claim: Callable[[str], bool] = lambda _: False
    """Whether a claim of the whole set is there."""
    now: datetime | None = None
    """When it was; not known, no time is over."""

    @property
    def owners(self) -> frozenset[str]:
        """Uids of what objects of this replica belong to."""
        parts = (*self.groups.values(), *self.cliques.values())
        return frozenset((self.set_.metadata.uid, *(each.metadata.uid for each in parts)))

    def roster(self, clique: str) -> Roster:
        """The pods of a clique; of one that is not there, only names that are still in use."""
        found = self.rosters.get(clique)
        if found is not None:
            return found
        return Roster(names=frozenset(pod.metadata.name for pod in self.pods_of(clique)))


_Named = TypeVar("_Named", Child, PodClique, PodCliqueScalingGroup, PodGang)


def observe(
    caches: Caches,
    replica: Replica,
    set_: PodCliqueSet,
    current: SetRevision | None,
    revisions: Mapping[str, SetRevision],
    claim_templates: Mapping[Key, JsonObject],
    now: datetime | None = None,
) -> Observed:
    """What the caches hold of a replica; costs only what is there of it."""

    def found(cache: Reflector[_Named]) -> dict[str, _Named]:
        return by_name(cache.store.find(BY_REPLICA, replica))

    def pods_of(clique: str) -> Sequence[Pod]:
        return caches.pods.store.find(BY_CLIQUE, (replica.namespace, clique))

    cliques = found(caches.cliques)
    domains = caches.compute_domains
    return Observed(
        set_=set_,
        index=replica.index,
        current=current,
        revisions=revisions,
        cliques=cliques,
        groups=found(caches.groups),
        gangs=found(caches.gangs),
        rosters={name: roster_of(each, pods_of(name)) for name, each in cliques.items()},
        pods_of=pods_of,
        services=found(caches.services),
        autoscalers=found(caches.autoscalers),
        claims=found(caches.claims),
        compute_domains={} if domains is None else found(domains),
        topologies={each.metadata.name: each for each in caches.topologies.store.objects()},
        claim_templates=claim_templates,
        has_claim=lambda name: (replica.namespace, name) in caches.claims.store,
        now=now,
    )


def by_name(objects: Iterable[_Named]) -> dict[str, _Named]:
    """Objects of one namespace by their names."""
    return {each.metadata.name: each for each in objects}


def is_going(metadata: Metadata) -> bool:
    """Whether somebody has deleted it."""
    return metadata.deletion_timestamp is not None
