"""Garbage collection: deletes objects whose owners are deleted, by the propagation policy.

One reflector per resource feeds the graph; one queue holds the uids to process, for a few workers.
An owner that is not in the graph is looked up on the server before a dependent is deleted: a
reflector may lag behind another. Nothing is processed while a reflector is syncing: to a graph
without the dependents of a resource they would appear to be deleted.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from kilonova.kube import Client, Conflict, KubeError, NotFound, Reflector, Resource, WorkQueue
from kilonova.kube.client.options import PropagationPolicy
from kilonova.kube.controllers.work_queue import WorkQueueShutDown
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.controllers.garbagecollector.graph import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    GraphNode,
    GraphTask,
    OwnedObject,
    OwnerReference,
    OwnershipGraph,
)
from kilonova.local.controllers.shared.discovery import discover_resources

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_WORKERS = 4
_RETRY_SECONDS = 1.0
_BATCH_SECONDS = 0.1
"""How long changes of definitions are collected: a component installs several."""
_log = get_logger(__name__)


@dataclass(slots=True)
class _Monitor:
    resource: Resource[OwnedObject]
    reflector: Reflector[OwnedObject]
    task: asyncio.Task[None]
    unsubscribe: Callable[[], None]


class GarbageCollector:
    """Watches every deletable resource. `definitions` signals changes of the set of resources."""

    name = "garbage collector"

    def __init__(self, client: Client, definitions: Reflector[Any]) -> None:
        self._client = client
        self._definitions = definitions
        self._graph = OwnershipGraph()
        self._queue: WorkQueue[str] = WorkQueue()
        self._monitors: dict[str, _Monitor] = {}
        self._by_kind: dict[tuple[str, str], Resource[OwnedObject]] = {}
        self._changed = asyncio.Event()
        self._synced = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        unsubscribe = self._definitions.store.add_event_handler(
            lambda _old, _new: self._changed.set()
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sync_monitors(group))
                for _ in range(_WORKERS):
                    group.create_task(self._run_worker())
        finally:
            unsubscribe()

    async def _sync_monitors(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._changed.clear()
            try:
                desired = await discover_resources(
                    self._client, OwnedObject, "list", "watch", "delete"
                )
            except KubeError as error:
                _log.warning("API discovery failed, will retry", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._set_monitors(desired, group)
            if await self._wait_synced_or_changed():
                await self._changed.wait()
            await asyncio.sleep(_BATCH_SECONDS)

    def _set_monitors(
        self, resources: list[Resource[OwnedObject]], group: asyncio.TaskGroup
    ) -> None:
        present = {
            resource.full_name: resource
            for resource in resources
            if (resource.group, resource.plural) not in _IGNORED
        }
        self._by_kind = {(r.group, r.kind): r for r in present.values()}
        for name, followed in list(self._monitors.items()):
            if name not in present or present[name].version != followed.resource.version:
                self._stop_monitor(name)
        for name, resource in present.items():
            if name not in self._monitors:
                self._synced.clear()
                self._start_monitor(name, resource, group)
                # Before, the existence of their owners could not be checked.
                self._enqueue(self._graph.owned_by_kind(resource.group, resource.kind))

    async def _wait_synced_or_changed(self) -> bool:
        """Wait until every reflector has synced; False if the resources changed meanwhile."""
        reflectors = [followed.reflector for followed in self._monitors.values()]
        syncing = [each.wait_for_sync() for each in reflectors if not each.has_synced]
        if not syncing:
            self._synced.set()
            return True
        synced = asyncio.gather(*syncing)
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((synced, changed), return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                self._synced.set()
            return synced.done()
        finally:
            synced.cancel()
            changed.cancel()
            await asyncio.gather(synced, changed, return_exceptions=True)

    def _start_monitor(
        self, name: str, resource: Resource[OwnedObject], group: asyncio.TaskGroup
    ) -> None:
        reflector = Reflector(self._client, resource)

        def seen(old: OwnedObject | None, new: OwnedObject | None) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._enqueue(self._graph.forget(old.metadata.uid))
            if new is not None:
                self._enqueue(self._graph.observe(name, new.metadata))

        unsubscribe = reflector.store.add_event_handler(seen)
        task = group.create_task(reflector.run(), name=reflector.name)
        self._monitors[name] = _Monitor(resource, reflector, task, unsubscribe)

    def _stop_monitor(self, name: str) -> None:
        """The resource is no longer served so. Its objects are deleted if its definition is."""
        followed = self._monitors.pop(name)
        followed.unsubscribe()
        followed.task.cancel()
        is_deleted = ("", name) not in self._definitions.store
        for obj in followed.reflector.store.objects():
            self._enqueue(self._graph.forget(obj.metadata.uid, absent=is_deleted))

    def _enqueue(self, uids: set[str]) -> None:
        for uid in sorted(uids):  # the same order in every run
            self._queue.add(uid)

    async def _run_worker(self) -> None:
        while True:
            try:
                uid = await self._queue.get()
            except WorkQueueShutDown:
                return
            await self._synced.wait()
            try:
                await self._process_object(uid)
                self._queue.forget(uid)
            except (NotFound, Conflict):
                self._queue.add_rate_limited(uid)
            except KubeError as error:
                _log.warning(
                    "garbage collection of object failed, will retry", uid=uid, error=str(error)
                )
                self._queue.add_rate_limited(uid)
            finally:
                self._queue.done(uid)

    async def _process_object(self, uid: str) -> None:
        node = self._graph.nodes.get(uid)
        if node is None or node.resource not in self._monitors:
            return
        match node.task:
            case GraphTask.NOTHING:
                return
            case GraphTask.CHECK_OWNERS:
                await self._check_owners(node)
            case GraphTask.ORPHAN_DEPENDENTS:
                await self._orphan_dependents(node)
            case GraphTask.DELETE_DEPENDENTS:
                await self._delete_dependents(node)

    async def _check_owners(self, node: GraphNode) -> None:
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        absent: list[OwnerReference] = []
        owners = node.metadata.owner_references
        for owner in owners:
            if not await self._exists(owner, node.metadata.namespace):
                absent.append(owner)
            elif self._graph.is_deleting_dependents(owner.uid):
                waiting.append(owner)
            else:
                solid.append(owner)
        if solid:
            if absent or waiting:
                await self._set_owners(node, solid)
            return
        dependents = self._graph.dependents(node.metadata.uid)
        if not waiting or not dependents:
            await self._delete(node, _propagation_policy(node))
        elif _is_in_cycle(node, dependents):
            # Each would wait for the other: this one stops blocking its owners.
            unblocked = [structs.replace(o, block_owner_deletion=False) for o in owners]
            await self._set_owners(node, unblocked)
        else:
            await self._delete(node, "Foreground")

    async def _orphan_dependents(self, node: GraphNode) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            left = [owner for owner in dependent.metadata.owner_references if owner.uid != uid]
            await self._set_owners(dependent, left)
        await self._remove_finalizer(node, ORPHAN_FINALIZER)

    async def _delete_dependents(self, node: GraphNode) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            if not dependent.metadata.deletion_timestamp:
                self._queue.add(dependent.metadata.uid)
        if not self._graph.blocking_dependents(uid):
            await self._remove_finalizer(node, FOREGROUND_FINALIZER)

    async def _exists(self, owner: OwnerReference, namespace: str) -> bool:
        """Whether an owner exists. If that cannot be determined, the dependent is kept."""
        resource = self._by_kind.get((owner.group, owner.kind))
        if resource is not None and resource.namespaced and not namespace:
            return True
        if self._graph.is_absent(owner.uid):
            return False
        if resource is None or self._is_in_graph(owner, namespace):
            return True
        try:
            found = await self._client.get(
                resource, owner.name, namespace if resource.namespaced else None
            )
        except NotFound:
            return False
        return found.metadata.uid == owner.uid

    def _is_in_graph(self, owner: OwnerReference, namespace: str) -> bool:
        """Whether the graph has this object: a uid in another namespace is not a valid owner."""
        node = self._graph.nodes.get(owner.uid)
        if node is None:
            return False
        resource = self._monitors[node.resource].resource
        return (
            (resource.group, resource.kind) == (owner.group, owner.kind)
            and node.metadata.name == owner.name
            and node.metadata.namespace in ("", namespace)
        )

    async def _set_owners(self, node: GraphNode, owners: list[OwnerReference]) -> None:
        references = [msgspec.to_builtins(owner) for owner in owners]
        await self._patch(node, {"ownerReferences": references or None})

    async def _remove_finalizer(self, node: GraphNode, finalizer: str) -> None:
        left = [name for name in node.metadata.finalizers if name != finalizer]
        try:
            await self._patch(node, {"finalizers": left or None})
        except NotFound:
            return

    async def _patch(self, node: GraphNode, metadata: dict[str, object]) -> None:
        """Only if it is unchanged: otherwise the event of the change enqueues it again."""
        known = node.metadata
        await self._client.patch(
            self._monitors[node.resource].resource,
            known.name,
            {"metadata": {"uid": known.uid, "resourceVersion": known.resource_version, **metadata}},
            known.namespace or None,
        )

    async def _delete(self, node: GraphNode, propagation: PropagationPolicy) -> None:
        metadata = node.metadata
        try:
            await self._client.delete(
                self._monitors[node.resource].resource,
                metadata.name,
                metadata.namespace or None,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
                propagation_policy=propagation,
            )
        except NotFound:
            return


def _is_in_cycle(node: GraphNode, dependents: list[GraphNode]) -> bool:
    """Whether the object blocks owners while one of its own dependents blocks it."""
    blocks = any(owner.block_owner_deletion for owner in node.metadata.owner_references)
    return blocks and any(each.task is GraphTask.DELETE_DEPENDENTS for each in dependents)


def _propagation_policy(node: GraphNode) -> PropagationPolicy:
    """An object with a deletion finalizer keeps its propagation policy."""
    if ORPHAN_FINALIZER in node.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND_FINALIZER in node.metadata.finalizers else "Background"
