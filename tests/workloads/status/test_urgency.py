"""Which statuses are urgent, and which may be deferred."""

from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus, names
from kilonova.api.grove.common import LastError
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang, PodGangSpec, PodGangStatus
from kilonova.workloads.controllers.podclique.status import is_urgent
from kilonova.workloads.controllers.podcliqueset_replica.gang_status import is_deferrable
from kilonova.workloads.controllers.podcliqueset_replica.gang_status import (
    is_urgent as is_pressing_of_gang,
)
from tests.workloads import api_objects
from tests.workloads.controllers.podclique.clique_objects import build_clique


@pytest.mark.parametrize(
    ("status", "scheduler", "expected"),
    [
        (PodGangStatus(), "default-scheduler", True),
        (PodGangStatus(), "kilonova-scheduler", False),
        (PodGangStatus(conditions=(Condition("Ready", "False"),)), "default-scheduler", False),
    ],
)
def test_only_the_first_status_of_a_gang_is_deferrable_without_a_waiting_scheduler(
    status: PodGangStatus, scheduler: str, expected: bool
) -> None:
    assert is_deferrable(build_gang(status, scheduler)) is expected


def build_status(ready: int = 0, scheduled: int = 0, **fields: Any) -> PodCliqueStatus:
    status = PodCliqueStatus(
        replicas=4, ready_replicas=ready, scheduled_replicas=scheduled, observed_generation=1
    )
    return replace(status, **fields)


def build_conditions(*types: str) -> tuple[Condition, ...]:
    return tuple(Condition(type=each, status="True") for each in types)


@pytest.mark.parametrize(
    ("old", "new", "others_wait", "urgent"),
    [
        (PodCliqueStatus(), build_status(), False, False),
        (build_status(), build_status(1, 1), False, False),
        (build_status(), build_status(0, 4), False, False),
        (build_status(), build_status(0, 4), True, True),
        (build_status(1, 4), build_status(2, 4), False, True),
        (build_status(2, 4), build_status(3, 4), False, False),
        (build_status(3, 4), build_status(4, 4), False, True),
        (build_status(4, 4), build_status(3, 4), False, True),
        (build_status(0, 2), build_status(0, 1), False, True),
        (build_status(), build_status(observed_generation=2), False, True),
        (build_status(), build_status(last_errors=(LastError("ERR", "no", "now"),)), False, True),
        (build_status(), build_status(conditions=build_conditions("Failed")), False, True),
        (build_status(), build_status(0, 2, healthy_incarnation=0), False, True),
        (PodCliqueStatus(), build_status(0, 2, healthy_incarnation=0), False, False),
        (
            build_status(),
            build_status(conditions=build_conditions("MinAvailableBreached")),
            False,
            True,
        ),
        (
            PodCliqueStatus(),
            build_status(conditions=build_conditions("MinAvailableBreached")),
            False,
            False,
        ),
    ],
)
def test_only_pod_progress_is_not_urgent(
    old: PodCliqueStatus, new: PodCliqueStatus, others_wait: bool, urgent: bool
) -> None:
    clique = replace(build_clique(4, 2), status=old)
    assert is_urgent(clique, new, others_wait=others_wait) is urgent


def build_gang(status: PodGangStatus, scheduler: str = "default-scheduler") -> PodGang:
    metadata = api_objects.metadata("gang", labels={names.SCHEDULER_NAME: scheduler})
    return PodGang(metadata=metadata, spec=PodGangSpec(pod_groups=()), status=status)


@pytest.mark.parametrize(
    ("old", "new", "scheduler", "urgent"),
    [
        (PodGangStatus(), PodGangStatus("Starting"), "default-scheduler", False),
        (PodGangStatus("Starting"), PodGangStatus("Running"), "default-scheduler", True),
        (PodGangStatus("Running"), PodGangStatus("Pending"), "default-scheduler", True),
        (PodGangStatus(), PodGangStatus("Failed"), "default-scheduler", True),
        (
            PodGangStatus(),
            PodGangStatus(conditions=build_conditions("Initialized")),
            "default-scheduler",
            False,
        ),
        (
            PodGangStatus(),
            PodGangStatus(conditions=build_conditions("Initialized")),
            "kilonova-scheduler",
            True,
        ),
        (
            PodGangStatus("Running"),
            PodGangStatus("Running", conditions=build_conditions("Unhealthy")),
            "default-scheduler",
            True,
        ),
    ],
)
def test_only_gang_progress_is_not_urgent(
    old: PodGangStatus, new: PodGangStatus, scheduler: str, urgent: bool
) -> None:
    assert is_pressing_of_gang(build_gang(old, scheduler), new) is urgent
