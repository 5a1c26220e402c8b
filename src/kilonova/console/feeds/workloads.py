"""The table of workloads, joined from the stores of their parts while there are viewers.

A change of a part only marks its workload as changed; the workload's row is computed on demand.
The rows of pods and gangs are cached, since a workload may have thousands, and dropped with the
last viewer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Any

from kilonova.component.console import Table
from kilonova.console.feeds.feed import Feed
from kilonova.console.feeds.workload_parts import PartsIndex
from kilonova.console.rows.gangs import set_row
from kilonova.console.rows.model import OwnerRow, SetRow, WorkloadRow
from kilonova.console.rows.owners import (
    deployment_row,
    gpu_workload_row,
    job_row,
    stateful_set_row,
)
from kilonova.console.rows.ownership import outer_workload_id
from kilonova.console.rows.workloads import SET, workload_row
from kilonova.kube import Key, Resource, Store

_BATCH_SIZE = 250
"""Parts loaded before yielding to the event loop: a few milliseconds."""

_OBJECTS: Mapping[str, tuple[str, Callable[[Any], SetRow | OwnerRow]]] = {
    SET: ("sets", set_row),
    "Deployment": ("deployments", deployment_row),
    "StatefulSet": ("statefulsets", stateful_set_row),
    "Job": ("jobs", job_row),
    "GPUWorkload": ("gpuworkloads", gpu_workload_row),
}
"""Tables of the objects that may be workloads, and their rows, by kind."""
_WORKLOADS = Resource("", "v1", "workloads", "Workload", True, str)
"""Not an API resource: it only names the table."""

_ChangeHandler = Callable[[str | None, str | None], None]


class WorkloadIndex:
    """All workloads by id, as the source of a feed.

    `stores` are those of the console's tables, by name; an unreadable one is not waited for.
    """

    def __init__(
        self, stores: Mapping[str, Store[Any]], is_unreadable: Callable[[str], bool]
    ) -> None:
        self._stores = stores
        self._is_unreadable = is_unreadable
        self._parts = PartsIndex()
        self._is_loaded = False
        self._on_change: _ChangeHandler | None = None

    @property
    def has_synced(self) -> bool:
        """Whether all readable stores have synced, and any is readable."""
        synced = {
            name: store.has_synced
            for name, store in self._stores.items()
            if name in _CHANGE_HANDLERS
        }
        known = all(each or self._is_unreadable(name) for name, each in synced.items())
        return known and any(synced.values())

    def key_of(self, obj: str) -> Key:
        """The key of a workload, by its id."""
        prefix, _, name = obj.rpartition("/")
        return prefix, name

    def get(self, key: Key) -> str | None:
        """The id of a workload, if it exists."""
        id = "/".join(key)
        kind, _, rest = id.partition("/")
        exists = self._parts.contains(id) or self._find_object(kind, rest) is not None
        return id if exists else None

    def keys(self) -> Collection[Key]:
        """The keys of all workloads."""
        return list(map(self.key_of, self.objects()))

    def objects(self) -> Collection[str]:
        """The ids of all workloads."""
        known = dict.fromkeys(self._parts.ids())
        for kind, (table, _) in _OBJECTS.items():
            store = self._stores.get(table)
            ids = () if store is None else map("/".join, store.keys())
            known |= dict.fromkeys(f"{kind}/{id}" for id in ids if self._find_object(kind, id))
        return known.keys()

    def row(self, id: str) -> WorkloadRow:
        """The current row of a workload."""
        kind, _, rest = id.partition("/")
        found = self._find_object(kind, rest)
        row = None if found is None else _OBJECTS[kind][1](found)
        set_, owner = (row, None) if isinstance(row, SetRow) else (None, row)
        return workload_row(self._parts.parts_of(id, set_, owner))

    def add_event_handler(self, handler: _ChangeHandler) -> Callable[[], None]:
        """Handle later changes of parts until the returned function is called; `load_parts` adds
        the existing ones."""
        self._on_change = handler
        stops = [
            store.add_event_handler(self._change_handler(name))
            for name, store in self._stores.items()
            if name in _CHANGE_HANDLERS
        ]

        def stop() -> None:
            for each in stops:
                each()
            self._on_change, self._is_loaded, self._parts = None, False, PartsIndex()

        return stop

    async def load_parts(self) -> None:
        """Add all existing parts, in batches."""
        if self._is_loaded:
            return
        for name in _CHANGE_HANDLERS:
            store = self._stores.get(name)
            if store is None:
                continue
            handler = self._change_handler(name)
            for count, key in enumerate(list(store.keys()), 1):
                # The object may have changed or been deleted since the keys were listed.
                found = store.get(key)
                if found is not None:
                    handler(None, found)
                if count % _BATCH_SIZE == 0:
                    await asyncio.sleep(0)
        self._is_loaded = True

    def _find_object(self, kind: str, id: str) -> Any:
        """The object of a workload, unless its pods belong to another one."""
        store = self._stores.get(_OBJECTS[kind][0]) if kind in _OBJECTS else None
        namespace, _, name = id.partition("/")
        found = None if store is None else store.get((namespace, name))
        return None if found is None or outer_workload_id(kind, found.metadata) else found

    def _change_handler(self, table: str) -> Callable[[Any, Any], None]:
        handle = _CHANGE_HANDLERS[table]

        def changed(old: Any, new: Any) -> None:
            for id in handle(self._parts, old, new):
                # Until all parts are loaded no changes are sent: the snapshot follows.
                if self._is_loaded and self._on_change is not None:
                    self._on_change(None, id)

        return changed


class WorkloadFeed(Feed[str]):
    """The live table of workloads."""

    def __init__(self, workloads: WorkloadIndex) -> None:
        super().__init__(Table("workloads", _WORKLOADS, workloads.row), workloads)
        self._workloads = workloads

    async def snapshot(self) -> AsyncIterator[bytes]:
        """The whole table, after loading all parts."""
        await self._workloads.load_parts()
        async for chunk in super().snapshot():
            yield chunk


def _owner_change_handler(
    kind: str, make_row: Callable[[Any], SetRow | OwnerRow]
) -> Callable[[PartsIndex, Any, Any], Iterator[str]]:
    def changed(parts: PartsIndex, old: Any, new: Any) -> Iterator[str]:
        return parts.update_owner(kind, make_row, old, new)

    return changed


_CHANGE_HANDLERS: Mapping[str, Callable[[PartsIndex, Any, Any], Iterator[str]]] = {
    "pods": PartsIndex.update_pod,
    "gangs": PartsIndex.update_gang,
    "cliques": PartsIndex.update_clique,
    **{table: _owner_change_handler(kind, row) for kind, (table, row) in _OBJECTS.items()},
}
"""Handlers that apply a change and yield the affected workloads, by table."""
