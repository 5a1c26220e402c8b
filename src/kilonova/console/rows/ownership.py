"""The workloads of pods and of the objects that make pods, as ids. Pure."""

from kilonova.api.group_kinds import GroupKind
from kilonova.api.pods.workload_owner import (
    POD,
    SET,
    Owned,
    find_labelled_workload,
    find_workload,
)
from kilonova.console.objects import Pod, PodLabels, PodMeta, WorkloadMeta


def pod_workload_id(pod: Pod) -> str:
    """The workload of a pod."""
    return find_workload(_owned(POD, pod.metadata)).id


def outer_workload_id(kind: str, metadata: WorkloadMeta) -> str:
    """The workload of the pods of a controller if that is another object, else empty.

    It is known where the pods name it too: the operator passes on what a PodCliqueSet names by
    label or by its controller, and labels of other controllers are those of their pods.
    """
    group_kind = GroupKind.parse(kind)
    assert group_kind is not None, kind
    owned = _owned(group_kind, metadata)
    found = find_workload(owned) if group_kind == SET else find_labelled_workload(owned)
    itself = (group_kind, metadata.name)
    return "" if found is None or (found.kind, found.name) == itself else found.id


def podcliqueset_id(labels: PodLabels, namespace: str) -> str:
    """The id of the PodCliqueSet named by the operator's labels; empty if none."""
    name = labels.pod_clique_set
    return f"{namespace}/{name}" if name else ""


def _owned(kind: GroupKind, metadata: PodMeta | WorkloadMeta) -> Owned:
    return Owned(
        kind,
        metadata.namespace,
        metadata.name,
        metadata.labels,
        metadata.controller,
        metadata.annotations.workload,
    )
