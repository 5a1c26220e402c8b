"""Which devices no pod may get as a whole, because they are to be sliced. Pure.

On a fresh node a pod could start on a whole GPU before it is sliced, and then keep it from ever
being sliced. So a device that is to have MIG instances is **withheld** from whole-GPU resources
from the moment that this is known, and not only once MIG mode is enabled.
"""

from collections.abc import Mapping

import msgspec

from kilonova.gpu.devices.model import Device, NodeInventory


class WithheldDevice(msgspec.Struct, frozen=True):
    """A device that is not offered as a whole, and why."""

    uuid: str
    reason: str


def withheld_devices(
    inventory: NodeInventory,
    to_be_sliced: Mapping[str, str],
    *,
    is_decided: bool = True,
) -> tuple[WithheldDevice, ...]:
    """The devices of a node that no pod may get as a whole.

    `to_be_sliced` says why devices, by their UUID, are to be sliced: by a config, a strategy or a
    reservation. Until that is known (`is_decided`), such as before the
    node and its strategies have been read, every device that supports MIG is withheld.
    """
    found: list[WithheldDevice] = []
    for device in inventory.devices:
        reason = _reason(device, to_be_sliced, is_decided)
        if reason:
            found.append(WithheldDevice(device.uuid, reason))
    return tuple(found)


def _reason(device: Device, to_be_sliced: Mapping[str, str], is_decided: bool) -> str:
    if device.mig_enabled:
        return "MIG mode is enabled"
    if device.mig_pending:
        return "MIG mode is enabled from the next reset on"
    if device.uuid in to_be_sliced:
        return to_be_sliced[device.uuid]
    if not is_decided and device.geometry is not None:
        return "it is not known yet whether it is to be sliced"
    return ""
