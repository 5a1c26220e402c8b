"""Bound pods as placements, with their assigned or presumed devices."""

from kilonova.api.gpu.annotations import DEVICES, InvalidAnnotation
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.gpus import convert_devices
from kilonova.scheduler.convert.pods.affinity import NamespaceLabels
from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod, effective_requests
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.gpu.selection import select_devices
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Pod


def convert_placed_pod(
    snapshot: Snapshot, row: int, pod: Pod, member: Member, gang: str
) -> PodPlacement:
    """A bound pod as a placement. Without a valid device annotation some free devices are presumed
    to be in use, so that no other pod gets them."""
    claims = tuple(map(snapshot.claims.allocation_of, member.claims))
    return PodPlacement(
        member, row, _placed_devices(snapshot, row, pod, member.shape), gang, claims
    )


def convert_pod_leniently(pod: Pod, namespaces: NamespaceLabels) -> Member:
    """The usage of a pod, even if its requests are invalid."""
    try:
        return convert_pod(pod, namespaces)
    except InvalidRequest:
        amounts = effective_requests(pod)
        gpus = amounts.get(GPU, 0)
        shape = Shape(tuple(sorted(amounts.items())), GpuRequest(gpus) if gpus else None)
        return Member(pod.key, shape, pod.metadata.labels)


def bound_since(pod: Pod) -> str:
    """When a pod was bound to its node; empty if it is not.

    The kubelet's start time is best, but a kubelet may be unavailable. Then the time of the
    `PodScheduled` condition, and for a pod created with a node its creation.
    """
    if pod.status.start_time or not pod.spec.node_name:
        return pod.status.start_time or ""
    bound = (
        each.last_transition_time
        for each in pod.status.conditions
        if each.type == "PodScheduled" and each.status == "True" and each.last_transition_time
    )
    return next(bound, pod.metadata.creation_timestamp)


def _placed_devices(snapshot: Snapshot, row: int, pod: Pod, shape: Shape) -> tuple[GpuShare, ...]:
    layout = snapshot.layout(row)
    text = pod.metadata.annotations.get(DEVICES)
    if text is not None:
        shares = convert_devices(text, layout)
        if not isinstance(shares, InvalidAnnotation) and not _has_mig_conflict(
            snapshot, row, shares
        ):
            return shares
    if shape.gpu is None:
        return ()
    size = len(layout.gpus)
    free, masks = snapshot.gpu_free[row, :size].tolist(), snapshot.gpu_mask[row, :size].tolist()
    memory = snapshot.free_gpu_memory(row)
    choice = select_devices(layout, free, masks, shape.gpu, free_memory=memory)
    return () if choice is None else choice.shares


def _has_mig_conflict(snapshot: Snapshot, row: int, shares: tuple[GpuShare, ...]) -> bool:
    """Whether another pod already uses one of the MIG slices."""
    masks = snapshot.gpu_mask[row] & ~snapshot.gpu_claimed[row]
    return any(int(masks[share.index]) & share.mask for share in shares)
