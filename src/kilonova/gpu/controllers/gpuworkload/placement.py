"""Which devices the scheduler chose for a workload, and how good they are. Pure.

The choice is read from the pods' annotation, the devices from that of their nodes; scores and
bandwidth come from the tables by which the scheduler chose.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.api.gpu.annotations import (
    DEVICES,
    DeviceAssignment,
    InvalidAnnotation,
    parse_devices,
)
from kilonova.api.kgwe import AllocatedMigInstance, ScoreParts
from kilonova.api.kgwe.requirements import Preference
from kilonova.gpu.controllers.node_devices import DevicesOfNode
from kilonova.scheduler.core.gpu.device_sets import MAX_DEVICES
from kilonova.scheduler.core.model.requests import GpuPreference
from kilonova.scheduler.objects.core_v1 import Pod

ReadDevices = Callable[[str], DevicesOfNode | None]
"""The devices of a node by its name; None if there is no such node."""


@dataclass(frozen=True, slots=True)
class WorkloadPlacement:
    """The devices of all pods that have some."""

    gpus: tuple[str, ...] = ()
    """UUIDs, each once."""
    instances: tuple[AllocatedMigInstance, ...] = ()
    topology_score: int | None = None
    bandwidth: float | None = None
    """GB/s; None for single devices."""

    def rate(self, locality: float | None) -> tuple[int | None, ScoreParts | None]:
        """The score and its parts. `locality` is how close to each other the pods are, up to 1."""
        near = None if locality is None else round(100 * locality)
        parts = [each for each in (self.topology_score, near) if each is not None]
        if not parts:
            return None, None
        return round(sum(parts) / len(parts)), ScoreParts(self.topology_score, near)


def read_placement(
    pods: Sequence[Pod], preference: Preference, read_devices: ReadDevices
) -> WorkloadPlacement:
    """The placement of the pods that are bound, in their order."""
    gpus: dict[str, None] = {}
    instances: list[AllocatedMigInstance] = []
    scores: list[float] = []
    bandwidths: list[float] = []
    for pod in pods:
        assignments = _list_assignments(pod)
        devices = read_devices(pod.spec.node_name) if pod.spec.node_name else None
        if not assignments or devices is None:
            continue
        for each in assignments:
            uuid = _get_uuid(devices, each.index, pod.spec.node_name)
            gpus[uuid] = None
            if each.profile:
                instances.append(_find_instance(devices, each, uuid, pod.spec.node_name))
        measured = _rate_devices(devices, assignments, GpuPreference(preference))
        if measured is not None:
            scores.append(measured[0])
            bandwidths.append(measured[1])
    known = [each for each in bandwidths if math.isfinite(each) and each > 0]
    return WorkloadPlacement(
        tuple(gpus),
        tuple(instances),
        round(sum(scores) / len(scores)) if scores else None,
        min(known) if known else None,
    )


def _list_assignments(pod: Pod) -> tuple[DeviceAssignment, ...]:
    found = parse_devices(pod.metadata.annotations.get(DEVICES, ""))
    return () if isinstance(found, InvalidAnnotation) else found


def _get_uuid(devices: DevicesOfNode, index: int, node: str) -> str:
    known = devices.topology.gpus
    return (known[index].uuid if index < len(known) else "") or f"{index}@{node}"


def _find_instance(
    devices: DevicesOfNode, assignment: DeviceAssignment, gpu: str, node: str
) -> AllocatedMigInstance:
    known = devices.topology.gpus
    existing = known[assignment.index].instances if assignment.index < len(known) else ()
    wanted = assignment.profile, assignment.start
    uuid = next((each.uuid for each in existing if (each.profile, each.start) == wanted), "")
    return AllocatedMigInstance(gpu, uuid, assignment.profile, node)


def _rate_devices(
    devices: DevicesOfNode, assignments: Sequence[DeviceAssignment], preference: GpuPreference
) -> tuple[float, float] | None:
    """The score of a pod's devices, and GB/s between them; None if the node is not known."""
    count = len(devices.layout.gpus)
    if any(each.index >= count for each in assignments):
        return None
    if any(not each.is_whole for each in assignments) or len(assignments) == 1:
        return 100.0, math.inf
    if count > MAX_DEVICES:
        return None
    chosen = sum(1 << index for index in {each.index for each in assignments})
    sets = devices.layout.device_sets
    return sets.score(chosen, preference), float(sets.bandwidth[chosen])
