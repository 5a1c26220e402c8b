"""Which GPUs of a node a pod is given, and how good the best would be on thousands of nodes.

`choose` decides for one node, exactly: of whole devices the best set, of shares the devices where
what remains is tightest, of MIG instances the device and the start that leave the most to others.
The same state gets the same answer. `quality` and `rooms` ask the same of many nodes at once, by
looking up tables of their layouts.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import GpuAsk, Preference
from kilonova.scheduler.core.devices import WHOLE, Choice, Layout, Share, share_of
from kilonova.scheduler.core.mig import Demand, Place, Profile
from kilonova.scheduler.core.subsets import MOST, NOT_AT_ALL

ALONE = 100.0
"""Score of what has no topology: a single device, shares, instances."""
INDIFFERENT = 50.0
"""Score of several devices for those who do not mind which."""


def choose(
    layout: Layout,
    free: Sequence[int],
    masks: Sequence[int],
    ask: GpuAsk,
    *,
    demand: Demand = (),
    further: int = 0,
) -> Choice | None:
    """What to give of a node's devices; None where it does not have what is asked for.

    `free` are milli free and `masks` what MIG instances occupy, by device. `demand` says which MIG
    profiles others will want. `further` pods with the same ask are to find devices after this one,
    as far as there is room for them.
    """
    if ask.profile:
        return _instances(layout, free, masks, ask, demand)
    if not ask.whole:
        return _shares(layout, free, masks, ask, further)
    idle = 0
    for index, milli in enumerate(free):
        if milli == WHOLE and not masks[index]:
            idle |= 1 << index
    return choose_whole(layout, idle, ask, further)


def choose_whole(layout: Layout, idle: int, ask: GpuAsk, further: int = 0) -> Choice | None:
    """`choose` for whole devices, given the set of those that nobody uses. Remembered."""
    if further and not _is_strict(ask):
        further = 0
    known = layout.chosen
    key = ask, idle, further
    try:
        return known[key]
    except KeyError:  # whoever looks at a copy of the cluster may do so in another thread
        pass
    if len(known) > _REMEMBERED:
        known.clear()
    choice = known[key] = _best_devices(layout, idle & layout.eligible(ask), ask, further)
    return choice


def quality(
    layouts: Sequence[Layout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    ask: GpuAsk,
) -> NDArray[np.float64]:
    """How well the best devices of each node would meet an ask: 0 to 100, or -1 where none will do.

    `ids` say which of the layouts each node has; `idle` are its devices that nobody uses, and count
    only where whole devices are asked for.
    """
    if not ask.whole:
        return np.full(len(ids), ALONE)
    found = np.full(len(ids), NOT_AT_ALL)
    for layout, here, free in _by_layout(layouts, ids, idle, ask):
        if len(layout.gpus) > MOST:
            enough = _enough(free, ask) & (not _is_strict(ask))
            found[here] = np.where(enough, _indifferent(ask), NOT_AT_ALL)
        else:
            table = layout.subsets.best_score(ask.count, ask.preference, ask.bandwidth)
            found[here] = table[free]
    return found


def rooms(
    layouts: Sequence[Layout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    ask: GpuAsk,
) -> NDArray[np.int64]:
    """How many pods with an ask for whole devices each node could take.

    Only asks that insist on something (`insists`) need this; for others it is free devices divided
    by how many are asked for.
    """
    found = np.zeros(len(ids), np.int64)
    for layout, here, free in _by_layout(layouts, ids, idle, ask):
        if not _is_strict(ask):
            found[here] = np.bitwise_count(free) // ask.count
        elif len(layout.gpus) <= MOST:
            table = layout.subsets.rooms(ask.count, ask.preference, ask.bandwidth, free)
            found[here] = table[free]
    return found


def shares_asked(
    layouts: Sequence[Layout], ids: NDArray[np.int32], ask: GpuAsk, width: int
) -> NDArray[np.int64]:
    """How many milli of each device an ask is, a row per node; more than there are where the device
    does not suit, or is not there."""
    milli = np.full((len(ids), width), WHOLE + 1, np.int64)
    for number in np.flatnonzero(np.bincount(ids, minlength=1)).tolist():
        milli[ids == number] = _milli_by_device(layouts[number], ask, width)
    return milli


def insists(ask: GpuAsk) -> bool:
    """Whether not every free device of a node will do for an ask: it names what it must have."""
    return bool(_is_strict(ask) or ask.memory or ask.models or ask.architecture)


def _is_strict(ask: GpuAsk) -> bool:
    """Whether not every set of devices will do."""
    needs = ask.preference is Preference.NVLINK_REQUIRED or ask.bandwidth > 0
    return needs and ask.count > 1


def _best_devices(layout: Layout, free: int, ask: GpuAsk, further: int) -> Choice | None:
    if ask.count < 1 or free.bit_count() < ask.count:
        return None
    indices = [index for index in range(len(layout.gpus)) if free >> index & 1]
    if len(layout.gpus) <= MOST:
        wish = ask.count, ask.preference, ask.bandwidth
        best = layout.subsets.best(free, *wish, further)
        if best is None:
            return None
        indices = [index for index in indices if best >> index & 1]
        score = layout.subsets.score(best, ask.preference)
    elif _is_strict(ask):
        return None
    else:
        score = _indifferent(ask)
    return Choice(tuple(Share(index) for index in indices[: ask.count]), score)


def _shares(
    layout: Layout,
    free: Sequence[int],
    masks: Sequence[int],
    ask: GpuAsk,
    further: int,
) -> Choice | None:
    several = ask.count > 1 and further > 0

    def order(index: int, milli: int) -> int:
        # Who takes several devices at a time must use them evenly, or some are left over.
        return -(free[index] // milli) if several else 0

    found = [
        (order(index, milli), free[index] - milli, index, milli)
        for index, milli in _sizes(layout, ask)
        if milli <= free[index] and not masks[index]
    ]
    if not 0 < ask.count <= len(found):
        return None
    if ask.count == 1:
        return _one_share(*min(found)[2:])
    chosen = sorted((index, milli) for _, _, index, milli in sorted(found)[: ask.count])
    return Choice(tuple(Share(index, milli) for index, milli in chosen), ALONE)


@lru_cache(maxsize=4096)
def _one_share(index: int, milli: int) -> Choice:
    return Choice((Share(index, milli),), ALONE)


@lru_cache(maxsize=4096)
def _sizes(layout: Layout, ask: GpuAsk) -> tuple[tuple[int, int], ...]:
    """The devices that suit, and how many milli of each an ask is."""
    eligible = layout.eligible(ask)
    return tuple(
        (gpu.index, share_of(gpu, ask)) for gpu in layout.gpus if eligible >> gpu.index & 1
    )


@lru_cache(maxsize=4096)
def _milli_by_device(layout: Layout, ask: GpuAsk, width: int) -> NDArray[np.int64]:
    row = np.full(width, WHOLE + 1, np.int64)
    for index, milli in _sizes(layout, ask):
        row[index] = milli
    return row


def _instances(
    layout: Layout,
    free: Sequence[int],
    masks: Sequence[int],
    ask: GpuAsk,
    demand: Demand,
) -> Choice | None:
    """One instance after the other, each on the device that loses the least by it.

    Devices that are split already go first, so that whole ones stay whole; of those that lose the
    same, the fuller. As starts of one profile never lie in each other's way, this finds room for
    all whenever there is.
    """
    places = _places(layout, ask, demand)
    occupied = list(masks)
    given: list[Share] = []
    for _ in range(ask.count):
        found = [
            (not mask, *place, index, profile)
            for index, profile, by_mask in places
            if ((mask := occupied[index]) or free[index] == WHOLE)
            and (place := by_mask[mask]) is not None
        ]
        if not found:
            return None
        *_, start, index, profile = min(found)
        taken = profile.mask(start)
        occupied[index] |= taken
        given.append(Share(index, 0, profile.name, start, taken))
    given.sort(key=lambda share: (share.index, share.start))
    return Choice(tuple(given), ALONE) if given else None


@lru_cache(maxsize=4096)
def _places(
    layout: Layout, ask: GpuAsk, demand: Demand
) -> tuple[tuple[int, Profile, Sequence[Place | None]], ...]:
    """The devices that suit an ask for instances, and the best place on each by its mask."""
    eligible = layout.eligible(ask)
    return tuple(
        (gpu.index, profile, gpu.mig.places(ask.profile, demand))
        for gpu in layout.gpus
        if eligible >> gpu.index & 1
        and gpu.mig is not None
        and (profile := gpu.mig.profile(ask.profile)) is not None
    )


def _by_layout(
    layouts: Sequence[Layout],
    ids: NDArray[np.int32],
    idle: NDArray[np.int64],
    ask: GpuAsk,
) -> list[tuple[Layout, NDArray[np.intp] | slice, NDArray[np.int64]]]:
    """The layouts that nodes have, which nodes those are, and their free devices that suit."""
    present = np.flatnonzero(np.bincount(ids, minlength=1)).tolist() if len(ids) else []
    if len(present) == 1:
        layout = layouts[present[0]]
        return [(layout, slice(None), idle & _eligible(layout, ask))]
    groups = [(layouts[number], np.flatnonzero(ids == number)) for number in present]
    return [(layout, here, idle[here] & _eligible(layout, ask)) for layout, here in groups]


def _eligible(layout: Layout, ask: GpuAsk) -> np.int64:
    return np.int64(layout.eligible(ask) & _ALL_BITS)


def _enough(free: NDArray[np.int64], ask: GpuAsk) -> NDArray[np.bool_]:
    return np.bitwise_count(free) >= ask.count


def _indifferent(ask: GpuAsk) -> float:
    return ALONE if ask.count == 1 else INDIFFERENT


_ALL_BITS = (1 << 62) - 1
_REMEMBERED = 1 << 16
"""Choices of a layout that are kept: all states of 8 devices for some hundred asks."""
