"""PodGroups of coscheduling and Kubernetes."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client
from kilonova.kube.client.resource import Resource, unstructured_resource
from tests.local.embedded_cluster import DEFINITIONS, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import is_served

COSCHEDULING_POD_GROUPS = unstructured_resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True
)
KUBERNETES_POD_GROUPS = unstructured_resource(
    "scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True
)
LABEL = "scheduling.x-k8s.io/pod-group"

_INTEGER = {"type": "integer", "format": "int32"}
_QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_SPEC = {
    "type": "object",
    "properties": {
        "minMember": _INTEGER,
        "minResources": {"type": "object", "additionalProperties": _QUANTITY},
        "scheduleTimeoutSeconds": _INTEGER,
    },
}
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def install_coscheduling(client: Client) -> None:
    """Install the CRD of coscheduling PodGroups."""
    await _install(client, COSCHEDULING_POD_GROUPS, {"spec": _SPEC, "status": _ANYTHING})


async def install_kubernetes_pod_groups(client: Client) -> None:
    """Install Kubernetes PodGroups as a CRD on an embedded server, which does not serve them."""
    await _install(client, KUBERNETES_POD_GROUPS, {"spec": _ANYTHING, "status": _ANYTHING})


async def _install(client: Client, resource: Resource[Any], properties: JsonObject) -> None:
    definition: JsonObject = {
        "metadata": {
            "name": f"podgroups.{resource.group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com"},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": "PodGroup",
                "listKind": "PodGroupList",
                "plural": "podgroups",
                "singular": "podgroup",
            },
            "versions": [
                {
                    "name": resource.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                }
            ],
        },
    }
    with suppress(AlreadyExists):
        await client.create(DEFINITIONS, definition)
    await wait_for_condition(lambda: is_served(client, resource))


def coscheduling_pod_group(
    name: str, minimum: int, namespace: str = "default", **spec: Any
) -> JsonObject:
    """A coscheduling PodGroup."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, "scheduleTimeoutSeconds": 10, **spec},
    }


def with_group_label(pod: JsonObject, group: str, label: str = LABEL) -> JsonObject:
    """A pod that names a coscheduling PodGroup."""
    pod["metadata"]["labels"] = {label: group}
    return pod


def kubernetes_pod_group(
    name: str, policy: JsonObject, namespace: str = "default", **spec: Any
) -> JsonObject:
    """A Kubernetes PodGroup."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def count_placed(nodes: Iterable[str]) -> int:
    """The number of bound pods among these."""
    return sum(map(bool, nodes))
