"""How a device gets from the instances that it has to those that it should have. Pure.

A **target** specifies what a device should have: **pinned** instances, each in its slot because the
scheduler has assigned it to a pod, and **stock**, further instances of a profile in any slot. An
instance that is **protected** (held by a pod, or with processes on it) stays as it is, whatever the
target says. What is there and wanted is kept; unused instances are destroyed only where something
else needs their slices, or where the target is to be met exactly. A partial instance, which a
program left that ended while it was making one, is of no use to anybody, and is destroyed.

The steps of a plan are valid in their order, and each of them leaves the device in a state from
which the next plan goes on.
"""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from enum import StrEnum
from itertools import combinations

import msgspec

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.gpu.devices.model import Device, HealthState, MigInstance
from kilonova.gpu.mig.plan.occupancy import (
    instance_mask,
    occupied_mask,
    profile_name,
    slot_of,
)
from kilonova.gpu.mig.plan.steps import (
    CreateInstance,
    DestroyInstance,
    DisableMode,
    EnableMode,
    ResetDevice,
    Step,
)
from kilonova.scheduler.core.gpu.mig import ProfileDemand, place_instances, remaining_value


class PinnedInstance(msgspec.Struct, frozen=True):
    """An instance that a holder, such as a pod, is to have in a certain slot."""

    slot: Slot
    holder: str = ""


class Target(msgspec.Struct, frozen=True):
    """What a device should have; `stock` most important first."""

    pinned: tuple[PinnedInstance, ...] = ()
    stock: tuple[str, ...] = ()
    is_exact: bool = False
    """Destroy unused instances that are not wanted."""
    mig_enabled: bool = True


class RefusalReason(StrEnum):
    """Why a part of a target cannot be met now."""

    MIG_NOT_SUPPORTED = "MigNotSupported"
    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    DEVICE_IN_USE = "DeviceInUse"
    """MIG mode can only change while nothing uses the device."""
    UNKNOWN_PROFILE = "UnknownProfile"
    INVALID_START = "InvalidStart"
    SLICES_IN_USE = "SlicesInUse"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"


class Refusal(msgspec.Struct, frozen=True):
    """A part of a target that is not met: what, and why."""

    reason: RefusalReason
    message: str
    holder: str = ""


class DevicePlan(msgspec.Struct, frozen=True):
    """The steps for one device, and what they do not achieve."""

    device: str
    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()


def plan_device(
    device: Device,
    target: Target,
    protected: Set[str] = frozenset(),
    *,
    is_in_use: bool = False,
    demand: ProfileDemand = (),
) -> DevicePlan:
    """Plan the steps to a target.

    `protected` are UUIDs of instances that must stay; `is_in_use` indicates that pods or processes
    use the device as a whole. Between equal plans the one with the higher remaining value for
    `demand` is chosen.
    """
    if device.health.state is HealthState.UNHEALTHY:
        why = device.health.reasons[0] if device.health.reasons else "no reason given"
        return _refuse(device, RefusalReason.DEVICE_UNHEALTHY, f"the device is unhealthy: {why}")
    if not target.mig_enabled:
        return _plan_without_mig(device, protected)
    if device.geometry is None:
        return _refuse(
            device,
            RefusalReason.MIG_NOT_SUPPORTED,
            f"{device.product or 'the device'} does not support MIG",
        )
    if device.mig_enabled:
        return _InstancePlan(device, device.geometry, protected, demand).make(target)
    if is_in_use:
        return _refuse(
            device,
            RefusalReason.DEVICE_IN_USE,
            "MIG mode is disabled, and can only be enabled while nothing uses the device",
        )
    switch = ResetDevice(device.uuid) if device.mig_pending else EnableMode(device.uuid)
    plan = _InstancePlan(device, device.geometry, protected, demand).make(target)
    return msgspec.structs.replace(plan, steps=(switch, *plan.steps))


def _plan_without_mig(device: Device, protected: Set[str]) -> DevicePlan:
    if not device.mig_enabled:
        steps: tuple[Step, ...] = (DisableMode(device.uuid),) if device.mig_pending else ()
        return DevicePlan(device.uuid, steps)
    held = [instance for instance in device.instances if instance.uuid in protected]
    if held:
        return _refuse(
            device,
            RefusalReason.SLICES_IN_USE,
            f"MIG mode cannot be disabled while {_name_instances(held)} in use",
        )
    destroyed = [
        DestroyInstance(device.uuid, instance.uuid, Slot(instance.profile, instance.start))
        for instance in device.instances
    ]
    return DevicePlan(device.uuid, (*destroyed, DisableMode(device.uuid)))


class _InstancePlan:
    """One planning of the instances of a device with MIG."""

    def __init__(
        self, device: Device, geometry: MigGeometry, protected: Set[str], demand: ProfileDemand
    ) -> None:
        self._device = device
        self._geometry = geometry
        self._demand = demand
        self._held = [each for each in device.instances if each.uuid in protected]
        self._unused = [each for each in device.instances if each.uuid not in protected]
        self._occupied = occupied_mask(geometry, self._held)
        self._created: list[CreateInstance] = []
        self._refusals: list[Refusal] = []

    def make(self, target: Target) -> DevicePlan:
        self._pin(target.pinned)
        candidates = [
            each
            for each in self._unused
            if not each.is_partial and not self._mask_of(each) & self._occupied
        ]
        kept, created = self._choose_stock(candidates, target)
        kept_uuids = {each.uuid for each in kept} | self._pinned_uuids
        destroyed = [
            DestroyInstance(self._device.uuid, each.uuid, slot_of(self._geometry, each))
            for each in self._unused
            if each.uuid not in kept_uuids
        ]
        return DevicePlan(
            self._device.uuid,
            (*destroyed, *self._created, *created),
            tuple(self._refusals),
        )

    def _mask_of(self, instance: MigInstance) -> int:
        return instance_mask(self._geometry, instance)

    def _pin(self, pinned: Sequence[PinnedInstance]) -> None:
        """Keep or create the pinned instances; those that exist go first."""
        existing = {
            slot_of(self._geometry, each): each
            for each in self._device.instances
            if not each.is_partial
        }
        self._pinned_uuids: set[str] = set()
        missing: list[PinnedInstance] = []
        for each in pinned:
            slot = Slot(profile_name(self._geometry, each.slot.profile), each.slot.start)
            instance = existing.get(slot)
            if instance is None:
                missing.append(msgspec.structs.replace(each, slot=slot))
            else:
                self._pinned_uuids.add(instance.uuid)
                self._occupied |= self._mask_of(instance)
        for each in missing:
            self._pin_new(each)

    def _pin_new(self, pinned: PinnedInstance) -> None:
        profile = self._geometry.profile(pinned.slot.profile)
        if profile is None:
            self._refuse(RefusalReason.UNKNOWN_PROFILE, self._unknown(pinned.slot), pinned.holder)
        elif pinned.slot.start not in profile.starts:
            starts = ", ".join(map(str, profile.starts))
            self._refuse(
                RefusalReason.INVALID_START,
                f"{pinned.slot}: {profile.name} starts at {starts}",
                pinned.holder,
            )
        elif (mask := profile.mask_at(pinned.slot.start)) & self._occupied:
            holders = [each for each in self._held if self._mask_of(each) & mask]
            by = f": {_name_instances(holders)} in use" if holders else " by another assignment"
            self._refuse(
                RefusalReason.SLICES_IN_USE,
                f"the slices of {pinned.slot} are occupied{by}",
                pinned.holder,
            )
        else:
            self._occupied |= mask
            self._created.append(CreateInstance(self._device.uuid, pinned.slot, pinned.holder))

    def _choose_stock(
        self, candidates: Sequence[MigInstance], target: Target
    ) -> tuple[Sequence[MigInstance], list[CreateInstance]]:
        """Which unused instances to keep, and what to create beside them."""
        wanted: list[str] = []
        for name in target.stock:
            if self._geometry.profile(name) is None:
                self._refuse(RefusalReason.UNKNOWN_PROFILE, self._unknown(Slot(name, 0)))
            else:
                wanted.append(profile_name(self._geometry, name))
        best = self._best_stock(candidates, wanted, target.is_exact)
        if best is None:
            wanted = self._reduce_stock(candidates, wanted, target.is_exact)
            best = self._best_stock(candidates, wanted, target.is_exact)
        if best is None:
            raise AssertionError("stock that was tried fits")
        kept, slots = best
        return kept, [CreateInstance(self._device.uuid, slot) for slot in slots]

    def _reduce_stock(
        self, candidates: Sequence[MigInstance], wanted: Sequence[str], is_exact: bool
    ) -> list[str]:
        """Leave out what does not fit beside what is more important."""
        fitting: list[str] = []
        for name in wanted:
            if self._best_stock(candidates, [*fitting, name], is_exact) is None:
                self._refuse(
                    RefusalReason.INSUFFICIENT_CAPACITY,
                    f"no slices are left for {name} beside {self._describe_rest(fitting)}",
                )
            else:
                fitting.append(name)
        return fitting

    def _best_stock(
        self, candidates: Sequence[MigInstance], wanted: Sequence[str], is_exact: bool
    ) -> tuple[Sequence[MigInstance], Sequence[Slot]] | None:
        """The fewest steps to the wanted instances, then the highest remaining value."""
        values = remaining_value(self._geometry, self._demand)
        best: tuple[int, float] | None = None
        chosen: tuple[Sequence[MigInstance], Sequence[Slot]] | None = None
        for kept in _subsets(candidates):
            if best is not None and len(candidates) - len(kept) > best[0]:
                break  # the rest destroys more than this plan does in all
            profiles = Counter(profile_name(self._geometry, each.profile) for each in kept)
            missing = Counter(wanted) - profiles
            if is_exact and profiles - Counter(wanted):
                continue
            steps = len(candidates) - len(kept) + missing.total()
            if best is not None and steps > best[0]:
                continue
            mask = self._occupied | occupied_mask(self._geometry, kept)
            placed = place_instances(self._geometry, mask, missing.elements(), self._demand)
            if placed is None:
                continue
            slots = [Slot(name, start) for name, start in placed]
            for slot in slots:
                mask |= self._slot_mask(slot)
            if best is None or (steps, -float(values[mask])) < best:
                best, chosen = (steps, -float(values[mask])), (kept, slots)
        return chosen

    def _slot_mask(self, slot: Slot) -> int:
        profile = self._geometry.profile(slot.profile)
        return 0 if profile is None else profile.mask_at(slot.start)

    def _unknown(self, slot: Slot) -> str:
        names = ", ".join(profile.name for profile in self._geometry.profiles)
        return f"{slot.profile!r} is no profile of {self._geometry.name}: {names}"

    def _describe_rest(self, fitting: Sequence[str]) -> str:
        held = [f"{each.profile}@{each.start}" for each in self._held]
        return ", ".join([*held, *(str(each.slot) for each in self._created), *fitting]) or "none"

    def _refuse(self, reason: RefusalReason, message: str, holder: str = "") -> None:
        self._refusals.append(Refusal(reason, message, holder))


def _subsets(instances: Sequence[MigInstance]) -> Iterator[Sequence[MigInstance]]:
    """All subsets, the largest first; a device has at most seven instances."""
    for size in range(len(instances), -1, -1):
        yield from combinations(instances, size)


def _name_instances(instances: Sequence[MigInstance]) -> str:
    names = ", ".join(f"{each.profile}@{each.start}" for each in instances)
    return f"{names} {'is' if len(instances) == 1 else 'are'}"


def _refuse(device: Device, reason: RefusalReason, message: str) -> DevicePlan:
    return DevicePlan(device.uuid, (), (Refusal(reason, message),))
