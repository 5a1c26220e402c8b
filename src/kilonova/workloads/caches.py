"""What the operator knows: caches of all that is its own, and of what people write."""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.grove import (
    ClusterTopologyBinding,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    names,
)
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import UNMEASURED, Client, Instruments, Key, Part, Reflector
from kilonova.workloads import resources
from kilonova.workloads.keys import Replica, clique_of, replica_of, set_of
from kilonova.workloads.resources import Child, Pod, Revision

BY_SET = "set"
"""By the key of the set that an object belongs to."""
BY_REPLICA = "replica"
"""By the `Replica` that an object belongs to."""
BY_CLIQUE = "clique"
"""Pods by the key of their clique."""
BY_BASE = "base gang"
"""Cliques of scaled gangs by the key of the gang that is placed before theirs."""
BY_GANG = "gang"
"""Cliques by the key of their gang."""
BY_DEPENDENCY = "dependency"
"""Cliques by the keys of those that must start before them."""
BY_TOPOLOGY = "topology"
"""Sets by the names of the ClusterTopologyBindings that their constraints mean."""

_OURS = f"{names.MANAGED_BY}={names.OPERATOR}"


@dataclass(frozen=True, slots=True)
class Caches:
    """Caches of one operator; run `parts` before any controller."""

    sets: Reflector[PodCliqueSet]
    cliques: Reflector[PodClique]
    groups: Reflector[PodCliqueScalingGroup]
    gangs: Reflector[PodGang]
    topologies: Reflector[ClusterTopologyBinding]
    pods: Reflector[Pod]
    services: Reflector[Child]
    autoscalers: Reflector[Child]
    claims: Reflector[Child]
    revisions: Reflector[Revision]
    compute_domains: Reflector[Child] | None
    """None where multi-node NVLink is off: then the kind need not be there."""

    @property
    def parts(self) -> list[Part]:
        """All of them."""
        own = (getattr(self, name) for name in self.__slots__)
        return [each for each in own if each is not None]


def build_caches(
    client: Client, *, compute_domains: bool = False, instruments: Instruments = UNMEASURED
) -> Caches:
    """Caches over a client, with the indexes that controllers use."""

    def children(resource: resources.Resource[Child]) -> Reflector[Child]:
        indexes = {BY_SET: _by_set, BY_REPLICA: _by_replica}
        return Reflector(client, resource, labels=_OURS, indexes=indexes, instruments=instruments)

    return Caches(
        sets=Reflector(
            client, resources.SETS, indexes={BY_TOPOLOGY: _topologies}, instruments=instruments
        ),
        cliques=Reflector(
            client,
            resources.CLIQUES,
            indexes={
                BY_SET: _by_set,
                BY_REPLICA: _by_replica,
                BY_BASE: lambda each: _label_key(each.metadata, names.BASE_POD_GANG),
                BY_GANG: lambda each: _label_key(each.metadata, names.POD_GANG),
                BY_DEPENDENCY: _dependencies,
            },
            instruments=instruments,
        ),
        groups=Reflector(
            client,
            resources.GROUPS,
            indexes={BY_SET: _by_set, BY_REPLICA: _by_replica},
            instruments=instruments,
        ),
        gangs=Reflector(
            client,
            resources.GANGS,
            labels=_OURS,
            indexes={BY_SET: _by_set, BY_REPLICA: _by_replica},
            instruments=instruments,
        ),
        topologies=Reflector(client, resources.TOPOLOGIES, instruments=instruments),
        pods=Reflector(
            client,
            resources.PODS,
            labels=_OURS,
            indexes={BY_CLIQUE: _by_clique},
            instruments=instruments,
        ),
        services=children(resources.SERVICES),
        autoscalers=children(resources.AUTOSCALERS),
        claims=children(resources.CLAIMS),
        revisions=Reflector(
            client,
            resources.REVISIONS,
            labels=_OURS,
            indexes={BY_SET: _by_set},
            instruments=instruments,
        ),
        compute_domains=children(resources.COMPUTE_DOMAINS) if compute_domains else None,
    )


def scaled_parts(caches: Caches, key: Key) -> list[PodCliqueScalingGroup | PodClique]:
    """The scaling groups and cliques of a set that are there and stay."""
    found = (*caches.groups.store.find(BY_SET, key), *caches.cliques.store.find(BY_SET, key))
    return [each for each in found if each.metadata.deletion_timestamp is None]


_Kept = Child | Revision | PodClique | PodCliqueScalingGroup | PodGang


def _by_set(child: _Kept) -> Iterator[Key]:
    found = set_of(child.metadata)
    if found is not None:
        yield found


def _by_replica(child: _Kept) -> Iterator[Replica]:
    found = replica_of(child.metadata)
    if found is not None:
        yield found


def _by_clique(pod: Pod) -> Iterator[Key]:
    found = clique_of(pod.metadata)
    if found is not None:
        yield found


def _label_key(metadata: Metadata, label: str) -> Iterator[Key]:
    name = metadata.labels.get(label)
    if name:
        yield metadata.namespace, name


def _dependencies(clique: PodClique) -> Iterator[Key]:
    for name in clique.spec.starts_after:
        yield clique.metadata.namespace, name


def _topologies(set_: PodCliqueSet) -> set[str]:
    template = set_.spec.template
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    constraints = (each.topology_constraint for each in parts)
    return {each.topology_name for each in constraints if each and each.topology_name}
