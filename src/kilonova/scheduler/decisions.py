"""What was decided about a picture, in names instead of rows: plain values, whose fields are their
JSON. The same picture gives the same decisions everywhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import Explainer
from kilonova.scheduler.core.plan import Placement, Plan, Refusal, Reservation
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.verdicts import refused_verdict

_EXPLAINED = 64
"""So many refusals for want of room are gone into; each is worked out by trying."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Where a pod goes, and to which devices there, as its annotation would say."""

    pod: str
    node: str
    devices: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """Pods that have to go before."""

    gang: str
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacedGang:
    """A gang that gets a place."""

    gang: str
    queue: str
    pods: tuple[PlacedPod, ...]
    evicted: tuple[Evicted, ...]


@dataclass(frozen=True, slots=True)
class RefusedGang:
    """A gang that gets none, and why."""

    gang: str
    queue: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class KeptRoom:
    """Room that is kept for a gang which has waited long."""

    gang: str
    at: float
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Who gets a place, in the order in which it was decided, and who does not."""

    now: float
    placed: tuple[PlacedGang, ...]
    refused: tuple[RefusedGang, ...]
    reservation: KeptRoom | None


def replay(picture: Picture) -> Decisions:
    """What is decided about all that wait in a picture."""
    cluster = picture.cluster()
    plan = picture.planner(cluster).decide(picture.waiting, picture.now)
    return decisions_of(picture, cluster, plan)


def decisions_of(picture: Picture, cluster: Cluster, plan: Plan) -> Decisions:
    """A plan in names; `cluster` is that in which it was decided, with what was booked."""
    not_yet = (
        RefusedGang(name, "", each.reason, each.message) for name, each in picture.not_yet.items()
    )
    kept = plan.reservation
    return Decisions(
        picture.now,
        tuple(placed_gang(cluster, placement) for placement in plan.placements),
        (*_refused(picture, cluster, plan.refusals, kept), *not_yet),
        None if kept is None else KeptRoom(kept.gang.name, kept.at, kept.nodes),
    )


def placed_gang(cluster: Cluster, placement: Placement) -> PlacedGang:
    """A placement in names."""
    names = cluster.snapshot.names
    pods = (
        PlacedPod(booking.pod, names[booking.row], devices_text(booking.devices))
        for booking in placement.bookings
    )
    return PlacedGang(
        placement.gang.name,
        placement.gang.queue,
        tuple(sorted(pods, key=lambda each: each.pod)),
        tuple(Evicted(unit.gang, tuple(sorted(unit.pods))) for unit in placement.evicted),
    )


def _refused(
    picture: Picture,
    cluster: Cluster,
    refusals: Iterable[Refusal],
    reservation: Reservation | None,
) -> Iterable[RefusedGang]:
    explainer = Explainer(cluster, picture.scoring(), picture.policy)
    left = count(_EXPLAINED, -1)

    def no_room(refusal: Refusal, reservation: Reservation | None) -> str:
        if next(left) <= 0:
            return "no room"
        found = explainer.explain(refusal.gang, refusal.why, picture.now, reservation)
        return found.message

    for refusal in refusals:
        verdict = refused_verdict(refusal, reservation, no_room)
        yield RefusedGang(refusal.gang.name, refusal.gang.queue, verdict.reason, verdict.message)
