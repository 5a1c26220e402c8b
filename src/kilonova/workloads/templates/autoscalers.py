"""HorizontalPodAutoscalers of cliques that stand alone, and of scaling groups."""

from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.parts import AutoScaling
from kilonova.api.json import JsonObject
from kilonova.kube import Resource
from kilonova.workloads.resources import CLIQUES, GROUPS
from kilonova.workloads.templates.labels import owned_by_set, replica_labels
from kilonova.workloads.templates.lookup import group_of

_USUAL_TARGET: JsonObject = {"type": "Utilization", "averageUtilization": 80}
_USUAL_METRICS: list[JsonObject] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": _USUAL_TARGET}}
]
"""What Kubernetes writes where nothing is said; said by us, so that older metrics go."""


def autoscaler_objects(set_: PodCliqueSet, index: int) -> list[JsonObject]:
    """The autoscalers of a replica, each named as what it scales."""
    template, set_name = set_.spec.template, set_.metadata.name
    result: list[JsonObject] = []
    for clique in template.cliques:
        scaling = clique.spec.auto_scaling_config
        if scaling is not None and group_of(template, clique.name) is None:
            name = names.clique(set_name, index, clique.name)
            result.append(_autoscaler(set_, index, CLIQUES, name, clique.spec.replicas, scaling))
    for group in template.pod_clique_scaling_groups:
        if group.scale_config is not None:
            name = names.scaling_group(set_name, index, group.name)
            result.append(
                _autoscaler(set_, index, GROUPS, name, group.replicas, group.scale_config)
            )
    return result


def _autoscaler(
    set_: PodCliqueSet,
    index: int,
    target: Resource[Any],
    name: str,
    replicas: int,
    scaling: AutoScaling,
) -> JsonObject:
    labels = replica_labels(set_.metadata.name, index, names.HPA_COMPONENT, name)
    spec: JsonObject = {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": name},
        "minReplicas": replicas if scaling.min_replicas is None else scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": list(scaling.metrics) or _USUAL_METRICS,
    }
    return {"metadata": owned_by_set(set_, name, labels), "spec": spec}
