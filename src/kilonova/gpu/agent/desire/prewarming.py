"""MIG instances that are made before a pod requests them, as learnt from earlier pods. Pure.

Devices that a MIGStrategy or a config speaks of have the stock that it says. Of the others, those
that are in MIG mode already keep as many unused instances of each profile as pods are likely to ask
for soon; what exists counts. A device does not enter MIG mode for that, and leaves it as ever where
a pod gets the whole of it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set

from kilonova.catalog.mig import Slot
from kilonova.gpu.agent.desire.mig import Stock
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory
from kilonova.gpu.mig.plan.stock import StockDevice, plan_stock


def plan_prewarming(
    inventory: NodeInventory,
    holders: Sequence[Holder],
    expected: Mapping[str, int],
    decided: Set[str] = frozenset(),
) -> Mapping[str, Stock]:
    """The stock of devices, by UUID, for so many further instances of each profile. `decided` are
    the UUIDs of devices whose stock is decided otherwise."""
    if not expected:
        return {}
    whole = {each.index for holder in holders for each in holder.devices if not each.profile}
    devices = [
        _stock_device(device, holders)
        for device in inventory.devices
        if device.mig_enabled
        and device.geometry is not None
        and device.uuid not in decided
        and device.index not in whole
        and device.health.state is not HealthState.UNHEALTHY
    ]
    held = Counter(slot.profile for device in devices for slot in device.held)
    wanted = {profile: held[profile] + count for profile, count in expected.items()}
    plan = plan_stock(devices, wanted)
    return {uuid: Stock(profiles) for uuid, profiles in plan.stock.items() if profiles}


def _stock_device(device: Device, holders: Sequence[Holder]) -> StockDevice:
    assert device.geometry is not None
    held = {
        Slot(each.profile, each.start)
        for holder in holders
        for each in holder.devices
        if each.index == device.index and each.profile
    }
    present = {Slot(x.profile, x.start) for x in device.instances if not x.is_partial}
    return StockDevice(
        device.uuid, device.geometry, tuple(sorted(held)), tuple(sorted(present - held))
    )
