"""From a node's conditions to its taints, and what a silent node's conditions become. Pure."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.local.controllers.objects import Node, Taint

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_TAINT_OF = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OURS = frozenset({*_TAINT_OF.values(), UNSCHEDULABLE})
_LOST = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def ready_status(node: Node) -> str | None:
    """`True`, `False` or `Unknown`; None before a node has said anything."""
    found = (each.status for each in node.status.conditions if each.type == "Ready")
    return next(found, None)


def scheduling_taints(node: Node) -> set[str]:
    """The keys of the NoSchedule taints that follow from the node's state."""
    keys = {
        key
        for each in node.status.conditions
        if (key := _TAINT_OF.get((each.type, each.status))) is not None
    }
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE)
    return keys


def evicting_taint(node: Node) -> str | None:
    """The key of the NoExecute taint that follows from the node's state."""
    status = ready_status(node)
    return None if status is None else _TAINT_OF.get(("Ready", status))


def taints_with(
    node: Node, scheduling: Iterable[str], evicting: str | None, now: str
) -> list[Taint] | None:
    """All taints of the node, with ours as they should be; None if they are so already."""
    wanted = {(key, "NoSchedule") for key in scheduling}
    if evicting is not None:
        wanted.add((evicting, "NoExecute"))
    kept = [each for each in node.spec.taints if not _is_ours(each) or _pair(each) in wanted]
    missing = wanted - {_pair(each) for each in kept}
    if not missing and len(kept) == len(node.spec.taints):
        return None
    added = [Taint(key, effect, time_added=now) for key, effect in sorted(missing)]
    return [*kept, *added]


def lost_conditions(node: Node, now: str) -> list[JsonObject] | None:
    """The conditions of a node that fell silent, for a patch; None if they say so already."""
    present = {each.type: each for each in node.status.conditions}
    changed = [
        condition
        for type_ in _LOST
        if (condition := _lost(present.get(type_), type_, node, now)) is not None
    ]
    return changed or None


def _lost(before: Condition | None, type_: str, node: Node, now: str) -> JsonObject | None:
    if before is None:
        return {
            "type": type_,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node.metadata.creation_timestamp,
            "lastTransitionTime": now,
        }
    if before.status == "Unknown":
        return None
    return {
        "type": type_,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": now,
    }


def _pair(taint: Taint) -> tuple[str, str]:
    return taint.key, taint.effect


def _is_ours(taint: Taint) -> bool:
    if taint.effect == "NoExecute":
        return taint.key in (NOT_READY, UNREACHABLE)
    return taint.effect == "NoSchedule" and taint.key in _OURS
