"""Which statuses are told at once, and how long others may wait."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus, names
from kilonova.api.grove.parts import LastError
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang, PodGangSpec, PodGangStatus
from kilonova.kube import Key
from kilonova.workloads.cliques.status import is_pressing
from kilonova.workloads.pace import Pace, Rush
from kilonova.workloads.replicas.gangstatus import gives_way
from kilonova.workloads.replicas.gangstatus import is_pressing as is_pressing_of_gang
from tests.workloads import builders
from tests.workloads.cliques.clique_values import a_clique


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_first_write_is_at_once_and_the_next_an_interval_later() -> None:
    clock = Clock()
    pace = Pace(0.5, clock)
    assert pace.wait("a") == 0
    pace.wrote("a")
    assert pace.wait("a") == 0.5
    assert pace.wait("b") == 0
    clock.now += 0.5
    assert pace.wait("a") == 0


def test_what_does_not_press_waits_longer_but_not_for_ever() -> None:
    clock = Clock()
    pace = Pace(0.5, clock)
    assert pace.wait("a", pressing=False) == 5
    clock.now += 4
    assert pace.wait("a", pressing=False) == 1
    clock.now += 1
    assert pace.wait("a", pressing=False) == 0
    pace.wrote("a")
    clock.now += 2
    assert pace.wait("a", pressing=False) == 5


def test_what_begins_to_press_waits_no_longer() -> None:
    pace = Pace(0.5, Clock())
    assert pace.wait("a", pressing=False) == 5
    assert pace.wait("a") == 0


def test_what_gives_way_waits_for_the_end_of_a_rush_but_not_for_ever() -> None:
    clock, rush = Clock(), Rush()
    pace = Pace(0.5, clock, rush)
    with a_rush(rush):
        assert pace.wait("a") == 0
        assert pace.wait("a", gives_way=True) == 15
        clock.now += 14
        assert pace.wait("a", gives_way=True) == 1
        clock.now += 1
        assert pace.wait("a", gives_way=True) == 0
        assert pace.wait("b", gives_way=True) == 15
    assert pace.wait("b", gives_way=True) == 0


def test_keys_that_waited_for_the_end_of_a_rush_are_called_once() -> None:
    rush, called = Rush(), list[Key]()
    rush.listen("cliques", called.append)
    rush.await_end("cliques", ("a", "no-rush"))
    with a_rush(rush):
        rush.await_end("cliques", ("a", "b"))
        rush.await_end("cliques", ("a", "b"))
        assert called == []
    assert called == [("a", "b")]


def test_few_acts_are_no_rush() -> None:
    rush = Rush()
    with rush.act():
        assert not rush.is_on


@contextmanager
def a_rush(rush: Rush) -> Generator[None]:
    with ExitStack() as acts:
        for _ in range(20):
            acts.enter_context(rush.act())
        assert rush.is_on
        yield
    assert not rush.is_on


@pytest.mark.parametrize(
    ("told", "scheduler", "expected"),
    [
        (PodGangStatus(), "default-scheduler", True),
        (PodGangStatus(), "kilonova-scheduler", False),
        (PodGangStatus(conditions=(Condition("Ready", "False"),)), "default-scheduler", False),
    ],
)
def test_only_the_first_status_of_a_gang_gives_way_if_no_scheduler_waits_for_it(
    told: PodGangStatus, scheduler: str, expected: bool
) -> None:
    assert gives_way(a_gang(told, scheduler)) is expected


def a_status(ready: int = 0, scheduled: int = 0, **fields: Any) -> PodCliqueStatus:
    told = PodCliqueStatus(
        replicas=4, ready_replicas=ready, scheduled_replicas=scheduled, observed_generation=1
    )
    return replace(told, **fields)


def conditions(*types: str) -> tuple[Condition, ...]:
    return tuple(Condition(type=each, status="True") for each in types)


@pytest.mark.parametrize(
    ("old", "new", "others_wait", "pressing"),
    [
        (PodCliqueStatus(), a_status(), False, False),
        (a_status(), a_status(1, 1), False, False),
        (a_status(), a_status(0, 4), False, False),
        (a_status(), a_status(0, 4), True, True),
        (a_status(1, 4), a_status(2, 4), False, True),
        (a_status(2, 4), a_status(3, 4), False, False),
        (a_status(3, 4), a_status(4, 4), False, True),
        (a_status(4, 4), a_status(3, 4), False, True),
        (a_status(0, 2), a_status(0, 1), False, True),
        (a_status(), a_status(observed_generation=2), False, True),
        (a_status(), a_status(last_errors=(LastError("ERR", "no", "now"),)), False, True),
        (a_status(), a_status(conditions=conditions("Failed")), False, True),
        (a_status(), a_status(0, 2, healthy_incarnation=0), False, True),
        (PodCliqueStatus(), a_status(0, 2, healthy_incarnation=0), False, False),
        (a_status(), a_status(conditions=conditions("MinAvailableBreached")), False, True),
        (
            PodCliqueStatus(),
            a_status(conditions=conditions("MinAvailableBreached")),
            False,
            False,
        ),
    ],
)
def test_only_pods_on_their_way_do_not_press(
    old: PodCliqueStatus, new: PodCliqueStatus, others_wait: bool, pressing: bool
) -> None:
    clique = replace(a_clique(4, 2), status=old)
    assert is_pressing(clique, new, others_wait=others_wait) is pressing


def a_gang(status: PodGangStatus, scheduler: str = "default-scheduler") -> PodGang:
    metadata = builders.metadata("gang", labels={names.SCHEDULER_NAME: scheduler})
    return PodGang(metadata=metadata, spec=PodGangSpec(pod_groups=()), status=status)


@pytest.mark.parametrize(
    ("old", "new", "scheduler", "pressing"),
    [
        (PodGangStatus(), PodGangStatus("Starting"), "default-scheduler", False),
        (PodGangStatus("Starting"), PodGangStatus("Running"), "default-scheduler", True),
        (PodGangStatus("Running"), PodGangStatus("Pending"), "default-scheduler", True),
        (PodGangStatus(), PodGangStatus("Failed"), "default-scheduler", True),
        (
            PodGangStatus(),
            PodGangStatus(conditions=conditions("Initialized")),
            "default-scheduler",
            False,
        ),
        (
            PodGangStatus(),
            PodGangStatus(conditions=conditions("Initialized")),
            "kilonova-scheduler",
            True,
        ),
        (
            PodGangStatus("Running"),
            PodGangStatus("Running", conditions=conditions("Unhealthy")),
            "default-scheduler",
            True,
        ),
    ],
)
def test_only_gangs_on_their_way_do_not_press(
    old: PodGangStatus, new: PodGangStatus, scheduler: str, pressing: bool
) -> None:
    assert is_pressing_of_gang(a_gang(old, scheduler), new) is pressing
