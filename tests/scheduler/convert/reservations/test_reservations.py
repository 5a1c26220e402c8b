"""Conversion of Reservations: gangs, reserved nodes, status."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.scheduling import Reservation, ReservedNode
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.cache.reservations.state import ReservationState
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.pods.members import InvalidRequest
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    convert_reserved_gang,
    convert_reserved_pods,
    is_reservation_gang,
    reservation_end,
    reservation_start,
)
from kilonova.scheduler.convert.reservations.reserved_nodes import (
    adopt_running_pods,
    convert_reserved_node,
    encode_reserved_nodes,
    matches_reserved_nodes,
    without_reserved_members,
)
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.reservations.status import compute_status, status_change
from kilonova.scheduler.status.results import SchedulingResult
from tests.scheduler.core.support.clusters import RACK, node, shape, snapshot_of

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


def convert_gang(**spec: Any) -> Gang:
    wanted = convert_reserved_pods(reservation(**spec))
    assert isinstance(wanted, Gang)
    return wanted


def reserved_node(
    name: str = "a", pods: int = 1, gpus: int = 4, devices: str = "0,1,2,3"
) -> ReservedNode:
    return ReservedNode(name, pods, {GPU: str(gpus), "cpu": "500m"}, devices)


def test_described_pods_become_a_gang() -> None:
    wanted = convert_gang(topologyKey=RACK, queue="research")
    assert (wanted.name, wanted.queue, wanted.pack.required) == (NAME, "research", RACK)
    assert not wanted.preemptible
    (group,) = wanted.groups
    assert group.needed == 2
    assert group.members[0].shape.requests == (("cpu", 500), (GPU, 4), ("pods", 1))
    assert group.members[0].shape.gpu == GpuRequest(4)


def test_tolerations_are_converted() -> None:
    taint = {"key": "dedicated", "operator": "Exists"}
    wanted = convert_gang(pods=[{"count": 1, "requests": {"cpu": 1}, "tolerations": [taint]}])
    (toleration,) = wanted.groups[0].members[0].shape.tolerations
    assert (toleration.key, toleration.operator) == ("dedicated", "Exists")


def test_several_gpu_kinds_are_reported_with_their_field() -> None:
    requests = {GPU: 1, "nvidia.com/mig-1g.10gb": 1}
    result = convert_reserved_pods(reservation(pods=[{"count": 1, "requests": requests}]))
    assert isinstance(result, GangNotReady)
    assert result.message.startswith("spec.pods[0]: resources.requests:")


def test_missing_gang_is_reported() -> None:
    result = convert_reserved_gang(reservation(podGang="g"), None, lambda _: None, None)
    assert result == GangNotReady("GangNotFound", "PodGang ns/g not found")


@pytest.mark.parametrize(
    ("spec", "since", "ends"),
    [
        ({"duration": "90m"}, 1000.0, 6400.0),
        ({"duration": "90m"}, None, None),
        ({"until": "2026-05-01T12:00:00Z"}, None, NOON.timestamp()),
        ({"until": "2026-05-01T12:00:00Z"}, 1000.0, NOON.timestamp()),
    ],
)
def test_reservation_end(spec: dict[str, Any], since: float | None, ends: float | None) -> None:
    assert reservation_end(reservation(**spec).spec, since) == ends


def test_invalid_times_name_their_field() -> None:
    with pytest.raises(InvalidRequest, match=r"spec\.start: 'soon'"):
        reservation_start(reservation(start="soon").spec)
    with pytest.raises(InvalidRequest, match=r"spec\.duration: '99999999999h'"):
        reservation_end(reservation(duration="99999999999h").spec, 0.0)


@pytest.mark.parametrize(
    ("name", "is_one"), [(NAME, True), ("rsv/night", False), ("pod/ns/night", False)]
)
def test_gang_names_distinguish_reservations(name: str, is_one: bool) -> None:
    assert is_reservation_gang(name) is is_one


def test_reserved_nodes_round_trip() -> None:
    snapshot = snapshot_of(node("a"))
    members = convert_gang().groups[0].members
    pod_placements = [
        PodPlacement(members[0], 0, tuple(map(GpuShare, (0, 1, 2, 3))), NAME),
        PodPlacement(members[1], 0, tuple(map(GpuShare, (4, 5, 6, 7))), NAME),
    ]
    reserved_nodes = encode_reserved_nodes(pod_placements, snapshot.names)
    assert reserved_nodes == (reserved_node(pods=2, devices="0,1,2,3,4,5,6,7"),)
    pod_placement = convert_reserved_node(snapshot, NAME, 0, reserved_nodes[0])
    assert pod_placement is not None
    assert pod_placement.shape.requests == (("cpu", 1000), (GPU, 8), ("pods", 2))
    assert pod_placement.devices == tuple(map(GpuShare, range(8)))
    assert without_reserved_members(convert_gang(), reserved_nodes).needed == 0


def test_shares_of_one_device_are_merged() -> None:
    half = shape(1, cpu=100, milli=400)
    pod_placements = [
        PodPlacement(Member(pod, half), 0, (GpuShare(3, 400),), NAME) for pod in ("x", "y")
    ]
    (remembered,) = encode_reserved_nodes(pod_placements, ["a"])
    assert remembered.devices == "3:800"
    pod_placement = convert_reserved_node(snapshot_of(node("a")), NAME, 0, remembered)
    assert pod_placement is not None
    assert pod_placement.shape.gpu == GpuRequest(1, 800)


@pytest.mark.parametrize(
    "reserved", [reserved_node("gone"), reserved_node(devices="8"), reserved_node(devices="?")]
)
def test_reserved_node_without_node_or_device_is_dropped(reserved: ReservedNode) -> None:
    assert convert_reserved_node(snapshot_of(node("a")), NAME, 0, reserved) is None


def test_missing_members_are_scheduled_beside_the_reserved_ones() -> None:
    (group,) = without_reserved_members(convert_gang(), (reserved_node("a"),)).groups
    assert (len(group.members), group.placed_nodes, group.needed) == (1, ("a",), 1)


MATCHING_CASES = {
    "the same": ({}, (reserved_node(), reserved_node("b")), True),
    "less": ({}, (reserved_node(),), True),
    "more": ({}, (reserved_node(pods=3),), False),
    "others": ({}, (reserved_node(gpus=8),), False),
    "one domain": ({"topologyKey": RACK}, (reserved_node(), reserved_node("b")), True),
    "two domains": ({"topologyKey": RACK}, (reserved_node(), reserved_node("c")), False),
    "nothing": ({"topologyKey": RACK}, (), True),
}


@pytest.mark.parametrize(
    ("spec", "reserved_nodes", "is_match"), MATCHING_CASES.values(), ids=MATCHING_CASES
)
def test_reserved_nodes_of_a_changed_reservation(
    spec: dict[str, Any], reserved_nodes: tuple[ReservedNode, ...], is_match: bool
) -> None:
    snapshot = snapshot_of(node("a", rack="1"), node("b", rack="1"), node("c", rack="2"))
    assert matches_reserved_nodes(convert_gang(**spec), reserved_nodes, snapshot) is is_match


def test_running_pod_is_adopted_if_large_enough() -> None:
    small = PodPlacement(Member("ns/small", shape(1)), 0, (GpuShare(7),), "g")
    large = PodPlacement(Member("ns/large", shape(6)), 0, tuple(map(GpuShare, range(6))), "g")
    assert adopt_running_pods(convert_gang(), [small, large], ["a"]) == (reserved_node(),)


RESERVED_STATE = ReservationState((reserved_node(),), since=100.0, ends_at=3700.0, is_complete=True)
PHASES = {
    "waiting": (ReservationState(starts_at=NOON.timestamp() + 1), "Waiting", "NotStarted"),
    "pending": (ReservationState(), "Pending", "InsufficientCapacity"),
    "not schedulable": (
        ReservationState(not_ready=GangNotReady("InvalidRequest", "m")),
        "Pending",
        "InvalidRequest",
    ),
    "reserved": (RESERVED_STATE, "Reserved", "CapacityReserved"),
    "expired": (ReservationState(expired=True), "Expired", "Expired"),
}


@pytest.mark.parametrize(("state", "phase", "reason"), PHASES.values(), ids=PHASES)
def test_reservation_status(state: ReservationState, phase: str, reason: str) -> None:
    rejection = SchedulingResult(False, "InsufficientCapacity", "too few GPUs")
    status = compute_status(reservation(), state, rejection)
    assert status is not None
    (condition,) = status.conditions
    assert (status.phase, condition.reason) == (phase, reason)
    assert (condition.status == "True") is (phase == "Reserved")


def test_no_status_before_the_first_cycle() -> None:
    assert compute_status(reservation(), ReservationState(), None) is None


def test_unchanged_status_is_not_written() -> None:
    one = reservation()
    status = compute_status(one, RESERVED_STATE, None)
    assert status is not None
    change = status_change(one, status, NOON)
    assert change is not None
    assert change["nodes"][0]["devices"] == "0,1,2,3"
    assert change["conditions"][0]["lastTransitionTime"] == "2026-05-01T12:00:00Z"
    one.status = msgspec.convert(change, type(one.status))
    assert status_change(one, status, NOON) is None
