"""The taints that follow from a node's conditions, and the conditions of unreachable nodes.
Pure."""

from collections.abc import Iterable

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.local.objects.core import Node, Taint

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
UNREACHABLE_TAINT = "node.kubernetes.io/unreachable"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

_TAINT_BY_CONDITION = {
    ("Ready", "False"): NOT_READY_TAINT,
    ("Ready", "Unknown"): UNREACHABLE_TAINT,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_TAINTS = frozenset({*_TAINT_BY_CONDITION.values(), UNSCHEDULABLE_TAINT})
_HEARTBEAT_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def ready_status(node: Node) -> str | None:
    """`True`, `False` or `Unknown`; None before a node has posted its status."""
    found = (each.status for each in node.status.conditions if each.type == "Ready")
    return next(found, None)


def select_no_schedule_taints(node: Node) -> set[str]:
    """The keys of the NoSchedule taints that follow from the node's state."""
    keys = {
        key
        for each in node.status.conditions
        if (key := _TAINT_BY_CONDITION.get((each.type, each.status))) is not None
    }
    if node.spec.unschedulable:
        keys.add(UNSCHEDULABLE_TAINT)
    return keys


def select_no_execute_taint(node: Node) -> str | None:
    """The key of the NoExecute taint that follows from the node's state."""
    status = ready_status(node)
    return None if status is None else _TAINT_BY_CONDITION.get(("Ready", status))


def merge_taints(
    node: Node, no_schedule: Iterable[str], no_execute: str | None, now: str
) -> list[Taint] | None:
    """All taints of the node, with ours as they should be; None if they are unchanged."""
    desired = {(key, "NoSchedule") for key in no_schedule}
    if no_execute is not None:
        desired.add((no_execute, "NoExecute"))
    other_taints = [
        each
        for each in node.spec.taints
        if not _is_managed(each) or _key_and_effect(each) in desired
    ]
    missing = desired - {_key_and_effect(each) for each in other_taints}
    if not missing and len(other_taints) == len(node.spec.taints):
        return None
    added = [Taint(key, effect, time_added=now) for key, effect in sorted(missing)]
    return [*other_taints, *added]


def build_unknown_conditions(node: Node, now: str) -> list[JsonObject] | None:
    """The conditions of an unreachable node, for a patch; None if they are already Unknown."""
    present = {each.type: each for each in node.status.conditions}
    changed = [
        condition
        for type_ in _HEARTBEAT_CONDITIONS
        if (condition := _build_unknown_condition(present.get(type_), type_, node, now)) is not None
    ]
    return changed or None


def _build_unknown_condition(
    before: Condition | None, type_: str, node: Node, now: str
) -> JsonObject | None:
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


def _key_and_effect(taint: Taint) -> tuple[str, str]:
    return taint.key, taint.effect


def _is_managed(taint: Taint) -> bool:
    if taint.effect == "NoExecute":
        return taint.key in (NOT_READY_TAINT, UNREACHABLE_TAINT)
    return taint.effect == "NoSchedule" and taint.key in _MANAGED_TAINTS
