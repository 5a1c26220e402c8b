"""Namespaces: what each one starts with, and how one that is deleted is emptied."""

import msgspec

from kilonova.kube import (
    AlreadyExists,
    Client,
    Controller,
    NotFound,
    Reflector,
    Resource,
    Result,
    Watch,
)
from kilonova.kube.identity import Key
from kilonova.kube.resource import plain
from kilonova.kube.transport import Request
from kilonova.local.controllers.ownership import AnyObject, Metadata
from kilonova.local.controllers.resources import served_resources

_ACCOUNTS = plain("", "v1", "serviceaccounts", "ServiceAccount", True)
_CONFIG_MAPS = plain("", "v1", "configmaps", "ConfigMap", True)
_LOOK_AGAIN = 0.5


class _Spec(msgspec.Struct, frozen=True):
    finalizers: tuple[str, ...] = ()


class Namespace(msgspec.Struct):
    """The fields of a Namespace that this controller uses."""

    metadata: Metadata
    spec: _Spec = _Spec()


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceController:
    """Gives every namespace its account and CA, and empties those that are going."""

    def __init__(self, client: Client, namespaces: Reflector[Namespace], ca: str) -> None:
        self._client = client
        self._namespaces = namespaces
        self._ca = ca

    def controller(self) -> Controller:
        return Controller("namespaces", self._reconcile, [Watch(self._namespaces)], workers=4)

    async def _reconcile(self, key: Key) -> Result | None:
        namespace = self._namespaces.store.get(key)
        if namespace is None:
            return None
        if not namespace.metadata.deletion_timestamp:
            await self._furnish(namespace.metadata.name)
            return None
        if "kubernetes" not in namespace.spec.finalizers:
            return None
        if await self._empty(namespace.metadata.name):
            await self._finalize(namespace)
            return None
        return Result(_LOOK_AGAIN)

    async def _furnish(self, name: str) -> None:
        account = {"metadata": {"name": "default", "namespace": name}}
        note = "kubernetes.io/description"
        text = (
            "Contains a CA bundle that can be used to verify the kube-apiserver when using "
            "internal endpoints such as the internal service IP or kubernetes.default.svc."
        )
        authority = {
            "metadata": {
                "name": "kube-root-ca.crt",
                "namespace": name,
                "annotations": {note: text},
            },
            "data": {"ca.crt": self._ca},
        }
        for resource, obj in ((_ACCOUNTS, account), (_CONFIG_MAPS, authority)):
            try:
                await self._client.create(resource, obj, name)
            except AlreadyExists:
                continue
            except NotFound:
                return

    async def _empty(self, name: str) -> bool:
        """Ask for everything in the namespace to go. True when nothing is left."""
        left = 0
        for resource in await served_resources(self._client, AnyObject, "list", "delete"):
            if not resource.namespaced:
                continue
            listing = await self._client.list(resource, name)
            for obj in listing.items:
                left += 1
                if not obj.metadata.deletion_timestamp:
                    await self._delete(resource, obj, name)
        return left == 0

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
