"""Events of a Node about its GPUs: findings of the agent, and changes of MIG."""

from collections.abc import Iterable

from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.remediation.assessment import HealthFinding
from kilonova.gpu.agent.resources import NODES, Node
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.mig.states import ChangeReason, StateChange
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger

_EVENT_REASONS = {
    ChangeReason.CREATED: "MIGInstanceCreated",
    ChangeReason.DESTROYED: "MIGInstanceDestroyed",
    ChangeReason.LOST: "MIGInstanceLost",
    ChangeReason.MODE_ENABLED: "MIGModeEnabled",
    ChangeReason.MODE_DISABLED: "MIGModeDisabled",
}
"""The changes of MIG that become events, with the reason of the event."""

_log = get_logger(__name__)


class NodeEventRecorder:
    """Records events of a Node."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    def record_findings(self, node: Node, findings: Iterable[HealthFinding]) -> None:
        """An event, a log line and a count for each finding."""
        for each in findings:
            self._context.metrics.findings.labels(each.reason).inc()
            self._record(node, each.reason, each.message, each.is_warning)
            log = _log.warning if each.is_warning else _log.info
            log(
                "GPU finding",
                node=node.metadata.name,
                reason=each.reason,
                finding=each.message,
            )

    def record_mig_changes(
        self, node: Node, changes: Iterable[StateChange], inventory: NodeInventory
    ) -> None:
        """An event for each change of modes and instances that users should see."""
        for each in changes:
            reason = _EVENT_REASONS.get(each.reason)
            device = inventory.find(each.device)
            if reason is None or device is None:
                continue
            where = f"GPU {device.index}"
            what = f"{each.slot} on {where}" if each.slot is not None else where
            self._record(node, reason, f"{what} ({each.instance or each.device})", False)

    def _record(self, node: Node, reason: str, message: str, is_warning: bool) -> None:
        about = ObjectReference.to(NODES, node.metadata.name, "", node.metadata.uid)
        self._context.events.event(about, reason, message, warning=is_warning)
