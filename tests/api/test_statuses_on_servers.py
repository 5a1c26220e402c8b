"""Statuses, as a table: required fields and defaults."""

from typing import Any

import pytest

from tests.api.manifests import ABSENT, collection, minimal_object, value_at
from tests.conftest import Api

TIMESTAMP = "2026-05-01T00:00:00Z"
CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "AllReady",
    "message": "",
    "lastTransitionTime": TIMESTAMP,
}
ERROR = {"code": "ERR_SYNC_PODS", "description": "no", "observedAt": TIMESTAMP}
HASHES = {"podCliqueSetGenerationHash": "a", "podTemplateHash": "b"}

ACCEPTED_STATUSES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "a set": (
        "podcliquesets",
        {
            "observedGeneration": 1,
            "conditions": [CONDITION],
            "lastErrors": [ERROR],
            "replicas": 2,
            "podGangStatuses": [{"name": "a-0", "phase": "Starting", "conditions": [CONDITION]}],
            "currentGenerationHash": "h",
            "updateProgress": {
                "updateStartedAt": TIMESTAMP,
                "currentlyUpdating": [{"replicaIndex": 0, "updateStartedAt": TIMESTAMP}],
            },
        },
        {
            "updatedReplicas": 0,
            "availableReplicas": 0,
            "updateProgress.updatedPodCliquesCount": 0,
            "updateProgress.totalPodCliquesCount": 0,
            "updateProgress.updatedPodCliqueScalingGroupsCount": 0,
            "updateProgress.totalPodCliqueScalingGroupsCount": 0,
            "updateProgress.updateEndedAt": ABSENT,
        },
    ),
    "a clique": (
        "podcliques",
        {
            "replicas": 2,
            "succeededReplicas": 1,
            "healthyIncarnation": 3,
            "updateProgress": {
                **HASHES,
                "readyPodsSelectedToUpdate": {"current": "x", "completed": ["y"]},
            },
        },
        {
            "readyReplicas": 0,
            "updatedReplicas": 0,
            "scheduleGatedReplicas": 0,
            "scheduledReplicas": 0,
            "healthyIncarnation": 3,
        },
    ),
    "a group": (
        "podcliquescalinggroups",
        {
            "selector": "a=b",
            "updateProgress": {
                "updateStartedAt": TIMESTAMP,
                "podCliqueSetGenerationHash": "h",
                "readyReplicaIndicesSelectedToUpdate": {"current": 1, "completed": [0]},
            },
        },
        {
            "scheduledReplicas": 0,
            "availableReplicas": 0,
            "updatedReplicas": 0,
            "updateProgress.updatedPodCliquesCount": 0,
            "updateProgress.totalPodCliquesCount": 0,
        },
    ),
    "a topology": (
        "clustertopologybindings",
        {
            "schedulerTopologyStatuses": [
                {"schedulerName": "s", "topologyReference": "t", "inSync": False, "message": "m"}
            ]
        },
        {"schedulerTopologyStatuses[0].message": "m"},
    ),
    "a gang": (
        "podgangs",
        {"conditions": [CONDITION], "placementScore": 0.5, "lastScheduled": TIMESTAMP},
        {"phase": "Pending", "placementScore": 0.5},
    ),
    "a queue": (
        "queues",
        {
            "observedGeneration": 1,
            "allocated": {"nvidia.com/gpu": "8", "cpu": "500m"},
            "requested": {"nvidia.com/gpu": "16"},
            "fairShare": {"nvidia.com/gpu": "12"},
            "conditions": [CONDITION],
        },
        {"pendingGangs": 0, "allocated.cpu": "500m"},
    ),
    "a reservation": (
        "reservations",
        {
            "nodes": [{"name": "n", "pods": 2}],
            "usedBy": {"namespace": "default", "name": "a-0"},
            "reservedAt": TIMESTAMP,
            "expiresAt": TIMESTAMP,
            "conditions": [CONDITION],
        },
        {"phase": "Pending", "nodes[0].pods": 2},
    ),
}

REJECTED_STATUSES: dict[str, tuple[str, Any, str]] = {
    "a phase of a reservation that there is not": (
        "reservations",
        {"phase": "CapacityReserved"},
        'supported values: "Waiting", "Pending", "Reserved", "Used", "Expired"',
    ),
    "a phase that there is not": (
        "podgangs",
        {"phase": "Sleeping"},
        'supported values: "Pending", "Starting", "Running", "Failed", "Succeeded"',
    ),
    "a phase in a set that there is not": (
        "podcliquesets",
        {"podGangStatuses": [{"name": "a-0", "phase": "Sleeping"}]},
        "status.podGangStatuses[0].phase: Unsupported value",
    ),
    "a condition without a reason": (
        "podcliques",
        {"conditions": [{**CONDITION, "reason": ""}]},
        "conditions[0].reason in body should be at least 1 chars long",
    ),
    "a condition twice": (
        "podcliques",
        {"conditions": [CONDITION, CONDITION]},
        'status.conditions[1]: Duplicate value: {"type":"Ready"}',
    ),
    "a condition that is perhaps": (
        "podcliquescalinggroups",
        {"conditions": [{**CONDITION, "status": "Perhaps"}]},
        'supported values: "True", "False", "Unknown"',
    ),
    "an error without its time": (
        "podcliquesets",
        {"lastErrors": [{"code": "c", "description": "d"}]},
        "status.lastErrors[0].observedAt: Required value",
    ),
    "a time that is none": (
        "podcliquesets",
        {"updateProgress": {"updateStartedAt": "yesterday"}},
        "status.updateProgress.updateStartedAt",
    ),
    "an update of a clique to nothing": (
        "podcliques",
        {"updateProgress": {"podTemplateHash": "b"}},
        "status.updateProgress.podCliqueSetGenerationHash: Required value",
    ),
    "an update of a group without beginning": (
        "podcliquescalinggroups",
        {"updateProgress": {"podCliqueSetGenerationHash": "h"}},
        "status.updateProgress.updateStartedAt: Required value",
    ),
    "a replica without its number": (
        "podcliquesets",
        {"updateProgress": {"currentlyUpdating": [{}]}},
        "status.updateProgress.currentlyUpdating[0].replicaIndex: Required value",
    ),
    "a scheduler of which nothing is said": (
        "clustertopologybindings",
        {"schedulerTopologyStatuses": [{"schedulerName": "s", "topologyReference": "t"}]},
        "status.schedulerTopologyStatuses[0].inSync: Required value",
    ),
}


@pytest.mark.parametrize(
    ("plural", "status", "expected"), ACCEPTED_STATUSES.values(), ids=ACCEPTED_STATUSES
)
def test_valid_status_is_accepted(
    api_with_definitions: Api, plural: str, status: Any, expected: dict[str, Any]
) -> None:
    code, response = _write(api_with_definitions, plural, status)
    assert code == 200, response
    assert {path: value_at(response["status"], path) for path in expected} == expected


@pytest.mark.parametrize(
    ("plural", "status", "message"), REJECTED_STATUSES.values(), ids=REJECTED_STATUSES
)
def test_invalid_status_is_rejected(
    api_with_definitions: Api, plural: str, status: Any, message: str
) -> None:
    code, response = _write(api_with_definitions, plural, status)
    assert code == 422, response
    assert message in response["message"]


def _write(api: Api, plural: str, status: Any) -> tuple[int, Any]:
    """Create an object with a unique name, and write its status."""
    path, name = collection(plural, api.namespace), f"in-{api.namespace}"
    body = minimal_object(plural, **{"metadata.name": name})
    code, live = api.access.request("POST", path, body)
    assert code == 201, live
    live["status"] = status
    return api.access.request("PUT", f"{path}/{name}/status?fieldValidation=Strict", live)
