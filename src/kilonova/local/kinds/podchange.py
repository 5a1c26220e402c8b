"""What may change in a pod once it exists, and what only while its scheduling is held back."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value
from kilonova.local.kinds.walk import at, objects, part

_CHANGEABLE = ",".join(
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


def pod_change_problems(new: JsonObject, old: JsonObject) -> list[Problem]:
    """Rules for the change of a pod's spec through its main endpoint."""
    spec: JsonObject = part(new, "spec")
    before: JsonObject = part(old, "spec")
    if spec == before:
        return []
    for field in ("containers", "initContainers"):
        if len(objects(spec, field)) != len(objects(before, field)):
            detail = "pod updates may not add or remove containers"
            return [forbidden_field(f"spec.{field}", detail)]
    problems = [
        *_deadline_problems(spec, before),
        *_toleration_problems(spec, before),
        *_gate_problems(spec, before),
    ]
    if before.get("schedulingGates"):
        problems += _gated_problems(spec, before)
    if _fixed_part(spec, before) != _fixed_part(before, before):
        detail = f"pod updates may not change fields other than {_CHANGEABLE}\n"
        problems.append(forbidden_field("spec", detail))
    return problems


def _fixed_part(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The spec without what may change, or has been judged on its own."""
    fixed = dict(spec)
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        fixed.pop(field, None)
    for field in ("containers", "initContainers"):
        fixed[field] = [{**each, "image": ""} for each in objects(spec, field)]
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        allowed = fixed.get("terminationGracePeriodSeconds") in (
            1,
            before["terminationGracePeriodSeconds"],
        )
        if allowed:
            del fixed["terminationGracePeriodSeconds"]
    if before.get("schedulingGates"):
        fixed.pop("nodeSelector", None)
        affinity = dict(part(fixed, "affinity"))
        fixed.pop("affinity", None)
        affinity.pop("nodeAffinity", None)
        if affinity:
            fixed["affinity"] = affinity
    return fixed


def _deadline_problems(spec: JsonObject, before: JsonObject) -> Iterator[Problem]:
    path = "spec.activeDeadlineSeconds"
    deadline, earlier = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is None:
        if earlier is not None:
            yield invalid_value(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= deadline < 2**31:
        yield invalid_value(path, deadline, "must be between 0 and 2147483647, inclusive")
    elif earlier is not None and deadline > earlier:
        yield invalid_value(path, deadline, "must be less than or equal to previous value")


def _toleration_problems(spec: JsonObject, before: JsonObject) -> Iterator[Problem]:
    kept = [_without_seconds(each) for each in objects(spec, "tolerations")]
    if any(_without_seconds(each) not in kept for each in objects(before, "tolerations")):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", detail)


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _gate_problems(spec: JsonObject, before: JsonObject) -> Iterator[Problem]:
    earlier = {gate.get("name") for gate in objects(before, "schedulingGates")}
    for index, gate in enumerate(objects(spec, "schedulingGates")):
        name = gate.get("name")
        if name not in earlier:
            detail = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", detail)


def _gated_problems(spec: JsonObject, before: JsonObject) -> Iterator[Problem]:
    """While gates hold a pod back, demands on its node may be added to, never relaxed."""
    selector: JsonObject = part(spec, "nodeSelector")
    if any(selector.get(key) != value for key, value in part(before, "nodeSelector").items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", selector, detail)
    terms, earlier = _required_terms(spec), _required_terms(before)
    if earlier and len(terms) != len(earlier):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(f"{_AFFINITY}.nodeSelectorTerms", terms, detail)
        return
    for index, (term, old) in enumerate(zip(terms, earlier, strict=False)):
        if not _only_adds(term, old):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{_AFFINITY}.nodeSelectorTerms[{index}]", term, detail)


def _required_terms(spec: JsonObject) -> list[JsonObject]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return at(spec, "affinity", "nodeAffinity", required, "nodeSelectorTerms") or []


def _only_adds(term: JsonObject, old: JsonObject) -> bool:
    if not any(old.values()):
        return not any(term.values())
    for field in ("matchExpressions", "matchFields"):
        earlier: list[Any] = old.get(field) or []
        if (term.get(field) or [])[: len(earlier)] != earlier:
            return False
    return True
