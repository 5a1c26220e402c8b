"""What the instances of a device occupy."""

from collections.abc import Iterable

from kilonova.catalog.mig import MEMORY_SLICES, MigGeometry, Slot
from kilonova.gpu.devices.model import MigInstance

_ALL_SLICES = (1 << MEMORY_SLICES) - 1


def profile_name(geometry: MigGeometry, name: str) -> str:
    """The name that the device uses for a profile that may be called by an alias."""
    profile = geometry.profile(name)
    return name if profile is None else profile.name


def slot_of(geometry: MigGeometry, instance: MigInstance) -> Slot:
    """The slot that an instance is in."""
    return Slot(profile_name(geometry, instance.profile), instance.start)


def instance_mask(geometry: MigGeometry, instance: MigInstance) -> int:
    """The mask of an instance; of one with an unknown profile, the slices that it reports."""
    profile = geometry.profile(instance.profile)
    if profile is not None:
        return profile.mask_at(instance.start)
    return ((1 << instance.slices) - 1) << instance.start & _ALL_SLICES


def occupied_mask(geometry: MigGeometry, instances: Iterable[MigInstance]) -> int:
    """The mask of all of them together."""
    mask = 0
    for instance in instances:
        mask |= instance_mask(geometry, instance)
    return mask
