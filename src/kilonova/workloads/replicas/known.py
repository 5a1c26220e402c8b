"""Revisions of sets, read once for each state of a set."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.grove import PodCliqueSet
from kilonova.kube import Key
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.revisions import SetRevision, current_revision, read_revision


@dataclass(frozen=True, slots=True)
class KnownRevisions:
    """What is known of a set's revisions."""

    current: SetRevision | None
    """The set as it is now; None while its revision has not been written down."""
    by_hash: Mapping[str, SetRevision]


class RevisionReader:
    """All replicas of a set ask for the same: it is worked out once. Harmless to lose."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._read: dict[Key, tuple[object, KnownRevisions]] = {}
        caches.sets.store.subscribe(self._forget)

    def of(self, set_: PodCliqueSet) -> KnownRevisions:
        """The revisions of a set."""
        known = set_.metadata
        key = known.namespace, known.name
        stored = [
            each
            for each in self._caches.revisions.store.find(BY_SET, key)
            if each.metadata.controller is not None and each.metadata.controller.uid == known.uid
        ]
        versions = tuple(each.metadata.resource_version for each in stored)
        state = (known.uid, known.generation, versions)
        read = self._read.get(key)
        if read is not None and read[0] == state:
            return read[1]
        revisions = {each.name: each for each in map(read_revision, stored)}
        now = current_revision(set_, stored)
        is_written = now.name in revisions and revisions[now.name].number == now.number
        found = KnownRevisions(
            now if is_written else None, {each.hash: each for each in revisions.values()}
        )
        self._read[key] = (state, found)
        return found

    def _forget(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if old is not None and new is None:
            self._read.pop((old.metadata.namespace, old.metadata.name), None)
