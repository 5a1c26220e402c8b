"""Pods of a clique."""

from collections.abc import Container
from itertools import count, takewhile

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.backends.stamps import pod_stamps
from kilonova.workloads.keys import replica_of
from kilonova.workloads.resources import CLIQUES
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.claims import with_own_claims
from kilonova.workloads.templates.containers import with_environment
from kilonova.workloads.templates.labels import owner_reference
from kilonova.workloads.templates.lookup import Member, Place, find_clique, place_of
from kilonova.workloads.templates.startup import waiting


def pod_name(clique: str, index: int, taken: Container[str]) -> str:
    """The first name of the pod of an index that is not taken by one that ends or has ended."""
    attempts = (names.pod(clique, index, attempt) for attempt in count())
    return next(each for each in attempts if each not in taken)


def pod_object(
    clique: PodClique,
    set_: PodCliqueSet | None,
    index: int,
    name: str,
    *,
    gated: bool,
    released: bool,
    settings: Settings,
) -> JsonObject:
    """A pod of a clique, as it is created.

    `gated`: it may not be placed yet. `released`: what it starts after has started. The user's own
    gates are kept. Without a set, the pod is made from what the clique says alone.
    """
    place = None if set_ is None else place_of(set_, clique.metadata)
    waits = bool(clique.spec.starts_after)
    stamps = pod_stamps(clique, set_, settings)
    annotations = {**clique.metadata.annotations, **stamps.annotations}
    if released and waits:
        annotations[names.RELEASED] = "true"
    metadata: JsonObject = {
        "name": name,
        "generateName": f"{clique.metadata.name}-",
        "namespace": clique.metadata.namespace,
        "labels": {**_labels(clique, set_, place, index), **stamps.labels},
        "ownerReferences": [owner_reference(CLIQUES, clique.metadata)],
    }
    if annotations:
        metadata["annotations"] = annotations
    spec = _spec(clique, set_, place, index, gated=gated, waits=waits, settings=settings)
    return {"metadata": metadata, "spec": spec}


def _labels(
    clique: PodClique, set_: PodCliqueSet | None, place: Place | None, index: int
) -> dict[str, str]:
    result = {
        **clique.metadata.labels,
        names.MANAGED_BY: names.OPERATOR,
        names.POD_CLIQUE: clique.metadata.name,
        names.POD_INDEX: str(index),
    }
    if set_ is not None and place is not None and place.member is not None:
        before = takewhile(lambda each: each != place.clique.name, place.member.group.clique_names)
        offset = sum(find_clique(set_.spec.template, each).spec.replicas for each in before)
        result[names.SCALING_GROUP_POD_INDEX] = str(offset + index)
    return result


def _spec(
    clique: PodClique,
    set_: PodCliqueSet | None,
    place: Place | None,
    index: int,
    *,
    gated: bool,
    waits: bool,
    settings: Settings,
) -> JsonObject:
    spec = dict(clique.spec.pod_spec)
    spec["hostname"] = names.hostname(clique.metadata.name, index)
    replica = replica_of(clique.metadata)
    if replica is not None:
        spec["subdomain"] = names.replica(replica.set_name, replica.index)
    gates = [each for each in spec.pop("schedulingGates", ()) or () if each["name"] != names.GATE]
    if gated:
        gates.append({"name": names.GATE})
    if gates:
        spec["schedulingGates"] = gates
    spec = with_environment(spec, _environment(clique, set_, place))
    if place is not None:
        spec = with_own_claims(spec, place.clique.resource_sharing, clique.metadata.name, index)
    return waiting(spec, settings) if waits else spec


def _environment(
    clique: PodClique, set_: PodCliqueSet | None, place: Place | None
) -> list[JsonObject]:
    result: list[JsonObject] = []
    replica = replica_of(clique.metadata)
    if replica is not None:
        address = names.service_address(replica.set_name, replica.index, replica.namespace)
        result += [
            {"name": names.ENV_SET_NAME, "value": replica.set_name},
            {"name": names.ENV_SET_INDEX, "value": str(replica.index)},
            {"name": names.ENV_HEADLESS_SERVICE, "value": address},
        ]
    result += [
        {"name": names.ENV_CLIQUE_NAME, "value": clique.metadata.name},
        _from_label(names.ENV_POD_INDEX, names.POD_INDEX),
    ]
    if names.SCALING_GROUP in clique.metadata.labels:
        result += [
            _from_label(names.ENV_GROUP_NAME, names.SCALING_GROUP),
            _from_label(names.ENV_GROUP_INDEX, names.SCALING_GROUP_REPLICA_INDEX),
        ]
    if set_ is not None and place is not None and place.member is not None:
        result += [
            {"name": names.ENV_GROUP_PODS, "value": str(_pods_in_group(set_, place.member))},
            _from_label(names.ENV_GROUP_POD_INDEX, names.SCALING_GROUP_POD_INDEX),
        ]
    return result


def _pods_in_group(set_: PodCliqueSet, member: Member) -> int:
    template = set_.spec.template
    return sum(find_clique(template, each).spec.replicas for each in member.group.clique_names)


def _from_label(variable: str, label: str) -> JsonObject:
    field = {"fieldRef": {"fieldPath": f"metadata.labels['{label}']"}}
    return {"name": variable, "valueFrom": field}
