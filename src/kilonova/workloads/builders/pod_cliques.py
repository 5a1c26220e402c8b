"""PodClique objects."""

from collections.abc import Callable, Mapping

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.pods.workload_owner import SET, Owned, find_workload, workload_metadata
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.builders.compute_domains import get_nvlink_group, with_compute_domain
from kilonova.workloads.builders.labels import (
    build_replica_labels,
    is_reserved_annotation,
    is_reserved_label,
)
from kilonova.workloads.builders.resource_claims import with_shared_claims
from kilonova.workloads.builders.sparse_json import to_sparse_json
from kilonova.workloads.builders.startup_order import resolve_starts_after
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    get_clique_template,
    get_full_name,
    get_gang_name,
)
from kilonova.workloads.resources import SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.settings import OperatorSettings

__all__ = ["GroupMember", "build_clique"]


def build_clique(
    set_: PodCliqueSet,
    index: int,
    revision: SetRevision,
    clique: str,
    member: GroupMember | None,
    settings: OperatorSettings,
    *,
    owner: JsonObject | None = None,
) -> JsonObject:
    """A clique of a replica, as it is created.

    The pod template is the revision's; replicas and relations to other cliques are the set's. The
    owner of a group member is its scaling group, given by the caller; otherwise it is the set.
    """
    set_name, template = set_.metadata.name, set_.spec.template
    name = get_full_name(set_name, index, clique, member)
    wanted, parts = get_clique_template(template, clique), revision.templates[clique]
    spec: JsonObject = {
        "roleName": wanted.role_name,
        "podSpec": _build_pod_spec(set_, index, revision, clique, member, settings),
        "replicas": wanted.spec.replicas,
        "minAvailable": (
            wanted.spec.replicas if wanted.spec.min_available is None else wanted.spec.min_available
        ),
    }
    if after := resolve_starts_after(template, set_name, index, clique, member):
        spec["startsAfter"] = list(after)
    if wanted.spec.auto_scaling_config is not None:
        spec["autoScalingConfig"] = to_sparse_json(wanted.spec.auto_scaling_config)
    if wanted.spec.rolling_update is not None:
        spec["rollingUpdate"] = to_sparse_json(wanted.spec.rolling_update)
    # Pods have the labels and annotations of their clique.
    workload = find_workload(Owned.from_metadata(SET, set_.metadata))
    workload_labels, workload_annotations = workload_metadata(workload)
    metadata: JsonObject = {
        "name": name,
        "namespace": set_.metadata.namespace,
        "labels": {
            **_drop_reserved(is_reserved_label, parts.labels),
            **workload_labels,
            **_build_labels(set_name, index, name, member),
            names.GENERATION_HASH: revision.hash,
            names.POD_TEMPLATE_HASH: revision.hashes[clique],
        },
        "finalizers": [names.CLIQUE_FINALIZER],
        "ownerReferences": [owner or build_owner_reference(SETS, set_.metadata)],
    }
    annotations = _drop_reserved(is_reserved_annotation, parts.annotations)
    if annotations := {**annotations, **workload_annotations}:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}


def _drop_reserved(
    is_reserved: Callable[[str], bool], metadata: Mapping[str, str]
) -> dict[str, str]:
    return {key: value for key, value in metadata.items() if not is_reserved(key)}


def _build_labels(
    set_name: str, index: int, name: str, member: GroupMember | None
) -> dict[str, str]:
    gang = {names.POD_GANG: get_gang_name(set_name, index, member)}
    if member is None:
        return {**build_replica_labels(set_name, index, names.SET_CLIQUE_COMPONENT, name), **gang}
    if member.is_scaled:
        gang[names.BASE_POD_GANG] = names.replica(set_name, index)
    return {
        **build_replica_labels(set_name, index, names.GROUP_CLIQUE_COMPONENT, name),
        **gang,
        names.SCALING_GROUP: member.group_name,
        names.SCALING_GROUP_REPLICA_INDEX: str(member.index),
    }


def _build_pod_spec(
    set_: PodCliqueSet,
    index: int,
    revision: SetRevision,
    clique: str,
    member: GroupMember | None,
    settings: OperatorSettings,
) -> JsonObject:
    parts, wanted = revision.templates[clique], get_clique_template(set_.spec.template, clique)
    result = dict(parts.pod_spec)
    if revision.priority_class_name and not result.get("priorityClassName"):
        result["priorityClassName"] = revision.priority_class_name
    if not result.get("schedulerName"):
        result["schedulerName"] = settings.schedulers[0]
    result = with_shared_claims(result, set_, index, wanted, member)
    group = get_nvlink_group(set_, clique, parts.annotations)
    return with_compute_domain(result, set_, index, group, settings)
