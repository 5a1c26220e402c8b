"""Garbage collection: objects whose owners are gone go too, in the way the deletion asked for.

One reflector per resource keeps the graph; one queue holds the uids to look at. An owner that
the graph does not know is asked for by name before anything is deleted for its sake: a
reflector may lag behind another.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kilonova.kube import Client, Conflict, KubeError, NotFound, Queue, Reflector, Resource
from kilonova.kube.logging import get_logger
from kilonova.kube.queue import QueueClosed
from kilonova.kube.verbs import Propagation
from kilonova.local.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    AnyObject,
    Graph,
    Node,
    OwnerReference,
    Task,
)
from kilonova.local.controllers.resources import served_resources

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_WORKERS = 4
_log = get_logger(__name__)


@dataclass(slots=True)
class _Followed:
    resource: Resource[AnyObject]
    reflector: Reflector[AnyObject]
    task: asyncio.Task[None]
    unsubscribe: Callable[[], None]


class GarbageCollector:
    """Follows every deletable resource. `definitions` tells when the set of resources changes."""

    name = "garbage collector"

    def __init__(self, client: Client, definitions: Reflector[AnyObject]) -> None:
        self._client = client
        self._definitions = definitions
        self._graph = Graph()
        self._queue: Queue[str] = Queue()
        self._followed: dict[str, _Followed] = {}
        self._by_kind: dict[tuple[str, str], Resource[AnyObject]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        unsubscribe = self._definitions.store.subscribe(lambda _old, _new: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_resources(group))
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            unsubscribe()

    async def _follow_resources(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._changed.clear()
            wanted = await served_resources(self._client, AnyObject, "list", "watch", "delete")
            present = {
                _path(resource): resource
                for resource in wanted
                if (resource.group, resource.plural) not in _IGNORED
            }
            self._by_kind = {(r.api_version, r.kind): r for r in present.values()}
            for path in set(self._followed) - set(present):
                self._leave(path)
            for path in set(present) - set(self._followed):
                self._follow(path, present[path], group)
            await self._changed.wait()

    def _follow(self, path: str, resource: Resource[AnyObject], group: asyncio.TaskGroup) -> None:
        reflector = Reflector(self._client, resource)

        def seen(old: AnyObject | None, new: AnyObject | None) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._look_at(self._graph.forget(old.metadata.uid))
            if new is not None:
                self._look_at(self._graph.observe(path, new.metadata))

        unsubscribe = reflector.store.subscribe(seen)
        task = group.create_task(reflector.run(), name=reflector.name)
        self._followed[path] = _Followed(resource, reflector, task, unsubscribe)

    def _leave(self, path: str) -> None:
        """The resource is no longer served: its objects are gone."""
        followed = self._followed.pop(path)
        followed.unsubscribe()
        followed.task.cancel()
        for obj in followed.reflector.store.objects():
            self._look_at(self._graph.forget(obj.metadata.uid))

    def _look_at(self, uids: set[str]) -> None:
        for uid in uids:
            self._queue.add(uid)

    async def _work(self) -> None:
        while True:
            try:
                uid = await self._queue.get()
            except QueueClosed:
                return
            try:
                await self._settle(uid)
                self._queue.forget(uid)
            except (NotFound, Conflict):
                self._queue.retry(uid)
            except KubeError as error:
                _log.warning("will try again", uid=uid, error=str(error))
                self._queue.retry(uid)
            finally:
                self._queue.done(uid)

    async def _settle(self, uid: str) -> None:
        node = self._graph.nodes.get(uid)
        if node is None or node.resource not in self._followed:
            return
        match node.task:
            case Task.NOTHING:
                return
            case Task.CHECK_OWNERS:
                await self._check_owners(node)
            case Task.ORPHAN_DEPENDENTS:
                await self._orphan_dependents(node)
            case Task.DELETE_DEPENDENTS:
                await self._delete_dependents(node)

    async def _check_owners(self, node: Node) -> None:
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        absent: list[OwnerReference] = []
        for owner in node.metadata.owner_references:
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
        in_turn = bool(waiting) and bool(self._graph.dependents(node.metadata.uid))
        await self._delete(node, "Foreground" if in_turn else _propagation(node))

    async def _orphan_dependents(self, node: Node) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            left = [owner for owner in dependent.metadata.owner_references if owner.uid != uid]
            await self._set_owners(dependent, left)
        await self._remove_finalizer(node, ORPHAN)

    async def _delete_dependents(self, node: Node) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            if not dependent.metadata.deletion_timestamp:
                self._queue.add(dependent.metadata.uid)
        if not self._graph.blockers(uid):
            await self._remove_finalizer(node, FOREGROUND)

    async def _exists(self, owner: OwnerReference, namespace: str) -> bool:
        if owner.uid in self._graph.nodes:
            return True
        resource = self._by_kind.get((owner.api_version, owner.kind))
        if resource is None:
            return await self._exists_in_other_version(owner)
        try:
            found = await self._client.get(
                resource, owner.name, namespace if resource.namespaced else None
            )
        except NotFound:
            return False
        return found.metadata.uid == owner.uid

    async def _exists_in_other_version(self, owner: OwnerReference) -> bool:
        """An owner of a kind that is not followed under this version: leave the object alone."""
        group = owner.api_version.rpartition("/")[0]
        served = {(r.group, r.kind) for r in self._by_kind.values()}
        return (group, owner.kind) not in served

    async def _set_owners(self, node: Node, owners: list[OwnerReference]) -> None:
        kept = [msgspec.to_builtins(owner) for owner in owners]
        await self._patch(node, {"ownerReferences": kept or None})

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        left = [name for name in node.metadata.finalizers if name != finalizer]
        try:
            await self._patch(node, {"finalizers": left or None})
        except NotFound:
            return

    async def _patch(self, node: Node, metadata: dict[str, object]) -> None:
        """Only if it is still what the graph says: else the change that came will bring us back."""
        known = node.metadata
        await self._client.patch(
            self._followed[node.resource].resource,
            known.name,
            {"metadata": {"uid": known.uid, "resourceVersion": known.resource_version, **metadata}},
            known.namespace or None,
        )

    async def _delete(self, node: Node, propagation: Propagation) -> None:
        known = node.metadata
        try:
            await self._client.delete(
                self._followed[node.resource].resource,
                known.name,
                known.namespace or None,
                uid=known.uid,
                propagation=propagation,
            )
        except NotFound:
            return


def _path(resource: Resource[AnyObject]) -> str:
    return f"{resource.api_version}/{resource.plural}"


def _propagation(node: Node) -> Propagation:
    """An object that already asks for a way of going keeps it."""
    if ORPHAN in node.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.metadata.finalizers else "Background"
