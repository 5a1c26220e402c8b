"""Pods of a clique."""

from collections.abc import Container
from itertools import count, takewhile

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.api.pods.specs import with_environment
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.backends.metadata import build_pod_metadata
from kilonova.workloads.builders.resource_claims import with_own_claims
from kilonova.workloads.builders.startup_order import with_startup_container
from kilonova.workloads.builders.template_lookup import (
    CliquePosition,
    GroupMember,
    get_clique_template,
    locate_clique,
)
from kilonova.workloads.keys import get_replica_key
from kilonova.workloads.resources import CLIQUES
from kilonova.workloads.settings import OperatorSettings


def choose_pod_name(clique: str, index: int, taken: Container[str]) -> str:
    """The first pod name of an index that no terminating or finished pod has."""
    attempts = (names.pod(clique, index, attempt) for attempt in count())
    return next(each for each in attempts if each not in taken)


def build_pod(
    clique: PodClique,
    set_: PodCliqueSet | None,
    index: int,
    name: str,
    *,
    gated: bool,
    released: bool,
    settings: OperatorSettings,
) -> JsonObject:
    """A pod of a clique, as it is created.

    `gated`: it must not be scheduled yet. `released`: its startup dependencies are met. Scheduling
    gates of the user are kept. Without a set, the pod is built from the clique alone.
    """
    position = None if set_ is None else locate_clique(set_, clique.metadata)
    has_dependencies = bool(clique.spec.starts_after)
    backend_metadata = build_pod_metadata(clique, set_, settings)
    annotations = {**clique.metadata.annotations, **backend_metadata.annotations}
    if released and has_dependencies:
        annotations[names.STARTUP_RELEASED] = "true"
    metadata: JsonObject = {
        "name": name,
        "generateName": f"{clique.metadata.name}-",
        "namespace": clique.metadata.namespace,
        "labels": {**_build_labels(clique, set_, position, index), **backend_metadata.labels},
        "ownerReferences": [build_owner_reference(CLIQUES, clique.metadata)],
    }
    if annotations:
        metadata["annotations"] = annotations
    spec = _build_spec(
        clique,
        set_,
        position,
        index,
        gated=gated,
        waits_for_dependencies=has_dependencies,
        settings=settings,
    )
    return {"metadata": metadata, "spec": spec}


def _build_labels(
    clique: PodClique, set_: PodCliqueSet | None, position: CliquePosition | None, index: int
) -> dict[str, str]:
    result = {
        **clique.metadata.labels,
        names.MANAGED_BY: names.OPERATOR,
        names.POD_CLIQUE: clique.metadata.name,
        names.POD_INDEX: str(index),
    }
    if set_ is not None and position is not None and position.member is not None:
        before = takewhile(
            lambda each: each != position.clique.name, position.member.group.clique_names
        )
        offset = sum(get_clique_template(set_.spec.template, each).spec.replicas for each in before)
        result[names.SCALING_GROUP_POD_INDEX] = str(offset + index)
    return result


def _build_spec(
    clique: PodClique,
    set_: PodCliqueSet | None,
    position: CliquePosition | None,
    index: int,
    *,
    gated: bool,
    waits_for_dependencies: bool,
    settings: OperatorSettings,
) -> JsonObject:
    spec = dict(clique.spec.pod_spec)
    spec["hostname"] = names.hostname(clique.metadata.name, index)
    replica = get_replica_key(clique.metadata)
    if replica is not None:
        spec["subdomain"] = names.replica(replica.set_name, replica.index)
    gates = [
        each
        for each in spec.pop("schedulingGates", ()) or ()
        if each["name"] != names.POD_GANG_GATE
    ]
    if gated:
        gates.append({"name": names.POD_GANG_GATE})
    if gates:
        spec["schedulingGates"] = gates
    spec = with_environment(spec, _build_environment(clique, set_, position))
    if position is not None:
        spec = with_own_claims(spec, position.clique.resource_sharing, clique.metadata.name, index)
    return with_startup_container(spec, settings) if waits_for_dependencies else spec


def _build_environment(
    clique: PodClique, set_: PodCliqueSet | None, position: CliquePosition | None
) -> list[JsonObject]:
    result: list[JsonObject] = []
    replica = get_replica_key(clique.metadata)
    if replica is not None:
        address = names.service_address(replica.set_name, replica.index, replica.namespace)
        result += [
            {"name": names.ENV_SET_NAME, "value": replica.set_name},
            {"name": names.ENV_SET_INDEX, "value": str(replica.index)},
            {"name": names.ENV_HEADLESS_SERVICE, "value": address},
        ]
    result += [
        {"name": names.ENV_CLIQUE_NAME, "value": clique.metadata.name},
        _variable_from_label(names.ENV_POD_INDEX, names.POD_INDEX),
    ]
    if names.SCALING_GROUP in clique.metadata.labels:
        result += [
            _variable_from_label(names.ENV_GROUP_NAME, names.SCALING_GROUP),
            _variable_from_label(names.ENV_GROUP_INDEX, names.SCALING_GROUP_REPLICA_INDEX),
        ]
    if set_ is not None and position is not None and position.member is not None:
        result += [
            {"name": names.ENV_GROUP_PODS, "value": str(_count_group_pods(set_, position.member))},
            _variable_from_label(names.ENV_GROUP_POD_INDEX, names.SCALING_GROUP_POD_INDEX),
        ]
    return result


def _count_group_pods(set_: PodCliqueSet, member: GroupMember) -> int:
    template = set_.spec.template
    return sum(
        get_clique_template(template, each).spec.replicas for each in member.group.clique_names
    )


def _variable_from_label(variable: str, label: str) -> JsonObject:
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}
    return {"name": variable, "valueFrom": field}
