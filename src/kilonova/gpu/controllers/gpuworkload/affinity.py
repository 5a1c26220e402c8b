"""Constraints of a workload as node selector, affinity and tolerations of its pods. Pure.

They are added to those of the pod template: a node must meet both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from kilonova.api.group_kinds import get_well_known
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import SchedulingConstraints, WorkloadReference
from kilonova.api.pods.workload_owner import Workload, workload_metadata
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.controllers.gpuworkload.gpu_resources import INVALID
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec

WORKLOAD_KIND = get_well_known("GPUWorkload")
_HOSTNAME = "kubernetes.io/hostname"
_GPU_TAINT: JsonObject = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
"""The taint that keeps other pods off GPU nodes."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_TEMPLATE = "spec.podTemplate.spec"


@dataclass(frozen=True, slots=True)
class ReferencedPod:
    """A pod that a constraint names."""

    exists: bool
    node: str = ""


PodKey = tuple[str, str]
ReferencedPods = Mapping[PodKey, ReferencedPod]
"""By namespace and name."""


def list_referenced_pods(constraints: SchedulingConstraints | None, namespace: str) -> set[PodKey]:
    """The pods that constraints name."""
    if constraints is None:
        return set()
    return {
        (each.namespace or namespace, each.name)
        for each in (*constraints.colocate_with, *constraints.anti_affinity)
        if each.kind == "Pod"
    }


def list_awaited_pods(
    constraints: SchedulingConstraints | None, namespace: str, pods: ReferencedPods
) -> list[PodKey]:
    """The pods beside which the workload is to be placed, and that have no node yet."""
    if constraints is None:
        return []
    wanted = (_pod_key(each, namespace) for each in constraints.colocate_with if _is_pod(each))
    return [key for key in wanted if key not in pods or not pods[key].node]


def with_constraints(
    pod_spec: JsonObject,
    constraints: SchedulingConstraints | None,
    namespace: str,
    pods: ReferencedPods,
) -> JsonObject:
    """The pod spec with the constraints; raises `InvalidSpec` if the template contradicts them."""
    given = constraints or SchedulingConstraints()
    result = {**pod_spec, "tolerations": _build_tolerations(pod_spec, given)}
    if selector := _merge_node_selectors(pod_spec, given):
        result["nodeSelector"] = selector
    if affinity := _merge_affinity(_as_object(pod_spec.get("affinity")), given, namespace, pods):
        result["affinity"] = affinity
    return result


def _build_tolerations(pod_spec: JsonObject, constraints: SchedulingConstraints) -> list[Any]:
    own = [_to_json(each) for each in constraints.tolerations]
    found: list[Any] = []
    for each in (*_as_list(pod_spec.get("tolerations")), *own, _GPU_TAINT):
        if each not in found:
            found.append(each)
    return found


def _merge_node_selectors(
    pod_spec: JsonObject, constraints: SchedulingConstraints
) -> dict[str, str]:
    selector: dict[str, str] = dict(_as_object(pod_spec.get("nodeSelector")))
    for key, value in constraints.node_selector.items():
        if selector.get(key, value) != value:
            field = f"{_TEMPLATE}.nodeSelector[{key}]"
            problem = f"{selector[key]!r} contradicts {value!r} in spec.constraints.nodeSelector"
            raise InvalidSpec(INVALID, field, f"{problem}: leave one of them out")
        selector[key] = value
    return selector


def _merge_affinity(
    affinity: JsonObject, constraints: SchedulingConstraints, namespace: str, pods: ReferencedPods
) -> JsonObject:
    parts = {
        "nodeAffinity": _merge_node_affinity(
            _as_object(affinity.get("nodeAffinity")), constraints, namespace, pods
        ),
        "podAffinity": _with_pod_terms(
            _as_object(affinity.get("podAffinity")), constraints.colocate_with, namespace
        ),
        "podAntiAffinity": _with_pod_terms(
            _as_object(affinity.get("podAntiAffinity")), constraints.anti_affinity, namespace
        ),
    }
    return {**affinity, **{name: part for name, part in parts.items() if part}}


def _merge_node_affinity(
    own: JsonObject, constraints: SchedulingConstraints, namespace: str, pods: ReferencedPods
) -> JsonObject:
    """Required terms are alternatives: each of the template with each of the constraints, and all
    of them with the names of nodes."""
    result = dict(own)
    asked = constraints.node_affinity
    required = () if asked is None else asked.required
    mine: list[JsonObject] = [_to_json(each) for each in required]
    theirs = _as_list(_as_object(own.get(_REQUIRED)).get("nodeSelectorTerms"))
    terms = _combine(_combine([{}], theirs), mine)
    names = _restrict_names(constraints, namespace, pods)
    terms = [_add_fields(each, names) for each in terms]
    if terms != [{}]:
        result[_REQUIRED] = {"nodeSelectorTerms": terms}
    preferred = [] if asked is None else [_to_json(each) for each in asked.preferred]
    if preferred:
        added = [{"weight": each["weight"], "preference": each["selector"]} for each in preferred]
        result[_PREFERRED] = [*_as_list(own.get(_PREFERRED)), *added]
    return result


def _combine(terms: list[JsonObject], others: list[JsonObject]) -> list[JsonObject]:
    if not others:
        return terms
    return [
        {
            field: [*_as_list(one.get(field)), *_as_list(other.get(field))]
            for field in ("matchExpressions", "matchFields")
            if one.get(field) or other.get(field)
        }
        for one in terms
        for other in others
    ]


def _restrict_names(
    constraints: SchedulingConstraints, namespace: str, pods: ReferencedPods
) -> list[JsonObject]:
    """Requirements on the name of the node: a field has exactly one value in each."""
    near = _find_nodes(constraints.colocate_with, namespace, pods)
    away = {*constraints.exclude_nodes, *_find_nodes(constraints.anti_affinity, namespace, pods)}
    wanted = [("In", name) for name in sorted(near)] + [("NotIn", name) for name in sorted(away)]
    return [{"key": "metadata.name", "operator": how, "values": [name]} for how, name in wanted]


def _find_nodes(
    references: Iterable[WorkloadReference], namespace: str, pods: ReferencedPods
) -> set[str]:
    keys = (_pod_key(each, namespace) for each in references if _is_pod(each))
    return {pods[key].node for key in keys if key in pods and pods[key].node}


def _add_fields(term: JsonObject, fields: list[JsonObject]) -> JsonObject:
    return (
        {**term, "matchFields": [*_as_list(term.get("matchFields")), *fields]} if fields else term
    )


def _with_pod_terms(
    rules: JsonObject, references: Iterable[WorkloadReference], namespace: str
) -> JsonObject:
    """Affinity rules with a term for each GPUWorkload."""
    terms = [_build_pod_term(each, namespace) for each in references if not _is_pod(each)]
    return {**rules, _REQUIRED: [*_as_list(rules.get(_REQUIRED)), *terms]} if terms else rules


def _build_pod_term(reference: WorkloadReference, namespace: str) -> JsonObject:
    space = reference.namespace or namespace
    labels, _ = workload_metadata(Workload(WORKLOAD_KIND, space, reference.name))
    return {
        "topologyKey": _HOSTNAME,
        "namespaces": [space],
        "labelSelector": {"matchLabels": labels},
    }


def _is_pod(reference: WorkloadReference) -> bool:
    return reference.kind == "Pod"


def _pod_key(reference: WorkloadReference, namespace: str) -> PodKey:
    return reference.namespace or namespace, reference.name


def _to_json(value: msgspec.Struct) -> JsonObject:
    """JSON with lists, as in a manifest."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _as_object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
