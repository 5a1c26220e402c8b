"""PodGroups of KAI. Pure.

Each clique is a subgroup. The cliques of one group replica with a common constraint are below a
parent subgroup that has the constraint. A clique without replicas has no subgroup, because a
subgroup needs at least one pod.
"""

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang, TopologyConstraint
from kilonova.kube import Resource
from kilonova.workloads.backends import KAI
from kilonova.workloads.backends.interface import (
    MappingResult,
    PodGroupContext,
    build_pod_group_metadata,
    compute_min_member,
)
from kilonova.workloads.backends.queues import QUEUE_KEYS, resolve_queue
from kilonova.workloads.resources import ChildObject

NODE_POOL = "kai.scheduler/node-pool"
_LABELS_SET_BY_KAI = (QUEUE_KEYS[KAI], NODE_POOL)
"""Labels that KAI's own components set on existing PodGroups."""


class KaiBackend:
    """The backend of KAI."""

    name = KAI
    pod_groups = Resource(
        "scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", True, ChildObject
    )
    failure_reason = "KAIBackendMappingFailed"

    def build_pod_group(self, gang: PodGang, context: PodGroupContext) -> MappingResult:
        """The PodGroup of a gang; None without a queue."""
        set_ = context.set_
        queue = resolve_queue(KAI, set_.metadata, set_.spec.template.cliques)
        if queue is None:
            key = QUEUE_KEYS[KAI]
            problem = f"PodCliqueSet {set_.metadata.name} names no queue or more than one"
            return MappingResult(None, f"{problem}: set the label {key}")
        topology = _get_topology_name(gang, context)
        spec: JsonObject = {
            "minMember": compute_min_member([each.min_replicas for each in gang.spec.pod_groups]),
            "queue": queue,
            "priorityClassName": gang.spec.priority_class_name or None,
            "topologyConstraint": _build_constraint(gang.spec.topology_constraint, topology),
            "subGroups": _build_sub_groups(gang, topology) or None,
        }
        return MappingResult({"metadata": build_pod_group_metadata(gang), "spec": spec})

    def drop_fields_of_others(self, wanted: JsonObject, live: ChildObject) -> JsonObject:
        """Without queue and node pool, which KAI's components and users may change."""
        metadata, spec = dict(wanted["metadata"]), dict(wanted["spec"])
        if live.spec.get("queue"):
            del spec["queue"]
        metadata["labels"] = {
            key: value
            for key, value in metadata["labels"].items()
            if key not in _LABELS_SET_BY_KAI or not live.metadata.labels.get(key)
        }
        return {**wanted, "metadata": metadata, "spec": spec}


def _get_topology_name(gang: PodGang, context: PodGroupContext) -> str:
    """The Topology of a gang: the binding's name, unless the binding refers to another."""
    name = gang.metadata.annotations.get(names.TOPOLOGY_NAME, "")
    binding = context.topologies.get(name)
    bindings = () if binding is None else binding.spec.scheduler_topology_bindings
    own = (each.topology_reference for each in bindings if each.scheduler_name == KAI)
    return next(own, name)


def _build_constraint(wanted: TopologyConstraint | None, topology: str) -> JsonObject | None:
    pack = None if wanted is None else wanted.pack_constraint
    if pack is None or not topology:
        return None
    return {
        "topology": topology,
        "requiredTopologyLevel": pack.required,
        "preferredTopologyLevel": pack.preferred,
    }


def _build_sub_groups(gang: PodGang, topology: str) -> list[JsonObject]:
    """The subgroups, parents first. KAI implies that a parent needs all of its children."""
    cliques = [each for each in gang.spec.pod_groups if each.min_replicas]
    present = {each.name for each in cliques}
    result: list[JsonObject] = []
    parents: dict[str, str] = {}
    for group in gang.spec.topology_constraint_group_configs:
        members = present.intersection(group.pod_group_names)
        if members:
            parents |= dict.fromkeys(members, group.name)
            result.append(
                {
                    "name": group.name,
                    "minMember": None,
                    "parent": None,
                    "topologyConstraint": _build_constraint(group.topology_constraint, topology),
                }
            )
    result += [
        {
            "name": each.name,
            "minMember": each.min_replicas,
            "parent": parents.get(each.name),
            "topologyConstraint": _build_constraint(each.topology_constraint, topology),
        }
        for each in cliques
    ]
    return result
