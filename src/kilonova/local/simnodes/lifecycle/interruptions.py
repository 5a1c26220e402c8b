"""Interruptions: a notice that a machine is taken back, and its end.

The annotation `sim.kilonova.dev/interruption: "true"` announces one, set by a user, a script or at
random. It is then the time at which the machine is taken back. Until then the Node has a taint, a
condition and an event, as cloud providers and their node agents do it; then it is deleted. Without
the annotation the notice is withdrawn.
"""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import add_seconds, format_rfc3339, parse_time
from kilonova.kube import Client, Conflict, PatchType
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.kubelet_common.nodes import NODES as RAW_NODES
from kilonova.local.simnodes.fleet.model import parse_seconds
from kilonova.local.simnodes.lifecycle.node_objects import (
    INTERRUPTION_ANNOTATION,
    NODES,
    SimulatedNode,
)
from kilonova.local.simnodes.machine import SimulatedMachine

INTERRUPTION_TAINT = "kilonova.dev/interruption"
INTERRUPTION_CONDITION = "InterruptionNotice"
INTERRUPTION_REASON = "SpotInterruption"


def parse_deadline(text: str) -> datetime | None:
    """When the machine is taken back; None if the annotation is not a time."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


class InterruptionWriter:
    """Writes notices of interruptions, and withdraws them."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        self._client = client
        self._events = events

    async def announce(self, machine: SimulatedMachine, node: SimulatedNode, now: datetime) -> None:
        """Set when the machine is taken back: after the notice of its description."""
        notice = parse_seconds(machine.node.group.failures.interruption_notice)
        deadline = format_rfc3339(add_seconds(now, notice))
        metadata: JsonObject = {
            "uid": node.metadata.uid,
            "annotations": {INTERRUPTION_ANNOTATION: deadline},
        }
        await self._client.patch(NODES, machine.node.name, {"metadata": metadata})

    async def give_notice(self, node: SimulatedNode, deadline: datetime, now: datetime) -> None:
        """Taint the Node, and report the interruption, unless that was done before."""
        message = f"the machine is taken back at {format_rfc3339(deadline)}"
        condition = _build_condition("True", INTERRUPTION_REASON, message, now)
        if await self._set_notice(node, condition, is_tainted=True):
            seconds = max(0, round((deadline - now).total_seconds()))
            about = ObjectReference.to(NODES, node.metadata.name, "", node.metadata.uid)
            text = f"Interruption notice: {message}, in {seconds} s"
            self._events.event(about, INTERRUPTION_REASON, text, warning=True)

    async def withdraw(self, node: SimulatedNode, now: datetime) -> None:
        """Remove the taint, and report that there is no interruption."""
        condition = _build_condition("False", "NoInterruption", "no interruption is announced", now)
        await self._set_notice(node, condition, is_tainted=False)

    async def take_back(self, node: SimulatedNode) -> None:
        """Delete the Node: its machine is gone."""
        metadata = node.metadata
        about = ObjectReference.to(NODES, metadata.name, "", metadata.uid)
        self._events.event(about, "Interrupted", "The machine was taken back", warning=True)
        await self._client.delete(NODES, metadata.name, uid=metadata.uid)

    async def _set_notice(
        self, node: SimulatedNode, condition: JsonObject, *, is_tainted: bool
    ) -> bool:
        """Write condition and taint; False if they were as they should be."""
        name = node.metadata.name
        while True:
            found = await self._client.get(RAW_NODES, name)
            before = [
                each["status"]
                for each in found.get("status", {}).get("conditions") or ()
                if each["type"] == INTERRUPTION_CONDITION
            ]
            taints: list[JsonObject] = found.get("spec", {}).get("taints") or []
            desired = [each for each in taints if each["key"] != INTERRUPTION_TAINT]
            desired += [{"key": INTERRUPTION_TAINT, "effect": "NoSchedule"}] if is_tainted else []
            has_condition = before == [condition["status"]] or not (before or is_tainted)
            if len(desired) == len(taints) and has_condition:
                return False
            try:
                # The list is replaced, so it must not have changed since it was read.
                metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
                body: JsonObject = {"metadata": metadata, "spec": {"taints": desired}}
                await self._client.patch(NODES, name, body)
            except Conflict:
                continue
            body = {"status": {"conditions": [condition]}}
            await self._client.patch(
                NODES, name, body, subresource="status", patch_type=PatchType.STRATEGIC
            )
            return True


def _build_condition(status: str, reason: str, message: str, now: datetime) -> JsonObject:
    moment = format_rfc3339(now)
    return {
        "type": INTERRUPTION_CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
