"""What a leader does first: claim its epoch in the store, and copy the state of a former store."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from kilonova.api.times import format_rfc3339
from kilonova.fleet.documents import (
    DESIRED,
    FLEET,
    JOURNAL,
    OBSERVED,
    SAVED_OBJECTS,
    FleetRecord,
)
from kilonova.fleet.store.endpoints import FLAG
from kilonova.fleet.store.epochs import choose_epoch, format_epoch, generation_of
from kilonova.fleet.store.fleet_store import FleetStore, StoredDocument
from kilonova.kube.election import Leadership, LeadershipLost
from kilonova.objectstore import IF_ABSENT, NotFound, PreconditionFailed

COPIED = (OBSERVED, DESIRED, SAVED_OBJECTS, JOURNAL)


@dataclass(frozen=True, slots=True)
class Previous:
    """The endpoint that this process used before, and the highest epoch that it saw there."""

    endpoint: str = ""
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Candidacy:
    """A new leader, and what it knows."""

    identity: str
    endpoint: str
    leadership: Leadership
    accepted: int
    """The highest epoch that members are known to have accepted."""
    previous: Previous
    wall: Callable[[], datetime]


class StoreReplaced(Exception):
    """The store is no longer that of the fleet: to lead from here would undo a change of
    endpoint."""


async def claim_epoch(store: FleetStore, candidacy: Candidacy) -> StoredDocument[FleetRecord]:
    """Record the epoch of a new leader, before it decides anything.

    Of the record and the lease, the record is read first and written last: if another leader was
    elected in between, either the lease or the write shows it. Raises `LeadershipLost` then, and
    `StoreReplaced` if the fleet uses another store.
    """
    while True:
        found = await store.read(FLEET)
        record = found.document if found else FleetRecord(epoch=0)
        if found is not None:
            _check_current(store.name, record, candidacy)
        await _check_lease(store, candidacy)
        floor = max(candidacy.accepted, candidacy.previous.epoch)
        if found is None:
            reports = await store.read_all(OBSERVED, lambda error: None)
            floor = max(floor, *(each.document.accepted_epoch for each in reports), 0)
        epoch = choose_epoch(record.epoch, floor, candidacy.leadership.token)
        is_new_generation = generation_of(epoch) != generation_of(record.epoch)
        claimed = FleetRecord(
            epoch=epoch,
            holder=candidacy.identity,
            endpoint=candidacy.endpoint,
            copy_from=candidacy.previous.endpoint if is_new_generation else record.copy_from,
            nonce=secrets.token_hex(16),
            time=format_rfc3339(candidacy.wall()),
        )
        try:
            return await store.write(FLEET, claimed, found.version if found else None)
        except PreconditionFailed:
            continue


def check_not_moved(name: str, record: FleetRecord) -> None:
    """Raise `StoreReplaced` if another store has taken the place of this one."""
    if record.moved_to:
        raise _replaced(name, record.moved_to)


def _check_current(name: str, record: FleetRecord, candidacy: Candidacy) -> None:
    """Raise `StoreReplaced` if this is a former store, unless this process comes from the one that
    replaced it."""
    known = max(record.epoch, candidacy.accepted)
    came_back = record.epoch < candidacy.previous.epoch and known <= candidacy.previous.epoch
    if came_back or record.reclaimed:
        return
    check_not_moved(name, record)
    if candidacy.accepted > record.epoch:
        accepted, last = format_epoch(candidacy.accepted), format_epoch(record.epoch)
        raise _replaced(name, f"another: members accepted epoch {accepted}, its last is {last}")


def _replaced(name: str, successor: str) -> StoreReplaced:
    return StoreReplaced(
        f"the store {name} was replaced by {successor}; correct {FLAG}, or use this one again: "
        "kilonova fleet endpoint reclaim"
    )


async def _check_lease(store: FleetStore, candidacy: Candidacy) -> None:
    lease = await store.lease.read()
    leadership = candidacy.leadership
    held = lease is not None and lease.record.holder == candidacy.identity
    if not held or lease is None or lease.record.token != leadership.token:
        raise LeadershipLost(leadership.lease, "another candidate acquired it")


async def copy_documents(source: FleetStore, target: FleetStore) -> int:
    """Copy the documents that the target does not have; returns their number."""
    copied = 0
    for kind in COPIED:
        async for each in source.objects.list(f"{kind.prefix}/"):
            try:
                found = await source.objects.get(each.key)
                await target.objects.put(each.key, found.body, IF_ABSENT)
            except (NotFound, PreconditionFailed):
                continue
            copied += 1
    return copied


async def complete_copy(
    store: FleetStore, claimed: StoredDocument[FleetRecord]
) -> StoredDocument[FleetRecord]:
    """Record that nothing is left to copy."""
    record = msgspec.structs.replace(claimed.document, copy_from="", nonce=secrets.token_hex(16))
    return await store.write(FLEET, record, claimed.version)


async def mark_replaced(store: FleetStore, endpoint: str) -> None:
    """Record in a former store which one has taken its place."""

    def mark(record: FleetRecord) -> FleetRecord:
        return msgspec.structs.replace(record, moved_to=endpoint, reclaimed=False)

    await _change_record(store, mark)


async def reclaim_store(store: FleetStore) -> bool:
    """Let managers lead from a store although another one has replaced it; False if it never had a
    leader. Members accept the next leader's epoch: it begins a generation."""

    def reclaim(record: FleetRecord) -> FleetRecord:
        return msgspec.structs.replace(record, moved_to="", reclaimed=True)

    return await _change_record(store, reclaim)


async def _change_record(store: FleetStore, change: Callable[[FleetRecord], FleetRecord]) -> bool:
    while True:
        found = await store.read(FLEET)
        if found is None:
            return False
        changed = change(found.document)
        if changed == found.document:
            return True
        changed = msgspec.structs.replace(changed, nonce=secrets.token_hex(16))
        try:
            await store.write(FLEET, changed, found.version)
        except PreconditionFailed:
            continue
        return True
