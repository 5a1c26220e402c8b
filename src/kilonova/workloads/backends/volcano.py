"""PodGroups of Volcano. Pure.

Since Volcano 1.14 each clique is a subgroup, selected by the label of its pods; older versions know
only the total number of pods. Volcano has no Topology objects to refer to.
"""

import msgspec

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Resource
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.interface import (
    MappingResult,
    PodGroupContext,
    build_pod_group_metadata,
    compute_min_member,
)
from kilonova.workloads.backends.queues import QUEUE_KEYS, resolve_queue
from kilonova.workloads.resources import ChildObject

_SUB_GROUP_FIELD = "subGroupPolicy"


class VolcanoQueueStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a queue; only an Open queue accepts PodGroups."""

    state: str = ""


class VolcanoQueue(msgspec.Struct, gc=False):
    """A queue of Volcano."""

    metadata: Metadata
    status: VolcanoQueueStatus = VolcanoQueueStatus()


VOLCANO_QUEUES = Resource(
    "scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, VolcanoQueue
)


class VolcanoBackend:
    """The backend of Volcano."""

    name = VOLCANO
    pod_groups = Resource(
        "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, ChildObject
    )
    failure_reason = "VolcanoCapabilityUnavailable"

    def build_pod_group(self, gang: PodGang, context: PodGroupContext) -> MappingResult:
        """The PodGroup of a gang, with subgroups if Volcano supports them."""
        set_ = context.set_
        queue = resolve_queue(VOLCANO, set_.metadata, set_.spec.template.cliques)
        if queue is None:
            key = QUEUE_KEYS[VOLCANO]
            problem = f"PodCliqueSet {set_.metadata.name} names more than one queue"
            return MappingResult(None, f"{problem}: set all annotations {key} to the same queue")
        spec: JsonObject = {
            "minMember": compute_min_member([each.min_replicas for each in gang.spec.pod_groups]),
            "queue": queue,
            "priorityClassName": gang.spec.priority_class_name or None,
        }
        problem = ""
        if _SUB_GROUP_FIELD in context.spec_fields:
            spec[_SUB_GROUP_FIELD] = _build_sub_groups(gang) or None
        else:
            problem = (
                f"Volcano's PodGroup has no {_SUB_GROUP_FIELD}, which needs Volcano 1.14: "
                "only the total number of pods is guaranteed, not the number of each clique"
            )
        return MappingResult({"metadata": build_pod_group_metadata(gang), "spec": spec}, problem)

    def drop_fields_of_others(self, wanted: JsonObject, live: ChildObject) -> JsonObject:
        """All fields: no other component writes them."""
        return wanted


def _build_sub_groups(gang: PodGang) -> list[JsonObject]:
    """One subgroup for each clique that has replicas."""
    return [
        {
            "name": each.name,
            "labelSelector": {"matchLabels": {names.POD_CLIQUE: each.name}},
            "matchLabelKeys": [names.POD_CLIQUE],
            "subGroupSize": each.min_replicas,
            "minSubGroups": 1,
        }
        for each in gang.spec.pod_groups
        if each.min_replicas
    ]
