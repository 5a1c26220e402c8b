"""An object's metadata from birth to death: pure functions of what was and what is wanted."""

from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time, rfc3339
from kilonova.local.errors import ApiError, Problem, conflict, invalid_value, object_modified
from kilonova.local.kinds.base import Behavior, Kind
from kilonova.local.kinds.walk import strings

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_LONGEST_GRACE = (1 << 31) - 1
"""Seconds that an object may ask to be waited for: a lifetime, which the calendar has room for."""

_SET_BY_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
)


def wipe(kind: Kind, obj: JsonObject) -> None:
    """Take from a new object what only the server decides."""
    metadata = obj["metadata"]
    for name in _SET_BY_SERVER:
        metadata.pop(name, None)
    if kind.custom and kind.behavior.status_by_subresource:
        obj.pop("status", None)


def start_life(kind: Kind, obj: JsonObject, uid: str, now: str) -> None:
    """What the server decides about a new object."""
    wipe(kind, obj)
    metadata = obj["metadata"]
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if kind.behavior.has_generation:
        metadata["generation"] = 1


def carry_over(kind: Kind, subresource: str, new: JsonObject, old: JsonObject) -> None:
    """What an update may not touch comes from the present object."""
    metadata, present = new["metadata"], old["metadata"]
    if not metadata.get("uid"):
        metadata["uid"] = present["uid"]
    carried = ["creationTimestamp", "resourceVersion"]
    if kind.behavior.has_generation or "generation" not in metadata:
        carried.append("generation")
    if present.get("deletionTimestamp"):
        carried.append("deletionTimestamp")
    for name in carried:
        _copy(name, metadata, present)
    if "deletionGracePeriodSeconds" not in metadata:
        _copy("deletionGracePeriodSeconds", metadata, present)
    metadata.pop("selfLink", None)
    if subresource == "status":
        for name in {*new, *old} - {"metadata", "status", "kind", "apiVersion"}:
            _copy(name, new, old)
        whole = kind.custom or kind.behavior.status_keeps_metadata
        kept = present if whole else {"ownerReferences": present.get("ownerReferences")}
        for name in {*kept, *(metadata if whole else ())} - {"managedFields"}:
            _copy(name, metadata, present)
    elif kind.custom and kind.behavior.status_by_subresource and not subresource:
        _copy("status", new, old)


def check_preconditions(kind: Kind, name: str, metadata: JsonObject, present: JsonObject) -> None:
    """An update that names a resourceVersion is about that one only."""
    rv = metadata.get("resourceVersion")
    if not rv or rv == "0" or rv == present["resourceVersion"]:
        return
    if not rv.isdecimal():
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{rv}": invalid syntax')
    raise object_modified(kind.group, kind.plural, name)


def check_uid(kind: Kind, name: str, metadata: JsonObject, present: JsonObject) -> None:
    """A replacement that names a uid is about that object only."""
    uid = metadata.get("uid")
    if uid and uid != present["uid"]:
        detail = f"UID in precondition: {uid}, UID in object meta: {present['uid']}"
        raise conflict(kind.group, kind.plural, name, f"Precondition failed: {detail}")


def check_delete_preconditions(
    kind: Kind, name: str, wanted: JsonObject, present: JsonObject
) -> None:
    """A delete that names a uid or a resourceVersion is about that one only."""
    for field, label, why in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        value, found = wanted.get(field), present[field]
        if value is not None and value != found:
            raise conflict(
                kind.group,
                kind.kind,
                name,
                f"the {label} in the precondition ({value}) does not match the {label} in record "
                f"({found}). The object might have been {why}",
            )


def count_generation(kind: Kind, new: JsonObject, old: JsonObject) -> None:
    """Add one where something beside metadata and status changed."""
    behavior = kind.behavior
    if behavior.has_generation and _substance(behavior, new) != _substance(behavior, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def update_problems(metadata: JsonObject, present: JsonObject) -> list[Problem]:
    """Metadata that never changes, and finalizers that come too late."""
    problems = [
        invalid_value(f"metadata.{name}", metadata.get(name, ""), "field is immutable")
        for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name, "") != present.get(name, "")
    ]
    if present.get("deletionTimestamp"):
        before = strings(present, "finalizers")
        added = [name for name in strings(metadata, "finalizers") if name not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            problems.append(
                Problem(
                    "metadata.finalizers",
                    "FieldValueForbidden",
                    "Forbidden: no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    return problems


def ready_to_go(metadata: JsonObject) -> bool:
    """Marked for deletion, nothing left to wait for."""
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def mark_deleted(metadata: JsonObject, now: datetime, grace: int) -> None:
    """Set when it goes; the generation counts this as a change of what is wanted."""
    grace = min(grace, _LONGEST_GRACE)
    metadata["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def shorten_grace(metadata: JsonObject, now: datetime, grace: int) -> bool:
    """A second delete may only bring the end nearer. Tells whether it did."""
    present = metadata.get("deletionGracePeriodSeconds", 0)
    if grace >= present:
        return False
    end = parse_time(metadata["deletionTimestamp"]) + timedelta(seconds=grace - present)
    if end < now:
        end = now
        grace = min(grace, 1)
    metadata["deletionTimestamp"] = rfc3339(end)
    metadata["deletionGracePeriodSeconds"] = grace
    return True


def _substance(behavior: Behavior, obj: JsonObject) -> JsonObject:
    left_out = {"metadata", "kind", "apiVersion"}
    if behavior.status_by_subresource:
        left_out.add("status")
    return {name: value for name, value in obj.items() if name not in left_out}


def _copy(name: str, into: JsonObject, source: JsonObject) -> None:
    if source.get(name) is None:
        into.pop(name, None)
    else:
        into[name] = source[name]
