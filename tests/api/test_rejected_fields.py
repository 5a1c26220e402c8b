"""What the definitions reject, as a table: with the same message on both servers."""

from typing import Any

import pytest

from tests.api.manifests import (
    ABSENT,
    CLIQUE,
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
)
from tests.conftest import Api

NO_PACK_DOMAIN = (
    "Forbidden: packDomain is deprecated and cannot be used on new workloads; use pack.required"
)

REJECTED_FIELDS: dict[str, tuple[str, dict[str, Any], str]] = {
    # Sets.
    "no spec": ("podcliquesets", {"spec": ABSENT}, "spec: Required value"),
    "no template": ("podcliquesets", {TEMPLATE: ABSENT}, "spec.template: Required value"),
    "no cliques": (
        "podcliquesets",
        {f"{TEMPLATE}.cliques": ABSENT},
        "spec.template.cliques: Required value",
    ),
    "fewer than no replicas": (
        "podcliquesets",
        {"spec.replicas": -1},
        "spec.replicas in body should be greater than or equal to 0",
    ),
    "more replicas than int32": (
        "podcliquesets",
        {"spec.replicas": 2**31},
        "must be of type integer with format int32 in spec.replicas",
    ),
    "more replicas than a set may have pods": (
        "podcliquesets",
        {"spec.replicas": 100_001},
        "spec.replicas in body should be less than or equal to 100000",
    ),
    "more pods of a role than a set may have": (
        "podcliquesets",
        {f"{FIRST}.spec.replicas": 100_001},
        "spec.template.cliques[0].spec.replicas in body should be less than or equal to 100000",
    ),
    "more units than a set may have pods": (
        "podcliquesets",
        {GROUPS: group(replicas=100_001)},
        "spec.template.podCliqueScalingGroups[0].replicas in body should be less than or equal to",
    ),
    "replicas as text": (
        "podcliquesets",
        {"spec.replicas": "3"},
        'spec.replicas in body must be of type integer: "string"',
    ),
    "an unknown strategy": (
        "podcliquesets",
        {f"{STRATEGY}.type": "Never"},
        'Unsupported value: "Never": supported values: "RollingRecreate", "OnDelete"',
    ),
    "a share that is none": (
        "podcliquesets",
        {f"{STRATEGY}.rollingUpdate.maxUnavailable": "many"},
        "spec.updateStrategy.rollingUpdate.maxUnavailable in body should match",
    ),
    "a negative share": (
        "podcliquesets",
        {f"{STRATEGY}.rollingUpdate.maxSurge": -1},
        "spec.updateStrategy.rollingUpdate.maxSurge in body should be greater than or equal to 0",
    ),
    "an unknown startup type": (
        "podcliquesets",
        {f"{TEMPLATE}.cliqueStartupType": "Sometime"},
        'Unsupported value: "Sometime": supported values: "CliqueStartupTypeAnyOrder", '
        '"CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"',
    ),
    "a delay that is none": (
        "podcliquesets",
        {f"{TEMPLATE}.terminationDelay": "soon"},
        "spec.template.terminationDelay in body should match",
    ),
    "a negative limit of failures": (
        "podcliquesets",
        {f"{TEMPLATE}.backoffLimit": -1},
        "spec.template.backoffLimit in body should be greater than or equal to 0",
    ),
    "a negative time to live": (
        "podcliquesets",
        {f"{TEMPLATE}.ttlSecondsAfterFinished": -1},
        "spec.template.ttlSecondsAfterFinished in body should be greater than or equal to 0",
    ),
    "a field that there is not": (
        "podcliquesets",
        {f"{TEMPLATE}.cliqes": []},
        'unknown field "spec.template.cliqes"',
    ),
    # Cliques of a set.
    "a clique without a name": (
        "podcliquesets",
        {f"{FIRST}.name": ABSENT},
        "spec.template.cliques[0].name: Required value",
    ),
    "two cliques of one name": (
        "podcliquesets",
        {f"{TEMPLATE}.cliques": [CLIQUE, CLIQUE]},
        'spec.template.cliques[1]: Duplicate value: {"name":"worker"}',
    ),
    "a clique without pods": (
        "podcliquesets",
        {f"{FIRST}.spec.podSpec": ABSENT},
        "spec.template.cliques[0].spec.podSpec: Required value",
    ),
    "an autoscaler without end": (
        "podcliquesets",
        {f"{FIRST}.spec.autoScalingConfig": {}},
        "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas: Required value",
    ),
    "a metric without a type": (
        "podcliquesets",
        {f"{FIRST}.spec.autoScalingConfig": {"maxReplicas": 3, "metrics": [{}]}},
        "spec.template.cliques[0].spec.autoScalingConfig.metrics[0].type: Required value",
    ),
    # Pods, as Kubernetes has them.
    "pods without containers": (
        "podcliquesets",
        {f"{FIRST}.spec.podSpec.containers": ABSENT},
        "spec.template.cliques[0].spec.podSpec.containers: Required value",
    ),
    "a field that pods do not have": (
        "podcliquesets",
        {f"{FIRST}.spec.podSpec.replicas": 1},
        'unknown field "spec.template.cliques[0].spec.podSpec.replicas"',
    ),
    "one port twice": (
        "podcliquesets",
        {f"{CONTAINER}.ports": [{"containerPort": 80}, {"containerPort": 80}]},
        'ports[1]: Duplicate value: {"containerPort":80,"protocol":"TCP"}',
    ),
    "a quantity that is none": (
        "podcliquesets",
        {f"{CONTAINER}.resources": {"requests": {"memory": "much"}}},
        "containers[0].resources.requests.memory in body should match",
    ),
    # Scaling groups of a set.
    "a group without a name": (
        "podcliquesets",
        {GROUPS: [{"cliqueNames": ["worker"]}]},
        "spec.template.podCliqueScalingGroups[0].name: Required value",
    ),
    "a group without cliques": (
        "podcliquesets",
        {GROUPS: [{"name": "group"}]},
        "spec.template.podCliqueScalingGroups[0].cliqueNames: Required value",
    ),
    "an autoscaler of a group without end": (
        "podcliquesets",
        {GROUPS: group(scaleConfig={"minReplicas": 1})},
        "spec.template.podCliqueScalingGroups[0].scaleConfig.maxReplicas: Required value",
    ),
    # Resource sharing.
    "a claim template without a name": (
        "podcliquesets",
        {f"{TEMPLATE}.resourceClaimTemplates": [{"templateSpec": device_claim()}]},
        "spec.template.resourceClaimTemplates[0].name: Required value",
    ),
    "a claim template without a claim": (
        "podcliquesets",
        {f"{TEMPLATE}.resourceClaimTemplates": [{"name": "gpu"}]},
        "spec.template.resourceClaimTemplates[0].templateSpec: Required value",
    ),
    "a share of nothing": (
        "podcliquesets",
        {f"{TEMPLATE}.resourceSharing": [{"scope": "AllReplicas"}]},
        "spec.template.resourceSharing[0].name: Required value",
    ),
    "a share without scope": (
        "podcliquesets",
        {f"{FIRST}.resourceSharing": [{"name": "gpu"}]},
        "spec.template.cliques[0].resourceSharing[0].scope: Required value",
    ),
    "an unknown scope": (
        "podcliquesets",
        {GROUPS: group(resourceSharing=[{"name": "gpu", "scope": "Some"}])},
        'Unsupported value: "Some": supported values: "AllReplicas", "PerReplica"',
    ),
    "a filter of a clique": (
        "podcliquesets",
        {f"{FIRST}.resourceSharing": [{"name": "g", "scope": "AllReplicas", "filter": {}}]},
        'unknown field "spec.template.cliques[0].resourceSharing[0].filter"',
    ),
    "a filter by groups within a group": (
        "podcliquesets",
        {
            GROUPS: group(
                resourceSharing=[
                    {
                        "name": "g",
                        "scope": "AllReplicas",
                        "filter": {"childScalingGroupNames": ["group"]},
                    }
                ]
            )
        },
        "resourceSharing[0].filter.childScalingGroupNames",
    ),
    # Topology.
    "TAS22 a constraint without pack": (
        "podcliquesets",
        {TOPOLOGY: {"topologyName": "t"}},
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "TAS22 the same at a clique": (
        "podcliquesets",
        {f"{FIRST}.topologyConstraint": {}},
        "cliques[0].topologyConstraint: Invalid value: "
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "TAS22 the same at a group": (
        "podcliquesets",
        {GROUPS: group(topologyConstraint={})},
        "podCliqueScalingGroups[0].topologyConstraint: Invalid value: "
        "topologyConstraint must specify pack or deprecated packDomain",
    ),
    "TAS22 an empty pack": (
        "podcliquesets",
        {TOPOLOGY: {"topologyName": "t", "pack": {}}},
        "pack must specify at least one of required or preferred",
    ),
    "TAS22 packDomain beside pack.required": (
        "podcliquesets",
        {TOPOLOGY: {"packDomain": "rack", "pack": {"required": "rack"}}},
        "must not set both pack.required and deprecated packDomain",
    ),
    "TAS22 packDomain of a new set": (
        "podcliquesets",
        {TOPOLOGY: {"packDomain": "rack"}},
        f"spec.template.topologyConstraint.packDomain: {NO_PACK_DOMAIN}",
    ),
    "TAS22 packDomain of a clique of a new set": (
        "podcliquesets",
        {f"{FIRST}.topologyConstraint": {"packDomain": "rack"}},
        f"spec.template.cliques: {NO_PACK_DOMAIN}",
    ),
    "TAS22 packDomain of a group of a new set": (
        "podcliquesets",
        {GROUPS: group(topologyConstraint={"packDomain": "rack"})},
        f"spec.template.podCliqueScalingGroups: {NO_PACK_DOMAIN}",
    ),
    "a domain in capitals": (
        "podcliquesets",
        {TOPOLOGY: {"pack": {"required": "Rack"}}},
        "pack.required in body should match '^[a-z][a-z0-9-]*$'",
    ),
    "an empty domain": (
        "podcliquesets",
        {TOPOLOGY: {"pack": {"preferred": ""}}},
        "pack.preferred in body should be at least 1 chars long",
    ),
    "a long domain": (
        "podcliquesets",
        {TOPOLOGY: {"pack": {"required": "r" * 64}}},
        "pack.required: Too long: may not be more than 63 bytes",
    ),
    "a spread over nothing": (
        "podcliquesets",
        {TOPOLOGY: {"spread": {}}},
        "spec.template.topologyConstraint.spread.domain: Required value",
    ),
    "a spread within a clique": (
        "podcliquesets",
        {f"{FIRST}.topologyConstraint": {"spread": {"domain": "rack"}}},
        'unknown field "spec.template.cliques[0].topologyConstraint.spread"',
    ),
    # The other kinds.
    "a clique of no pods": ("podcliques", {"spec.podSpec": ABSENT}, "spec.podSpec: Required"),
    "a clique of fewer than no pods": (
        "podcliques",
        {"spec.replicas": -1},
        "spec.replicas in body should be greater than or equal to 0",
    ),
    "a group of nothing": (
        "podcliquescalinggroups",
        {"spec.cliqueNames": ABSENT},
        "spec.cliqueNames: Required value",
    ),
    "a topology without levels": (
        "clustertopologybindings",
        {"spec.levels": []},
        "spec.levels in body should have at least 1 items",
    ),
    "a level without a key": (
        "clustertopologybindings",
        {"spec.levels[0].key": ABSENT},
        "spec.levels[0].key: Required value",
    ),
    "a level with a long key": (
        "clustertopologybindings",
        {"spec.levels[0].key": "k" * 64},
        "spec.levels[0].key: Too long: may not be more than 63 bytes",
    ),
    "a level with a bad domain": (
        "clustertopologybindings",
        {"spec.levels[0].domain": "1st"},
        "spec.levels[0].domain in body should match '^[a-z][a-z0-9-]*$'",
    ),
    "a scheduler's topology without reference": (
        "clustertopologybindings",
        {"spec.schedulerTopologyBindings": [{"schedulerName": "s"}]},
        "spec.schedulerTopologyBindings[0].topologyReference: Required value",
    ),
    "a gang without groups": (
        "podgangs",
        {"spec.podgroups": ABSENT},
        "spec.podgroups: Required value",
    ),
    "a gang's group without its least": (
        "podgangs",
        {"spec.podgroups[0].minReplicas": ABSENT},
        "spec.podgroups[0].minReplicas: Required value",
    ),
    "a gang's group without pods": (
        "podgangs",
        {"spec.podgroups[0].podReferences": ABSENT},
        "spec.podgroups[0].podReferences: Required value",
    ),
    "a pod without its namespace": (
        "podgangs",
        {"spec.podgroups[0].podReferences[0].namespace": ABSENT},
        "spec.podgroups[0].podReferences[0].namespace: Required value",
    ),
    "a gang's groups in another spelling": (
        "podgangs",
        {"spec.podGroups": []},
        'unknown field "spec.podGroups"',
    ),
    "a queue that is its own parent": (
        "queues",
        {"spec.parent": "a"},
        "spec.parent: Invalid value: a queue cannot be its own parent: name another queue, or none",
    ),
    "a queue that deserves more than its limit": (
        "queues",
        {"spec.deserved": {"cpu": 1, "memory": "2Gi"}, "spec.limit": {"memory": "1500Mi"}},
        "spec.limit: Invalid value: a queue cannot deserve more than its limit",
    ),
    "a queue that deserves less than nothing": (
        "queues",
        {"spec.deserved": {"cpu": "-1"}},
        "spec.deserved.cpu in body should match",
    ),
    "a limit below nothing": (
        "queues",
        {"spec.limit": {"cpu": -1}},
        "spec.limit.cpu in body should be greater than or equal to 0",
    ),
    "a weight below nothing": (
        "queues",
        {"spec.weight": -1},
        "spec.weight in body should be greater than or equal to 0",
    ),
    "a runtime below nothing": (
        "queues",
        {"spec.reclaimMinRuntime": "-1h"},
        "spec.reclaimMinRuntime in body should match",
    ),
    "a reservation of nothing": (
        "reservations",
        {"spec.podGang": ABSENT},
        "set what is reserved: either podGang or pods",
    ),
    "a reservation of two things": (
        "reservations",
        {"spec.pods": [{"count": 1, "requests": {"cpu": 1}}]},
        "set what is reserved: either podGang or pods",
    ),
    "a reservation for ever": (
        "reservations",
        {"spec.duration": ABSENT},
        "set how long it is reserved: either duration or until",
    ),
    "a reservation that ends before it starts": (
        "reservations",
        {
            "spec.duration": ABSENT,
            "spec.start": "2026-05-01T00:00:00Z",
            "spec.until": "2026-04-01T00:00:00Z",
        },
        "spec.until: Invalid value: until must be after start",
    ),
    "a topology for a gang that has its own": (
        "reservations",
        {"spec.topologyKey": "example.com/rack"},
        "topologyKey is for pods: a gang has constraints of its own",
    ),
    "capacity for pods without requests": (
        "reservations",
        {"spec.podGang": ABSENT, "spec.pods": [{"count": 1, "requests": {}}]},
        "spec.pods[0].requests in body should have at least 1 properties",
    ),
}


@pytest.mark.parametrize(
    ("plural", "changes", "message"), REJECTED_FIELDS.values(), ids=REJECTED_FIELDS
)
def test_invalid_field_is_rejected(
    api_with_definitions: Api, plural: str, changes: dict[str, Any], message: str
) -> None:
    code, response = api_with_definitions.access.request(
        "POST",
        collection(plural, api_with_definitions.namespace) + "?dryRun=All&fieldValidation=Strict",
        minimal_object(plural, **changes),
    )
    assert code in (400, 422), response
    assert message in response["message"]
