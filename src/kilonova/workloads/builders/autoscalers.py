"""HorizontalPodAutoscalers of standalone cliques and of scaling groups."""

from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.common import AutoScaling
from kilonova.api.json import JsonObject
from kilonova.kube import Resource
from kilonova.workloads.builders.labels import build_owned_metadata, build_replica_labels
from kilonova.workloads.builders.template_lookup import find_group_of_clique
from kilonova.workloads.resources import CLIQUES, SCALING_GROUPS

_DEFAULT_TARGET: JsonObject = {"type": "Utilization", "averageUtilization": 80}
_DEFAULT_METRICS: list[JsonObject] = [
    {"type": "Resource", "resource": {"name": "cpu", "target": _DEFAULT_TARGET}}
]
"""The default of Kubernetes, written explicitly so that removed metrics are replaced."""


def build_autoscalers(set_: PodCliqueSet, index: int) -> list[JsonObject]:
    """The autoscalers of a replica, each with the name of its target."""
    template, set_name = set_.spec.template, set_.metadata.name
    result: list[JsonObject] = []
    for clique in template.cliques:
        scaling = clique.spec.auto_scaling_config
        if scaling is not None and find_group_of_clique(template, clique.name) is None:
            name = names.clique(set_name, index, clique.name)
            result.append(
                _build_autoscaler(set_, index, CLIQUES, name, clique.spec.replicas, scaling)
            )
    for group in template.pod_clique_scaling_groups:
        if group.scale_config is not None:
            name = names.scaling_group(set_name, index, group.name)
            result.append(
                _build_autoscaler(
                    set_, index, SCALING_GROUPS, name, group.replicas, group.scale_config
                )
            )
    return result


def _build_autoscaler(
    set_: PodCliqueSet,
    index: int,
    target: Resource[Any],
    name: str,
    replicas: int,
    scaling: AutoScaling,
) -> JsonObject:
    labels = build_replica_labels(set_.metadata.name, index, names.HPA_COMPONENT, name)
    spec: JsonObject = {
        "scaleTargetRef": {"apiVersion": target.api_version, "kind": target.kind, "name": name},
        "minReplicas": replicas if scaling.min_replicas is None else scaling.min_replicas,
        "maxReplicas": scaling.max_replicas,
        "metrics": list(scaling.metrics) or _DEFAULT_METRICS,
    }
    return {"metadata": build_owned_metadata(set_, name, labels), "spec": spec}
