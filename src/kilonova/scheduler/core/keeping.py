"""Room that is kept for gangs which are not there yet, and how they get it.

Kept room is bookings of a gang whose pods never come. A gang that names it (`Gang.room`) has it
opened for the time of its decision: it is tried inside the room first, then anywhere. What it does
not take is kept on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.asks import GpuAsk, Shape, is_for_queues
from kilonova.scheduler.core.cluster import Charges, Cluster
from kilonova.scheduler.core.devices import WHOLE, Share
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.mig import MASKS
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.snapshot import GPU, PODS, Booking, Snapshot

_BESIDE = "beside/"


class OpenRoom:
    """Kept room while one gang is decided about. `close` must follow."""

    def __init__(self, cluster: Cluster, name: str, charges: Charges) -> None:
        self._cluster = cluster
        self._charges = charges
        self._standing = standing = cluster.standing[name]
        self._gang, pods = standing.gang, list(standing.pods)
        self.kept = [cluster.snapshot.bookings[pod] for pod in pods]
        rows = sorted({booking.row for booking in self.kept})
        self._beside = [_what_is_free(cluster.snapshot, row, self.kept) for row in rows]
        self._rows = np.array(rows, np.intp)
        cluster.snapshot.release_all(pods)
        cluster.leave(name, pods, charges)

    def place(self, placer: Placer, gang: Gang) -> list[Booking] | None:
        """Books a gang in the room and nowhere else: of what is kept it gets only what was kept,
        to the very device; of other things, what its nodes have."""
        snapshot = self._cluster.snapshot
        snapshot.book_all(self._beside)
        placed = placer.place(gang, self._rows)
        snapshot.release_all([booking.pod for booking in self._beside])
        return placed

    def close(self, users: Iterable[Booking]) -> None:
        """Keeps what those who came did not take."""
        left = remaining(self.kept, users)
        self._cluster.snapshot.book_all(left)
        if left:
            self._cluster.stand(self._gang, left, self._standing.since, self._charges)


def place_as_before(placer: Placer, snapshot: Snapshot, gang: Gang) -> list[Booking] | None:
    """Books a gang on the nodes of the one whose place it takes over, and nowhere else."""
    rows = sorted(snapshot.row(node) for node in set(gang.before) if node in snapshot)
    return placer.place(gang, np.array(rows, np.intp)) if rows else None


def remaining(kept: Sequence[Booking], users: Iterable[Booking]) -> list[Booking]:
    """What is to be kept beside those who stand in kept room. GPUs are theirs by device, whatever
    else they use counts on the node where they use it."""
    by_row: dict[int, list[Booking]] = {}
    for user in users:
        by_row.setdefault(user.row, []).append(user)
    wants = {row: _wants(some) for row, some in by_row.items()}
    left = (_reduced(booking, wants, by_row.get(booking.row, ())) for booking in kept)
    return [booking for booking in left if booking is not None]


def is_inside(kept: Sequence[Booking], users: Sequence[Booking]) -> bool:
    """Whether users take nothing of their nodes but what is kept for them there, of what is."""
    rows = {booking.row for booking in kept}
    if not all(user.row in rows for user in users):
        return False
    for row in {user.row for user in users}:
        here = [booking for booking in kept if booking.row == row]
        devices = {share.index for booking in here for share in booking.devices}
        total = _wants(here)
        some = [user for user in users if user.row == row]
        if devices and any(each.index not in devices for user in some for each in user.devices):
            return False
        wants = {name: amount for name, amount in _wants(some).items() if name != PODS}
        if any(amount > total[name] for name, amount in wants.items() if name in total):
            return False
    return True


def _wants(bookings: Iterable[Booking]) -> dict[str, int]:
    """What pods use, but for devices that are known."""
    total: dict[str, int] = {}
    for booking in bookings:
        for name, amount in booking.shape.requests:
            if name != GPU:
                total[name] = total.get(name, 0) + amount
        ask = booking.shape.gpu
        if ask is not None and not booking.devices:
            name = ask.profile or GPU
            total[name] = total.get(name, 0) + ask.count
    return total


def _reduced(
    kept: Booking, wants: dict[int, dict[str, int]], users: Sequence[Booking]
) -> Booking | None:
    """A booking without what users take of it; None if that is all."""
    if not users:
        return kept
    want = wants[kept.row]
    amounts = {
        name: amount - _taken(want, name, amount)
        for name, amount in kept.shape.requests
        if name != GPU
    }
    devices = _untouched(kept.devices, [share for user in users for share in user.devices])
    ask = kept.shape.gpu
    if ask is not None:
        ask = _reduced_ask(ask, kept.devices, devices, want)
        if ask is not None and any(name == GPU for name, _ in kept.shape.requests):
            amounts[GPU] = ask.count
    requests = tuple(sorted((name, amount) for name, amount in amounts.items() if amount))
    if not requests and not devices:
        return None
    shape = replace(kept.shape, requests=requests, gpu=ask)
    return replace(kept, member=replace(kept.member, shape=shape), devices=devices)


def _reduced_ask(
    ask: GpuAsk, had: Sequence[Share], has: Sequence[Share], want: dict[str, int]
) -> GpuAsk | None:
    if not had:
        count = ask.count - _taken(want, ask.profile or GPU, ask.count)
        return replace(ask, count=count) if count else None
    if not has:
        return None
    if ask.whole or ask.profile:
        return replace(ask, count=len(has))
    return replace(ask, count=1, milli=sum(share.milli for share in has))


def _taken(want: dict[str, int], name: str, amount: int) -> int:
    taken = min(amount, want.get(name, 0))
    if taken:
        want[name] -= taken
    return taken


def _untouched(kept: Iterable[Share], users: Sequence[Share]) -> tuple[Share, ...]:
    """Who uses part of a whole device has it; of shares and instances, others may be left."""
    left: list[Share] = []
    for share in kept:
        on = [user for user in users if user.index == share.index]
        if share.mask:
            if not any(user.milli or user.mask & share.mask for user in on):
                left.append(share)
        elif not on:
            left.append(share)
        elif share.milli < WHOLE:
            milli = share.milli - sum(user.milli for user in on)
            if milli > 0 and not any(user.mask for user in on):
                left.append(replace(share, milli=milli))
    return tuple(left)


def _what_is_free(snapshot: Snapshot, row: int, kept: Sequence[Booking]) -> Booking:
    """All that is free on a row of what is kept there, as if somebody had it."""
    here = [booking for booking in kept if booking.row == row]
    names = {name for booking in here for name, _ in booking.shape.requests if is_for_queues(name)}
    names.discard(PODS)  # a large place may hold several small pods
    gpus = any(booking.shape.gpu is not None for booking in here)
    if gpus:
        names.add(GPU)
    free = {name: int(snapshot.free[snapshot.column(name), row]) for name in names}
    requests = tuple(sorted((name, amount) for name, amount in free.items() if amount > 0))
    devices = tuple(_free_devices(snapshot, row)) if gpus else ()
    ask = GpuAsk(1) if devices else None
    member = Member(f"{_BESIDE}{snapshot.names[row]}", Shape(requests, ask))
    return Booking(member, row, devices)


def _free_devices(snapshot: Snapshot, row: int) -> Iterable[Share]:
    for gpu in snapshot.layout(row).gpus:
        milli, mask = int(snapshot.gpu_free[row, gpu.index]), int(snapshot.gpu_mask[row, gpu.index])
        if mask:
            yield Share(gpu.index, 0, mask=(MASKS - 1) & ~mask)
        elif milli > 0:
            yield Share(gpu.index, milli)
