"""A gang as if all that it has and all that it will have had to stand.

Pods beyond the minimum, and those that are listed and not there yet, follow into the domains in
which the minimum stands: where one is required, it had better be one with room for all of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.snapshot import Booking, Snapshot

_COMING = "coming/"


def wholes(gang: Gang) -> Iterator[Gang]:
    """The gang with all that will come, and with all that is there, where that makes a difference
    to which domains will do; the gang itself is tried after these."""
    packs = (gang.pack, *(group.pack for group in gang.groups), *(b.pack for b in gang.bundles))
    if not any(pack.required for pack in packs):
        return
    if any(group.coming for group in gang.groups):
        yield replace(gang, groups=tuple(_with_coming(group) for group in gang.groups))
    if any(len(group.members) > group.needed for group in gang.groups):
        yield replace(gang, groups=tuple(map(_all_needed, gang.groups)))


def without_coming(snapshot: Snapshot, bookings: Iterable[Booking]) -> list[Booking]:
    """The bookings of pods that are there; those of the others are given back."""
    kept: list[Booking] = []
    for booking in bookings:
        if booking.pod.startswith(_COMING):
            snapshot.release(booking.pod)
        else:
            kept.append(booking)
    return kept


def _with_coming(group: Group) -> Group:
    known = (*group.members, *group.standing)
    # Claims and rules about others are about a pod by its name.
    if not known or known[0].shape.claims or known[0].shape.peers is not None:
        return _all_needed(group)
    names = (f"{_COMING}{group.name}-{number}" for number in range(group.coming))
    coming = tuple(Member(name, known[0].shape) for name in names)
    return _all_needed(replace(group, members=(*group.members, *coming)))


def _all_needed(group: Group) -> Group:
    return replace(group, minimum=max(group.minimum, len(group.placed) + len(group.members)))
