"""Room that a scheduler before us held: for pods that it was moving when it ended.

They are on their way out, and a condition names another node than theirs: there room is held for
whoever is made in their place.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from kilonova.api.podgang import PodGang
from kilonova.scheduler.announcing import announced
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Rooms, Scores
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.holds import Hold, hold_of
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet, read_lone_pod, read_standing, stands
from kilonova.scheduler.reading.pods import Misread, member_of


def held_before(
    snapshot: Snapshot, pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> Iterator[Hold]:
    """What was held, as far as there is still room; to be taken one after the other."""
    moving = {pod.key: pod for pod in pods if is_moving(pod)}
    for gang in gangs if moving else ():
        groups = {
            f"{ref.namespace}/{ref.name}": group.name
            for group in gang.spec.pod_groups
            for ref in group.pod_references
        }
        ours = {key: moving.pop(key) for key in groups if key in moving}
        read = read_standing(gang, ours.get) if ours else None
        if read is not None:
            yield from _hold(snapshot, read, {key: (ours[key], groups[key]) for key in ours}, "")
    for key, pod in sorted(moving.items()):
        read, owner = read_lone_pod(pod), pod.metadata.controller
        if not isinstance(read, NotYet) and owner is not None:
            yield from _hold(snapshot, read, {key: (pod, "")}, owner.uid)


def is_moving(pod: Pod) -> bool:
    """Whether a pod leaves its node, and room was held elsewhere for the one after it."""
    return bool(pod.metadata.deletion_timestamp and announced(pod)) and not pod.ended


def was_left(pod: Pod) -> bool:
    """Whether a pod was to be moved and nobody told it to go."""
    return stands(pod) and bool(announced(pod))


def _hold(
    snapshot: Snapshot, gang: Gang, pods: dict[str, tuple[Pod, str]], owner: str
) -> Iterator[Hold]:
    places: list[tuple[str, str, Booking]] = []
    mark = snapshot.mark()
    for key, (pod, group) in pods.items():
        booking = _booked(snapshot, gang, pod)
        if booking is not None:
            places.append((key, group, booking))
    snapshot.undo(mark)
    if places:
        yield hold_of(gang, places, owner)


def _booked(snapshot: Snapshot, gang: Gang, pod: Pod) -> Booking | None:
    """Books the room that was promised to the pod after this one, under a name that nobody has."""
    node = announced(pod)
    if node not in snapshot:
        return None
    try:
        member = member_of(pod)
    except Misread:
        return None
    row = snapshot.row(node)
    if Rooms(snapshot, _alike).room(member.shape)[row] < 1:
        return None
    [booking] = bookings_for(snapshot, row, [member], gang.name)
    [held] = hold_of(gang, [(pod.key, "", booking)]).bookings
    snapshot.book(held)
    return booking


def _alike(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    return np.zeros(len(rows))
