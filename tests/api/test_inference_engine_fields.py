"""What the definitions of inference engines and fleets accept and reject, as tables."""

from typing import Any

import pytest

from tests.api.manifests import ABSENT, POD_SPEC, collection, minimal_object, value_at
from tests.conftest import Api

INSTANCE = "inferenceengineinstances"
INSTANCES = "inferenceenginedeployments"

ACCEPTED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "the least instance": (INSTANCE, {}, {"spec.topology": ABSENT, "spec.targetAgents": 108}),
    "a build instead of a number of agents": (
        INSTANCE,
        {"spec.targetAgents": ABSENT, "spec.build": "b7"},
        {"spec.targetAgents": ABSENT},
    ),
    "labels of a pod template": (
        INSTANCE,
        {"spec.agent": {"metadata": {"labels": {"team": "x"}}, "spec": POD_SPEC}},
        {"spec.agent.metadata.labels": {"team": "x"}},
    ),
    "defaults of a strategy and a policy": (
        INSTANCE,
        {"spec.allocation": {}, "spec.repair": {}},
        {
            "spec.allocation.strategy": "tightest",
            "spec.repair.policy": "ladder",
            "spec.repair.deadline": "5m",
        },
    ),
    "any accelerator": (
        INSTANCE,
        {"spec.accelerator": {"resource": "groq.com/lpu", "count": 0, "memory": "64Gi"}},
        {"spec.accelerator.count": 0},
    ),
    "the least deployment of a cluster": (INSTANCES, {}, {"spec.replicas": 1}),
    "an update in shares": (
        INSTANCES,
        {"spec.strategy": {"maxUnavailable": "25%", "maxSurge": 1}},
        {"spec.strategy.type": "RollingReplace", "spec.strategy.progressDeadline": "30m"},
    ),
    "placements instead of replicas": (
        "deployments",
        {"spec.replicas": ABSENT, "spec.placements": [{"cluster": "dal1", "min": 2}]},
        {"spec.placements[0].weight": 1},
    ),
    "a rollout in waves": (
        "deployments",
        {"spec.rollout": {"waves": [{"name": "canary", "clusters": ["dal1"]}]}},
        {"spec.rollout.bakeTime": "5m", "spec.rollout.autoRollback": True},
    ),
    "the least member of a fleet": ("clusters", {"spec": {}}, {"spec.weight": 100}),
}
"""What is changed in the least object, and what the server stores."""

REJECTED: dict[str, tuple[str, dict[str, Any], str]] = {
    "neither agents nor build": (
        INSTANCE,
        {"spec.targetAgents": ABSENT},
        "set targetAgents, or name a build",
    ),
    "no agents": (
        INSTANCE,
        {"spec.targetAgents": 0},
        "spec.targetAgents in body should be greater than or equal to 1",
    ),
    "too many agents": (
        INSTANCE,
        {"spec.targetAgents": 10_001},
        "spec.targetAgents in body should be less than or equal to 10000",
    ),
    "no model": (INSTANCE, {"spec.model": ABSENT}, "spec.model: Required value"),
    "a deadline that is none": (
        INSTANCE,
        {"spec.repair": {"deadline": "soon"}},
        "spec.repair.deadline in body should match",
    ),
    "neither template nor release": (
        INSTANCES,
        {"spec.release": ABSENT},
        "set template, or name a release",
    ),
    "an unknown way to update": (
        INSTANCES,
        {"spec.strategy": {"type": "Never"}},
        'Unsupported value: "Never": supported values: "RollingReplace", "Recreate"',
    ),
    "neither replicas nor placements": (
        "deployments",
        {"spec.replicas": ABSENT},
        "set replicas, or placements with a minimum",
    ),
    "a placement in one cluster and in several": (
        "deployments",
        {"spec.placements": [{"cluster": "dal1", "clusterSelector": {"regions": ["us"]}}]},
        "set either cluster or clusterSelector",
    ),
    "more at least than at most": (
        "deployments",
        {"spec.placements": [{"cluster": "dal1", "min": 3, "max": 2}]},
        "min must not be greater than max",
    ),
    "a negative weight": (
        "clusters",
        {"spec.weight": -1},
        "spec.weight in body should be greater than or equal to 0",
    ),
}


@pytest.mark.parametrize(("plural", "changes", "stored"), ACCEPTED.values(), ids=ACCEPTED)
def test_valid_object_is_stored_with_defaults(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], stored: dict[str, Any]
) -> None:
    name = f"of-{api_with_definitions.namespace}"
    path = collection(plural, api_with_definitions.namespace)
    body = minimal_object(plural, **{**changes, "metadata.name": name})
    code, live = api_with_definitions.access.request("POST", f"{path}?dryRun=All", body)
    assert code == 201, live
    assert {each: value_at(live, each) for each in stored} == stored


@pytest.mark.parametrize(("plural", "changes", "message"), REJECTED.values(), ids=REJECTED)
def test_invalid_object_is_rejected_with_the_field(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], message: str
) -> None:
    path = collection(plural, api_with_definitions.namespace)
    code, status = api_with_definitions.access.request(
        "POST", path, minimal_object(plural, **changes)
    )
    assert code == 422, status
    assert message in status["message"]


def test_release_is_immutable(api_with_definitions: Api) -> None:
    path = collection("releases", api_with_definitions.namespace)
    code, live = api_with_definitions.access.request("POST", path, minimal_object("releases"))
    assert code == 201, live
    live["spec"]["build"] = "b8"
    code, status = api_with_definitions.access.request("PUT", f"{path}/a", live)
    assert code == 422
    assert "a release is immutable: create another one with the changes" in status["message"]
