"""Namespaces: how one that is deleted is emptied."""

import msgspec

from kilonova.api.times import rfc3339
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.identity import Key
from kilonova.kube.transport import Request
from kilonova.local.clock import Clock
from kilonova.local.controllers.ownership import AnyObject, Metadata
from kilonova.local.controllers.remains import Condition, Remains
from kilonova.local.controllers.resources import served_resources

_LOOK_AGAIN = 0.5


class _Spec(msgspec.Struct, frozen=True):
    finalizers: tuple[str, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Namespace(msgspec.Struct):
    """The fields of a Namespace that this controller uses."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceController:
    """Empties namespaces that are going."""

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
        left = await self._empty(namespace.metadata.name)
        if not left:
            await self._finalize(namespace)
            return None
        await self._tell(namespace, left)
        return Result(_LOOK_AGAIN)

    async def _empty(self, name: str) -> Remains:
        """Ask for everything in the namespace to go, and tell what has not gone at once."""
        left = Remains()
        for resource in await served_resources(self._client, AnyObject, "list", "delete"):
            if not resource.namespaced:
                continue
            objects = (await self._client.list(resource, name)).items
            going = [obj for obj in objects if not obj.metadata.deletion_timestamp]
            for obj in going:
                await self._delete(resource, obj, name)
            if going:
                objects = (await self._client.list(resource, name)).items
            left.add(resource, objects)
        return left

    async def _tell(self, namespace: Namespace, left: Remains) -> None:
        """Say in the status what the namespace waits for."""
        before = namespace.status.conditions
        conditions = left.conditions(before, rfc3339(self._clock.now()))
        if conditions == before:
            return
        known = namespace.metadata
        body = {
            "metadata": {"resourceVersion": known.resource_version},
            "status": {"conditions": msgspec.to_builtins(conditions)},
        }
        await self._client.patch(NAMESPACES, known.name, body, subresource="status")

    async def _delete(self, resource: Resource[AnyObject], obj: AnyObject, namespace: str) -> None:
        try:
            await self._client.delete(
                resource,
                obj.metadata.name,
                namespace,
                uid=obj.metadata.uid,
                propagation="Background",
            )
        except NotFound:
            return

    async def _finalize(self, namespace: Namespace) -> None:
        kept = [name for name in namespace.spec.finalizers if name != "kubernetes"]
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace.metadata.name, "uid": namespace.metadata.uid},
            "spec": {"finalizers": kept},
        }
        path = f"/api/v1/namespaces/{namespace.metadata.name}/finalize"
        headers = {"content-type": "application/json"}
        await self._client.send(
            Request("PUT", path, headers=headers, body=msgspec.json.encode(body))
        )
