"""What the scheduler contributes to the console: queues."""

from typing import Any

import msgspec

from kilonova.api.scheduling import Queue
from kilonova.console import core
from kilonova.console.description import Assembly
from kilonova.console.server import DERIVED_TABLES
from kilonova.scheduler.console import CONTRIBUTION, queue_row
from tests.console.console_page import to_wire


def test_contribution_is_valid() -> None:
    described = Assembly((core.CONTRIBUTION, CONTRIBUTION), DERIVED_TABLES).describe()
    assert [page.path for page in described.pages] == [
        "/fleet",
        "/workloads",
        "/queues",
        "/nodes",
        "/events",
    ]


def test_series_of_a_queue_count_gpus_and_gangs() -> None:
    status = {"allocated": {"nvidia.com/gpu": "4"}, "pendingGangs": 2}
    (series,) = CONTRIBUTION.series
    measured = {each.series: each for each in series.measure(read_queue("team", status=status))}
    assert set(measured) == set(series.names)
    assert {each.key for each in measured.values()} == {"team"}
    assert measured["queue-gpus-used"].value == 4
    assert measured["queue-gpus-requested"].value == 0
    assert measured["queue-gangs-pending"].value == 2


def test_queue_row_has_plain_numbers() -> None:
    queue = read_queue(
        "research",
        spec={"parent": "all", "deserved": {"nvidia.com/gpu": 8}, "limit": {"cpu": "1500m"}},
        status={
            "allocated": {"nvidia.com/gpu": "4"},
            "pendingGangs": 2,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "False",
                    "reason": "NoParent",
                    "message": "no queue all",
                }
            ],
        },
    )
    assert to_wire(queue_row(queue)) == {
        "id": "research",
        "parent": "all",
        "weight": 1,
        "deserved": {"nvidia.com/gpu": 8},
        "limit": {"cpu": 1.5},
        "used": {"nvidia.com/gpu": 4},
        "pendingGangs": 2,
        "ready": False,
        "observed": True,
        "message": "no queue all",
        "created": 100.0,
    }
    unseen = queue_row(read_queue("new"))
    assert (unseen.observed, unseen.message) == (False, "not yet observed by a scheduler")


def read_queue(name: str, **parts: Any) -> Queue:
    metadata = {
        "name": name,
        "uid": "u",
        "resourceVersion": "1",
        "creationTimestamp": "1970-01-01T00:01:40Z",
    }
    return msgspec.convert({"metadata": metadata, **parts}, Queue)
