"""Answers why a pod or a gang has the place that it has, or none. Plain values, whose fields are
their JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import (
    Explanation,
    PlacementScore,
    explain,
    explain_placement,
)
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.decisions import Evicted, PlacedGang, placed_gang
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.gangs import NotYet, lone_name, plain_name
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.reading.podgroups import KINDS
from kilonova.scheduler.reading.reservations import is_reservation, reservation_name
from kilonova.scheduler.trouble import trouble_of

_SCORED = 8
"""So many pods are scored anew where they stand."""


@dataclass(frozen=True, slots=True)
class StandingPod:
    """A pod that has a place, and why it is this one; scores are those of today."""

    pod: str
    node: str
    devices: str
    score: PlacementScore | None
    trouble: str = ""
    """What is wrong with its devices or its node."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of a pod or a gang. `Next` is that nothing keeps it from a place: it gets one
    as soon as it is its turn."""

    asked: str
    gang: str
    queue: str
    state: Literal["Placed", "Waiting", "Next", "NotYet"]
    since: float | None
    """Since when it stands."""
    pods: tuple[StandingPod, ...]
    explanation: Explanation | None
    next: PlacedGang | None
    not_yet: NotYet | None

    @property
    def evicted(self) -> tuple[Evicted, ...]:
        """Who would have to make way for it."""
        return self.next.evicted if self.next is not None else ()


def answer(
    picture: Picture, namespace: str, name: str, unserved: Mapping[str, NotYet] | None = None
) -> Answer | None:
    """Why a gang, or else a pod, of that name is where it is; None if nobody has heard of it.
    `unserved` are pods that no scheduler of ours serves, or not yet."""
    key = f"{namespace}/{name}"
    cluster = picture.cluster()
    gang = _gang_named(picture, key)
    booking = cluster.snapshot.bookings.get(key)
    if gang is None and booking is None:
        other = (unserved or {}).get(key)
        return other and Answer(key, lone_name(key), "", "NotYet", None, (), None, None, other)
    if gang is None and booking is not None:
        gang = booking.gang or key
    assert gang is not None
    bookings = _bookings(cluster, gang, booking)
    standing = cluster.standing.get(gang)
    waits = next((each for each in picture.waiting if each.name == gang), None)
    pods = tuple(_standing_pod(picture, cluster, each, n) for n, each in enumerate(bookings))
    explanation, given = (None, None) if waits is None else _explained(picture, cluster, waits)
    queue = waits.queue if waits is not None else standing.gang.queue if standing else ""
    not_yet = picture.not_yet.get(gang)
    state = "Placed"
    if waits is not None:
        state = "Next" if given is not None else "Waiting"
    elif not_yet is not None:
        state = "NotYet"
    since = standing.since if standing is not None else None
    return Answer(key, gang, queue, state, since, pods, explanation, given, not_yet)


def names_in(picture: Picture) -> Iterable[str]:
    """All pods and gangs that could be asked about, as NAMESPACE/NAME."""
    gangs = {
        *(gang.name for gang in picture.waiting),
        *(one.gang.name for one in picture.standing),
        *picture.not_yet,
    }
    pods = {
        member.pod for gang in picture.waiting for group in gang.groups for member in group.members
    }
    pods |= {pod for why in picture.not_yet.values() for pod in why.pods}
    return sorted(
        {plain_name(name) for name in gangs}
        | pods
        | {each.pod for each in picture.bookings if not is_reservation(each.gang)}
    )


def _gang_named(picture: Picture, key: str) -> str | None:
    """The gang of a name, or that of which a pod of the name is."""
    gangs = [*picture.waiting, *(one.gang for one in picture.standing)]
    names = {gang.name for gang in gangs} | picture.not_yet.keys()
    kept = reservation_name(*key.split("/", 1))
    for name in (key, lone_name(key), *(f"{kind}/{key}" for kind in KINDS), kept):
        if name in names:
            return name
    incomplete = (name for name, why in picture.not_yet.items() if key in why.pods)
    return next((gang.name for gang in gangs if _has(gang, key)), next(incomplete, None))


def _has(gang: Gang, pod: str) -> bool:
    return any(
        member.pod == pod for group in gang.groups for member in (*group.members, *group.standing)
    )


def _bookings(cluster: Cluster, gang: str, booking: Booking | None) -> list[Booking]:
    standing = cluster.standing.get(gang)
    if standing is None:
        return [] if booking is None else [booking]
    return [cluster.snapshot.bookings[pod] for pod in sorted(standing.pods)]


def _standing_pod(picture: Picture, cluster: Cluster, booking: Booking, number: int) -> StandingPod:
    snapshot = cluster.snapshot
    scored = number < _SCORED and not is_reservation(booking.gang)
    score = explain_placement(snapshot, booking, picture.scoring()) if scored else None
    node, devices = snapshot.names[booking.row], devices_text(booking.devices)
    return StandingPod(booking.pod, node, devices, score, trouble_of(snapshot, booking))


def _explained(
    picture: Picture, cluster: Cluster, gang: Gang
) -> tuple[Explanation | None, PlacedGang | None]:
    """Why it has no place, or the one that it gets. Changes the cluster."""
    plan = picture.planner(cluster).decide(picture.waiting, picture.now)
    for placement in plan.placements:
        if placement.gang.name == gang.name:
            return None, placed_gang(cluster, placement)
    refusal = next(each for each in plan.refusals if each.gang.name == gang.name)
    found = explain(
        cluster,
        picture.scoring(),
        picture.policy,
        gang,
        refusal.why,
        picture.now,
        plan.reservation,
        pending=[each.gang for each in plan.refusals],
    )
    return found, None
