"""Which names a definition gets, and what its status says of it."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import objects, part, strings

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Keeps a deleted definition until its instances are gone."""


def accept_names(definition: JsonObject, others: Iterable[JsonObject], now: str) -> None:
    """Decide on the names of a definition among `others`, and write status.

    Sets `acceptedNames`, `storedVersions` and the conditions NamesAccepted and Established.
    Names that another definition of the group holds are refused, and keep the definition
    from being established; one that is established stays so. The status is replaced, not
    changed, so that one shared with an older object is safe.
    """
    spec, status = definition["spec"], dict(part(definition, "status"))
    wanted = part(spec, "names")
    held = part(status, "acceptedNames")
    resources, kinds = _taken(spec.get("group", ""), others)
    accepted: JsonObject = {"plural": "", "kind": "", **held}
    refusal: tuple[str, str] | None = None
    for name, taken in (("plural", resources), ("singular", resources)):
        refusal = _take(name, wanted, held, taken, accepted) or refusal
    refusal = _take_short_names(wanted, held, resources, accepted) or refusal
    for name, taken in (("kind", kinds), ("listKind", kinds)):
        refusal = _take(name, wanted, held, taken, accepted) or refusal
    _set(accepted, "categories", wanted.get("categories"))
    status["acceptedNames"] = accepted
    status["storedVersions"] = stored_versions(definition)
    conditions = [dict(condition) for condition in objects(status, "conditions")]
    if refusal is None:
        _condition(conditions, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
    else:
        _condition(conditions, "NamesAccepted", "False", *refusal, now)
    if not _is_true(conditions, "Established"):
        if refusal is None:
            message = "the initial names have been accepted"
            _condition(conditions, "Established", "True", "InitialNamesAccepted", message, now)
        else:
            message = "not all names are accepted"
            _condition(conditions, "Established", "False", "NotAccepted", message, now)
    status["conditions"] = conditions
    definition["status"] = status


def is_established(definition: JsonObject) -> bool:
    """Whether instances of the definition can be served."""
    return _is_true(objects(definition, "status", "conditions"), "Established")


def stored_versions(definition: JsonObject) -> list[str]:
    """The versions that instances may be stored in: those known, and the present one."""
    known = strings(definition, "status", "storedVersions")
    for version in objects(definition, "spec", "versions"):
        if version.get("storage"):
            return known if version["name"] in known else [*known, version["name"]]
    return known


def mark_terminating(definition: JsonObject, now: str) -> None:
    """What a delete writes into a definition: it goes when its instances have gone."""
    metadata = definition["metadata"]
    finalizers = strings(metadata, "finalizers")
    if CLEANUP_FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
    status = part(definition, "status")
    conditions = [dict(condition) for condition in objects(status, "conditions")]
    message = (
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    )
    _condition(conditions, "Terminating", "True", "InstanceDeletionPending", message, now)
    definition["status"] = {**status, "conditions": conditions}


def _taken(group: str, others: Iterable[JsonObject]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"].get("group") == group:
            names = part(other, "status", "acceptedNames")
            resources.update((names.get("plural", ""), names.get("singular", "")))
            resources.update(strings(names, "shortNames"))
            kinds.update((names.get("kind", ""), names.get("listKind", "")))
    return resources, kinds


def _take(
    name: str, wanted: JsonObject, held: JsonObject, taken: set[str], accepted: JsonObject
) -> tuple[str, str] | None:
    value = wanted.get(name, "")
    if value != held.get(name, "") and value in taken:
        reason = f"{name[0].upper()}{name[1:]}Conflict"
        return reason, f'"{value}" is already in use'
    _set(accepted, name, value)
    return None


def _take_short_names(
    wanted: JsonObject, held: JsonObject, taken: set[str], accepted: JsonObject
) -> tuple[str, str] | None:
    own = strings(held, "shortNames")
    refused = [
        f'"{name}" is already in use'
        for name in strings(wanted, "shortNames")
        if name not in own and name in taken
    ]
    if refused:
        return "ShortNamesConflict", refused[0] if len(refused) == 1 else f"[{', '.join(refused)}]"
    _set(accepted, "shortNames", wanted.get("shortNames"))
    return None


def _set(into: JsonObject, name: str, value: Any) -> None:
    if value or name in ("plural", "kind"):
        into[name] = value
    else:
        into.pop(name, None)


def _is_true(conditions: Iterable[JsonObject], type: str) -> bool:
    return any(each["type"] == type and each["status"] == "True" for each in conditions)


def _condition(
    conditions: list[JsonObject], type: str, status: str, reason: str, message: str, now: str
) -> None:
    """Set a condition; its time is when the status last changed."""
    found = next((each for each in conditions if each["type"] == type), None)
    if found is None:
        found = {"type": type}
        conditions.append(found)
    if found.get("status") != status or not found.get("lastTransitionTime"):
        found["lastTransitionTime"] = now
    found.update(status=status, reason=reason, message=message)
