"""Which GPUs of a node a pod gets, and the best score on thousands of nodes.

`select_devices` decides for one node, exactly: for whole devices the best set, for fractions the
devices with least left afterwards, for MIG instances the device and the start with the highest
remaining value. Equal states give equal results. `best_scores` and `count_fitting_pods` answer for
many nodes at once, from the tables of their layouts.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.mig import MigProfile
from kilonova.scheduler.core.gpu.device_sets import MAX_DEVICES, NO_SET
from kilonova.scheduler.core.gpu.layout import (
    MILLI_PER_GPU,
    GpuLayout,
    GpuSelection,
    GpuShare,
    build_share,
    requested_share,
)
from kilonova.scheduler.core.gpu.mig import ProfileDemand, StartOption, best_starts
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest

SINGLE_DEVICE_SCORE = 100.0
"""Score without topology: a single device, fractions, MIG instances."""
NEUTRAL_SCORE = 50.0
"""Score of several devices without a preference."""


def select_devices(
    layout: GpuLayout,
    free: Sequence[int],
    masks: Sequence[int],
    request: GpuRequest,
    *,
    demand: ProfileDemand = (),
    further_pods: int = 0,
    free_memory: Sequence[int] | None = None,
) -> GpuSelection | None:
    """The shares of a node's devices for a pod; None where the request does not fit.

    `free` are the free milli and `masks` the slices occupied by MIG instances, by device;
    `free_memory` the free milli of memory, where they differ from those of compute. `demand`
    is the expected demand for MIG profiles. `further_pods` pods with the same request should still
    fit after this one, as far as there is capacity.
    """
    if request.profile:
        return _select_instances(layout, free, masks, request, demand)
    if not request.is_whole:
        return _select_shares(layout, (free, free_memory or free), masks, request, further_pods)
    idle = 0
    for index, milli in enumerate(free):
        if milli == MILLI_PER_GPU and not masks[index]:
            idle |= 1 << index
    return select_whole_devices(layout, idle, request, further_pods)


def select_whole_devices(
    layout: GpuLayout, idle: int, request: GpuRequest, further_pods: int = 0
) -> GpuSelection | None:
    """`select_devices` for whole devices, given the set of idle devices. Cached."""
    if further_pods and not requires_topology(request):
        further_pods = 0
    known = layout.selections
    key = request, idle, further_pods
    try:
        return known[key]
    except KeyError:  # not `get`: another thread, on a copy of the cluster, may clear the cache
        pass
    if len(known) > _MAX_SELECTIONS:
        known.clear()
    choice = known[key] = _select_best_set(
        layout, idle & layout.eligible_devices(request), request, further_pods
    )
    return choice


def best_scores(
    layouts: Sequence[GpuLayout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    request: GpuRequest,
) -> NDArray[np.float64]:
    """The score of the best devices of each node for a request: 0 to 100, or -1 where none is
    acceptable.

    `ids` is the layout of each node; `idle` are its idle devices, used only for requests of whole
    devices.
    """
    if not request.is_whole:
        return np.full(len(ids), SINGLE_DEVICE_SCORE)
    found = np.full(len(ids), NO_SET)
    for layout, here, free in _group_by_layout(layouts, ids, idle, request):
        if len(layout.gpus) > MAX_DEVICES:
            enough = _has_enough(free, request) & (not requires_topology(request))
            found[here] = np.where(enough, _neutral_score(request), NO_SET)
        else:
            table = layout.device_sets.best_scores(
                request.count, request.preference, request.bandwidth
            )
            found[here] = table[free]
    return found


def count_fitting_pods(
    layouts: Sequence[GpuLayout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    request: GpuRequest,
) -> NDArray[np.int64]:
    """How many pods with a request for whole devices fit on each node.

    Only requests with device requirements (`has_device_requirements`) need this; for others it is
    the number of idle devices divided by the requested count.
    """
    found = np.zeros(len(ids), np.int64)
    for layout, here, free in _group_by_layout(layouts, ids, idle, request):
        if not requires_topology(request):
            found[here] = np.bitwise_count(free) // request.count
        elif len(layout.gpus) <= MAX_DEVICES:
            table = layout.device_sets.count_disjoint_sets(
                request.count, request.preference, request.bandwidth, free
            )
            found[here] = table[free]
    return found


def requested_shares(
    layouts: Sequence[GpuLayout], ids: NDArray[np.int32], request: GpuRequest, width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The milli of each device's compute capacity and of its memory that a request takes, a row per
    node; more than a device has where the device is not eligible, or does not exist."""
    milli = np.full((2, len(ids), width), MILLI_PER_GPU + 1, np.int64)
    for number in np.flatnonzero(np.bincount(ids, minlength=1)).tolist():
        milli[:, ids == number] = _milli_by_device(layouts[number], request, width)[:, None]
    return milli[0], milli[1]


def has_device_requirements(request: GpuRequest) -> bool:
    """Whether not every idle device of a node is eligible for a request."""
    return bool(
        requires_topology(request) or request.memory or request.models or request.architecture
    )


def requires_topology(request: GpuRequest) -> bool:
    """Whether the devices must be connected in a certain way: not every set is acceptable."""
    needs = request.preference is GpuPreference.NVLINK_REQUIRED or request.bandwidth > 0
    return needs and request.count > 1


def _select_best_set(
    layout: GpuLayout, free: int, request: GpuRequest, further_pods: int
) -> GpuSelection | None:
    if request.count < 1 or free.bit_count() < request.count:
        return None
    indices = [index for index in range(len(layout.gpus)) if free >> index & 1]
    if len(layout.gpus) <= MAX_DEVICES:
        requirement = request.count, request.preference, request.bandwidth
        best = layout.device_sets.best_set(free, *requirement, further_pods)
        if best is None:
            return None
        indices = [index for index in indices if best >> index & 1]
        score = layout.device_sets.score(best, request.preference)
    elif requires_topology(request):
        return None
    else:
        score = _neutral_score(request)
    return GpuSelection(tuple(GpuShare(index) for index in indices[: request.count]), score)


def _select_shares(
    layout: GpuLayout,
    free_parts: tuple[Sequence[int], Sequence[int]],
    masks: Sequence[int],
    request: GpuRequest,
    further_pods: int,
) -> GpuSelection | None:
    several = request.count > 1 and further_pods > 0
    free, free_memory = free_parts

    def order(index: int, milli: int, memory: int) -> int:
        # Pods with several devices each must use them evenly, or some are left over.
        return -min(free[index] // milli, free_memory[index] // memory) if several else 0

    found = [
        (order(*size), free[size[0]] - size[1], free_memory[size[0]] - size[2], size)
        for size in _share_sizes(layout, request)
        if size[1] <= free[size[0]] and size[2] <= free_memory[size[0]] and not masks[size[0]]
    ]
    if not 0 < request.count <= len(found):
        return None
    if request.count == 1:
        return _single_share(*min(found)[3])
    chosen = sorted(each[3] for each in sorted(found)[: request.count])
    return GpuSelection(tuple(build_share(*each) for each in chosen), SINGLE_DEVICE_SCORE)


@lru_cache(maxsize=4096)
def _single_share(index: int, milli: int, memory: int) -> GpuSelection:
    return GpuSelection((build_share(index, milli, memory),), SINGLE_DEVICE_SCORE)


@lru_cache(maxsize=4096)
def _share_sizes(layout: GpuLayout, request: GpuRequest) -> tuple[tuple[int, int, int], ...]:
    """The eligible devices, and the milli of compute and memory of each that a request takes."""
    eligible = layout.eligible_devices(request)
    return tuple(
        (gpu.index, *requested_share(gpu, request))
        for gpu in layout.gpus
        if eligible >> gpu.index & 1
    )


@lru_cache(maxsize=4096)
def _milli_by_device(layout: GpuLayout, request: GpuRequest, width: int) -> NDArray[np.int64]:
    parts = np.full((2, width), MILLI_PER_GPU + 1, np.int64)
    for index, milli, memory in _share_sizes(layout, request):
        parts[:, index] = milli, memory
    return parts


def _select_instances(
    layout: GpuLayout,
    free: Sequence[int],
    masks: Sequence[int],
    request: GpuRequest,
    demand: ProfileDemand,
) -> GpuSelection | None:
    """One instance after the other, each on the device that loses least remaining value.

    Devices with instances come first, so that idle ones stay whole; with equal loss, the fuller
    one. As starts of one profile never overlap partially, this fits all instances whenever
    possible.
    """
    places = _best_instance_starts(layout, request, demand)
    occupied = list(masks)
    given: list[GpuShare] = []
    for _ in range(request.count):
        found = [
            (not mask, *place, index, profile)
            for index, profile, by_mask in places
            if ((mask := occupied[index]) or free[index] == MILLI_PER_GPU)
            and (place := by_mask[mask]) is not None
        ]
        if not found:
            return None
        *_, start, index, profile = min(found)
        taken = profile.mask_at(start)
        occupied[index] |= taken
        given.append(GpuShare(index, 0, profile.name, start, taken))
    given.sort(key=lambda share: (share.index, share.start))
    return GpuSelection(tuple(given), SINGLE_DEVICE_SCORE) if given else None


@lru_cache(maxsize=4096)
def _best_instance_starts(
    layout: GpuLayout, request: GpuRequest, demand: ProfileDemand
) -> tuple[tuple[int, MigProfile, Sequence[StartOption | None]], ...]:
    """The eligible devices for a request of instances, and the best start on each by its mask."""
    eligible = layout.eligible_devices(request)
    return tuple(
        (gpu.index, profile, best_starts(gpu.mig, request.profile, demand))
        for gpu in layout.gpus
        if eligible >> gpu.index & 1
        and gpu.mig is not None
        and (profile := gpu.mig.profile(request.profile)) is not None
    )


def _group_by_layout(
    layouts: Sequence[GpuLayout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    request: GpuRequest,
) -> list[tuple[GpuLayout, NDArray[np.intp] | slice, NDArray[np.int64]]]:
    """The layouts in use, the nodes of each, and their idle eligible devices."""
    present = np.flatnonzero(np.bincount(ids, minlength=1)).tolist() if len(ids) else []
    if len(present) == 1:
        layout = layouts[present[0]]
        return [(layout, slice(None), idle & _eligible_mask(layout, request))]
    groups = [(layouts[number], np.flatnonzero(ids == number)) for number in present]
    return [(layout, here, idle[here] & _eligible_mask(layout, request)) for layout, here in groups]


def _eligible_mask(layout: GpuLayout, request: GpuRequest) -> np.int64:
    return np.int64(layout.eligible_devices(request) & _ALL_BITS)


def _has_enough(free: NDArray[np.int64], request: GpuRequest) -> NDArray[np.bool_]:
    return np.bitwise_count(free) >= request.count


def _neutral_score(request: GpuRequest) -> float:
    return SINGLE_DEVICE_SCORE if request.count == 1 else NEUTRAL_SCORE


_ALL_BITS = (1 << 62) - 1
_MAX_SELECTIONS = 1 << 16
"""Number of selections cached per layout: all states of 8 devices for some hundred requests."""
