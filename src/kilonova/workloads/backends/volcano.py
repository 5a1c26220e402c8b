"""PodGroups as Volcano has them. Pure.

Each clique is a subgroup, told by the label of its pods, since Volcano 1.14; an older one knows
only how many pods there must be in all. Volcano has no topologies that we could name.
"""

import msgspec

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Resource
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.mapping import (
    Mapped,
    Surroundings,
    least_members,
    metadata_of,
)
from kilonova.workloads.backends.queues import QUEUE_KEYS, queue_of
from kilonova.workloads.resources import Child

_SUB_GROUPS = "subGroupPolicy"


class VolcanoQueueStatus(msgspec.Struct, frozen=True, gc=False):
    """How a queue is: Open where it takes PodGroups."""

    state: str = ""


class VolcanoQueue(msgspec.Struct, gc=False):
    """A queue of Volcano."""

    metadata: Metadata
    status: VolcanoQueueStatus = VolcanoQueueStatus()


VOLCANO_QUEUES = Resource(
    "scheduling.volcano.sh", "v1beta1", "queues", "Queue", False, VolcanoQueue
)


class Volcano:
    """The backend of Volcano."""

    name = VOLCANO
    pod_groups = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True, Child)
    trouble = "VolcanoCapabilityUnavailable"

    def pod_group(self, gang: PodGang, around: Surroundings) -> Mapped:
        """The PodGroup of a gang, with subgroups where Volcano has them."""
        set_ = around.set_
        queue = queue_of(VOLCANO, set_.metadata, set_.spec.template.cliques)
        if queue is None:
            key = QUEUE_KEYS[VOLCANO]
            problem = f"PodCliqueSet {set_.metadata.name} names more than one queue"
            return Mapped(None, f"{problem}: let all annotations {key} be the same")
        spec: JsonObject = {
            "minMember": least_members([each.min_replicas for each in gang.spec.pod_groups]),
            "queue": queue,
            "priorityClassName": gang.spec.priority_class_name or None,
        }
        problem = ""
        if _SUB_GROUPS in around.spec_fields:
            spec[_SUB_GROUPS] = _sub_groups(gang) or None
        else:
            problem = f"Volcano's PodGroup has no {_SUB_GROUPS}, which came with Volcano 1.14: "
            problem += "only the number of pods in all is kept, not that of each clique"
        return Mapped({"metadata": metadata_of(gang), "spec": spec}, problem)

    def beside_others(self, wanted: JsonObject, live: Child) -> JsonObject:
        """Nobody else writes what we do."""
        return wanted


def _sub_groups(gang: PodGang) -> list[JsonObject]:
    """One subgroup for each clique that has replicas; one of them must be there whole."""
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
