"""What is to be written to the hub after a pass. Pure."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from kilonova.api.fleet import CONSOLE, ClusterStatus
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.times import parse_time
from kilonova.fleet.documents import Observed, SavedObject
from kilonova.fleet.manager.hub import FINALIZER, SAVED_HASH, HubObject, ObjectId, Status, hash_spec
from kilonova.fleet.manager.hub_writer import HubWrite
from kilonova.fleet.manager.resources import RESOURCES
from kilonova.fleet.manager.synchronisation import compare


def plan_hub_writes(
    current: Mapping[ObjectId, HubObject],
    saved: Mapping[ObjectId, SavedObject],
    statuses: Mapping[ObjectId, Status],
    removable: Collection[ObjectId],
    now: datetime,
    seen_interval: float,
) -> list[HubWrite]:
    """The writes, also those that turn out to change nothing."""
    return list(_list_writes(current, saved, statuses, removable, now, seen_interval))


def plan_registrations(
    known: Collection[ObjectId], observed: Mapping[str, Observed]
) -> list[HubWrite]:
    """Clusters for members that report and have none. One that was deleted is not created again."""
    return [
        HubWrite(
            key,
            None,
            create={
                "metadata": {
                    "name": name,
                    "annotations": {CONSOLE: report.console} if report.console else {},
                    "finalizers": [FINALIZER],
                },
                "spec": {"region": report.region} if report.region else {},
            },
        )
        for name, report in observed.items()
        if (key := ObjectId("Cluster", "", name)) not in known
    ]


def _list_writes(
    current: Mapping[ObjectId, HubObject],
    saved: Mapping[ObjectId, SavedObject],
    statuses: Mapping[ObjectId, Status],
    removable: Collection[ObjectId],
    now: datetime,
    seen_interval: float,
) -> Iterator[HubWrite]:
    for key in sorted({*current, *saved}):
        found, document, status = current.get(key), saved.get(key), statuses.get(key)
        if found is None:
            if document is not None and not document.deleted:
                yield HubWrite(key, None, create=_build_manifest(key, document), status=status)
            continue
        holds = compare(found, document)
        if holds == "delete" and found.metadata.deletion_timestamp is None:
            yield HubWrite(key, found, delete=True)
        elif holds == "delete" or key in removable:
            yield HubWrite(key, found, metadata=_without_finalizer(found.metadata))
        else:
            spec = document.spec if holds == "update" and document is not None else None
            metadata = _plan_metadata(found.metadata, document, is_saved=holds != "save")
            kept = _keep_unchanged(found.status, status, now, seen_interval)
            yield HubWrite(key, found, metadata=metadata, spec=spec, status=kept)


def _build_manifest(key: ObjectId, saved: SavedObject) -> JsonObject:
    metadata: JsonObject = {
        "name": key.name,
        "labels": saved.labels,
        "annotations": {**saved.annotations, SAVED_HASH: hash_spec(saved.spec)},
        "finalizers": [FINALIZER],
    }
    if RESOURCES[key.kind].namespaced:
        metadata["namespace"] = key.namespace
    return {"metadata": metadata, "spec": saved.spec}


def _plan_metadata(
    found: Metadata, saved: SavedObject | None, *, is_saved: bool
) -> JsonObject | None:
    """The changes of our annotation and finalizer."""
    changes: JsonObject = {}
    if FINALIZER not in found.finalizers and found.deletion_timestamp is None:
        changes["finalizers"] = [*found.finalizers, FINALIZER]
    if saved is not None and is_saved:
        common = hash_spec(saved.spec)
        if found.annotations.get(SAVED_HASH) != common:
            changes["annotations"] = {SAVED_HASH: common}
    return changes or None


def _without_finalizer(found: Metadata) -> JsonObject | None:
    if FINALIZER not in found.finalizers:
        return None
    return {"finalizers": [each for each in found.finalizers if each != FINALIZER]}


def _keep_unchanged(
    old: Status, new: Status | None, now: datetime, seen_interval: float
) -> Status | None:
    """The new status, unless only the time of the last report differs, and not by much."""
    if not isinstance(old, ClusterStatus) or not isinstance(new, ClusterStatus):
        return new
    if old.last_seen is None or now - parse_time(old.last_seen) >= timedelta(seconds=seen_interval):
        return new
    is_same = replace(new, last_seen=old.last_seen, sequence=old.sequence) == old
    return None if is_same else new
