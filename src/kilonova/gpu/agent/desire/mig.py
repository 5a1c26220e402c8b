"""The MIG instances that the devices of a node should have. Pure.

Instances that the scheduler assigned to pods are made in their place; further ones are **stock**,
as a MIGStrategy or the label `nvidia.com/mig.config` says. An instance that is neither is **idle**:
it is kept for some time, for the next pod, unless something else needs its slices. A device whose
instances are all idle for longer leaves MIG mode, and so does one that is assigned as a whole.
"""

from collections.abc import Mapping, Sequence, Set

import msgspec

from kilonova.api.gpu.health import HealthRecord
from kilonova.catalog.mig import Slot
from kilonova.gpu.agent.desire.conditions import MigProblem
from kilonova.gpu.agent.desire.topology import unhealthy_reason
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.mig.plan.planner import PinnedInstance, Target

CREATING = "CreatingInstances"


class Stock(msgspec.Struct, frozen=True):
    """What a device should have beside what pods have."""

    profiles: tuple[str, ...] = ()
    is_exact: bool = False
    """Whether unused instances that are not in stock are destroyed at once."""
    mig_enabled: bool = True


class DesiredMig(msgspec.Struct, frozen=True):
    """Targets by the UUID of the device; those without one stay as they are."""

    targets: Mapping[str, Target] = {}
    protected: frozenset[str] = frozenset()
    """The UUIDs of instances that pods have."""
    used_whole: frozenset[str] = frozenset()
    """The UUIDs of devices that pods have as a whole, or shares of."""


def desire_mig(
    inventory: NodeInventory,
    holders: Sequence[Holder],
    health: Mapping[str, HealthRecord],
    stock: Mapping[str, Stock],
    expired: Set[str] = frozenset(),
) -> DesiredMig:
    """What the devices should have. `expired` are the UUIDs of devices whose instances have been
    idle for long enough."""
    targets: dict[str, Target] = {}
    protected: set[str] = set()
    used_whole: set[str] = set()
    for device in inventory.devices:
        pinned = tuple(_pinned(device, holders))
        is_whole = any(
            each.index == device.index and not each.profile
            for holder in holders
            for each in holder.devices
        )
        slots = {each.slot for each in pinned}
        protected |= {
            each.uuid for each in device.instances if Slot(each.profile, each.start) in slots
        }
        if is_whole:
            used_whole.add(device.uuid)
        if unhealthy_reason(device, health):
            continue
        target = _choose_target(
            device, pinned, stock.get(device.uuid), is_whole, device.uuid in expired
        )
        if target is not None:
            targets[device.uuid] = target
    return DesiredMig(targets, frozenset(protected), frozenset(used_whole))


def is_idle(device: Device, desired: DesiredMig, stock: Mapping[str, Stock]) -> bool:
    """Whether a device is in MIG mode for nothing."""
    wanted = stock.get(device.uuid)
    return (
        device.mig_enabled
        and not any(each.uuid in desired.protected for each in device.instances)
        and not (device.uuid in desired.targets and desired.targets[device.uuid].pinned)
        and (wanted is None or not wanted.mig_enabled)
    )


def list_pending(inventory: NodeInventory, desired: DesiredMig) -> list[MigProblem]:
    """The assigned instances that do not exist yet, and whole devices still in MIG mode."""
    pending: list[MigProblem] = []
    for device in inventory.devices:
        target = desired.targets.get(device.uuid)
        if target is None:
            continue
        if device.mig_enabled and device.uuid in desired.used_whole:
            message = f"disabling MIG mode of GPU {device.index}"
            pending.append(MigProblem("DisablingMIGMode", message, is_pending=True))
        existing = {Slot(each.profile, each.start) for each in device.instances}
        pending += [
            MigProblem(
                CREATING,
                f"creating {each.slot} on GPU {device.index} for {each.holder}",
                is_pending=True,
            )
            for each in target.pinned
            if each.slot not in existing
        ]
    return pending


def _choose_target(
    device: Device,
    pinned: tuple[PinnedInstance, ...],
    stock: Stock | None,
    is_whole: bool,
    is_expired: bool,
) -> Target | None:
    if is_whole and not pinned:
        return Target(mig_enabled=False) if device.mig_enabled else None
    if pinned:
        extra = stock or Stock()
        return Target(pinned, extra.profiles, extra.is_exact)
    if stock is not None:
        if not stock.mig_enabled:
            return Target(mig_enabled=False) if device.mig_enabled else None
        return Target((), stock.profiles, stock.is_exact)
    return Target(mig_enabled=False) if is_expired and device.mig_enabled else None


def _pinned(device: Device, holders: Sequence[Holder]) -> "list[PinnedInstance]":
    return [
        PinnedInstance(Slot(each.profile, each.start), holder.key)
        for holder in holders
        for each in holder.devices
        if each.index == device.index and each.profile
    ]
