"""Topologies as KAI has them. Pure."""

import msgspec

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove.topology import SchedulerTopology, SchedulerTopologyStatus
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.workloads.backends import KAI
from kilonova.workloads.resources import TOPOLOGIES
from kilonova.workloads.templates.labels import owner_reference


class KaiLevel(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A level of KAI's topology: the label of nodes whose values are its domains."""

    node_label: str


class KaiTopologySpec(msgspec.Struct, frozen=True, gc=False):
    """Levels, the broadest first."""

    levels: tuple[KaiLevel, ...] = ()


class KaiTopology(msgspec.Struct, gc=False):
    """What KAI knows of a cluster."""

    metadata: Metadata
    spec: KaiTopologySpec = KaiTopologySpec()


KAI_TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False, KaiTopology)


def topology_object(binding: ClusterTopologyBinding) -> JsonObject:
    """The Topology that is kept for a binding."""
    own = binding.metadata
    return {
        "metadata": {"name": own.name, "ownerReferences": [owner_reference(TOPOLOGIES, own)]},
        "spec": {"levels": [{"nodeLabel": each.key} for each in binding.spec.levels]},
    }


def has_levels_of(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology says the same as a binding."""
    told = [each.node_label for each in found.spec.levels]
    return told == [each.key for each in binding.spec.levels]


def is_kept_for(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology was made for this very binding."""
    owner = found.metadata.controller
    return owner is not None and owner.uid == binding.metadata.uid


def is_left_over(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology was made for an earlier binding of the same name."""
    owner = found.metadata.controller
    of_a_binding = owner is not None and owner.kind == TOPOLOGIES.kind
    return of_a_binding and not is_kept_for(found, binding)


def wanted_topologies(
    binding: ClusterTopologyBinding, *, kept: bool
) -> tuple[SchedulerTopology, ...]:
    """The topologies that must say the same as a binding; `kept`: KAI's are made from bindings."""
    declared = binding.spec.scheduler_topology_bindings
    if kept and all(each.scheduler_name != KAI for each in declared):
        return (*declared, SchedulerTopology(KAI, binding.metadata.name))
    return declared


def compare(
    binding: ClusterTopologyBinding, wanted: SchedulerTopology, found: KaiTopology | None
) -> SchedulerTopologyStatus:
    """Whether a scheduler's topology says the same as a binding; None is one that is not there."""
    name = wanted.topology_reference
    if found is None:
        message = f"{wanted.scheduler_name} has no topology {name!r}"
        if wanted.scheduler_name != KAI:
            message = f"{wanted.scheduler_name} has no topologies of its own, only {KAI} has"
        return SchedulerTopologyStatus(wanted.scheduler_name, name, False, None, message)
    same = has_levels_of(found, binding)
    message = ""
    if not same:
        told = ", ".join(each.node_label for each in found.spec.levels)
        asked = ", ".join(each.key for each in binding.spec.levels)
        message = f"topology {name!r} has levels {told} instead of {asked}"
    return SchedulerTopologyStatus(
        wanted.scheduler_name, name, same, found.metadata.generation, message
    )
