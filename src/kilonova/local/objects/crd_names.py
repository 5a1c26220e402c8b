"""Acceptance of a definition's names, and the status that results (naming controller)."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Blocks removal of a deleted definition until its instances are deleted."""


def accept_names(definition: JsonObject, others: Iterable[JsonObject], now: str) -> None:
    """Accept or reject the names of a definition among `others`, and set its status.

    Sets `acceptedNames`, `storedVersions` and the conditions NamesAccepted and Established. A name
    that another definition of the group has is rejected and prevents Established; an established
    definition stays established. The status is replaced, not modified, since an older object may
    share it.
    """
    spec, status = definition["spec"], dict(nested_object(definition, "status"))
    requested = nested_object(spec, "names")
    current = nested_object(status, "acceptedNames")
    resources, kinds = _names_in_use(spec.get("group", ""), others)
    accepted: JsonObject = {"plural": "", "kind": "", **current}
    rejection: tuple[str, str] | None = None
    for name, in_use in (("plural", resources), ("singular", resources)):
        rejection = _accept_name(name, requested, current, in_use, accepted) or rejection
    rejection = _accept_short_names(requested, current, resources, accepted) or rejection
    for name, in_use in (("kind", kinds), ("listKind", kinds)):
        rejection = _accept_name(name, requested, current, in_use, accepted) or rejection
    _set_name(accepted, "categories", requested.get("categories"))
    status["acceptedNames"] = accepted
    status["storedVersions"] = stored_versions(definition)
    conditions = [dict(condition) for condition in nested_objects(status, "conditions")]
    if rejection is None:
        _set_condition(
            conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now
        )
    else:
        _set_condition(conditions, "NamesAccepted", "False", *rejection, now)
    if not _is_condition_true(conditions, "Established"):
        if rejection is None:
            message = "the initial names have been accepted"
            _set_condition(conditions, "Established", "True", "InitialNamesAccepted", message, now)
        else:
            message = "not all names are accepted"
            _set_condition(conditions, "Established", "False", "NotAccepted", message, now)
    status["conditions"] = conditions
    definition["status"] = status


def is_established(definition: JsonObject) -> bool:
    """Whether instances of the definition can be served."""
    return _is_condition_true(nested_objects(definition, "status", "conditions"), "Established")


def stored_versions(definition: JsonObject) -> list[str]:
    """The versions that instances may be stored in: the recorded ones and the storage version."""
    known = nested_strings(definition, "status", "storedVersions")
    for version in nested_objects(definition, "spec", "versions"):
        if version.get("storage"):
            return known if version["name"] in known else [*known, version["name"]]
    return known


def mark_terminating(definition: JsonObject, now: str) -> None:
    """Mark a definition as deleted: it is removed once its instances are."""
    metadata = definition["metadata"]
    finalizers = nested_strings(metadata, "finalizers")
    if CLEANUP_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
    status = nested_object(definition, "status")
    conditions = [dict(condition) for condition in nested_objects(status, "conditions")]
    message = (
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    )
    _set_condition(conditions, "Terminating", "True", "InstanceDeletionPending", message, now)
    definition["status"] = {**status, "conditions": conditions}


def _names_in_use(group: str, others: Iterable[JsonObject]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"].get("group") == group:
            names = nested_object(other, "status", "acceptedNames")
            resources.update((names.get("plural", ""), names.get("singular", "")))
            resources.update(nested_strings(names, "shortNames"))
            kinds.update((names.get("kind", ""), names.get("listKind", "")))
    return resources, kinds


def _accept_name(
    name: str, requested: JsonObject, current: JsonObject, in_use: set[str], accepted: JsonObject
) -> tuple[str, str] | None:
    value = requested.get(name, "")
    if value != current.get(name, "") and value in in_use:
        reason = f"{name[0].upper()}{name[1:]}Conflict"
        return reason, f'"{value}" is already in use'
    _set_name(accepted, name, value)
    return None


def _accept_short_names(
    requested: JsonObject, current: JsonObject, in_use: set[str], accepted: JsonObject
) -> tuple[str, str] | None:
    own = nested_strings(current, "shortNames")
    rejected = [
        f'"{name}" is already in use'
        for name in nested_strings(requested, "shortNames")
        if name not in own and name in in_use
    ]
    if rejected:
        return "ShortNamesConflict", rejected[0] if len(
            rejected
        ) == 1 else f"[{', '.join(rejected)}]"
    _set_name(accepted, "shortNames", requested.get("shortNames"))
    return None


def _set_name(into: JsonObject, name: str, value: Any) -> None:
    if value or name in ("plural", "kind"):
        into[name] = value
    else:
        into.pop(name, None)


def _is_condition_true(conditions: Iterable[JsonObject], type: str) -> bool:
    return any(each["type"] == type and each["status"] == "True" for each in conditions)


def _set_condition(
    conditions: list[JsonObject], type: str, status: str, reason: str, message: str, now: str
) -> None:
    """Set a condition; `lastTransitionTime` changes with the status only."""
    found = next((each for each in conditions if each["type"] == type), None)
    if found is None:
        found = {"type": type}
        conditions.append(found)
    if found.get("status") != status or not found.get("lastTransitionTime"):
        found["lastTransitionTime"] = now
    found.update(status=status, reason=reason, message=message)
