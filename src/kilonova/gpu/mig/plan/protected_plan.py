"""Plans that leave alone what is reserved on a device, and what is in use there."""

import msgspec

from kilonova.gpu.mig.device_view import DeviceView
from kilonova.gpu.mig.plan.planner import DevicePlan, Refusal, RefusalReason, Target, plan_device
from kilonova.gpu.mig.reservations import ReservationTable
from kilonova.scheduler.core.gpu.mig import ProfileDemand


def plan_beside_reserved(
    view: DeviceView,
    table: ReservationTable,
    device: str,
    target: Target,
    *,
    knows_holders: bool,
    demand: ProfileDemand,
) -> DevicePlan:
    """The steps that bring a device (UUID) to a target, beside everything that is reserved.

    Until the holders are known for certain, everything that exists counts as in use.
    """
    known = view.device(device)
    if known is None:
        refusal = Refusal(RefusalReason.DEVICE_UNHEALTHY, f"{device} is no device of this node")
        return DevicePlan(device, (), (refusal,))
    reserved = table.pinned(device)
    slots = {each.slot for each in reserved}
    pinned = (*reserved, *(each for each in target.pinned if each.slot not in slots))
    if not target.mig_enabled and reserved:
        held = ", ".join(str(each.slot) for each in reserved)
        refusal = Refusal(RefusalReason.SLICES_IN_USE, f"{held} are reserved on {device}")
        return DevicePlan(device, (), (refusal,))
    complete = msgspec.structs.replace(target, pinned=pinned)
    protected = {
        each.uuid
        for each in view.states.instances()
        if each.device == device
        and (each.holder or view.has_processes(each.uuid) or not knows_holders)
    }
    in_use = bool(table.users_of(device)) or view.has_whole_processes(device) or not knows_holders
    return plan_device(known, complete, protected, is_in_use=in_use, demand=demand)
