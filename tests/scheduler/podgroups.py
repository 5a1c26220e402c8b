"""Groups of pods as other people write them."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client
from kilonova.kube.resource import Resource, plain
from tests.local.embedded_cluster import DEFINITIONS, eventually
from tests.scheduler.scheduling import is_served

COSCHEDULED = plain("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", True)
NATIVE = plain("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True)
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
    """Has a server know PodGroups of coscheduling."""
    await _install(client, COSCHEDULED, {"spec": _SPEC, "status": _ANYTHING})


async def install_native(client: Client) -> None:
    """Has an embedded server know PodGroups of Kubernetes, which it has not by itself."""
    await _install(client, NATIVE, {"spec": _ANYTHING, "status": _ANYTHING})


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
    await eventually(lambda: is_served(client, resource))


def coscheduled(name: str, minimum: int, namespace: str = "default", **spec: Any) -> JsonObject:
    """A PodGroup of coscheduling."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMember": minimum, "scheduleTimeoutSeconds": 10, **spec},
    }


def labelled(pod: JsonObject, group: str, label: str = LABEL) -> JsonObject:
    """A pod that names a group of coscheduling."""
    pod["metadata"]["labels"] = {label: group}
    return pod


def native(name: str, policy: JsonObject, namespace: str = "default", **spec: Any) -> JsonObject:
    """A PodGroup of Kubernetes."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulingPolicy": policy, **spec},
    }


def placed_among(nodes: Iterable[str]) -> int:
    """How many of some pods have a node."""
    return sum(map(bool, nodes))
