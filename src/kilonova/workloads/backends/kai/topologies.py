"""Topologies of KAI. Pure."""

import msgspec

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.grove.topology import SchedulerTopology, SchedulerTopologyStatus
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.backends import KAI
from kilonova.workloads.resources import TOPOLOGY_BINDINGS


class KaiLevel(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A level of KAI's Topology: the node label whose values are its domains."""

    node_label: str


class KaiTopologySpec(msgspec.Struct, frozen=True, gc=False):
    """Levels, the broadest first."""

    levels: tuple[KaiLevel, ...] = ()


class KaiTopology(msgspec.Struct, gc=False):
    """KAI's Topology."""

    metadata: Metadata
    spec: KaiTopologySpec = KaiTopologySpec()


KAI_TOPOLOGIES = Resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False, KaiTopology)


def build_topology(binding: ClusterTopologyBinding) -> JsonObject:
    """The Topology of a binding."""
    own = binding.metadata
    return {
        "metadata": {
            "name": own.name,
            "ownerReferences": [build_owner_reference(TOPOLOGY_BINDINGS, own)],
        },
        "spec": {"levels": [{"nodeLabel": each.key} for each in binding.spec.levels]},
    }


def has_same_levels(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology has the levels of a binding."""
    levels = [each.node_label for each in found.spec.levels]
    return levels == [each.key for each in binding.spec.levels]


def is_owned_by(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology is owned by this binding."""
    owner = found.metadata.controller
    return owner is not None and owner.uid == binding.metadata.uid


def is_orphaned(found: KaiTopology, binding: ClusterTopologyBinding) -> bool:
    """Whether a Topology is owned by an earlier binding of the same name."""
    owner = found.metadata.controller
    is_owned_by_binding = owner is not None and owner.kind == TOPOLOGY_BINDINGS.kind
    return is_owned_by_binding and not is_owned_by(found, binding)


def list_scheduler_topologies(
    binding: ClusterTopologyBinding, *, managed: bool
) -> tuple[SchedulerTopology, ...]:
    """The topologies that must match a binding.

    `managed`: KAI's are derived from bindings.
    """
    declared = binding.spec.scheduler_topology_bindings
    if managed and all(each.scheduler_name != KAI for each in declared):
        return (*declared, SchedulerTopology(KAI, binding.metadata.name))
    return declared


def compare_topology(
    binding: ClusterTopologyBinding, wanted: SchedulerTopology, found: KaiTopology | None
) -> SchedulerTopologyStatus:
    """Whether a scheduler's topology matches a binding; None if it does not exist."""
    name = wanted.topology_reference
    if found is None:
        message = f"{wanted.scheduler_name} has no topology {name!r}"
        if wanted.scheduler_name != KAI:
            message = f"{wanted.scheduler_name} has no Topology objects; only {KAI} has"
        return SchedulerTopologyStatus(wanted.scheduler_name, name, False, None, message)
    same = has_same_levels(found, binding)
    message = ""
    if not same:
        actual = ", ".join(each.node_label for each in found.spec.levels)
        expected = ", ".join(each.key for each in binding.spec.levels)
        message = f"topology {name!r} has levels {actual} instead of {expected}"
    return SchedulerTopologyStatus(
        wanted.scheduler_name, name, same, found.metadata.generation, message
    )
