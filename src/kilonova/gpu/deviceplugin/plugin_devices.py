"""Plugin devices: what the kubelet counts as devices. Pure.

`nvidia.com/gpu` has one for each GPU, with its UUID as id. A MIG profile has one for each
instance that a GPU could have (`UUID/1g.10gb/0`), all profiles at the same time: the scheduler
knows which can exist beside each other. Where another scheduler counts, it needs to know what
exists: `Advertisement.EXISTING`, with the UUIDs of instances as ids.

A GPU that is to be partitioned is **withheld**: those of the whole GPU and of its shares are
unhealthy, so that no scheduler counts them. They stay healthy for as long as a pod has them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.catalog.resource_names import GPU, mig_resource, profile_of_resource
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory

SHARED_GPU = "nvidia.com/gpu.shared"
"""Requested by pods with a share of a GPU, so that the kubelet asks for their devices, too."""
_USABLE = frozenset({HealthState.HEALTHY, HealthState.DEGRADED, HealthState.UNKNOWN})


class Advertisement(StrEnum):
    """Which MIG instances are counted."""

    POSSIBLE = "Possible"
    """As many as could exist, each profile for itself: for Kilonova's scheduler."""
    EXISTING = "Existing"
    """Those that exist; a GPU in MIG mode is no whole GPU."""


class PluginDevice(msgspec.Struct, frozen=True):
    """What the kubelet regards as one device."""

    id: str
    device: Device
    assignment: DeviceAssignment | None = None
    """What it is, if it can be nothing else."""
    is_withheld: bool = False
    """Whether its GPU is to be partitioned, and this is no part of that."""

    @property
    def is_healthy(self) -> bool:
        return is_usable(self.device) and not self.is_withheld


def is_usable(device: Device) -> bool:
    """Whether pods may get a device."""
    return device.health.state in _USABLE


def is_gpu_resource(name: str) -> bool:
    """Whether a device plugin of this node may have such a resource."""
    return name in (GPU, SHARED_GPU) or profile_of_resource(name) is not None


def resource_of(assignment: DeviceAssignment) -> str:
    """The resource that an assigned device is requested by."""
    if assignment.profile:
        return mig_resource(assignment.profile)
    return GPU if assignment.is_whole else SHARED_GPU


def build_plugin_devices(
    inventory: NodeInventory,
    advertisement: Advertisement = Advertisement.POSSIBLE,
    shares_per_gpu: int = 0,
    held: Collection[str] = (),
) -> Mapping[str, tuple[PluginDevice, ...]]:
    """The plugin devices of each resource that the node has. `held` are the UUIDs of the GPUs that
    pods have as a whole, or shares of."""
    found: dict[str, list[PluginDevice]] = {}
    for device in inventory.devices:
        existing = advertisement is Advertisement.EXISTING
        if not (existing and device.mig_enabled):
            whole = DeviceAssignment(device.index)
            is_withheld = bool(device.withheld) and device.uuid not in held
            found.setdefault(GPU, []).append(PluginDevice(device.uuid, device, whole, is_withheld))
            for number in range(shares_per_gpu):
                share = PluginDevice(f"{device.uuid}::{number}", device, is_withheld=is_withheld)
                found.setdefault(SHARED_GPU, []).append(share)
        for resource, each in _existing(device) if existing else _possible(device):
            found.setdefault(resource, []).append(each)
    return {resource: tuple(each) for resource, each in sorted(found.items())}


def prefer_devices(
    devices: Sequence[PluginDevice],
    available: Collection[str],
    required: Collection[str],
    size: int,
    assigned: Iterable[DeviceAssignment],
) -> tuple[str, ...]:
    """The ids that a container should get, as far as the kubelet lets it choose: those required,
    those of the assigned devices, then others on the fewest GPUs."""
    chosen = dict.fromkeys(sorted(required))
    open_ = [each for each in devices if each.id in available and each.id not in chosen]
    for wanted in assigned:
        matches = [each for each in open_ if each.device.index == wanted.index]
        exact = [each for each in matches if each.assignment in (wanted, None)]
        for each in (exact or matches)[:1]:
            chosen[each.id] = None
            open_.remove(each)
    free: dict[str, int] = {}
    for each in open_:
        free[each.device.uuid] = free.get(each.device.uuid, 0) + 1
    open_.sort(key=lambda each: (free[each.device.uuid], each.device.index))
    chosen.update((each.id, None) for each in open_)
    return tuple(chosen)[:size]


def _possible(device: Device) -> Iterator[tuple[str, PluginDevice]]:
    for profile in device.geometry.profiles if device.geometry is not None else ():
        for number in range(profile.limit):
            possible = PluginDevice(f"{device.uuid}/{profile.name}/{number}", device)
            yield mig_resource(profile.name), possible


def _existing(device: Device) -> Iterator[tuple[str, PluginDevice]]:
    for each in device.instances:
        assignment = DeviceAssignment(device.index, 0, each.profile, each.start)
        yield mig_resource(each.profile), PluginDevice(each.uuid, device, assignment)
