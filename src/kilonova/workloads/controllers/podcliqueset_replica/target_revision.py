"""The target revision of a replica. Pure."""

from collections.abc import Iterator

from kilonova.api.grove import names
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
)
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.update_strategy import is_on_delete, is_replica_updating


def select_target_revision(observed: ObservedReplica) -> SetRevision | None:
    """The newest revision if the replica is being updated or is new, else its present one.

    If an update was interrupted, the newest of its revisions: revisions must not stay mixed. None
    until the newest revision is stored: objects must not refer to an unknown revision.
    """
    if is_on_delete(observed.set_) or is_replica_updating(observed.set_, observed.index):
        return observed.current_revision
    known = [
        observed.revisions[each]
        for each in _list_revision_hashes(observed)
        if each in observed.revisions
    ]
    return max(known, key=lambda each: each.number, default=observed.current_revision)


def _list_revision_hashes(observed: ObservedReplica) -> Iterator[str]:
    for child in (*observed.cliques.values(), *observed.groups.values()):
        if not is_being_deleted(child.metadata):
            yield child.metadata.labels.get(names.GENERATION_HASH, "")
