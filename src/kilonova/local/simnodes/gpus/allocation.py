"""Allocation of a machine's GPUs to pods and claims. Pure.

A holder is a pod, or a ResourceClaim whatever pods use it. A holder whose devices a scheduler
assigned gets exactly those. Any other pod gets the first free ones, and is moved to others when a
holder with an assignment needs them: its devices were never announced.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.catalog.mig import MigGeometry

_WHOLE_GPU_MILLI = DeviceAssignment(0).milli


class GpuAllocation(msgspec.Struct, frozen=True, gc=False):
    """The devices of a holder, and whether a scheduler assigned them."""

    assignments: tuple[DeviceAssignment, ...]
    is_assigned: bool

    def uses_gpu(self, gpu: int) -> bool:
        return any(each.index == gpu for each in self.assignments)


GpuAllocations = Mapping[str, GpuAllocation]
"""By the uid of the pod, or of the claim."""


class MachineGpus(msgspec.Struct, frozen=True, gc=False):
    """The GPUs that are available, and where MIG instances may be on each of them."""

    available: Sequence[int]
    geometry: MigGeometry | None = None

    def instance_mask(self, assignment: DeviceAssignment) -> int | None:
        """The slices of a MIG instance; None if there can be no such instance."""
        profile = None if self.geometry is None else self.geometry.profile(assignment.profile)
        if profile is None or assignment.start not in profile.starts:
            return None
        return profile.mask_at(assignment.start)


def allocate_any(
    allocations: GpuAllocations, uid: str, count: int, gpus: MachineGpus
) -> dict[str, GpuAllocation] | None:
    """With the first free GPUs allocated to a pod; None if there are too few."""
    free = [
        gpu
        for gpu in gpus.available
        if not any(each.uses_gpu(gpu) for each in allocations.values())
    ]
    if len(free) < count:
        return None
    return {
        **allocations,
        uid: GpuAllocation(tuple(map(DeviceAssignment, free[:count])), is_assigned=False),
    }


def allocate_instances(
    allocations: GpuAllocations,
    uid: str,
    profiles: Sequence[str],
    gpus: MachineGpus,
    existing: Collection[DeviceAssignment] | None = None,
) -> dict[str, GpuAllocation] | None:
    """With the first free slices for MIG instances allocated to a pod, on GPUs that have instances
    if possible; None if there are too few. With `existing` only these instances are allocated."""
    held = [each for holding in allocations.values() for each in holding.assignments]
    found: list[DeviceAssignment] = []
    for name in profiles:
        profile = None if gpus.geometry is None else gpus.geometry.profile(name)
        if profile is None:
            return None
        sliced = {each.index for each in (*held, *found) if each.profile}
        options = [
            DeviceAssignment(gpu, 0, profile.name, start)
            for gpu in sorted(gpus.available, key=lambda gpu: (gpu not in sliced, gpu))
            for start in profile.starts
        ]
        if existing is not None:
            options = [each for each in options if each in existing]
        choice = next(
            (each for each in options if not _conflicts(each, [*held, *found], gpus)), None
        )
        if choice is None:
            return None
        found.append(choice)
    return {**allocations, uid: GpuAllocation(tuple(found), is_assigned=True)}


def allocate_assigned(
    allocations: GpuAllocations,
    uid: str,
    assignments: tuple[DeviceAssignment, ...],
    gpus: MachineGpus,
) -> dict[str, GpuAllocation] | None:
    """With the assigned devices allocated to a holder; None if others have them, or there are no
    such devices."""
    others = [
        each
        for holding in allocations.values()
        if holding.is_assigned
        for each in holding.assignments
    ]
    for new in assignments:
        if _conflicts(new, others, gpus):
            return None
        others.append(new)
    found: dict[str, GpuAllocation] | None = {
        **allocations,
        uid: GpuAllocation(assignments, is_assigned=True),
    }
    desired = {each.index for each in assignments}
    in_the_way = [
        (other, len(holding.assignments))
        for other, holding in allocations.items()
        if not holding.is_assigned and any(each.index in desired for each in holding.assignments)
    ]
    for other, _ in in_the_way:
        del found[other]
    for other, count in in_the_way:
        found = allocate_any(found, other, count, gpus)
        if found is None:
            return None
    return found


def _conflicts(
    new: DeviceAssignment, others: Iterable[DeviceAssignment], gpus: MachineGpus
) -> bool:
    """MIG instances may coexist on a GPU on different slices, and so may shares up to the whole
    compute capacity and the whole memory."""
    same_gpu = [each for each in others if each.index == new.index]
    if new.profile:
        mask = gpus.instance_mask(new)
        return mask is None or any(
            not each.profile or mask & (gpus.instance_mask(each) or 0) for each in same_gpu
        )
    return (
        any(each.profile for each in same_gpu)
        or sum(each.milli for each in same_gpu) + new.milli > _WHOLE_GPU_MILLI
        or sum(each.memory_milli for each in same_gpu) + new.memory_milli > _WHOLE_GPU_MILLI
    )
