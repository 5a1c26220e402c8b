"""The ConfigMaps and Secrets that pods of this node refer to, each watched by name.

A cluster may have very many of them, of which a node needs few: each is watched on its own, for as
long as a pod refers to it.
"""

import asyncio
from collections.abc import Callable, Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector
from kilonova.kube.client.resource import unstructured_resource

_RESOURCES = {
    "configMap": unstructured_resource("", "v1", "configmaps", "ConfigMap", True),
    "secret": unstructured_resource("", "v1", "secrets", "Secret", True),
}

ObjectKey = tuple[str, str, str]
"""(kind, namespace, name)"""


class _WatchedObject:
    def __init__(self, client: Client, reference: ObjectKey) -> None:
        kind, namespace, name = reference
        self.reflector = Reflector(
            client, _RESOURCES[kind], namespace, field_selector=f"metadata.name={name}"
        )
        self.holders: dict[str, Callable[[], None]] = {}
        self.reflector.store.add_event_handler(self._notify_holders)
        self.task = asyncio.create_task(self.reflector.run(), name=self.reflector.name)

    def _notify_holders(self, _old: JsonObject | None, _new: JsonObject | None) -> None:
        for changed in list(self.holders.values()):
            changed()


class WatchedObjectCache:
    """Watches objects for the pods that refer to them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._watched: dict[ObjectKey, _WatchedObject] = {}

    async def register_pod(
        self, holder: str, references: Iterable[ObjectKey], on_change: Callable[[], None]
    ) -> None:
        """Watch these objects for `holder`, which is called on changes; returns when all are
        cached.
        """
        for reference in references:
            followed = self._watched.get(reference)
            if followed is None:
                followed = self._watched[reference] = _WatchedObject(self._client, reference)
            followed.holders[holder] = on_change
            await followed.reflector.wait_for_sync()

    def unregister_pod(self, holder: str) -> None:
        """The holder needs no objects any more."""
        for reference, followed in list(self._watched.items()):
            followed.holders.pop(holder, None)
            if not followed.holders:
                followed.task.cancel()
                del self._watched[reference]

    def stop(self) -> None:
        """Stop all watches."""
        for followed in self._watched.values():
            followed.task.cancel()
        self._watched.clear()

    def get(self, reference: ObjectKey) -> JsonObject | None:
        """The current object, if it exists and is watched."""
        followed = self._watched.get(reference)
        return followed.reflector.store.get(reference[1:]) if followed else None


class NamespacedObjects:
    """The watched objects of one namespace."""

    def __init__(self, objects: WatchedObjectCache, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def config_map(self, name: str) -> JsonObject | None:
        return self._objects.get(("configMap", self._namespace, name))

    def secret(self, name: str) -> JsonObject | None:
        return self._objects.get(("secret", self._namespace, name))
