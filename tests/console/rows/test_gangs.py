"""Rows of gangs, PodCliqueSets, PodCliques and events."""

import json
from typing import Any, TypeVar

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.console.objects import Event, PodClique, PodCliqueSet
from kilonova.console.rows.events import event_row
from kilonova.console.rows.gangs import clique_row, gang_row, set_row
from tests.console.console_page import to_wire

T = TypeVar("T")
OPERATOR = {
    "app.kubernetes.io/managed-by": "grove-operator",
    "app.kubernetes.io/part-of": "disagg",
}


def read(type_: type[T], name: str, *, labels: Any = None, **rest: Any) -> T:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": "u",
        "resourceVersion": "1",
        "labels": labels or {},
        "creationTimestamp": "1970-01-01T00:01:40Z",
    }
    return msgspec.json.decode(json.dumps({"metadata": metadata, **rest}), type=type_)


def test_waiting_gang_has_a_reason() -> None:
    gang = read(
        PodGang,
        "disagg-0",
        labels={**OPERATOR, "scheduling.kilonova.dev/queue": "research"},
        spec={
            "podgroups": [
                {
                    "name": "disagg-0-decode",
                    "minReplicas": 2,
                    "podReferences": [{"namespace": "team", "name": "a"}],
                }
            ],
            "topologyConstraint": {"packConstraint": {"required": "kilonova.dev/rack"}},
            "priorityClassName": "high",
            "baseRef": {"namespace": "team", "name": "disagg-base"},
        },
        status={
            "phase": "Pending",
            "conditions": [
                {
                    "type": "Unschedulable",
                    "status": "True",
                    "reason": "InsufficientCapacity",
                    "message": "no rack has 16 free GPUs",
                }
            ],
        },
    )
    assert to_wire(gang_row(gang)) == {
        "id": "team/disagg-0",
        "set": "team/disagg",
        "phase": "Pending",
        "groups": [{"name": "disagg-0-decode", "min": 2, "pods": ["team/a"]}],
        "queue": "research",
        "priority": "high",
        "pendingReason": "no rack has 16 free GPUs",
        "reason": "InsufficientCapacity",
        "requiredTopology": "kilonova.dev/rack",
        "base": "team/disagg-base",
        "created": 100.0,
    }


def test_placed_gang_has_no_waiting_reason() -> None:
    placed = {"type": "Unschedulable", "status": "False", "reason": "Placed", "message": "has all"}
    gang = read(
        PodGang,
        "g",
        labels={"kai.scheduler/queue": "default"},
        spec={"podgroups": []},
        status={
            "phase": "Running",
            "conditions": [placed],
            "placementScore": 0.75,
            "lastScheduled": "1970-01-01T00:02:00Z",
            "lastReady": "1970-01-01T00:03:00Z",
        },
    )
    row = to_wire(gang_row(gang))
    assert row == {
        "id": "team/g",
        "phase": "Running",
        "groups": [],
        "score": 0.75,
        "created": 100.0,
        "scheduled": 120.0,
        "readyAt": 180.0,
    }


def build_set(**status: Any) -> PodCliqueSet:
    gpu = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    decode = {
        "name": "decode",
        "spec": {
            "roleName": "decode",
            "replicas": 3,
            "minAvailable": 2,
            "startsAfter": ["router"],
            "podSpec": {"containers": [gpu]},
        },
    }
    router = {"name": "router", "spec": {"roleName": "route", "replicas": 1, "podSpec": {}}}
    template = {"cliques": [router, decode], "cliqueStartupType": "CliqueStartupTypeExplicit"}
    spec = {"replicas": 2, "template": template}
    return read(PodCliqueSet, "disagg", spec=spec, status=status)


def test_set_row_has_its_cliques() -> None:
    phases = {"disagg-0": "Running", "disagg-1": "Pending", "disagg-0-pair-0": "Running"}
    gangs = [{"name": name, "phase": phase} for name, phase in phases.items()]
    status = {"availableReplicas": 1, "updatedReplicas": 2, "podGangStatuses": gangs}
    assert to_wire(set_row(build_set(**status))) == {
        "id": "team/disagg",
        "replicas": 2,
        "available": 1,
        "scheduled": 1,
        "updated": 2,
        "startup": "Explicit",
        "cliques": [
            {"name": "router", "replicas": 1, "min": 1, "role": "route"},
            {
                "name": "decode",
                "replicas": 3,
                "min": 2,
                "role": "decode",
                "after": ["router"],
                "gpus": 4,
            },
        ],
        "created": 100.0,
    }


def test_set_with_excessive_quantities_has_a_row() -> None:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1e400"}}}
    clique = {
        "name": "all",
        "spec": {"replicas": 2**31 - 1, "podSpec": {"containers": [container]}},
    }
    spec = {"replicas": 2**31 - 1, "template": {"cliques": [clique]}}
    gangs = [{"name": name, "phase": "Running"} for name in ("all-7", "all-007", "all-2147483647")]
    status = {"podGangStatuses": gangs}
    row = set_row(read(PodCliqueSet, "all", spec=spec, status=status))
    assert (row.replicas, row.scheduled) == (2**31 - 1, 1)
    assert row.cliques[0].gpus == 2**63


def test_set_row_has_its_most_recent_problem() -> None:
    def condition(type_: str, status: str, message: str, minute: int) -> dict[str, str]:
        moment = f"2026-05-01T00:0{minute}:00Z"
        return {"type": type_, "status": status, "message": message, "lastTransitionTime": moment}

    conditions = [
        condition("TopologyLevelsUnavailable", "True", "no level rack", 1),
        condition("UpdateInProgress", "Unknown", "no progress for 1h", 3),
        condition("Complete", "True", "all work is done", 5),
        condition("Failed", "False", "", 6),
    ]
    row = set_row(build_set(conditions=conditions))
    assert (row.problem, row.updating) == ("no progress for 1h", True)
    refused = {"code": "X", "description": "quota", "observedAt": "2026-05-01T00:04:00Z"}
    assert set_row(build_set(conditions=conditions, lastErrors=[refused])).problem == "quota"
    assert set_row(build_set()).problem == ""


def test_clique_row_counts_its_pods() -> None:
    clique = read(
        PodClique,
        "disagg-0-decode",
        labels={**OPERATOR, "grove.io/podgang": "disagg-0"},
        spec={"roleName": "decode", "replicas": 3, "podSpec": {}},
        status={"readyReplicas": 1, "scheduledReplicas": 2},
    )
    assert to_wire(clique_row(clique)) == {
        "id": "team/disagg-0-decode",
        "set": "team/disagg",
        "gang": "team/disagg-0",
        "role": "decode",
        "replicas": 3,
        "min": 3,
        "ready": 1,
        "scheduled": 2,
        "created": 100.0,
    }


def test_event_row_has_object_times_and_source() -> None:
    event = read(
        Event,
        "e",
        type="Warning",
        reason="FailedScheduling",
        message="insufficient capacity",
        involvedObject={"kind": "Pod", "namespace": "team", "name": "p"},
        count=3,
        firstTimestamp="1970-01-01T00:00:50Z",
        lastTimestamp="1970-01-01T00:01:30Z",
        source={"component": "kilonova-scheduler"},
    )
    assert to_wire(event_row(event)) == {
        "id": "team/e",
        "type": "Warning",
        "reason": "FailedScheduling",
        "object": "Pod/team/p",
        "message": "insufficient capacity",
        "count": 3,
        "first": 50.0,
        "last": 90.0,
        "source": "kilonova-scheduler",
    }


def test_event_of_the_events_api_has_a_row() -> None:
    event = read(
        Event,
        "e",
        involvedObject={"kind": "Node", "name": "n1"},
        eventTime="1970-01-01T00:01:10.5Z",
        series={"count": 7, "lastObservedTime": "1970-01-01T00:01:20.25Z"},
        reportingComponent="kubelet",
    )
    row = event_row(event)
    assert (row.object, row.count, row.last, row.source) == ("Node/n1", 7, 80.25, "kubelet")
    once = event_row(read(Event, "once", count=1))
    assert (once.count, once.last) == (0, 100.0)
