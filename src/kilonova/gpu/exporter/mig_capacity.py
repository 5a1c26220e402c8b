"""How much of a device's MIG capacity is free, and whether it is in one piece. Pure.

Instances that no pod has count as free: the agent destroys them for others. Free memory slices are
fragmented if a profile of that many slices would fit on an empty device, but does not fit here.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kilonova.catalog.mig import MEMORY_SLICES, MigGeometry
from kilonova.gpu.devices.model import Device, MigInstance
from kilonova.gpu.exporter.attribution import Attribution
from kilonova.gpu.exporter.metrics import Sample, gauge
from kilonova.gpu.exporter.model import NodeReading

_FREE = gauge("kilonova_mig_free_slices", "Memory slices of a GPU in MIG mode that no pod has.")
_LARGEST = gauge(
    "kilonova_mig_largest_free_slices",
    "Memory slices of the largest profile that still fits on a GPU in MIG mode.",
)
_FRAGMENTATION = gauge(
    "kilonova_mig_fragmentation_ratio",
    "How much smaller the largest profile that fits is than one of the free slices would allow.",
)


class MigCapacity(msgspec.Struct, frozen=True):
    """The free memory slices of a device, and the largest profile that fits into them."""

    free: int
    largest: int
    possible: int
    """The slices of the largest profile that as many free slices would allow."""

    @property
    def fragmentation(self) -> float:
        """0 is none; 1: slices are free, and nothing fits."""
        return 1 - self.largest / self.possible if self.possible else 0.0


def measure_capacity(geometry: MigGeometry, held: Iterable[MigInstance]) -> MigCapacity:
    """What is free beside the instances that are held."""
    mask = 0
    for each in held:
        profile = geometry.profile(each.profile)
        mask |= (
            ((1 << each.slices) - 1) << each.start
            if profile is None
            else profile.mask_at(each.start)
        )
    total = max((max(x.starts) + x.slices for x in geometry.profiles), default=MEMORY_SLICES)
    free = total - (mask & ((1 << total) - 1)).bit_count()
    profiles = geometry.distinct_profiles
    fitting = (x.slices for x in profiles if geometry.free_starts(mask, x.name))
    allowed = (x.slices for x in profiles if x.slices <= free)
    return MigCapacity(free, max(fitting, default=0), max(allowed, default=0))


def list_capacity_samples(reading: NodeReading, attribution: Attribution) -> Iterator[Sample]:
    """The samples of devices in MIG mode."""
    for device in reading.inventory.devices:
        if not device.mig_enabled or device.geometry is None:
            continue
        capacity = measure_capacity(device.geometry, _held(device, attribution))
        labels = {"node": reading.node, "gpu": str(device.index), "UUID": device.uuid}
        yield Sample(_FREE, labels, capacity.free)
        yield Sample(_LARGEST, labels, capacity.largest)
        yield Sample(_FRAGMENTATION, labels, round(capacity.fragmentation, 4))


def _held(device: Device, attribution: Attribution) -> Iterator[MigInstance]:
    return (x for x in device.instances if attribution.uses_of_instance(device, x))
