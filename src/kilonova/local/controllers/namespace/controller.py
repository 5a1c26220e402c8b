"""Deletion of namespaces and their content."""

import msgspec

from kilonova.api.times import format_rfc3339
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.client.transport import Request
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.garbagecollector.graph import Metadata, OwnedObject
from kilonova.local.controllers.namespace.remaining_content import (
    NamespaceCondition,
    RemainingContent,
)
from kilonova.local.controllers.shared.discovery import discover_resources

_RETRY_SECONDS = 0.5


class _Spec(msgspec.Struct, frozen=True):
    finalizers: tuple[str, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[NamespaceCondition, ...] = ()


class Namespace(msgspec.Struct):
    """The fields of a Namespace that this controller uses."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceController:
    """Deletes the content of terminating namespaces."""

    def __init__(self, client: Client, namespaces: Reflector[Namespace], clock: Clock) -> None:
        self._client = client
        self._namespaces = namespaces
        self._clock = clock

    def controller(self) -> Controller:
        return Controller("namespaces", self._reconcile, [Watch(self._namespaces)], workers=4)

    async def _reconcile(self, key: Key) -> Result | None:
        namespace = self._namespaces.store.get(key)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            return None
        if "kubernetes" not in namespace.spec.finalizers:
            return None
        left = await self._delete_contents(namespace.metadata.name)
        if not left:
            await self._finalize(namespace)
            return None
        await self._write_conditions(namespace, left)
        return Result(_RETRY_SECONDS)

    async def _delete_contents(self, name: str) -> RemainingContent:
        """Delete everything in the namespace; returns what still exists."""
        left = RemainingContent()
        for resource in await discover_resources(self._client, OwnedObject, "list", "delete"):
            if not resource.namespaced:
                continue
            objects = (await self._client.list(resource, name)).items
            to_delete = [obj for obj in objects if not obj.metadata.deletion_timestamp]
            for obj in to_delete:
                await self._delete(resource, obj, name)
            if to_delete:
                objects = (await self._client.list(resource, name)).items
            left.add(resource, objects)
        return left

    async def _write_conditions(self, namespace: Namespace, remaining: RemainingContent) -> None:
        """Report in the status what the namespace waits for."""
        before = namespace.status.conditions
        conditions = remaining.build_conditions(before, format_rfc3339(self._clock.now()))
        if conditions == before:
            return
        metadata = namespace.metadata
        body = {
            "metadata": {"resourceVersion": metadata.resource_version},
            "status": {"conditions": msgspec.to_builtins(conditions)},
        }
        await self._client.patch(NAMESPACES, metadata.name, body, subresource="status")

    async def _delete(
        self, resource: Resource[OwnedObject], obj: OwnedObject, namespace: str
    ) -> None:
        try:
            await self._client.delete(
                resource,
                obj.metadata.name,
                namespace,
                uid=obj.metadata.uid,
                propagation_policy="Background",
            )
        except NotFound:
            return

    async def _finalize(self, namespace: Namespace) -> None:
        remaining = [name for name in namespace.spec.finalizers if name != "kubernetes"]
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace.metadata.name, "uid": namespace.metadata.uid},
            "spec": {"finalizers": remaining},
        }
        path = f"/api/v1/namespaces/{namespace.metadata.name}/finalize"
        headers = {"content-type": "application/json"}
        await self._client.send(
            Request("PUT", path, headers=headers, body=msgspec.json.encode(body))
        )
