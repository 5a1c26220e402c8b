"""Object metadata through create, update and delete (rest.BeforeCreate and its like). Pure."""

from datetime import datetime, timedelta

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.local.apimachinery.errors import (
    ApiError,
    FieldError,
    conflict,
    invalid_value,
    object_modified,
)
from kilonova.local.apimachinery.unstructured import nested_strings
from kilonova.local.apiserver.field_manager import FieldFilter, exclude_fields, include_fields
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy
from kilonova.local.apiserver.registry.options import Preconditions

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_MAX_GRACE_SECONDS = (1 << 31) - 1
"""The longest grace period in seconds: about 68 years, which timestamps can represent."""

_SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
)

_WITHOUT_STATUS = exclude_fields("status")
_STATUS_ONLY = include_fields("status")
_STATUS_AND_METADATA = include_fields("status", "metadata")


def reset_server_fields(kind: Kind, obj: JsonObject) -> None:
    """Reset the fields of a new object that only the server sets."""
    metadata = obj["metadata"]
    for name in _SERVER_FIELDS:
        metadata.pop(name, None)
    if kind.is_custom and kind.strategy.has_status_subresource:
        obj.pop("status", None)


def initialize_metadata(kind: Kind, obj: JsonObject, uid: str, now: str) -> None:
    """Set the server's fields of a new object."""
    reset_server_fields(kind, obj)
    metadata = obj["metadata"]
    metadata["uid"] = uid
    metadata["creationTimestamp"] = now
    if kind.strategy.has_generation:
        metadata["generation"] = 1


def preserve_server_fields(kind: Kind, subresource: str, new: JsonObject, old: JsonObject) -> None:
    """Copy what an update must not change from the current object."""
    metadata, current = new["metadata"], old["metadata"]
    if not metadata.get("uid"):
        metadata["uid"] = current["uid"]
    preserved = ["creationTimestamp", "resourceVersion"]
    if kind.strategy.has_generation or "generation" not in metadata:
        preserved.append("generation")
    if current.get("deletionTimestamp"):
        preserved.append("deletionTimestamp")
    for name in preserved:
        _copy_field(name, metadata, current)
    if "deletionGracePeriodSeconds" not in metadata:
        _copy_field("deletionGracePeriodSeconds", metadata, current)
    metadata.pop("selfLink", None)
    if subresource == "status":
        for name in {*new, *old} - {"metadata", "status", "kind", "apiVersion"}:
            _copy_field(name, new, old)
        keeps_metadata = kind.is_custom or kind.strategy.status_preserves_metadata
        preserved_metadata = (
            current if keeps_metadata else {"ownerReferences": current.get("ownerReferences")}
        )
        for name in {*preserved_metadata, *(metadata if keeps_metadata else ())} - {
            "managedFields"
        }:
            _copy_field(name, metadata, current)
    elif kind.is_custom and kind.strategy.has_status_subresource and not subresource:
        _copy_field("status", new, old)


def check_preconditions(kind: Kind, name: str, metadata: JsonObject, current: JsonObject) -> None:
    """An update with a resourceVersion applies to that version only."""
    rv = metadata.get("resourceVersion")
    if not rv or rv == "0" or rv == current["resourceVersion"]:
        return
    if not rv.isdecimal():
        raise ApiError(500, "", f'strconv.ParseUint: parsing "{rv}": invalid syntax')
    raise object_modified(kind.group, kind.plural, name)


def check_uid(kind: Kind, name: str, metadata: JsonObject, current: JsonObject) -> None:
    """An update with a uid applies to that object only."""
    uid = metadata.get("uid")
    if uid and uid != current["uid"]:
        detail = f"UID in precondition: {uid}, UID in object meta: {current['uid']}"
        raise conflict(kind.group, kind.plural, name, f"Precondition failed: {detail}")


def check_delete_preconditions(
    kind: Kind, name: str, preconditions: Preconditions, current: JsonObject
) -> None:
    """A delete with a uid or resourceVersion applies to that object or version only."""
    for value, found, label, detail in (
        (preconditions.uid, current["uid"], "UID", "deleted and then recreated"),
        (
            preconditions.resource_version,
            current["resourceVersion"],
            "ResourceVersion",
            "modified",
        ),
    ):
        if value is not None and value != found:
            raise conflict(
                kind.group,
                kind.kind,
                name,
                f"the {label} in the precondition ({value}) does not match the {label} in record "
                f"({found}). The object might have been {detail}",
            )


def owned_fields_filter(kind: Kind, subresource: str) -> FieldFilter | None:
    """Removes the fields that an endpoint ignores: a write there does not own them."""
    if subresource == "status":
        preserves_metadata = kind.is_custom or kind.strategy.status_preserves_metadata
        return _STATUS_ONLY if preserves_metadata else _STATUS_AND_METADATA
    return _WITHOUT_STATUS if kind.strategy.has_status_subresource else None


def update_generation(kind: Kind, new: JsonObject, old: JsonObject) -> None:
    """Increment the generation if anything beside metadata and status has changed."""
    strategy = kind.strategy
    if strategy.has_generation and _generation_fields(strategy, new) != _generation_fields(
        strategy, old
    ):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_metadata_update(metadata: JsonObject, current: JsonObject) -> list[FieldError]:
    """Validate immutable metadata, and that a terminating object gets no new finalizers."""
    problems = [
        invalid_value(f"metadata.{name}", metadata.get(name, ""), "field is immutable")
        for name in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if metadata.get(name, "") != current.get(name, "")
    ]
    if current.get("deletionTimestamp"):
        before = nested_strings(current, "finalizers")
        added = [name for name in nested_strings(metadata, "finalizers") if name not in before]
        if added:
            names = ", ".join(f'"{name}"' for name in added)
            problems.append(
                FieldError(
                    "metadata.finalizers",
                    "FieldValueForbidden",
                    "Forbidden: no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{names}}}",
                )
            )
    return problems


def is_ready_for_removal(metadata: JsonObject) -> bool:
    """Whether a terminating object has neither finalizers nor a grace period left."""
    return (
        bool(metadata.get("deletionTimestamp"))
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def set_deletion_timestamp(metadata: JsonObject, now: datetime, grace: int) -> None:
    """Set the deletion timestamp, which increments the generation."""
    grace = min(grace, _MAX_GRACE_SECONDS)
    metadata["deletionTimestamp"] = format_rfc3339(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if metadata.get("generation"):
        metadata["generation"] += 1


def shorten_grace_period(metadata: JsonObject, now: datetime, grace: int) -> bool:
    """A second delete may only shorten the grace period. Returns whether it did."""
    current = metadata.get("deletionGracePeriodSeconds", 0)
    if grace >= current:
        return False
    end = parse_time(metadata["deletionTimestamp"]) + timedelta(seconds=grace - current)
    if end < now:
        end = now
        grace = min(grace, 1)
    metadata["deletionTimestamp"] = format_rfc3339(end)
    metadata["deletionGracePeriodSeconds"] = grace
    return True


def _generation_fields(strategy: KindStrategy, obj: JsonObject) -> JsonObject:
    excluded = {"metadata", "kind", "apiVersion"}
    if strategy.has_status_subresource:
        excluded.add("status")
    return {name: value for name, value in obj.items() if name not in excluded}


def _copy_field(name: str, into: JsonObject, source: JsonObject) -> None:
    if source.get(name) is None:
        into.pop(name, None)
    else:
        into[name] = source[name]
