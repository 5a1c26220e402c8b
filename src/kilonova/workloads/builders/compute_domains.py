"""Multi-node NVLink: one ComputeDomain for each group of GPU cliques in a replica.

An annotation of the set, a scaling group or a clique assigns cliques to a group; the most specific
one applies.
"""

from collections.abc import Mapping

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.pods.specs import list_containers, with_claims
from kilonova.catalog.resource_names import GPU
from kilonova.workloads.builders.labels import build_owned_metadata, build_replica_labels
from kilonova.workloads.builders.template_lookup import find_group_of_clique
from kilonova.workloads.settings import OperatorSettings


def build_compute_domains(
    set_: PodCliqueSet, index: int, settings: OperatorSettings
) -> list[JsonObject]:
    """The compute domains of a replica, with a channel and any number of nodes."""
    if not settings.mnnvl:
        return []
    template = set_.spec.template
    found = (
        get_nvlink_group(set_, each.name, each.annotations)
        for each in template.cliques
        if any(map(_requests_gpu, list_containers(each.spec.pod_spec)))
    )
    groups = sorted({each for each in found if each is not None})
    return [_build_compute_domain(set_, index, each) for each in groups]


def get_nvlink_group(set_: PodCliqueSet, clique: str, annotations: Mapping[str, str]) -> str | None:
    """The group of a clique with these annotations; None if it has none."""
    group = find_group_of_clique(set_.spec.template, clique)
    layers = (annotations, group.annotations if group else {}, set_.metadata.annotations)
    for each in layers:
        value = each.get(names.MNNVL_GROUP)
        if value is not None:
            return None if value == names.NO_MNNVL_GROUP else value
    return None


def with_compute_domain(
    pod_spec: JsonObject,
    set_: PodCliqueSet,
    index: int,
    group: str | None,
    settings: OperatorSettings,
) -> JsonObject:
    """A pod spec whose GPU containers, if any, claim a channel of the group's compute domain."""
    if (
        group is None
        or not settings.mnnvl
        or not any(map(_requests_gpu, list_containers(pod_spec)))
    ):
        return pod_spec
    template = names.compute_domain(set_.metadata.name, index, group)
    claim = {"name": names.MNNVL_CLAIM, "resourceClaimTemplateName": template}
    return with_claims(pod_spec, [claim], wanted=_requests_gpu)


def _build_compute_domain(set_: PodCliqueSet, index: int, group: str) -> JsonObject:
    set_name = set_.metadata.name
    name = names.compute_domain(set_name, index, group)
    labels = build_replica_labels(set_name, index, names.COMPUTE_DOMAIN_COMPONENT, name)
    return {
        "metadata": {
            **build_owned_metadata(set_, name, {**labels, names.MNNVL_GROUP: group}),
            "finalizers": [names.COMPUTE_DOMAIN_FINALIZER],
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}},
    }


def _requests_gpu(container: JsonObject) -> bool:
    resources: JsonObject = container.get("resources") or {}
    for side in ("limits", "requests"):
        amounts: JsonObject = resources.get(side) or {}
        if str(amounts.get(GPU, "0")) != "0":
            return True
    return False
