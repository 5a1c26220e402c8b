"""The informer caches of the operator: its own objects and the objects that users write."""

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
from kilonova.kube import NO_RUNTIME_METRICS, Client, Key, Reflector, Runnable, RuntimeMetrics
from kilonova.kube.controllers.controller_revisions import CONTROLLER_REVISIONS, ControllerRevision
from kilonova.workloads import resources
from kilonova.workloads.keys import ReplicaKey, get_clique_key, get_replica_key, get_set_key
from kilonova.workloads.resources import ChildObject, Pod

BY_SET = "set"
"""By the key of the PodCliqueSet that an object belongs to."""
BY_REPLICA = "replica"
"""By the `ReplicaKey` of the replica that an object belongs to."""
BY_CLIQUE = "clique"
"""Pods by the key of their clique."""
BY_BASE_GANG = "base gang"
"""Cliques of scaled gangs by the key of their base gang."""
BY_GANG = "gang"
"""Cliques by the key of their gang."""
BY_DEPENDENCY = "dependency"
"""Cliques by the keys of the cliques in their `startsAfter`."""
BY_TOPOLOGY = "topology"
"""Sets by the names of the ClusterTopologyBindings in their constraints."""

_MANAGED_SELECTOR = f"{names.MANAGED_BY}={names.OPERATOR}"


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches of one operator. Run `runnables` before any controller."""

    sets: Reflector[PodCliqueSet]
    cliques: Reflector[PodClique]
    groups: Reflector[PodCliqueScalingGroup]
    gangs: Reflector[PodGang]
    topologies: Reflector[ClusterTopologyBinding]
    pods: Reflector[Pod]
    services: Reflector[ChildObject]
    autoscalers: Reflector[ChildObject]
    claims: Reflector[ChildObject]
    revisions: Reflector[ControllerRevision]
    compute_domains: Reflector[ChildObject] | None
    """None where multi-node NVLink is disabled: then the CRD need not be installed."""

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        own = (getattr(self, name) for name in self.__slots__)
        return [each for each in own if each is not None]


def build_caches(
    client: Client,
    *,
    compute_domains: bool = False,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> Caches:
    """Build the caches over a client, with the indexes that controllers use."""

    def child_reflector(resource: resources.Resource[ChildObject]) -> Reflector[ChildObject]:
        indexes = {BY_SET: _index_by_set, BY_REPLICA: _index_by_replica}
        return Reflector(
            client,
            resource,
            label_selector=_MANAGED_SELECTOR,
            indexes=indexes,
            runtime_metrics=runtime_metrics,
        )

    return Caches(
        sets=Reflector(
            client,
            resources.SETS,
            indexes={BY_TOPOLOGY: _index_by_topology},
            runtime_metrics=runtime_metrics,
        ),
        cliques=Reflector(
            client,
            resources.CLIQUES,
            indexes={
                BY_SET: _index_by_set,
                BY_REPLICA: _index_by_replica,
                BY_BASE_GANG: lambda each: _index_by_label(each.metadata, names.BASE_POD_GANG),
                BY_GANG: lambda each: _index_by_label(each.metadata, names.POD_GANG),
                BY_DEPENDENCY: _index_by_dependency,
            },
            runtime_metrics=runtime_metrics,
        ),
        groups=Reflector(
            client,
            resources.SCALING_GROUPS,
            indexes={BY_SET: _index_by_set, BY_REPLICA: _index_by_replica},
            runtime_metrics=runtime_metrics,
        ),
        gangs=Reflector(
            client,
            resources.GANGS,
            label_selector=_MANAGED_SELECTOR,
            indexes={BY_SET: _index_by_set, BY_REPLICA: _index_by_replica},
            runtime_metrics=runtime_metrics,
        ),
        topologies=Reflector(client, resources.TOPOLOGY_BINDINGS, runtime_metrics=runtime_metrics),
        pods=Reflector(
            client,
            resources.PODS,
            label_selector=_MANAGED_SELECTOR,
            indexes={BY_CLIQUE: _index_by_clique},
            runtime_metrics=runtime_metrics,
        ),
        services=child_reflector(resources.SERVICES),
        autoscalers=child_reflector(resources.AUTOSCALERS),
        claims=child_reflector(resources.RESOURCE_CLAIMS),
        revisions=Reflector(
            client,
            CONTROLLER_REVISIONS,
            label_selector=_MANAGED_SELECTOR,
            indexes={BY_SET: _index_by_set},
            runtime_metrics=runtime_metrics,
        ),
        compute_domains=child_reflector(resources.COMPUTE_DOMAINS) if compute_domains else None,
    )


def list_scalable_objects(caches: Caches, key: Key) -> list[PodCliqueScalingGroup | PodClique]:
    """The scaling groups and cliques of a set that are not being deleted."""
    found = (
        *caches.groups.store.by_index(BY_SET, key),
        *caches.cliques.store.by_index(BY_SET, key),
    )
    return [each for each in found if each.metadata.deletion_timestamp is None]


_IndexedObject = ChildObject | ControllerRevision | PodClique | PodCliqueScalingGroup | PodGang


def _index_by_set(child: _IndexedObject) -> Iterator[Key]:
    found = get_set_key(child.metadata)
    if found is not None:
        yield found


def _index_by_replica(child: _IndexedObject) -> Iterator[ReplicaKey]:
    found = get_replica_key(child.metadata)
    if found is not None:
        yield found


def _index_by_clique(pod: Pod) -> Iterator[Key]:
    found = get_clique_key(pod.metadata)
    if found is not None:
        yield found


def _index_by_label(metadata: Metadata, label: str) -> Iterator[Key]:
    name = metadata.labels.get(label)
    if name:
        yield metadata.namespace, name


def _index_by_dependency(clique: PodClique) -> Iterator[Key]:
    for name in clique.spec.starts_after:
        yield clique.metadata.namespace, name


def _index_by_topology(set_: PodCliqueSet) -> set[str]:
    template = set_.spec.template
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    constraints = (each.topology_constraint for each in parts)
    return {each.topology_name for each in constraints if each and each.topology_name}
