"""Faults that are injected into simulated nodes reach their devices. Pure decisions.

Lost devices are a state, in an annotation of the Node. An XID is an occurrence: its annotation is
removed as soon as it has had its effect, so each change of the Node is looked at.
"""

from datetime import datetime

from kilonova.api.nodes.simulated_faults import LOST_GPUS_ANNOTATION, XID_ANNOTATION, parse_faults
from kilonova.catalog.xids import XidAction, find_xid
from kilonova.gpu.agent.resources import Node
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import HealthState
from kilonova.gpu.devices.simulated import SimulatedBackend

Xid = tuple[int, int]
"""The code and the index of the device."""


def find_new_xid(old: Node | None, new: Node, now: datetime) -> Xid | None:
    """The XID that a change of a Node injects."""
    text = new.metadata.annotations.xid
    if not text or (old is not None and old.metadata.annotations.xid == text):
        return None
    return parse_faults({XID_ANNOTATION: text}, now).xid


def apply_lost_devices(backend: SimulatedBackend, node: Node, now: datetime) -> bool:
    """Lose devices, and bring back those whose fault has ended; whether anything changed."""
    text = node.metadata.annotations.lost_gpus
    lost = parse_faults({LOST_GPUS_ANNOTATION: text}, now).lost_gpus if text else frozenset[int]()
    has_changed = False
    for device in backend.read_inventory().devices:
        is_lost = device.health.state is HealthState.UNHEALTHY
        if device.index in lost and not is_lost:
            backend.lose(device.uuid)
            has_changed = True
        elif is_lost and device.index not in lost:
            backend.reset(device.uuid)
            has_changed = True
    return has_changed


def apply_xid(backend: SimulatedBackend, xid: Xid) -> None:
    """An XID occurs on a device. One that takes a device off the bus is injected as a loss by
    a client that wants it to last; here the device comes back."""
    code, index = xid
    devices = backend.read_inventory().devices
    if index >= len(devices):
        return
    uuid = devices[index].uuid
    try:
        backend.inject_xid(uuid, code)
        if find_xid(code).action is XidAction.RESTART_NODE:
            backend.lose(uuid, until="reset")
    except GpuError:
        return  # it is lost already
