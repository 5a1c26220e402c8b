"""What is wrong with the place of a pod that stands: its devices, or its node. Pure."""

from kilonova.scheduler.core.snapshot import Booking, Snapshot

_NODE_TROUBLE = frozenset(
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
"""Taints by which Kubernetes says that a node does not do well."""


def trouble_of(snapshot: Snapshot, booking: Booking) -> str:
    """What a pod suffers from where it is; empty if nothing is known."""
    gpus = snapshot.layout(booking.row).gpus
    sick = [
        str(share.index)
        for share in booking.devices
        if share.index < len(gpus) and not gpus[share.index].healthy
    ]
    taints = snapshot.taint_sets[int(snapshot.taints[booking.row])]
    said = sorted({taint.key for taint in taints if taint.key in _NODE_TROUBLE})
    found = [f"device {', '.join(sick)} is not healthy"] if sick else []
    return "; ".join([*found, *(f"the node has the taint {key}" for key in said)])
