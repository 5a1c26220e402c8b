"""Which devices of a node its new pods are given."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.choosing import choose, choose_whole
from kilonova.scheduler.core.devices import WHOLE, Layout, Share
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.snapshot import Booking, Snapshot


def are_free(snapshot: Snapshot, row: int, devices: Iterable[Share]) -> bool:
    """Whether nobody uses what is to be given of a node's devices."""
    size = len(snapshot.layout(row).gpus)
    for share in devices:
        if share.index >= size:
            continue
        milli, mask = snapshot.gpu_free[row, share.index], int(snapshot.gpu_mask[row, share.index])
        if share.mask:
            if mask & share.mask or milli != WHOLE:
                return False
        elif mask or milli < share.milli:
            return False
    return True


def bookings_for(
    snapshot: Snapshot, row: int, members: Sequence[Member], gang: str
) -> list[Booking]:
    """Bookings of some pods of one shape on a node that has room for them."""
    shape, count = members[0].shape, len(members)
    devices = devices_for(snapshot, row, shape, count)
    if not shape.claims:
        return [Booking(each, row, some, gang) for each, some in zip(members, devices, strict=True)]
    claims = snapshot.claims.give(shape.claims, row, count)
    return [
        Booking(each, row, some, gang, given)
        for each, some, given in zip(members, devices, claims, strict=True)
    ]


def devices_for(snapshot: Snapshot, row: int, shape: Shape, count: int) -> list[tuple[Share, ...]]:
    """Devices for so many pods of a shape on a node that has room for them. None are chosen where
    somebody else gives out MIG instances."""
    ask = shape.gpu
    if ask is None:
        return [()] * count
    layout = snapshot.layout(row)
    if ask.profile and not layout.has_profile(ask.profile):
        return [()] * count
    size = len(layout.gpus)
    free = snapshot.gpu_free[row, :size].tolist()
    masks = snapshot.gpu_mask[row, :size].tolist()
    if ask.whole:
        return list(_whole_devices(layout, _idle(free, masks), ask, count))
    given: list[tuple[Share, ...]] = []
    for further in reversed(range(count)):
        choice = choose(layout, free, masks, ask, further=further)
        assert choice is not None, f"{snapshot.names[row]} has room but no devices"
        for share in choice.shares:
            if share.mask:
                masks[share.index] |= share.mask
            else:
                free[share.index] -= share.milli
        given.append(choice.shares)
    return given


def shares_of(
    snapshot: Snapshot, row: int, shape: Shape, free: Sequence[int]
) -> tuple[Share, ...] | None:
    """Shares of devices of which so much is free as is listed; None if nothing is listed."""
    ask, chosen = shape.gpu, list[int]()
    if ask is None or not free:
        return None
    for milli in free:
        chosen.append(
            next(
                gpu.index
                for gpu in snapshot.layout(row).gpus
                if snapshot.gpu_free[row, gpu.index] == milli
                and not snapshot.gpu_mask[row, gpu.index]
                and gpu.index not in chosen
            )
        )
    return tuple(Share(index, ask.milli) for index in sorted(chosen))


@lru_cache(maxsize=4096)
def _whole_devices(
    layout: Layout, idle: int, ask: GpuAsk, count: int
) -> tuple[tuple[Share, ...], ...]:
    """Untouched devices for so many pods. Nodes of a kind are often in the same state."""
    given: list[tuple[Share, ...]] = []
    for further in reversed(range(count)):
        choice = choose_whole(layout, idle, ask, further)
        assert choice is not None, "there is room but no devices"
        for share in choice.shares:
            idle &= ~(1 << share.index)
        given.append(choice.shares)
    return tuple(given)


def _idle(free: Sequence[int], masks: Sequence[int]) -> int:
    """The set of devices that nobody uses."""
    return sum(
        1 << index for index, milli in enumerate(free) if milli == WHOLE and not masks[index]
    )
