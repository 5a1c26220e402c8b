"""Multi-node NVLink: compute domains, one for each group of GPU cliques in a replica.

People put cliques into a group by an annotation of the set, a scaling group or a clique; the most
specific one counts.
"""

from collections.abc import Mapping

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.containers import containers_of, with_claims
from kilonova.workloads.templates.labels import owned_by_set, replica_labels
from kilonova.workloads.templates.lookup import group_of

_GPU = "nvidia.com/gpu"


def compute_domain_objects(set_: PodCliqueSet, index: int, settings: Settings) -> list[JsonObject]:
    """The compute domains of a replica: as many nodes as there happen to be, and a channel."""
    if not settings.mnnvl:
        return []
    template = set_.spec.template
    found = (
        nvlink_group(set_, each.name, each.annotations)
        for each in template.cliques
        if any(map(_asks_gpu, containers_of(each.spec.pod_spec)))
    )
    groups = sorted({each for each in found if each is not None})
    return [_compute_domain(set_, index, each) for each in groups]


def nvlink_group(set_: PodCliqueSet, clique: str, annotations: Mapping[str, str]) -> str | None:
    """The group that a clique with these annotations is in; None if it is in none."""
    group = group_of(set_.spec.template, clique)
    layers = (annotations, group.annotations if group else {}, set_.metadata.annotations)
    for each in layers:
        value = each.get(names.MNNVL_GROUP)
        if value is not None:
            return None if value == names.NO_MNNVL_GROUP else value
    return None


def with_compute_domain(
    pod_spec: JsonObject, set_: PodCliqueSet, index: int, group: str | None, settings: Settings
) -> JsonObject:
    """A pod whose GPU containers, if it has any, reach into its group's compute domain."""
    if group is None or not settings.mnnvl or not any(map(_asks_gpu, containers_of(pod_spec))):
        return pod_spec
    template = names.compute_domain(set_.metadata.name, index, group)
    claim = {"name": names.MNNVL_CLAIM, "resourceClaimTemplateName": template}
    return with_claims(pod_spec, [claim], wanted=_asks_gpu)


def _compute_domain(set_: PodCliqueSet, index: int, group: str) -> JsonObject:
    set_name = set_.metadata.name
    name = names.compute_domain(set_name, index, group)
    labels = replica_labels(set_name, index, names.COMPUTE_DOMAIN_COMPONENT, name)
    return {
        "metadata": {
            **owned_by_set(set_, name, {**labels, names.MNNVL_GROUP: group}),
            "finalizers": [names.COMPUTE_DOMAIN_FINALIZER],
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }


def _asks_gpu(container: JsonObject) -> bool:
    resources: JsonObject = container.get("resources") or {}
    for side in ("limits", "requests"):
        amounts: JsonObject = resources.get(side) or {}
        if str(amounts.get(_GPU, "0")) != "0":
            return True
    return False
