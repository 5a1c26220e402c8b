"""Reservations, from objects of the API to gangs whose pods never come.

Devices that are claimed, volumes and ports are not kept, nor what pods want of each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from kilonova.api.durations import parse_duration
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation, ReservationSpec, ReservedPods
from kilonova.api.schedulingnames import RESERVATION
from kilonova.api.times import parse_time
from kilonova.scheduler.core.asks import Shape, is_for_queues
from kilonova.scheduler.core.gangs import Gang, Group, Member, Pack
from kilonova.scheduler.core.queues import DEFAULT
from kilonova.scheduler.objects import Container, Pod, PodSpec, Resources, Toleration
from kilonova.scheduler.reading.gangs import Found, NotYet, read_gang
from kilonova.scheduler.reading.pods import Misread, shape_of

_PREFIX = "rsv/"


def reservation_name(namespace: str, name: str) -> str:
    """What the gang of a reservation is called; no PodGang's name has two strokes."""
    return f"{_PREFIX}{namespace}/{name}"


def is_reservation(gang: str) -> bool:
    """Whether a gang is that of a reservation."""
    return gang.startswith(_PREFIX) and gang.count("/") == 2


def key_of_reservation(gang: str) -> tuple[str, str]:
    """(namespace, name) of the reservation whose gang this is."""
    _, namespace, name = gang.split("/")
    return namespace, name


def named_by(gang: PodGang | None, pods: Iterable[Pod]) -> str:
    """The reservation whose room a gang, or pods without one, would take; empty if they name none
    of their namespace."""
    if gang is not None:
        ref, namespace = gang.spec.reuse_reservation_ref, gang.metadata.namespace.split("/")[-1]
        if ref is not None and ref.namespace == namespace:
            return ref.name
        said = gang.metadata.annotations.get(RESERVATION)
        if said:
            return said
    first = next(iter(pods), None)
    return first.metadata.annotations.get(RESERVATION, "") if first is not None else ""


def starts_at(spec: ReservationSpec) -> float:
    """From when on room is kept; `Misread` where nobody can say."""
    return 0.0 if spec.start is None else _moment("spec.start", spec.start)


def ends_at(spec: ReservationSpec, since: float | None) -> float | None:
    """Until when room is kept that was found at a time, if it was; None while nobody knows."""
    if spec.until is not None:
        return _moment("spec.until", spec.until)
    if spec.duration is None or since is None:
        return None
    try:
        return since + parse_duration(spec.duration)
    except ValueError:
        raise Misread("spec.duration", spec.duration, "is no duration: write 2h30m") from None


def wanted_pods(reservation: Reservation) -> Gang | NotYet:
    """Room for pods that were described, as a gang of which nothing has a place yet."""
    spec, meta = reservation.spec, reservation.metadata
    name = reservation_name(meta.namespace, meta.name)
    groups: list[Group] = []
    for number, pods in enumerate(spec.pods or ()):
        try:
            shape = shape_of(_like(pods))
        except Misread as error:
            return NotYet(error.reason, f"spec.pods[{number}]: {error}")
        members = (Member(f"{name}/{number}-{each}", shape) for each in range(pods.count))
        groups.append(Group(f"pods-{number}", tuple(members), pods.count))
    pack = Pack(required=spec.topology_key or "")
    created = parse_time(meta.creation_timestamp).timestamp()
    queue = spec.queue or DEFAULT
    return Gang(name, tuple(groups), pack, queue=queue, created=created, preemptible=False)


def wanted_gang(
    reservation: Reservation,
    gang: PodGang | None,
    found: Found,
    base: Sequence[str] | None,
) -> Gang | NotYet:
    """Room for all pods of a gang, wherever they are and whatever they wait for."""
    spec, meta = reservation.spec, reservation.metadata
    if gang is None:
        return NotYet("GangNotThere", f"there is no PodGang {spec.pod_gang} in {meta.namespace}")

    def opened(pod: str) -> Pod | None:
        one = found(pod)
        if one is None:
            return None
        return Pod(one.metadata, changed(one.spec, node_name="", scheduling_gates=()), one.status)

    read = read_gang(gang, opened, base=base)
    if isinstance(read, NotYet):
        return read
    name = reservation_name(meta.namespace, meta.name)
    groups = tuple(
        replace(
            group,
            members=tuple(
                Member(f"{name}/{number}-{rank}", kept_of(each.shape))
                for rank, each in enumerate(group.members)
            ),
            minimum=len(group.members),
        )
        for number, group in enumerate(read.groups)
    )
    queue = spec.queue or read.queue
    return replace(read, name=name, groups=groups, queue=queue, preemptible=False)


def kept_of(shape: Shape) -> Shape:
    """What of a pod's wishes room can be kept for."""
    requests = tuple((name, amount) for name, amount in shape.requests if is_for_queues(name))
    return replace(shape, requests=requests, peers=None, claims=())


def _like(pods: ReservedPods) -> Pod:
    """A pod as it is described."""
    return Pod(
        Metadata(name="", uid="", resource_version=""),
        PodSpec(
            node_selector=pods.node_selector,
            containers=(Container(Resources(dict(pods.requests))),),
            tolerations=tuple(
                Toleration(each.key, each.operator, each.value, each.effect)
                for each in pods.tolerations
            ),
        ),
    )


def _moment(field: str, text: str) -> float:
    try:
        return parse_time(text).timestamp()
    except ValueError:
        raise Misread(field, text, "is no time: write 2026-05-01T12:00:00Z") from None
