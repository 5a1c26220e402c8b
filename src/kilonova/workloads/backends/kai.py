"""PodGroups as KAI has them. Pure.

Each clique is a subgroup. Cliques with a constraint in common, those of one replica of a scaling
group, are below a subgroup that has the constraint. A clique without replicas has no subgroup: a
subgroup wants at least one pod.
"""

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang, TopologyConstraint
from kilonova.kube import Resource
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.mapping import (
    Mapped,
    Surroundings,
    least_members,
    metadata_of,
)
from kilonova.workloads.backends.queues import QUEUE_KEYS, queue_of
from kilonova.workloads.resources import Child

NODE_POOL = "kai.scheduler/node-pool"
_DECIDED_BY_KAI = (QUEUE_KEYS[KAI], NODE_POOL)
"""Labels that KAI's own components set, once a PodGroup is there."""


class Kai:
    """The backend of KAI."""

    name = KAI
    pod_groups = Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", True, Child)
    trouble = "KAIBackendMappingFailed"

    def pod_group(self, gang: PodGang, around: Surroundings) -> Mapped:
        """The PodGroup of a gang; there is none without a queue."""
        set_ = around.set_
        queue = queue_of(KAI, set_.metadata, set_.spec.template.cliques)
        if queue is None:
            key = QUEUE_KEYS[KAI]
            problem = f"PodCliqueSet {set_.metadata.name} names no queue, or more than one"
            return Mapped(None, f"{problem}: give it the label {key}")
        topology = _topology(gang, around)
        spec: JsonObject = {
            "minMember": least_members([each.min_replicas for each in gang.spec.pod_groups]),
            "queue": queue,
            "priorityClassName": gang.spec.priority_class_name or None,
            "topologyConstraint": _constraint(gang.spec.topology_constraint, topology),
            "subGroups": _sub_groups(gang, topology) or None,
        }
        return Mapped({"metadata": metadata_of(gang), "spec": spec})

    def beside_others(self, wanted: JsonObject, live: Child) -> JsonObject:
        """The queue and the node pool are moved by KAI's own components, and by people."""
        metadata, spec = dict(wanted["metadata"]), dict(wanted["spec"])
        if live.spec.get("queue"):
            del spec["queue"]
        metadata["labels"] = {
            key: value
            for key, value in metadata["labels"].items()
            if key not in _DECIDED_BY_KAI or not live.metadata.labels.get(key)
        }
        return {**wanted, "metadata": metadata, "spec": spec}


def _topology(gang: PodGang, around: Surroundings) -> str:
    """What KAI calls the topology of a gang: as the binding, unless that refers to another."""
    name = gang.metadata.annotations.get(names.TOPOLOGY_NAME, "")
    binding = around.topologies.get(name)
    bindings = () if binding is None else binding.spec.scheduler_topology_bindings
    own = (each.topology_reference for each in bindings if each.scheduler_name == KAI)
    return next(own, name)


def _constraint(wanted: TopologyConstraint | None, topology: str) -> JsonObject | None:
    pack = None if wanted is None else wanted.pack_constraint
    if pack is None or not topology:
        return None
    return {
        "topology": topology,
        "requiredTopologyLevel": pack.required,
        "preferredTopologyLevel": pack.preferred,
    }


def _sub_groups(gang: PodGang, topology: str) -> list[JsonObject]:
    """Parents first. A parent needs all that are below it: KAI takes that as said."""
    cliques = [each for each in gang.spec.pod_groups if each.min_replicas]
    there = {each.name for each in cliques}
    result: list[JsonObject] = []
    parents: dict[str, str] = {}
    for group in gang.spec.topology_constraint_group_configs:
        members = there.intersection(group.pod_group_names)
        if members:
            parents |= dict.fromkeys(members, group.name)
            result.append(
                {
                    "name": group.name,
                    "minMember": None,
                    "parent": None,
                    "topologyConstraint": _constraint(group.topology_constraint, topology),
                }
            )
    result += [
        {
            "name": each.name,
            "minMember": each.min_replicas,
            "parent": parents.get(each.name),
            "topologyConstraint": _constraint(each.topology_constraint, topology),
        }
        for each in cliques
    ]
    return result
