"""Decisions in the course of time: stabilization, rates, startup, zero."""

import math

import pytest

from kilonova.api.serving import Autoscaling, ScaleToZero, ScalingRate, SlaTarget
from kilonova.serving.signals import GroupSignals, Histogram
from tests.serving.autoscaler.observations import Group

DEMAND = Autoscaling(max_replicas=20)


def test_step_of_load_is_followed_within_seconds() -> None:
    group = Group(DEMAND)
    group.run([5] * 30)
    assert group.run([30] * 4) == [3, 4, 5, 5]


def test_number_sinks_after_the_stabilization_and_not_before() -> None:
    group = Group(DEMAND, replicas=5)
    group.run([30] * 10)
    numbers = group.run([5] * 70)
    assert set(numbers[:59]) == {5}
    assert numbers[-1] == 1


def test_short_lull_does_not_remove_servers() -> None:
    group = Group(DEMAND, replicas=5)
    for _ in range(5):
        group.run([30] * 10)
        group.run([0] * 40)
    assert set(group.numbers) == {5}


def test_restart_of_the_process_removes_nothing_at_once() -> None:
    group = Group(DEMAND, replicas=8)
    group.run([0] * 55)
    group.memory = None
    assert set(group.run([0] * 59)) == {8}
    assert group.run([0] * 5)[-1] == 1


@pytest.mark.parametrize(
    ("rate", "numbers"),
    [
        (ScalingRate(max_replicas=2, period="10s"), [3] * 11 + [5] * 10),
        (ScalingRate(stabilization="5s"), [1] * 5 + [13] * 16),
    ],
)
def test_growth_is_limited_by_rate_and_stabilization(rate: ScalingRate, numbers: list[int]) -> None:
    group = Group(Autoscaling(max_replicas=13, scale_up=rate))
    assert group.run([500] * 21) == numbers


def test_removal_is_limited_by_a_rate() -> None:
    rate = ScalingRate(stabilization="0s", max_replicas=1, period="10s")
    group = Group(Autoscaling(max_replicas=20, scale_down=rate), replicas=4)
    numbers = group.run([0] * 31)
    assert [numbers.index(number) for number in (3, 2, 1)] == [0, 11, 22]


def test_last_server_goes_after_idle_time_without_requests() -> None:
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="30s")
    )
    group = Group(scaling)
    group.run([3] * 10)
    numbers = group.run([0] * 40)
    assert numbers.index(0) == pytest.approx(30, abs=1)
    assert group.decision is not None
    assert group.decision.mode == "Idle"


def test_idle_time_counts_from_when_the_first_server_is_ready() -> None:
    """A large model may load for longer than a server may be idle."""
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="30s")
    )
    group = Group(scaling, replicas=0, startup=120.0)
    group.step(GroupSignals(in_flight=0), held=1)  # its client leaves
    numbers = group.run([0] * 200)
    assert numbers.index(0) == pytest.approx(150, abs=2)


def test_server_that_never_becomes_ready_goes_after_a_while() -> None:
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="30s")
    )
    group = Group(scaling, replicas=0, startup=math.inf)
    group.step(GroupSignals(in_flight=0), held=1)
    numbers = group.run([0] * 700)
    assert numbers.index(0) == pytest.approx(630, abs=2)


def test_requests_between_two_readings_are_no_idle_time() -> None:
    """Each was over when the gateways were read: the counters tell of it."""
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="30s")
    )
    group = Group(scaling)
    for second in range(100):
        rate = 0.2 if second % 20 < 5 else 0.0
        assert group.step(GroupSignals(in_flight=0, requests_per_second=rate)) == 1


def test_held_request_starts_the_first_server_at_once_and_keeps_it() -> None:
    scaling = Autoscaling(
        max_replicas=5, min_replicas=0, scale_to_zero=ScaleToZero(idle_after="5s")
    )
    group = Group(scaling, replicas=0, startup=60.0)
    group.run([0] * 10)
    assert group.step(GroupSignals(in_flight=0), held=1) == 1
    for _ in range(59):
        assert group.step(GroupSignals(in_flight=0), held=1) == 1


def test_startup_time_is_measured() -> None:
    group = Group(DEMAND, startup=12.0)
    group.run([30] * 30)
    assert group.memory is not None
    assert group.memory.startup_seconds == pytest.approx(12, abs=1.5)


def test_declared_startup_time_counts_until_it_has_been_measured() -> None:
    group = Group(Autoscaling(max_replicas=5, startup_time="3m"))
    group.run([0])
    assert group.memory is not None
    assert group.memory.startup_seconds == 180


def test_servers_for_a_backlog_go_when_it_is_gone() -> None:
    """The requests that arrive need three servers; a burst left a backlog for ten."""
    group = Group(DEMAND, replicas=2)

    def load(in_flight: int) -> GroupSignals:
        return GroupSignals(
            in_flight=in_flight, pending=0, arrivals_per_second=8.0, requests_per_second=8.0
        )

    for _ in range(30):
        group.step(load(17))
    for _ in range(10):
        group.step(load(64))
    assert group.replicas == 10
    for _ in range(20):
        group.step(load(11))
    assert group.replicas <= 3


def queue(seconds: float, in_flight: int) -> GroupSignals:
    """What gateways and Tritons say: of the queue the mean alone."""
    return GroupSignals(
        in_flight=in_flight,
        pending=0,
        queued=int(seconds * 100),
        arrivals_per_second=100.0,
        requests_per_second=100.0,
        distributions={"queue": Histogram(seconds * 100, 100)},
    )


def test_sla_adds_no_servers_while_queues_are_empty() -> None:
    scaling = Autoscaling(max_replicas=20, sla=SlaTarget(queue="20ms"))
    group = Group(scaling, replicas=2)
    for _ in range(120):
        group.step(queue(0.0, 64))
    assert max(group.numbers) == 2


def test_sla_removes_one_server_at_a_time_while_it_knows_little() -> None:
    scaling = Autoscaling(max_replicas=20, sla=SlaTarget(queue="20ms"))
    group = Group(scaling, replicas=4)
    for _ in range(200):
        group.step(queue(0.0, 8))
    assert [group.numbers.index(number) for number in (3, 2, 1)] == sorted(
        group.numbers.index(number) for number in (3, 2, 1)
    )
    assert group.numbers.index(2) - group.numbers.index(3) >= 59


def test_sla_adds_servers_when_the_mean_queue_is_too_long() -> None:
    scaling = Autoscaling(max_replicas=20, sla=SlaTarget(queue="20ms"))
    group = Group(scaling)
    group.step(queue(0.0, 8))
    assert group.step(queue(0.5, 64)) > 1
    assert group.decision is not None
    assert group.decision.mode == "SLA"
    assert group.decision.message.startswith("mean queue 500ms for 20ms")
