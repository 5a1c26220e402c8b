"""PodClique objects."""

from collections.abc import Callable, Mapping

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.resources import SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.claims import with_shared_claims
from kilonova.workloads.templates.computedomains import nvlink_group, with_compute_domain
from kilonova.workloads.templates.labels import (
    is_reserved_annotation,
    is_reserved_label,
    owner_reference,
    replica_labels,
)
from kilonova.workloads.templates.lookup import (
    Member,
    find_clique,
    full_name,
    gang_name,
)
from kilonova.workloads.templates.plain import written
from kilonova.workloads.templates.startup import starts_after

__all__ = ["Member", "clique_object"]


def clique_object(
    set_: PodCliqueSet,
    index: int,
    revision: SetRevision,
    clique: str,
    member: Member | None,
    settings: Settings,
    *,
    owner: JsonObject | None = None,
) -> JsonObject:
    """A clique of a replica, as it is created.

    What pods are made from is the revision's; how many there are and how they relate to others is
    the set's. The owner of a member is its scaling group, which the caller refers to; without one
    the set owns the clique.
    """
    set_name, template = set_.metadata.name, set_.spec.template
    name = full_name(set_name, index, clique, member)
    wanted, parts = find_clique(template, clique), revision.templates[clique]
    spec: JsonObject = {
        "roleName": wanted.role_name,
        "podSpec": _pod_spec(set_, index, revision, clique, member, settings),
        "replicas": wanted.spec.replicas,
        "minAvailable": (
            wanted.spec.replicas if wanted.spec.min_available is None else wanted.spec.min_available
        ),
    }
    if after := starts_after(template, set_name, index, clique, member):
        spec["startsAfter"] = list(after)
    if wanted.spec.auto_scaling_config is not None:
        spec["autoScalingConfig"] = written(wanted.spec.auto_scaling_config)
    if wanted.spec.rolling_update is not None:
        spec["rollingUpdate"] = written(wanted.spec.rolling_update)
    metadata: JsonObject = {
        "name": name,
        "namespace": set_.metadata.namespace,
        "labels": {
            **_without(is_reserved_label, parts.labels),
            **_labels(set_name, index, name, member),
            names.GENERATION_HASH: revision.hash,
            names.POD_TEMPLATE_HASH: revision.hashes[clique],
        },
        "finalizers": [names.CLIQUE_FINALIZER],
        "ownerReferences": [owner or owner_reference(SETS, set_.metadata)],
    }
    if annotations := _without(is_reserved_annotation, parts.annotations):
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}


def _without(is_reserved: Callable[[str], bool], marks: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in marks.items() if not is_reserved(key)}


def _labels(set_name: str, index: int, name: str, member: Member | None) -> dict[str, str]:
    gang = {names.POD_GANG: gang_name(set_name, index, member)}
    if member is None:
        return {**replica_labels(set_name, index, names.SET_CLIQUE_COMPONENT, name), **gang}
    if member.is_scaled:
        gang[names.BASE_POD_GANG] = names.replica(set_name, index)
    return {
        **replica_labels(set_name, index, names.GROUP_CLIQUE_COMPONENT, name),
        **gang,
        names.SCALING_GROUP: member.group_name,
        names.SCALING_GROUP_REPLICA_INDEX: str(member.index),
    }


def _pod_spec(
    set_: PodCliqueSet,
    index: int,
    revision: SetRevision,
    clique: str,
    member: Member | None,
    settings: Settings,
) -> JsonObject:
    parts, wanted = revision.templates[clique], find_clique(set_.spec.template, clique)
    result = dict(parts.pod_spec)
    if revision.priority_class_name and not result.get("priorityClassName"):
        result["priorityClassName"] = revision.priority_class_name
    if not result.get("schedulerName"):
        result["schedulerName"] = settings.schedulers[0]
    result = with_shared_claims(result, set_, index, wanted, member)
    group = nvlink_group(set_, clique, parts.annotations)
    return with_compute_domain(result, set_, index, group, settings)
