"""Labels and annotations by which a scheduler finds the PodGroup of a gang's pods. Pure."""

from dataclasses import dataclass, field

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.workloads.backends import KAI, VOLCANO
from kilonova.workloads.backends.queues import QUEUE_KEYS, resolve_queue
from kilonova.workloads.settings import OperatorSettings

KAI_SKIP_ANNOTATION = {"kai.scheduler/skip-podgrouper": "true"}
"""Keeps KAI's pod-grouper from creating a PodGroup itself."""
KAI_POD_GROUP_ANNOTATION = "pod-group-name"
KAI_SUB_GROUP_LABEL = "kai.scheduler/subgroup-name"
VOLCANO_POD_GROUP_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
"""Volcano's old annotation and its new one; it reads both."""


@dataclass(frozen=True, slots=True)
class BackendMetadata:
    """Labels and annotations that override all others."""

    labels: dict[str, str] = field(default_factory=dict[str, str])
    annotations: dict[str, str] = field(default_factory=dict[str, str])


_NO_METADATA = BackendMetadata()


def build_gang_annotations(scheduler: str, settings: OperatorSettings) -> dict[str, str]:
    """Annotations of a gang for its scheduler."""
    return KAI_SKIP_ANNOTATION if scheduler == KAI and KAI in settings.backends else {}


def build_pod_metadata(
    clique: PodClique, set_: PodCliqueSet | None, settings: OperatorSettings
) -> BackendMetadata:
    """Labels and annotations of a clique's pods for their scheduler."""
    scheduler = clique.spec.pod_spec.get("schedulerName")
    gang = clique.metadata.labels.get(names.POD_GANG)
    if scheduler not in settings.backends or not gang:
        return _NO_METADATA
    if scheduler == VOLCANO:
        return BackendMetadata(annotations=dict.fromkeys(VOLCANO_POD_GROUP_ANNOTATIONS, gang))
    labels = {KAI_SUB_GROUP_LABEL: clique.metadata.name}
    cliques = () if set_ is None else set_.spec.template.cliques
    queue = None if set_ is None else resolve_queue(KAI, set_.metadata, cliques)
    if queue is not None:
        labels[QUEUE_KEYS[KAI]] = queue
    return BackendMetadata(labels, {**KAI_SKIP_ANNOTATION, KAI_POD_GROUP_ANNOTATION: gang})
