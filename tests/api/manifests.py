"""Minimal valid objects of each of our kinds, and changes of them by path."""

import copy
import re
from typing import Any

ABSENT = object()
"""Instead of a value: the field is left out."""

POD_SPEC: Any = {"containers": [{"name": "main", "image": "busybox:1.37"}]}

CLIQUE: Any = {"name": "worker", "spec": {"roleName": "worker", "replicas": 2, "podSpec": POD_SPEC}}

MINIMAL_SPECS: dict[str, Any] = {
    "podcliquesets": {"template": {"cliques": [CLIQUE]}},
    "podcliques": {"roleName": "worker", "replicas": 2, "podSpec": POD_SPEC},
    "podcliquescalinggroups": {"cliqueNames": ["worker"]},
    "clustertopologybindings": {"levels": [{"domain": "rack", "key": "example.com/rack"}]},
    "podgangs": {
        "podgroups": [
            {
                "name": "a-0-worker",
                "minReplicas": 1,
                "podReferences": [{"namespace": "default", "name": "a-0-worker-bbbbb"}],
            }
        ]
    },
    "queues": {},
    "reservations": {"podGang": "a-0", "duration": "1h"},
    "gpuworkloads": {"gpuRequirements": {"count": 8}},
    "migstrategies": {},
    "gpubudgets": {"limit": "10000"},
    "inferenceengineinstances": {"model": "llama32-90b", "targetAgents": 108},
    "inferenceenginedeployments": {"release": "llama-7"},
    "releases": {"model": "llama32-90b", "build": "b7"},
    "deployments": {"release": "llama-7", "replicas": 4},
    "clusters": {},
    "inferenceservices": {"servers": [{"name": "main", "image": "example.com/server:1.0"}]},
}
TEMPLATE = "spec.template"
FIRST = f"{TEMPLATE}.cliques[0]"
CONTAINER = f"{FIRST}.spec.podSpec.containers[0]"
GROUPS = f"{TEMPLATE}.podCliqueScalingGroups"
TOPOLOGY = f"{TEMPLATE}.topologyConstraint"
STRATEGY = "spec.updateStrategy"
"""Paths within a set."""

KINDS = {
    "podcliquesets": ("grove.io/v1alpha1", "PodCliqueSet"),
    "podcliques": ("grove.io/v1alpha1", "PodClique"),
    "podcliquescalinggroups": ("grove.io/v1alpha1", "PodCliqueScalingGroup"),
    "clustertopologybindings": ("grove.io/v1alpha1", "ClusterTopologyBinding"),
    "podgangs": ("scheduler.grove.io/v1alpha1", "PodGang"),
    "queues": ("scheduling.kilonova.dev/v1alpha1", "Queue"),
    "reservations": ("scheduling.kilonova.dev/v1alpha1", "Reservation"),
    "gpuworkloads": ("kgwe.nvidia.io/v1", "GPUWorkload"),
    "migstrategies": ("kgwe.nvidia.io/v1", "MIGStrategy"),
    "gpubudgets": ("kgwe.nvidia.io/v1", "GPUBudget"),
    "inferenceengineinstances": ("inference-engine.groq.io/v1", "InferenceEngineInstance"),
    "inferenceenginedeployments": ("inference-engine.groq.io/v1", "InferenceEngineDeployment"),
    "releases": ("inference-engine.groq.io/v1", "Release"),
    "deployments": ("inference-engine.groq.io/v1", "Deployment"),
    "clusters": ("fleet.kilonova.dev/v1alpha1", "Cluster"),
    "inferenceservices": ("serving.kilonova.dev/v1alpha1", "InferenceService"),
}
CLUSTER_SCOPED = {"clustertopologybindings", "queues", "migstrategies", "clusters"}
"""Kinds without a namespace."""


def minimal_object(plural: str, **changes: Any) -> Any:
    """The minimal valid object of a kind; `with_changes` changes it."""
    version, kind = KINDS[plural]
    body = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": MINIMAL_SPECS[plural],
    }
    return with_changes(body, changes)


def with_changes(body: Any, changes: dict[str, Any]) -> Any:
    """A copy with the fields at some paths (`spec.template.cliques[0].name`) set."""
    result = copy.deepcopy(body)
    for path, value in changes.items():
        *way, last = path_steps(path)
        position = result
        for step in way:
            position = position.setdefault(step, {}) if isinstance(step, str) else position[step]
        if value is ABSENT:
            del position[last]
        else:
            position[last] = value
    return result


def value_at(body: Any, path: str) -> Any:
    """The value at a path, or `ABSENT`."""
    for step in path_steps(path):
        try:
            body = body[step]
        except (KeyError, IndexError):
            return ABSENT
    return body


def path_steps(path: str) -> list[str | int]:
    """A path split at dots and brackets."""
    return [
        int(each) if each.isdigit() else each for each in re.findall(r"[^.\[\]]+", path) if each
    ]


def collection(plural: str, namespace: str) -> str:
    """The path of the collection of a kind."""
    version, _ = KINDS[plural]
    if plural in CLUSTER_SCOPED:
        return f"/apis/{version}/{plural}"
    return f"/apis/{version}/namespaces/{namespace}/{plural}"


def group(**fields: Any) -> list[Any]:
    """The scaling groups of a set with one group."""
    return [{"name": "group", "cliqueNames": ["worker"], **fields}]


def device_claim() -> Any:
    """A claim template for one device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {"spec": {"devices": {"requests": [request]}}}
