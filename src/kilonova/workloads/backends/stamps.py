"""What a backend writes on gangs and pods, so that their scheduler finds their PodGroup. Pure."""

from dataclasses import dataclass, field

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.workloads.backends import KAI, VOLCANO
from kilonova.workloads.backends.queues import QUEUE_KEYS, queue_of
from kilonova.workloads.settings import Settings

KAI_SKIPS = {"kai.scheduler/skip-podgrouper": "true"}
"""The annotation by which KAI makes no PodGroup itself."""
KAI_POD_GROUP = "pod-group-name"
KAI_SUB_GROUP = "kai.scheduler/subgroup-name"
VOLCANO_POD_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Volcano's old annotation and its new one; it looks at both."""


@dataclass(frozen=True, slots=True)
class Stamps:
    """Labels and annotations that win over all others."""

    labels: dict[str, str] = field(default_factory=dict[str, str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])


_NONE = Stamps()


def gang_annotations(scheduler: str, settings: Settings) -> dict[str, str]:
    """What is written on a gang of a scheduler."""
    return KAI_SKIPS if scheduler == KAI and KAI in settings.backends else {}


def pod_stamps(clique: PodClique, set_: PodCliqueSet | None, settings: Settings) -> Stamps:
    """What is written on a pod of a clique."""
    scheduler = clique.spec.pod_spec.get("schedulerName")
    gang = clique.metadata.labels.get(names.POD_GANG)
    if scheduler not in settings.backends or not gang:
        return _NONE
    if scheduler == VOLCANO:
        return Stamps(annotations=dict.fromkeys(VOLCANO_POD_GROUPS, gang))
    labels = {KAI_SUB_GROUP: clique.metadata.name}
    cliques = () if set_ is None else set_.spec.template.cliques
    queue = None if set_ is None else queue_of(KAI, set_.metadata, cliques)
    if queue is not None:
        labels[QUEUE_KEYS[KAI]] = queue
    return Stamps(labels, {**KAI_SKIPS, KAI_POD_GROUP: gang})
