"""Reservations as gangs whose pods never exist.

Device claims, volumes, host ports and pod affinity cannot be reserved.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as changed

from kilonova.api.durations import parse_duration
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation, ReservationSpec, ReservedPods
from kilonova.api.scheduling_names import RESERVATION
from kilonova.api.times import parse_time
from kilonova.scheduler.convert.gangs.podgangs import FindPod, GangNotReady, convert_podgang
from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod_shape
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.requests import Shape, is_queue_resource
from kilonova.scheduler.core.queueing.queues import DEFAULT_QUEUE
from kilonova.scheduler.objects.core_v1 import (
    Container,
    Pod,
    PodSpec,
    ResourceRequirements,
    Toleration,
)

_RESERVATION_PREFIX = "rsv/"


def reservation_gang_name(namespace: str, name: str) -> str:
    """The gang name of a reservation; no PodGang's name has two slashes."""
    return f"{_RESERVATION_PREFIX}{namespace}/{name}"


def is_reservation_gang(gang: str) -> bool:
    """Whether a gang is a reservation."""
    return gang.startswith(_RESERVATION_PREFIX) and gang.count("/") == 2


def reservation_key(gang: str) -> tuple[str, str]:
    """(namespace, name) of the reservation of a gang."""
    _, namespace, name = gang.split("/")
    return namespace, name


def find_reservation_name(gang: PodGang | None, pods: Iterable[Pod]) -> str:
    """The reservation that a gang, or a pod without one, names; empty if it names none in its
    namespace."""
    if gang is not None:
        ref, namespace = gang.spec.reuse_reservation_ref, gang.metadata.namespace.split("/")[-1]
        if ref is not None and ref.namespace == namespace:
            return ref.name
        annotation = gang.metadata.annotations.get(RESERVATION)
        if annotation:
            return annotation
    first = next(iter(pods), None)
    return first.metadata.annotations.get(RESERVATION, "") if first is not None else ""


def reservation_start(spec: ReservationSpec) -> float:
    """The start of a reservation; raises `InvalidRequest`."""
    return 0.0 if spec.start is None else _parse_time("spec.start", spec.start)


def reservation_end(spec: ReservationSpec, reserved_at: float | None) -> float | None:
    """The end of a reservation that was reserved at this time, if it was; None while it is
    unknown."""
    if spec.until is not None:
        return _parse_time("spec.until", spec.until)
    if spec.duration is None or reserved_at is None:
        return None
    try:
        return reserved_at + parse_duration(spec.duration)
    except ValueError:
        raise InvalidRequest(
            "spec.duration", spec.duration, "is not a duration: use 2h30m"
        ) from None


def convert_reserved_pods(reservation: Reservation) -> Gang | GangNotReady:
    """The described pods of a reservation as a gang of unplaced pods."""
    spec, meta = reservation.spec, reservation.metadata
    name = reservation_gang_name(meta.namespace, meta.name)
    groups: list[Group] = []
    for number, pods in enumerate(spec.pods or ()):
        try:
            shape = convert_pod_shape(_template_pod(pods))
        except InvalidRequest as error:
            return GangNotReady(error.reason, f"spec.pods[{number}]: {error}")
        members = (Member(f"{name}/{number}-{each}", shape) for each in range(pods.count))
        groups.append(Group(f"pods-{number}", tuple(members), pods.count))
    pack = PackConstraint(required=spec.topology_key or "")
    created = parse_time(meta.creation_timestamp).timestamp()
    queue = spec.queue or DEFAULT_QUEUE
    return Gang(name, tuple(groups), pack, queue=queue, created=created, preemptible=False)


def convert_reserved_gang(
    reservation: Reservation,
    gang: PodGang | None,
    find_pod: FindPod,
    base_nodes: Sequence[str] | None,
) -> Gang | GangNotReady:
    """All pods of a PodGang as a gang, wherever they are and whatever they wait for."""
    spec, meta = reservation.spec, reservation.metadata
    if gang is None:
        return GangNotReady("GangNotFound", f"PodGang {meta.namespace}/{spec.pod_gang} not found")

    def find_unbound_pod(pod: str) -> Pod | None:
        found = find_pod(pod)
        if found is None:
            return None
        return Pod(
            found.metadata, changed(found.spec, node_name="", scheduling_gates=()), found.status
        )

    converted = convert_podgang(gang, find_unbound_pod, base_nodes=base_nodes)
    if isinstance(converted, GangNotReady):
        return converted
    name = reservation_gang_name(meta.namespace, meta.name)
    groups = tuple(
        replace(
            group,
            members=tuple(
                Member(f"{name}/{number}-{rank}", reservable_shape(each.shape))
                for rank, each in enumerate(group.members)
            ),
            minimum=len(group.members),
        )
        for number, group in enumerate(converted.groups)
    )
    queue = spec.queue or converted.queue
    return replace(converted, name=name, groups=groups, queue=queue, preemptible=False)


def reservable_shape(shape: Shape) -> Shape:
    """The part of a pod's requests and constraints that can be reserved."""
    requests = tuple((name, amount) for name, amount in shape.requests if is_queue_resource(name))
    return replace(shape, requests=requests, pod_rules=None, claims=())


def _template_pod(pods: ReservedPods) -> Pod:
    """A pod with the described requests."""
    return Pod(
        Metadata(name="", uid="", resource_version=""),
        PodSpec(
            node_selector=pods.node_selector,
            containers=(Container(ResourceRequirements(dict(pods.requests))),),
            tolerations=tuple(
                Toleration(each.key, each.operator, each.value, each.effect)
                for each in pods.tolerations
            ),
        ),
    )


def _parse_time(field: str, text: str) -> float:
    try:
        return parse_time(text).timestamp()
    except ValueError:
        raise InvalidRequest(field, text, "is not a time: use 2026-05-01T12:00:00Z") from None
