"""What the definitions accept, as a table: with defaults set, and other fields unchanged."""

from typing import Any

import pytest

from tests.api.manifests import (
    ABSENT,
    CONTAINER,
    FIRST,
    GROUPS,
    STRATEGY,
    TEMPLATE,
    TOPOLOGY,
    collection,
    device_claim,
    group,
    minimal_object,
    value_at,
)
from tests.conftest import Api

ACCEPTED_FIELDS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "the least set": (
        "podcliquesets",
        {},
        {
            "spec.replicas": 0,
            f"{TEMPLATE}.cliqueStartupType": "CliqueStartupTypeAnyOrder",
            STRATEGY: ABSENT,
            f"{TEMPLATE}.headlessServiceConfig": ABSENT,
            f"{TEMPLATE}.terminationDelay": ABSENT,
            f"{FIRST}.spec.minAvailable": ABSENT,
        },
    ),
    "replicas of a clique": (
        "podcliquesets",
        {f"{FIRST}.spec.replicas": ABSENT},
        {f"{FIRST}.spec.replicas": 1},
    ),
    "a strategy without type": (
        "podcliquesets",
        {f"{STRATEGY}.rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1, "coherent": True}},
        {f"{STRATEGY}.type": "RollingRecreate"},
    ),
    "a headless service that says nothing": (
        "podcliquesets",
        {f"{TEMPLATE}.headlessServiceConfig": {}},
        {f"{TEMPLATE}.headlessServiceConfig.publishNotReadyAddresses": True},
    ),
    "replicas of a group": (
        "podcliquesets",
        {GROUPS: group()},
        {f"{GROUPS}[0].replicas": 1, f"{GROUPS}[0].minAvailable": 1},
    ),
    "a delay in parts": (
        "podcliquesets",
        {f"{TEMPLATE}.terminationDelay": "1h30m"},
        {f"{TEMPLATE}.terminationDelay": "1h30m"},
    ),
    "the protocol of a port": (
        "podcliquesets",
        {f"{CONTAINER}.ports": [{"containerPort": 80}]},
        {f"{CONTAINER}.ports[0].protocol": "TCP"},
    ),
    "numbers and texts where either may be": (
        "podcliquesets",
        {
            f"{CONTAINER}.resources": {"requests": {"cpu": 1, "memory": "80Mi"}},
            f"{CONTAINER}.readinessProbe": {"httpGet": {"port": "web"}},
            f"{CONTAINER}.livenessProbe": {"httpGet": {"port": 80}},
        },
        {f"{CONTAINER}.resources.requests": {"cpu": 1, "memory": "80Mi"}},
    ),
    "metrics of an autoscaler": (
        "podcliquesets",
        {
            f"{FIRST}.spec.autoScalingConfig": {
                "maxReplicas": 4,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {"type": "Utilization", "averageUtilization": 80},
                        },
                    }
                ],
            }
        },
        {f"{FIRST}.spec.autoScalingConfig.minReplicas": ABSENT},
    ),
    "a claim template with metadata and parameters": (
        "podcliquesets",
        {
            f"{TEMPLATE}.resourceClaimTemplates": [
                {
                    "name": "gpu",
                    "templateSpec": {
                        "metadata": {"labels": {"a": "b"}},
                        "spec": {
                            "devices": {
                                **device_claim()["spec"]["devices"],
                                "config": [
                                    {
                                        "opaque": {
                                            "driver": "d",
                                            "parameters": {"kind": "Any", "x": 1},
                                        }
                                    }
                                ],
                            }
                        },
                    },
                }
            ],
            f"{TEMPLATE}.resourceSharing": [
                {
                    "name": "gpu",
                    "scope": "PerReplica",
                    "filter": {
                        "childCliqueNames": ["worker"],
                        "childScalingGroupNames": ["group"],
                    },
                }
            ],
        },
        {
            f"{TEMPLATE}.resourceClaimTemplates[0].templateSpec.metadata.labels.a": "b",
            f"{TEMPLATE}.resourceClaimTemplates[0].templateSpec.spec.devices.config[0]"
            ".opaque.parameters.x": 1,
        },
    ),
    "both sorts of pack": (
        "podcliquesets",
        {TOPOLOGY: {"topologyName": "t", "pack": {"required": "zone", "preferred": "rack"}}},
        {f"{TOPOLOGY}.pack.preferred": "rack"},
    ),
    "a spread alone": (
        "podcliquesets",
        {TOPOLOGY: {"topologyName": "t", "spread": {"domain": "rack", "required": True}}},
        {f"{TOPOLOGY}.spread.required": True},
    ),
    "a clique of no pods for now": (
        "podcliques",
        {"spec.replicas": 0},
        {"spec.replicas": 0, "spec.minAvailable": ABSENT},
    ),
    "the least group": (
        "podcliquescalinggroups",
        {},
        {"spec.replicas": 1, "spec.minAvailable": 1},
    ),
    "the least topology": ("clustertopologybindings", {}, {"spec.levels[0].domain": "rack"}),
    "a gang with everything": (
        "podgangs",
        {
            "spec.priorityClassName": "high",
            "spec.baseRef": {"namespace": "default", "name": "b"},
            "spec.reuseReservationRef": {"namespace": "default", "name": "b"},
            "spec.topologyConstraint": {"packConstraint": {"required": "example.com/rack"}},
            "spec.topologyConstraintGroupConfigs": [
                {"name": "g", "podGroupNames": ["a-0-worker"], "topologyConstraint": {}}
            ],
            "spec.spread": {"topologyKey": "example.com/rack", "among": "app"},
            "spec.podgroups[0].minReplicas": 0,
        },
        {"spec.baseRef.name": "b", "spec.spread.among": "app"},
    ),
    "the least queue": ("queues", {}, {"spec.weight": 1, "spec.priority": 0}),
    "a queue with everything": (
        "queues",
        {
            "spec.parent": "b",
            "spec.deserved": {"nvidia.com/gpu": 8, "cpu": "1500m", "memory": "64Gi"},
            "spec.limit": {"nvidia.com/gpu": "8", "cpu": 2, "ephemeral-storage": "1Ti"},
            "spec.weight": 0,
            "spec.priority": -5,
            "spec.preemptMinRuntime": "4h",
            "spec.reclaimMinRuntime": "1m30s",
        },
        {"spec.deserved.cpu": "1500m", "spec.limit.cpu": 2, "spec.weight": 0},
    ),
    "the least reservation": ("reservations", {}, {"spec.duration": "1h"}),
    "a reservation for whoever names it": (
        "reservations",
        {
            "spec.podGang": ABSENT,
            "spec.pods": [
                {
                    "count": 4,
                    "requests": {"nvidia.com/gpu": 8},
                    "nodeSelector": {"example.com/gpu": "h200"},
                }
            ],
            "spec.topologyKey": "example.com/rack",
            "spec.queue": "research",
            "spec.start": "2026-05-01T00:00:00Z",
            "spec.duration": ABSENT,
            "spec.until": "2026-05-02T00:00:00Z",
        },
        {"spec.pods[0].count": 4, "spec.until": "2026-05-02T00:00:00Z"},
    ),
}
"""And what is at some paths afterwards."""


@pytest.mark.parametrize(
    ("plural", "changes", "expected"), ACCEPTED_FIELDS.values(), ids=ACCEPTED_FIELDS
)
def test_valid_field_is_accepted(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    code, response = api_with_definitions.access.request(
        "POST",
        collection(plural, api_with_definitions.namespace) + "?dryRun=All&fieldValidation=Strict",
        minimal_object(plural, **changes),
    )
    assert code == 201, response
    assert {path: value_at(response, path) for path in expected} == expected


def test_existing_set_may_keep_its_pack_domain(api_with_definitions: Api) -> None:
    path = collection("podcliquesets", api_with_definitions.namespace)
    body = minimal_object("podcliquesets", **{TOPOLOGY: {"pack": {"required": "rack"}}})
    code, live = api_with_definitions.access.request("POST", path, body)
    assert code == 201, live
    live["spec"]["template"]["topologyConstraint"] = {"packDomain": "rack"}
    code, response = api_with_definitions.access.request("PUT", f"{path}/a", live)
    assert code == 200, response
