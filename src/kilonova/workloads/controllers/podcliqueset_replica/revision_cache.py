"""Revisions of sets, decoded once for each state of a set."""

from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.api.grove import PodCliqueSet
from kilonova.kube import Key
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.revisions import SetRevision, decode_revision, resolve_current_revision


@dataclass(frozen=True, slots=True)
class KnownRevisions:
    """The stored revisions of a set."""

    current: SetRevision | None
    """The revision of the set's current templates; None until it is stored."""
    by_hash: Mapping[str, SetRevision]


class RevisionCache:
    """Decoded revisions that all replicas of a set share. Losing it is harmless."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._by_set: dict[Key, tuple[object, KnownRevisions]] = {}
        caches.sets.store.add_event_handler(self._on_set_change)

    def get_revisions(self, set_: PodCliqueSet) -> KnownRevisions:
        """The revisions of a set."""
        known = set_.metadata
        key = known.namespace, known.name
        stored = [
            each
            for each in self._caches.revisions.store.by_index(BY_SET, key)
            if each.metadata.controller is not None and each.metadata.controller.uid == known.uid
        ]
        versions = tuple(each.metadata.resource_version for each in stored)
        state = (known.uid, known.generation, versions)
        cached = self._by_set.get(key)
        if cached is not None and cached[0] == state:
            return cached[1]
        revisions = {each.name: each for each in map(decode_revision, stored)}
        now = resolve_current_revision(set_, stored)
        is_stored = now.name in revisions and revisions[now.name].number == now.number
        found = KnownRevisions(
            now if is_stored else None, {each.hash: each for each in revisions.values()}
        )
        self._by_set[key] = (state, found)
        return found

    def _on_set_change(self, old: PodCliqueSet | None, new: PodCliqueSet | None) -> None:
        if old is not None and new is None:
            self._by_set.pop((old.metadata.namespace, old.metadata.name), None)
