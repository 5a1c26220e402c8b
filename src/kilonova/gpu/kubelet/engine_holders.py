"""Who holds what, for the MIG engine, which changes nothing before it knows.

The pods of the API are not enough: claims, and pods that another scheduler has bound, have devices
that only the checkpoint has.
"""

from collections.abc import Sequence

from kilonova.catalog.mig import Slot
from kilonova.gpu.kubelet.holdings import Holding
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest


def list_holders(holdings: Sequence[Holding]) -> dict[str, ReservedDevices]:
    """What holders have, by the uid of the pod or claim. Pure."""
    slots: dict[str, set[SlotRequest]] = {}
    devices: dict[str, set[str]] = {}
    for holding in holdings:
        own, used = slots.setdefault(holding.uid, set()), devices.setdefault(holding.uid, set())
        for each in holding.devices:
            assignment = each.assignment
            if each.is_admin:
                continue
            if assignment.profile:
                slot = Slot(assignment.profile, assignment.start)
                own.add(SlotRequest(each.device, slot))
            else:
                used.add(each.device)
    return {
        uid: ReservedDevices(tuple(sorted(own)), tuple(sorted(devices[uid])))
        for uid, own in slots.items()
    }
