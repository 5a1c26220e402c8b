"""Problems of a placed pod: unhealthy devices, or a tainted node. Pure."""

from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot

_NODE_CONDITION_TAINTS = frozenset(
    f"node.kubernetes.io/{name}"
    for name in (
        "not-ready",
        "unreachable",
        "out-of-service",
        "network-unavailable",
        "memory-pressure",
        "disk-pressure",
        "pid-pressure",
    )
)
"""Taints that Kubernetes sets for node conditions."""


def describe_placement_problem(snapshot: Snapshot, pod_placement: PodPlacement) -> str:
    """The problems of a pod on its node; empty if none is known."""
    gpus = snapshot.layout(pod_placement.row).gpus
    unhealthy = [
        str(share.index)
        for share in pod_placement.devices
        if share.index < len(gpus) and not gpus[share.index].healthy
    ]
    taints = snapshot.taint_sets[int(snapshot.taints[pod_placement.row])]
    taint_keys = sorted({taint.key for taint in taints if taint.key in _NODE_CONDITION_TAINTS})
    problems = [f"device {', '.join(unhealthy)} is unhealthy"] if unhealthy else []
    return "; ".join([*problems, *(f"the node has the taint {key}" for key in taint_keys)])
