"""The least that each of our kinds must say, and changes of it by path."""

import copy
import re
from typing import Any

ABSENT = object()
"""Instead of a value: the field is left out."""

POD_SPEC: Any = {"containers": [{"name": "main", "image": "busybox:1.37"}]}

CLIQUE: Any = {"name": "worker", "spec": {"roleName": "worker", "replicas": 2, "podSpec": POD_SPEC}}

LEAST: dict[str, Any] = {
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
}
OF_THE_CLUSTER = {"clustertopologybindings", "queues"}
"""Kinds without a namespace."""


def least(plural: str, **changes: Any) -> Any:
    """The least object of a kind; changes are made by `changed`."""
    version, kind = KINDS[plural]
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": LEAST[plural]}
    return changed(body, changes)


def changed(body: Any, changes: dict[str, Any]) -> Any:
    """A copy with the fields at some paths (`spec.template.cliques[0].name`) as given."""
    result = copy.deepcopy(body)
    for path, value in changes.items():
        *way, last = steps(path)
        place = result
        for step in way:
            place = place.setdefault(step, {}) if isinstance(step, str) else place[step]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = value
    return result


def found(body: Any, path: str) -> Any:
    """What is at a path, or `ABSENT`."""
    for step in steps(path):
        try:
            body = body[step]
        except (KeyError, IndexError):
            return ABSENT
    return body


def steps(path: str) -> list[str | int]:
    """A path taken apart at dots and brackets."""
    return [
        int(each) if each.isdigit() else each for each in re.findall(r"[^.\[\]]+", path) if each
    ]


def collection(plural: str, namespace: str) -> str:
    """Where objects of a kind are made."""
    version, _ = KINDS[plural]
    if plural in OF_THE_CLUSTER:
        return f"/apis/{version}/{plural}"
    return f"/apis/{version}/namespaces/{namespace}/{plural}"


def group(**fields: Any) -> list[Any]:
    """The scaling groups of a set that has one."""
    return [{"name": "group", "cliqueNames": ["worker"], **fields}]


def device_claim() -> Any:
    """A claim of one device, as a template has it."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {"spec": {"devices": {"requests": [request]}}}
