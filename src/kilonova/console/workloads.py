"""Workloads, joined from the stores of what they are made of, while somebody looks.

A change of a part only marks the workload that it belongs to, whose row is made when it is asked
for. The rows of pods and gangs are kept meanwhile, since a workload may have thousands of them, and
given up when nobody looks any more.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Any

from kilonova.console.feeds import Feed
from kilonova.console.gangrows import clique_row, gang_row, set_row
from kilonova.console.ownerrows import deployment_row, job_row, stateful_set_row
from kilonova.console.podrows import pod_row
from kilonova.console.rows import CliqueRow, GangRow, OwnerRow, PodRow, WorkloadRow
from kilonova.console.tables import Table
from kilonova.console.workloadrows import GANG, SET, Parts, workload_row
from kilonova.kube import Key, Resource, Store

_AT_ONCE = 250
"""So many parts are taken in without giving way to others: a few milliseconds."""

_OWNERS: Mapping[str, tuple[str, Callable[[Any], OwnerRow]]] = {
    "Deployment": ("deployments", deployment_row),
    "StatefulSet": ("statefulsets", stateful_set_row),
    "Job": ("jobs", job_row),
}
_WORKLOADS = Resource("", "v1", "workloads", "Workload", True, str)
"""No API has them: it only names the table."""

_Mark = Callable[[str | None, str | None], None]


class Workloads:
    """All workloads by their ids, as a feed wants them.

    `stores` are those of the console's tables, by name; one of which `is_unreadable` says so is
    not waited for.
    """

    def __init__(
        self, stores: Mapping[str, Store[Any]], is_unreadable: Callable[[str], bool]
    ) -> None:
        self._stores = stores
        self._is_unreadable = is_unreadable
        self._parts = _Kept()
        self._filled = False
        self._mark: _Mark | None = None

    @property
    def synced(self) -> bool:
        """Whether all parts that can be read have been, and any can."""
        mine = {name: store.synced for name, store in self._stores.items() if name in _HANDLED}
        known = all(synced or self._is_unreadable(name) for name, synced in mine.items())
        return known and any(mine.values())

    def key_of(self, obj: str) -> Key:
        """The key of a workload, by its id."""
        place, _, name = obj.rpartition("/")
        return place, name

    def get(self, key: Key) -> str | None:
        """The id of a workload, if there is one."""
        id = "/".join(key)
        kind, _, rest = id.partition("/")
        there = self._parts.has(id) or self._object(kind, rest) is not None
        return id if there else None

    def keys(self) -> Collection[Key]:
        """Those of all workloads."""
        return list(map(self.key_of, self.objects()))

    def objects(self) -> Collection[str]:
        """The ids of all workloads."""
        known = dict.fromkeys(self._parts.ids())
        for kind, table in ((SET, "sets"), *((kind, _OWNERS[kind][0]) for kind in _OWNERS)):
            store = self._stores.get(table)
            keys = () if store is None else store.keys()
            known |= dict.fromkeys(f"{kind}/{'/'.join(key)}" for key in keys)
        return known.keys()

    def row(self, id: str) -> WorkloadRow:
        """A workload as it is now."""
        kind, _, rest = id.partition("/")
        found = self._object(kind, rest)
        set_ = set_row(found) if found is not None and kind == SET else None
        owner = _OWNERS[kind][1](found) if found is not None and kind in _OWNERS else None
        return workload_row(self._parts.of(id, set_, owner))

    def subscribe(self, handler: _Mark) -> Callable[[], None]:
        """Follow the parts from now on, until what is returned is called; `fill` takes in those
        that are there."""
        self._mark = handler
        stops = [
            store.subscribe(self._handler(name))
            for name, store in self._stores.items()
            if name in _HANDLED
        ]

        def stop() -> None:
            for each in stops:
                each()
            self._mark, self._filled, self._parts = None, False, _Kept()

        return stop

    async def fill(self) -> None:
        """Take in all parts that are there, some at a time."""
        if self._filled:
            return
        for name in ("pods", "gangs", "cliques"):
            store = self._stores.get(name)
            if store is None:
                continue
            handler = self._handler(name)
            for count, key in enumerate(list(store.keys()), 1):
                # It may have changed, or have gone, while others had their turn.
                found = store.get(key)
                if found is not None:
                    handler(None, found)
                if count % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        self._filled = True

    def _object(self, kind: str, id: str) -> Any:
        table = "sets" if kind == SET else _OWNERS[kind][0] if kind in _OWNERS else ""
        store = self._stores.get(table)
        namespace, _, name = id.partition("/")
        return None if store is None else store.get((namespace, name))

    def _handler(self, table: str) -> Callable[[Any, Any], None]:
        handle = _HANDLED[table]

        def changed(old: Any, new: Any) -> None:
            for id in handle(self._parts, old, new):
                # Before all parts are known, who looks gets all workloads when they are.
                if self._filled and self._mark is not None:
                    self._mark(None, id)

        return changed


class WorkloadFeed(Feed[str]):
    """Workloads, live."""

    def __init__(self, workloads: Workloads) -> None:
        super().__init__(Table("workloads", _WORKLOADS, workloads.row), workloads)
        self._workloads = workloads

    async def snapshot(self) -> AsyncIterator[bytes]:
        """The whole table, once all parts are known."""
        await self._workloads.fill()
        async for piece in super().snapshot():
            yield piece


class _Kept:
    """Rows of parts by the workload that they belong to."""

    def __init__(self) -> None:
        self._pods: defaultdict[str, dict[str, PodRow]] = defaultdict(dict)
        self._gangs: defaultdict[str, dict[str, GangRow]] = defaultdict(dict)
        self._cliques: defaultdict[str, dict[str, CliqueRow]] = defaultdict(dict)
        self._lone_gangs: dict[str, GangRow] = {}
        """Those of no set, by id."""
        self._sets: dict[str, str] = {}
        """Sets of the other gangs, by id."""
        self._members: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Workloads of pods by the id of their gang, where they are of no set."""
        self._places: dict[str, str] = {}
        """Workloads of pods, by id."""

    def has(self, id: str) -> bool:
        """Whether there are parts that make a workload by themselves."""
        if id in self._pods:
            return True
        kind, _, gang = id.partition("/")
        return kind == GANG and gang in self._lone_gangs and gang not in self._members

    def ids(self) -> Iterator[str]:
        """Workloads that there are by their parts."""
        yield from self._pods
        for gang in self._lone_gangs:
            if gang not in self._members:
                yield f"{GANG}/{gang}"

    def of(self, id: str, set_: Any, owner: OwnerRow | None) -> Parts:
        """What is known of a workload."""
        kind, _, rest = id.partition("/")
        pods = list(self._pods.get(id, {}).values())
        if kind == SET:
            gangs = list(self._gangs.get(rest, {}).values())
        else:
            named = [rest] if kind == GANG else dict.fromkeys(pod.gang for pod in pods)
            gangs = [self._lone_gangs[each] for each in named if each in self._lone_gangs]
        cliques = list(self._cliques.get(rest, {}).values()) if kind == SET else []
        return Parts(id, set_, owner, gangs, cliques, pods)

    def pod(self, old: Any, new: Any) -> Iterator[str]:
        """A pod came, went or changed; the workloads that this concerns."""
        id = (new or old).metadata.id
        row = _row_or_none(pod_row, new)
        before = self._places.pop(id, None)
        if before is not None:
            gang = self._pods[before][id].gang
            if row is None or row.workload != before:
                _take_out(self._pods, before, id)
                yield before
            if gang and (row is None or row.gang != gang):
                _take_out(self._members, gang, id)
                yield f"{GANG}/{gang}"
        if row is None:
            return
        self._places[id] = row.workload
        self._pods[row.workload][id] = row
        yield row.workload
        if row.gang and not row.set:
            is_first = row.gang not in self._members
            self._members[row.gang][id] = row.workload
            if is_first:
                yield f"{GANG}/{row.gang}"

    def gang(self, old: Any, new: Any) -> Iterator[str]:
        """A gang came, went or changed; the workloads that this concerns."""
        metadata = (new or old).metadata
        id = f"{metadata.namespace}/{metadata.name}"
        row: GangRow | None = _row_or_none(gang_row, new)
        before = self._sets.pop(id, None)
        if before is not None:
            _take_out(self._gangs, before, id)
            yield f"{SET}/{before}"
        if self._lone_gangs.pop(id, None) is not None or (row is not None and not row.set):
            yield f"{GANG}/{id}"
            yield from dict.fromkeys(self._members.get(id, {}).values())
        if row is None:
            return
        if not row.set:
            self._lone_gangs[id] = row
            return
        self._sets[id] = row.set
        self._gangs[row.set][id] = row
        yield f"{SET}/{row.set}"

    def clique(self, old: Any, new: Any) -> Iterator[str]:
        """A clique came, went or changed; the workloads that this concerns."""
        before, row = _row_or_none(clique_row, old), _row_or_none(clique_row, new)
        if before is not None:
            _take_out(self._cliques, before.set, before.id)
        if row is not None:
            self._cliques[row.set][row.id] = row
        for set_ in {each.set for each in (before, row) if each is not None and each.set}:
            yield f"{SET}/{set_}"


def _of_kind(kind: str) -> Callable[[_Kept, Any, Any], Iterator[str]]:
    def changed(_: _Kept, old: Any, new: Any) -> Iterator[str]:
        yield f"{kind}/{(new or old).metadata.id}"

    return changed


_HANDLED: Mapping[str, Callable[[_Kept, Any, Any], Iterator[str]]] = {
    "pods": _Kept.pod,
    "gangs": _Kept.gang,
    "cliques": _Kept.clique,
    "sets": _of_kind(SET),
    **{table: _of_kind(kind) for kind, (table, _) in _OWNERS.items()},
}
"""What changes in which table mean, by its name."""


def _row_or_none(make: Callable[[Any], Any], obj: Any) -> Any:
    """None also where no row can be made: the log of the object's own table says so."""
    try:
        return None if obj is None else make(obj)
    except Exception:
        return None


def _take_out(groups: defaultdict[str, dict[str, Any]], group: str, id: str) -> None:
    """Remove a row from its group, and the group with its last row."""
    found = groups.get(group)
    if found is None:
        return
    found.pop(id, None)
    if not found:
        del groups[group]
