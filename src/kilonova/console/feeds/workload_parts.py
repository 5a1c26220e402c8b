"""Rows of pods, gangs and cliques by the workload they belong to."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from kilonova.console.rows.gangs import clique_row, gang_row
from kilonova.console.rows.model import CliqueRow, GangRow, OwnerRow, PodRow, SetRow
from kilonova.console.rows.ownership import outer_workload_id
from kilonova.console.rows.pods import pod_row
from kilonova.console.rows.workloads import GANG, SET, WorkloadParts


class PartsIndex:
    """Rows of parts by their workload."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, dict[str, PodRow]] = defaultdict(dict)
        self._gangs: defaultdict[str, dict[str, GangRow]] = defaultdict(dict)
        self._cliques: defaultdict[str, dict[str, CliqueRow]] = defaultdict(dict)
        self._gangs_by_id: dict[str, GangRow] = {}
        self._workloads_of_gang: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Workloads of pods that are not the PodCliqueSet of their gang, by gang id and pod id."""
        self._members: defaultdict[str, dict[str, SetRow | OwnerRow]] = defaultdict(dict)
        """Objects that make pods for another one, by its id and by theirs."""
        self._workload_of_member: dict[str, str] = {}
        self._workload_of_pod: dict[str, str] = {}
        """Workloads of pods, by pod id."""

    def contains(self, id: str) -> bool:
        """Whether a workload exists by its parts alone, without an owning object."""
        if id in self._pods or id in self._members:
            return True
        kind, _, gang = id.partition("/")
        return kind == GANG and self._is_own_workload(self._gangs_by_id.get(gang))

    def ids(self) -> Iterator[str]:
        """Workloads that exist by their parts alone."""
        yield from self._pods
        yield from self._members
        for id, gang in self._gangs_by_id.items():
            if self._is_own_workload(gang):
                yield f"{GANG}/{id}"

    def parts_of(self, id: str, set_: SetRow | None, owner: OwnerRow | None) -> WorkloadParts:
        """The parts of a workload."""
        kind, _, rest = id.partition("/")
        pods = list(self._pods.get(id, {}).values())
        members = list(self._members.get(id, {}).values())
        if kind == SET:
            gangs = list(self._gangs.get(rest, {}).values())
        else:
            of_sets = (self._gangs.get(each.id, {}) for each in members if isinstance(each, SetRow))
            of_pods = [rest] if kind == GANG else (pod.gang for pod in pods)
            named = dict.fromkeys((*of_pods, *chain.from_iterable(of_sets)))
            gangs = [self._gangs_by_id[each] for each in named if each in self._gangs_by_id]
        cliques = list(self._cliques.get(rest, {}).values()) if kind == SET else []
        return WorkloadParts(id, set_, owner, gangs, cliques, pods, members)

    def update_owner(
        self, kind: str, make_row: Callable[[Any], SetRow | OwnerRow], old: Any, new: Any
    ) -> Iterator[str]:
        """Apply a change of an object that makes pods; yields the affected workloads."""
        id = f"{kind}/{(new or old).metadata.id}"
        workload = "" if new is None else outer_workload_id(kind, new.metadata)
        row: SetRow | OwnerRow | None = _try_row(make_row, new) if workload else None
        before = self._workload_of_member.pop(id, None)
        if before is not None:
            _remove_row(self._members, before, id)
            yield before
        if row is not None:
            self._workload_of_member[id] = workload
            self._members[workload][id] = row
            yield workload
        yield id

    def update_pod(self, old: Any, new: Any) -> Iterator[str]:
        """Apply a change of a pod; yields the affected workloads."""
        id = (new or old).metadata.id
        row = _try_row(pod_row, new)
        before = self._workload_of_pod.pop(id, None)
        if before is not None:
            gang = self._pods[before][id].gang
            if row is None or row.workload != before:
                _remove_row(self._pods, before, id)
                yield before
            if gang and (row is None or row.gang != gang):
                _remove_row(self._workloads_of_gang, gang, id)
                yield f"{GANG}/{gang}"
        if row is None:
            return
        self._workload_of_pod[id] = row.workload
        self._pods[row.workload][id] = row
        yield row.workload
        if row.gang and row.workload != f"{SET}/{row.set}":
            is_first = row.gang not in self._workloads_of_gang
            self._workloads_of_gang[row.gang][id] = row.workload
            if is_first:
                yield f"{GANG}/{row.gang}"

    def update_gang(self, old: Any, new: Any) -> Iterator[str]:
        """Apply a change of a gang; yields the affected workloads."""
        metadata = (new or old).metadata
        id = f"{metadata.namespace}/{metadata.name}"
        row: GangRow | None = _try_row(gang_row, new)
        before = self._gangs_by_id.pop(id, None)
        if before is not None and before.set:
            _remove_row(self._gangs, before.set, id)
            yield f"{SET}/{before.set}"
        if row is not None:
            self._gangs_by_id[id] = row
            if row.set:
                self._gangs[row.set][id] = row
                yield f"{SET}/{row.set}"
        for set_ in {each.set for each in (before, row) if each is not None}:
            if (workload := self._workload_of_member.get(f"{SET}/{set_}")) is not None:
                yield workload
        if any(each is not None and not each.set for each in (before, row)):
            yield f"{GANG}/{id}"
        yield from dict.fromkeys(self._workloads_of_gang.get(id, {}).values())

    def _is_own_workload(self, gang: GangRow | None) -> bool:
        """Whether a gang belongs to no other workload, by its set or by its pods."""
        return gang is not None and not gang.set and gang.id not in self._workloads_of_gang

    def update_clique(self, old: Any, new: Any) -> Iterator[str]:
        """Apply a change of a clique; yields the affected workloads."""
        before, row = _try_row(clique_row, old), _try_row(clique_row, new)
        if before is not None:
            _remove_row(self._cliques, before.set, before.id)
        if row is not None:
            self._cliques[row.set][row.id] = row
        for set_ in {each.set for each in (before, row) if each is not None and each.set}:
            yield f"{SET}/{set_}"


def _try_row(make: Callable[[Any], Any], obj: Any) -> Any:
    """None also if the row cannot be computed; the feed of the object's own table logs it."""
    try:
        return None if obj is None else make(obj)
    except Exception:
        return None


def _remove_row(groups: defaultdict[str, dict[str, Any]], group: str, id: str) -> None:
    """Remove a row from its group, and the group with its last row."""
    found = groups.get(group)
    if found is None:
        return
    found.pop(id, None)
    if not found:
        del groups[group]
