"""Validation of pod updates: what may change, and what only while the pod is gated."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, invalid_value
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_value

_MUTABLE_FIELDS = ",".join(
    [
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` "
        "(allow it to be set to 1 if it was previously negative)",
    ]
)
_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def validate_pod_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate an update of a pod's spec through the main endpoint."""
    spec: JsonObject = nested_object(new, "spec")
    before: JsonObject = nested_object(old, "spec")
    if spec == before:
        return []
    for field in ("containers", "initContainers"):
        if len(nested_objects(spec, field)) != len(nested_objects(before, field)):
            detail = "pod updates may not add or remove containers"
            return [forbidden_value(f"spec.{field}", detail)]
    problems = [
        *_validate_deadline_update(spec, before),
        *_validate_toleration_update(spec, before),
        *_validate_gate_update(spec, before),
    ]
    if before.get("schedulingGates"):
        problems += _validate_gated_pod_update(spec, before)
    if _immutable_spec(spec, before) != _immutable_spec(before, before):
        detail = f"pod updates may not change fields other than {_MUTABLE_FIELDS}\n"
        problems.append(forbidden_value("spec", detail))
    return problems


def _immutable_spec(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The spec without fields that are mutable or validated separately."""
    fixed = dict(spec)
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(field, None)
    for field in ("containers", "initContainers"):
        fixed[field] = [{**each, "image": ""} for each in nested_objects(spec, field)]
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        allowed = fixed.get("terminationGracePeriodSeconds") in (
            1,
            before["terminationGracePeriodSeconds"],
        )
        if allowed:
            del fixed["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        fixed.pop("nodeSelector", None)
        affinity = dict(nested_object(fixed, "affinity"))
        fixed.pop("affinity", None)
        affinity.pop("nodeAffinity", None)
        if affinity:
            fixed["affinity"] = affinity
    return fixed


def _validate_deadline_update(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    path = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            yield invalid_value(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline < 2**31:
        yield invalid_value(path, deadline, "must be between 0 and 2147483647, inclusive")
    elif earlier is not None and deadline > earlier:
        yield invalid_value(path, deadline, "must be less than or equal to previous value")


def _validate_toleration_update(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    remaining = [_without_seconds(each) for each in nested_objects(spec, "tolerations")]
    if any(
        _without_seconds(each) not in remaining for each in nested_objects(before, "tolerations")
    ):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_value("spec.tolerations", detail)


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _validate_gate_update(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    earlier = {gate.get("name") for gate in nested_objects(before, "schedulingGates")}
    for index, gate in enumerate(nested_objects(spec, "schedulingGates")):
        name = gate.get("name")
        if name not in earlier:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_value(f"spec.schedulingGates[{index}].name", detail)


def _validate_gated_pod_update(spec: JsonObject, before: JsonObject) -> Iterator[FieldError]:
    """While a pod has scheduling gates, its node constraints may be tightened, never relaxed."""
    selector: JsonObject = nested_object(spec, "nodeSelector")
    if any(
        selector.get(key) != value for key, value in nested_object(before, "nodeSelector").items()
    ):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", selector, detail)
    terms, earlier = _required_terms(spec), _required_terms(before)
    if earlier and len(terms) != len(earlier):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(f"{_AFFINITY}.nodeSelectorTerms", terms, detail)
        return
    for index, (term, old) in enumerate(zip(terms, earlier, strict=False)):
        if not _is_narrower_term(term, old):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{_AFFINITY}.nodeSelectorTerms[{index}]", term, detail)


def _required_terms(spec: JsonObject) -> list[JsonObject]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return nested_value(spec, "affinity", "nodeAffinity", required, "nodeSelectorTerms") or []


def _is_narrower_term(term: JsonObject, old: JsonObject) -> bool:
    if not any(old.values()):
        return not any(term.values())
    for field in ("matchExpressions", "matchFields"):
        earlier: list[Any] = old.get(field) or []
        if (term.get(field) or [])[: len(earlier)] != earlier:
            return False
    return True
