"""The accelerators of a node: their states, and who holds them.

An **accelerator** is one unit of an extended resource of a node. GPUs are known one by one. Of
other resources only the amounts are known: pods hold the first accelerators of a node, in the order
of their names. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kilonova.api.gpu.annotations import InvalidAnnotation, parse_devices
from kilonova.catalog.resource_names import GPU, profile_of_resource
from kilonova.instances.fit.claimed_gpus import ClaimedGpu
from kilonova.instances.fit.holders import Holder, find_holder
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.library.copies import CopyPod

AcceleratorState = Literal["Free", "Used", "Partial", "Unhealthy", "Withheld", "Unavailable"]
"""Partial ones are shared or have MIG instances. Withheld ones serve MIG instances only.
Unavailable ones are free, and their node is cordoned or not ready."""

_MAX_ACCELERATORS = 1024
"""Of one node: its capacity may be any number."""


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The state of an accelerator. Of several holders, the one that has most of it."""

    state: AcceleratorState
    holder: Holder | None = None
    is_next: bool = False
    """The next copy of the build would have it."""


@dataclass(frozen=True, slots=True)
class NodePods:
    """What is used of a node: by pods that are placed on it, and GPUs by claims."""

    placed: Sequence[PodPlacement]
    claimed: Sequence[ClaimedGpu] = ()


def view_accelerators(
    node: Node, resource: str, pods: NodePods, *, is_schedulable: bool
) -> list[Accelerator]:
    """The accelerators of a node, by index."""
    free = _FREE if is_schedulable else _UNAVAILABLE
    offered = max(0, min(node.allocatable.get(resource, 0), _MAX_ACCELERATORS))
    if resource != GPU or node.layout is None:
        found = [free] * offered
    else:
        found = [
            _UNHEALTHY if not gpu.healthy else _WITHHELD if gpu.withheld else free
            for gpu in node.layout.gpus
        ]
    unassigned: list[Holder] = []
    shares: dict[int, list[tuple[GpuShare, Holder]]] = defaultdict(list)
    for placement in sorted(pods.placed, key=lambda each: each.pod):
        amount = 0
        if resource != GPU:
            amount = _count_requested(placement, resource)
        elif placement.devices:
            holder = find_holder(placement)
            for share in placement.devices:
                shares[share.index].append((share, holder))
        elif placement.shape.gpu is not None and placement.shape.gpu.is_whole:
            amount = placement.shape.gpu.count
        if amount:
            unassigned += [find_holder(placement)] * amount
    for each in pods.claimed:
        shares[each.share.index].append((each.share, each.holder))
    for index, held in shares.items():
        if index < len(found):
            found[index] = _held_accelerator(found[index], held)
    for index, each in enumerate(found):
        if unassigned and each.holder is None and each.state != "Unhealthy":
            found[index] = Accelerator("Used", unassigned.pop(0))
    return found


def _count_requested(placement: PodPlacement, resource: str) -> int:
    """The amount of a resource other than whole GPUs; MIG instances are requested as GPUs."""
    gpu, profile = placement.shape.gpu, profile_of_resource(resource)
    if profile is not None:
        return gpu.count if gpu is not None and gpu.profile == profile else 0
    return dict(placement.shape.requests).get(resource, 0)


def _held_accelerator(present: Accelerator, held: Sequence[tuple[GpuShare, Holder]]) -> Accelerator:
    """An unhealthy accelerator stays one, with its holder."""
    largest, holder = max(held, key=lambda one: (one[0].milli, bin(one[0].mask).count("1")))
    if present.state == "Unhealthy":
        return Accelerator("Unhealthy", holder)
    is_whole = largest == GpuShare(largest.index)
    return Accelerator("Used" if is_whole else "Partial", holder)


def mark_next(
    found: Sequence[Accelerator], resource: str, pods: Iterable[CopyPod]
) -> list[Accelerator]:
    """The accelerators of a node with those that pods of the next copy would have."""
    marked = list(found)
    for pod in pods:
        devices = parse_devices(pod.devices) if resource == GPU and pod.devices else ()
        if isinstance(devices, InvalidAnnotation):
            continue
        indexes = [each.index for each in devices]
        if not indexes:
            free = (i for i, each in enumerate(marked) if each.state == "Free" and not each.is_next)
            indexes = [i for i, _ in zip(free, range(pod.resources.get(resource, 0)), strict=False)]
        for index in indexes:
            if index < len(marked):
                marked[index] = replace(marked[index], is_next=True)
    return marked


_FREE, _UNAVAILABLE = Accelerator("Free"), Accelerator("Unavailable")
_UNHEALTHY, _WITHHELD = Accelerator("Unhealthy"), Accelerator("Withheld")
