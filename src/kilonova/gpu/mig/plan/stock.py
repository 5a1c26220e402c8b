"""Instances that are made in advance: how many of each profile, and on which devices. Pure.

A MIGStrategy's `profileDistribution` gives each profile a fraction of the capacity. Instances come
in whole numbers, and the fractions of a device rarely fit it: the numbers are rounded by largest
remainder within the capacity that the fractions ask for, and what then cannot be placed is left
out, and said.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.gpu.mig.plan.occupancy import profile_name
from kilonova.scheduler.core.gpu.mig import ProfileDemand, place_instances, remaining_value

_ROUNDING_ERROR = 1e-6


class StockDevice(msgspec.Struct, frozen=True):
    """A device that may hold stock."""

    uuid: str
    geometry: MigGeometry
    held: tuple[Slot, ...] = ()
    """What stays as it is: instances of pods, and all others where nothing may be replaced."""
    unused: tuple[Slot, ...] = ()
    """What may be replaced."""
    mig_enabled: bool = True


class StockPlan(msgspec.Struct, frozen=True):
    """What each device should have beside what it holds."""

    stock: Mapping[str, tuple[str, ...]]
    """Profiles by the UUID of the device, for `planner.Target.stock`."""
    wanted: Mapping[str, int]
    """How many instances of each profile there should be in all, held ones included."""
    missing: Mapping[str, int]
    """How many of those have no place."""


def count_by_distribution(
    devices: Sequence[StockDevice], distribution: Mapping[str, float]
) -> Mapping[str, int]:
    """How many instances of each profile make up these fractions of the capacity of the devices.

    A profile takes its fraction of the devices that have it.
    """
    ideal: dict[str, float] = {}
    shares: dict[str, float] = {}
    for name, fraction in distribution.items():
        able = [share for each in devices if (share := each.geometry.device_share(name))]
        if able:
            shares[name] = sum(able) / len(able)
            ideal[name] = sum(fraction / share for share in able)
    counts = {name: math.floor(count + _ROUNDING_ERROR) for name, count in ideal.items()}
    left = sum((ideal[name] - counts[name]) * shares[name] for name in ideal)
    by_remainder = sorted(ideal, key=lambda name: (counts[name] - ideal[name], shares[name], name))
    for name in by_remainder:
        if ideal[name] - counts[name] > _ROUNDING_ERROR and shares[name] <= left + _ROUNDING_ERROR:
            counts[name] += 1
            left -= shares[name]
    return counts


def plan_stock(
    devices: Sequence[StockDevice], wanted: Mapping[str, int], demand: ProfileDemand = ()
) -> StockPlan:
    """Distribute the wanted instances over the devices.

    What is there stays where it is; the rest goes to the device that loses least by it, devices
    that are not sliced yet last. Larger instances are placed first.
    """
    placement = _StockPlacement(devices, demand)
    missing_from_held = dict(wanted)
    for name in wanted:
        held = sum(_count(each, each.held, name) for each in devices)
        missing_from_held[name] = max(wanted[name] - held, 0)
    rest = placement.keep_existing(missing_from_held)
    missing: Counter[str] = Counter()
    for name in sorted(rest, key=placement.size_of, reverse=True):
        for _ in range(rest[name]):
            if not placement.place(name):
                missing[name] += 1
    return StockPlan(placement.stock(), dict(wanted), dict(missing))


class _StockPlacement:
    def __init__(self, devices: Sequence[StockDevice], demand: ProfileDemand) -> None:
        self._devices = devices
        self._demand = demand
        self._items: dict[str, list[str]] = {each.uuid: [] for each in devices}
        self._held = {each.uuid: _mask(each.geometry, each.held) for each in devices}

    def stock(self) -> Mapping[str, tuple[str, ...]]:
        return {uuid: tuple(items) for uuid, items in self._items.items()}

    def size_of(self, name: str) -> float:
        return max((each.geometry.device_share(name) or 0 for each in self._devices), default=0)

    def keep_existing(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Count what exists; returns what is still to be made."""
        rest = dict(wanted)
        for device in self._devices:
            for slot in device.unused:
                for name in rest:
                    same = profile_name(device.geometry, name) == slot.profile
                    if same and rest[name]:
                        rest[name] -= 1
                        self._items[device.uuid].append(name)
                        break
        return rest

    def place(self, name: str) -> bool:
        best: tuple[bool, bool, float] | None = None
        chosen = ""
        for device in self._devices:
            loss = self._loss(device, name)
            if loss is None:
                continue
            replaces = not self._fits_beside(device, name)
            key = (not device.mig_enabled and not self._items[device.uuid], replaces, loss)
            if best is None or key < best:
                best, chosen = key, device.uuid
        if best is None:
            return False
        self._items[chosen].append(name)
        return True

    def _loss(self, device: StockDevice, name: str) -> float | None:
        """How much remaining value the device loses by one more; None if it has no free slot."""
        if device.geometry.profile(name) is None:
            return None
        values = remaining_value(device.geometry, self._demand)
        items = self._items[device.uuid]
        before = self._place(device, items)
        after = self._place(device, [*items, name])
        if before is None or after is None:
            return None
        return round(float(values[before] - values[after]), 9)

    def _place(self, device: StockDevice, items: Sequence[str]) -> int | None:
        held = self._held[device.uuid]
        placed = place_instances(device.geometry, held, items, self._demand)
        if placed is None:
            return None
        return held | _mask(device.geometry, [Slot(name, start) for name, start in placed])

    def _fits_beside(self, device: StockDevice, name: str) -> bool:
        """Whether it fits without replacing what is there."""
        there = self._held[device.uuid] | _mask(device.geometry, device.unused)
        return bool(device.geometry.free_starts(there, name))


def _count(device: StockDevice, slots: Sequence[Slot], name: str) -> int:
    if device.geometry.profile(name) is None:
        return 0
    canonical = profile_name(device.geometry, name)
    return sum(slot.profile == canonical for slot in slots)


def _mask(geometry: MigGeometry, slots: Sequence[Slot]) -> int:
    mask = 0
    for slot in slots:
        profile = geometry.profile(slot.profile)
        mask |= 0 if profile is None else profile.mask_at(slot.start)
    return mask
