"""Which revision a replica should be at. Pure."""

from collections.abc import Iterator

from kilonova.api.grove import names
from kilonova.workloads.replicas.observed import Observed, is_going
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.sets.desire import is_updating, waits_for_deletion


def revision_of_replica(seen: Observed) -> SetRevision | None:
    """The newest if it is the replica's turn or nothing is there yet, else the one it is at.

    Where an update was broken off, that is the newest one found: half of each would not do. None
    while the newest has not been written down: nothing may be made from what nobody can look up.
    """
    if waits_for_deletion(seen.set_) or is_updating(seen.set_, seen.index):
        return seen.current
    known = [seen.revisions[each] for each in _hashes(seen) if each in seen.revisions]
    return max(known, key=lambda each: each.number, default=seen.current)


def _hashes(seen: Observed) -> Iterator[str]:
    for child in (*seen.cliques.values(), *seen.groups.values()):
        if not is_going(child.metadata):
            yield child.metadata.labels.get(names.GENERATION_HASH, "")
