"""Compares the devices that pods were assigned with those that they have. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.devices.model import DeviceTelemetry, NodeInventory

PodUsage = Mapping[str, frozenset[str]]
"""UUIDs of the devices, or MIG instances, that are used by a pod, by the UID of the pod."""


class Mismatch(msgspec.Struct, frozen=True, order=True):
    """A pod on a device that it was not assigned."""

    pod: str
    """UID of the pod."""
    used: str
    """In words: `GPU 3`, `1g.10gb@4 on GPU 2`."""
    assigned: str


def find_mismatches(
    inventory: NodeInventory, holders: Sequence[Holder], usage: PodUsage
) -> tuple[Mismatch, ...]:
    """The pods that use what they were not assigned. A pod that uses less is no mismatch: it may
    not have started to."""
    names = _name_parts(inventory)
    found: list[Mismatch] = []
    for holder in holders:
        expected = _expected(inventory, holder)
        assigned = ",".join(map(str, holder.devices))
        for uuid in sorted(usage.get(holder.uid, frozenset()) - expected):
            found.append(Mismatch(holder.uid, names.get(uuid, uuid), assigned))
    return tuple(sorted(found))


def usage_by_processes(
    inventory: NodeInventory,
    samples: Iterable[DeviceTelemetry],
    pod_of: Mapping[int, str],
) -> dict[str, frozenset[str]]:
    """What pods use, by their processes; `pod_of` is the UID of the pod of a process."""
    used: dict[str, set[str]] = {}
    for sample in samples:
        device = inventory.find(sample.uuid)
        if device is None:
            continue
        instances = {each.gpu_instance: each.uuid for each in device.instances}
        for process in sample.processes:
            pod = pod_of.get(process.pid)
            if pod is None:
                continue
            target = device.uuid
            if process.gpu_instance is not None:
                target = instances.get(process.gpu_instance, "")
            if target:
                used.setdefault(pod, set()).add(target)
    return {pod: frozenset(each) for pod, each in used.items()}


def _expected(inventory: NodeInventory, holder: Holder) -> frozenset[str]:
    devices = {each.index: each for each in inventory.devices}
    expected: set[str] = set()
    for each in holder.devices:
        device = devices.get(each.index)
        if device is None:
            continue
        if not each.profile:
            expected.add(device.uuid)
            continue
        place = (each.profile, each.start)
        expected |= {x.uuid for x in device.instances if (x.profile, x.start) == place}
    return frozenset(expected)


def _name_parts(inventory: NodeInventory) -> dict[str, str]:
    names = {each.uuid: f"GPU {each.index}" for each in inventory.devices}
    for device in inventory.devices:
        for each in device.instances:
            names[each.uuid] = f"{each.profile}@{each.start} on GPU {device.index}"
    return names
