"""What inference engines contribute to the console."""

from typing import Any

import msgspec
import pytest

from kilonova.api.inference_engine import InferenceEngineDeployment, InferenceEngineInstance
from kilonova.console import core
from kilonova.console.description import Assembly
from kilonova.console.server import DERIVED_TABLES
from kilonova.instances.console import CONTRIBUTION
from kilonova.instances.console.rows import deployment_row, format_ranges, instance_row
from kilonova.scheduler.console import CONTRIBUTION as SCHEDULER
from tests.console.console_page import to_wire

AT = "2026-05-01T00:00:00Z"
SECONDS = 1777593600.0


def metadata(name: str, **more: Any) -> dict[str, Any]:
    known = {"namespace": "inference-engine", "uid": "u", "resourceVersion": "1"}
    return {"name": name, "creationTimestamp": AT, **known, **more}


def row_of(spec: Any, status: Any, **more: Any) -> Any:
    body = {"metadata": metadata("chat-1", **more), "spec": {"model": "m", **spec}}
    return to_wire(
        instance_row(msgspec.convert({**body, "status": status}, InferenceEngineInstance))
    )


def test_contribution_is_valid() -> None:
    contributions = (core.CONTRIBUTION, SCHEDULER, CONTRIBUTION)
    described = Assembly(contributions, DERIVED_TABLES).describe()
    paths = [each.path for each in described.pages if each.hide_empty]
    assert paths == ["/instances", "/instance-deployments"]


def test_instance_row_has_its_agents_by_node_and_its_repairs() -> None:
    agents = [{"agent": each, "node": "n1", "domain": "a/r1"} for each in (0, 1, 3)]
    status = {
        "phase": "Repairing",
        "targetAgents": 4,
        "readyAgents": 3,
        "domain": "a/r1",
        "allocation": [*agents, {"agent": 2, "node": "n0"}],
        "repairs": {"recreated": 2, "relocated": 1, "lastTime": AT, "lastReason": "node n9 died"},
        "conditions": [
            {"type": "Allocated", "status": "True"},
            {"type": "AgentsReady", "status": "False", "message": "3 of 4 agents are ready"},
            {"type": "Degraded", "status": "True", "message": "node n9 died"},
        ],
    }
    labels = {"supernova.groq.io/deployment": "chat"}
    row = row_of({"targetAgents": 4, "release": "r2", "queue": "serving"}, status, labels=labels)
    assert row["id"] == "inference-engine/chat-1"
    assert (row["phase"], row["agents"], row["ready"], row["domain"]) == ("Repairing", 4, 3, "a/r1")
    assert row["deployment"] == "inference-engine/chat"
    assert (row["recreated"], row["relocated"], row["lastRepair"]) == (2, 1, SECONDS)
    assert row["problem"] == "node n9 died"
    assert row["nodes"] == [
        {"node": "n0", "agents": "2", "domain": ""},
        {"node": "n1", "agents": "0-1, 3", "domain": "a/r1"},
    ]


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ([], ""),
        ([{"type": "Allocated", "status": "False", "message": "no capacity"}], "no capacity"),
        (
            [
                {"type": "Allocated", "status": "True"},
                {"type": "AgentsReady", "status": "False", "message": "0 of 4 agents are ready"},
                {"type": "Degraded", "status": "False"},
            ],
            "0 of 4 agents are ready",
        ),
    ],
)
def test_problem_is_that_of_the_first_condition(conditions: Any, problem: str) -> None:
    assert row_of({"targetAgents": 4}, {"conditions": conditions}).get("problem", "") == problem


def test_new_instance_has_the_agents_of_its_spec() -> None:
    row = row_of({"targetAgents": 4}, {})
    assert (row["phase"], row["agents"], row.get("ready", 0)) == ("Pending", 4, 0)
    deleted = row_of({"targetAgents": 4}, {"phase": "Ready"}, deletionTimestamp=AT)
    assert deleted["phase"] == "Terminating"


def test_deployment_row_says_how_many_more_fit() -> None:
    body = {
        "metadata": metadata("chat"),
        "spec": {"release": "r2", "replicas": 3, "paused": True},
        "status": {
            "readyReplicas": 2,
            "updatedReplicas": 1,
            "unallocatable": 1,
            "additionalReplicas": 0,
            "additionalReplicasMessage": "no capacity",
        },
    }
    row = to_wire(deployment_row(msgspec.convert(body, InferenceEngineDeployment)))
    assert (row["desired"], row["ready"], row["updated"], row["unallocatable"]) == (3, 2, 1, 1)
    assert (row["additional"], row["additionalReason"]) == (0, "no capacity")
    assert row["paused"] is True


def test_ranges_of_agents() -> None:
    assert format_ranges([]) == ""
    assert format_ranges([5]) == "5"
    assert format_ranges([7, 0, 1, 2, 9, 8]) == "0-2, 7-9"
