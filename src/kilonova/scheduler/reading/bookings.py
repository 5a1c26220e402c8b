"""Pods that have a node, as bookings: with the devices they were given, or probably have."""

from kilonova.api.gpus import DEVICES, Unreadable
from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.choosing import choose
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gpus import shares_of
from kilonova.scheduler.reading.peers import Namespaces
from kilonova.scheduler.reading.pods import Misread, member_of, requests_of


def booking_of(snapshot: Snapshot, row: int, pod: Pod, member: Member, gang: str) -> Booking:
    """A pod on its node. Where nobody wrote which devices it has, some that are free are taken to
    be its own, so that they are not given to others."""
    claims = tuple(map(snapshot.claims.allocation, member.claims))
    return Booking(member, row, _devices(snapshot, row, pod, member.shape), gang, claims)


def any_member_of(pod: Pod, namespaces: Namespaces) -> Member:
    """What a pod uses, even where what it asks for could not be read."""
    try:
        return member_of(pod, namespaces)
    except Misread:
        amounts = requests_of(pod)
        gpus = amounts.get(GPU, 0)
        shape = Shape(tuple(sorted(amounts.items())), GpuAsk(gpus) if gpus else None)
        return Member(pod.key, shape, pod.metadata.labels)


def _devices(snapshot: Snapshot, row: int, pod: Pod, shape: Shape) -> tuple[Share, ...]:
    layout = snapshot.layout(row)
    text = pod.metadata.annotations.get(DEVICES)
    if text is not None:
        shares = shares_of(text, layout)
        if not isinstance(shares, Unreadable) and not _taken(snapshot, row, shares):
            return shares
    if shape.gpu is None:
        return ()
    size = len(layout.gpus)
    free, masks = snapshot.gpu_free[row, :size].tolist(), snapshot.gpu_mask[row, :size].tolist()
    choice = choose(layout, free, masks, shape.gpu)
    return () if choice is None else choice.shares


def _taken(snapshot: Snapshot, row: int, shares: tuple[Share, ...]) -> bool:
    """Whether somebody else is counted to have one of the MIG slices already."""
    return any(int(snapshot.gpu_mask[row, share.index]) & share.mask for share in shares)
