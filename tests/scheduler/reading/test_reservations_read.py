"""Reservations as they are read, remembered and told of."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.scheduling import Reservation, ReservedNode
from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.devices import Share
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.snapshot import GPU, Booking
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.keptplaces import adopted, booking_at, lacking, places_of, suits
from kilonova.scheduler.reading.pods import Misread
from kilonova.scheduler.reading.reservations import (
    ends_at,
    is_reservation,
    starts_at,
    wanted_gang,
    wanted_pods,
)
from kilonova.scheduler.reservationstatus import State, status_change, status_of
from kilonova.scheduler.verdicts import Verdict
from tests.scheduler.core.clusters import RACK, node, shape, snapshot_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
NAME = "rsv/ns/night"


def reservation(**spec: Any) -> Reservation:
    if "podGang" not in spec:
        spec.setdefault("pods", [{"count": 2, "requests": {GPU: 4, "cpu": "500m"}}])
    if "until" not in spec:
        spec.setdefault("duration", "1h")
    meta = {"name": "night", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    meta |= {"creationTimestamp": "2026-05-01T00:00:00Z", "generation": 3}
    return msgspec.convert({"metadata": meta, "spec": spec}, Reservation)


def asked(**spec: Any) -> Gang:
    wanted = wanted_pods(reservation(**spec))
    assert isinstance(wanted, Gang)
    return wanted


def place(name: str = "a", pods: int = 1, gpus: int = 4, devices: str = "0,1,2,3") -> ReservedNode:
    return ReservedNode(name, pods, {GPU: str(gpus), "cpu": "500m"}, devices)


def test_pods_that_are_described_are_a_gang() -> None:
    wanted = asked(topologyKey=RACK, queue="research")
    assert (wanted.name, wanted.queue, wanted.pack.required) == (NAME, "research", RACK)
    assert not wanted.preemptible
    (group,) = wanted.groups
    assert group.needed == 2
    assert group.members[0].shape.requests == (("cpu", 500), (GPU, 4), ("pods", 1))
    assert group.members[0].shape.gpu == GpuAsk(4)


def test_pods_tolerate_what_they_say() -> None:
    taint = {"key": "dedicated", "operator": "Exists"}
    wanted = asked(pods=[{"count": 1, "requests": {"cpu": 1}, "tolerations": [taint]}])
    (toleration,) = wanted.groups[0].members[0].shape.tolerations
    assert (toleration.key, toleration.operator) == ("dedicated", "Exists")


def test_several_kinds_of_gpus_are_told_with_their_field() -> None:
    requests = {GPU: 1, "nvidia.com/mig-1g.10gb": 1}
    told = wanted_pods(reservation(pods=[{"count": 1, "requests": requests}]))
    assert isinstance(told, NotYet)
    assert told.message.startswith("spec.pods[0]: resources.requests:")


def test_a_gang_that_is_not_there_is_told() -> None:
    told = wanted_gang(reservation(podGang="g"), None, lambda _: None, None)
    assert told == NotYet("GangNotThere", "there is no PodGang g in ns")


@pytest.mark.parametrize(
    ("spec", "since", "ends"),
    [
        ({"duration": "90m"}, 1000.0, 6400.0),
        ({"duration": "90m"}, None, None),
        ({"until": "2026-05-01T12:00:00Z"}, None, NOON.timestamp()),
        ({"until": "2026-05-01T12:00:00Z"}, 1000.0, NOON.timestamp()),
    ],
)
def test_when_it_ends(spec: dict[str, Any], since: float | None, ends: float | None) -> None:
    assert ends_at(reservation(**spec).spec, since) == ends


def test_times_that_nobody_can_read_name_their_field() -> None:
    with pytest.raises(Misread, match=r"spec\.start: 'soon'"):
        starts_at(reservation(start="soon").spec)
    with pytest.raises(Misread, match=r"spec\.duration: '99999999999h'"):
        ends_at(reservation(duration="99999999999h").spec, 0.0)


@pytest.mark.parametrize(
    ("name", "is_one"), [(NAME, True), ("rsv/night", False), ("pod/ns/night", False)]
)
def test_names_tell_reservations_from_gangs(name: str, is_one: bool) -> None:
    assert is_reservation(name) is is_one


def test_what_is_remembered_is_what_was_booked() -> None:
    snapshot = snapshot_of(node("a"))
    members = asked().groups[0].members
    bookings = [
        Booking(members[0], 0, tuple(map(Share, (0, 1, 2, 3))), NAME),
        Booking(members[1], 0, tuple(map(Share, (4, 5, 6, 7))), NAME),
    ]
    places = places_of(bookings, snapshot.names)
    assert places == (place(pods=2, devices="0,1,2,3,4,5,6,7"),)
    booking = booking_at(snapshot, NAME, 0, places[0])
    assert booking is not None
    assert booking.shape.requests == (("cpu", 1000), (GPU, 8), ("pods", 2))
    assert booking.devices == tuple(map(Share, range(8)))
    assert lacking(asked(), places).needed == 0


def test_shares_of_one_device_are_remembered_together() -> None:
    half = shape(1, cpu=100, milli=400)
    bookings = [Booking(Member(pod, half), 0, (Share(3, 400),), NAME) for pod in ("x", "y")]
    (remembered,) = places_of(bookings, ["a"])
    assert remembered.devices == "3:800"
    booking = booking_at(snapshot_of(node("a")), NAME, 0, remembered)
    assert booking is not None
    assert booking.shape.gpu == GpuAsk(1, 800)


@pytest.mark.parametrize("lost", [place("gone"), place(devices="8"), place(devices="?")])
def test_places_that_are_not_there_are_none(lost: ReservedNode) -> None:
    assert booking_at(snapshot_of(node("a")), NAME, 0, lost) is None


def test_what_lacks_is_placed_beside_the_rest() -> None:
    (group,) = lacking(asked(), (place("a"),)).groups
    assert (len(group.members), group.placed, group.needed) == (1, ("a",), 1)


SUITING = {
    "the same": ({}, (place(), place("b")), True),
    "less": ({}, (place(),), True),
    "more": ({}, (place(pods=3),), False),
    "others": ({}, (place(gpus=8),), False),
    "one domain": ({"topologyKey": RACK}, (place(), place("b")), True),
    "two domains": ({"topologyKey": RACK}, (place(), place("c")), False),
    "nothing": ({"topologyKey": RACK}, (), True),
}


@pytest.mark.parametrize(("spec", "places", "suit"), SUITING.values(), ids=SUITING)
def test_places_of_a_changed_reservation(
    spec: dict[str, Any], places: tuple[ReservedNode, ...], suit: bool
) -> None:
    snapshot = snapshot_of(node("a", rack="1"), node("b", rack="1"), node("c", rack="2"))
    assert suits(asked(**spec), places, snapshot) is suit


def test_who_stands_already_counts_if_it_is_large_enough() -> None:
    small = Booking(Member("ns/small", shape(1)), 0, (Share(7),), "g")
    large = Booking(Member("ns/large", shape(6)), 0, tuple(map(Share, range(6))), "g")
    assert adopted(asked(), [small, large], ["a"]) == (place(),)


KEPT = State((place(),), since=100.0, ends=3700.0, complete=True)
PHASES = {
    "waiting": (State(opens=NOON.timestamp() + 1), "Waiting", "NotStarted"),
    "pending": (State(), "Pending", "NoRoom"),
    "not as it is": (State(not_yet=NotYet("Misread", "m")), "Pending", "Misread"),
    "kept": (KEPT, "Reserved", "Kept"),
    "over": (State(expired=True), "Expired", "Expired"),
}


@pytest.mark.parametrize(("state", "phase", "reason"), PHASES.values(), ids=PHASES)
def test_what_is_told(state: State, phase: str, reason: str) -> None:
    refusal = Verdict(False, "NoRoom", "too few GPUs")
    status = status_of(reservation(), state, refusal)
    assert status is not None
    (condition,) = status.conditions
    assert (status.phase, condition.reason) == (phase, reason)
    assert (condition.status == "True") is (phase == "Reserved")


def test_nothing_is_told_before_it_was_its_turn() -> None:
    assert status_of(reservation(), State(), None) is None


def test_what_is_said_already_is_not_written_again() -> None:
    one = reservation()
    status = status_of(one, KEPT, None)
    assert status is not None
    change = status_change(one, status, NOON)
    assert change is not None
    assert change["nodes"][0]["devices"] == "0,1,2,3"
    assert change["conditions"][0]["lastTransitionTime"] == "2026-05-01T12:00:00Z"
    one.status = msgspec.convert(change, type(one.status))
    assert status_change(one, status, NOON) is None
