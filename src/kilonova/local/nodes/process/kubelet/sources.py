"""The ConfigMaps and Secrets that pods of this node speak of, each followed by its name.

A cluster may have very many of them, of which a node needs few: each is watched on its own, for
as long as a pod needs it.
"""

import asyncio
from collections.abc import Callable, Iterable

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector
from kilonova.kube.resource import plain

_RESOURCES = {
    "configMap": plain("", "v1", "configmaps", "ConfigMap", True),
    "secret": plain("", "v1", "secrets", "Secret", True),
}

Reference = tuple[str, str, str]
"""(kind, namespace, name)"""


class _Followed:
    def __init__(self, client: Client, reference: Reference) -> None:
        kind, namespace, name = reference
        self.reflector = Reflector(
            client, _RESOURCES[kind], namespace, fields=f"metadata.name={name}"
        )
        self.holders: dict[str, Callable[[], None]] = {}
        self.reflector.store.subscribe(self._tell)
        self.task = asyncio.create_task(self.reflector.run(), name=self.reflector.name)

    def _tell(self, _old: JsonObject | None, _new: JsonObject | None) -> None:
        for changed in list(self.holders.values()):
            changed()


class FollowedObjects:
    """Follows objects for those who hold them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._followed: dict[Reference, _Followed] = {}

    async def hold(
        self, holder: str, references: Iterable[Reference], changed: Callable[[], None]
    ) -> None:
        """Follow these for `holder`, who is told of changes; return when all are known."""
        for reference in references:
            followed = self._followed.get(reference)
            if followed is None:
                followed = self._followed[reference] = _Followed(self._client, reference)
            followed.holders[holder] = changed
            await followed.reflector.wait_synced()

    def release(self, holder: str) -> None:
        """The holder needs none any more."""
        for reference, followed in list(self._followed.items()):
            followed.holders.pop(holder, None)
            if not followed.holders:
                followed.task.cancel()
                del self._followed[reference]

    def stop(self) -> None:
        """Follow nothing any more."""
        for followed in self._followed.values():
            followed.task.cancel()
        self._followed.clear()

    def find(self, reference: Reference) -> JsonObject | None:
        """The object as it is now, if there is one, and if it is followed."""
        followed = self._followed.get(reference)
        return followed.reflector.store.get(reference[1:]) if followed else None


class NamespaceSources:
    """The followed objects of one namespace."""

    def __init__(self, objects: FollowedObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace

    def config_map(self, name: str) -> JsonObject | None:
        return self._objects.find(("configMap", self._namespace, name))

    def secret(self, name: str) -> JsonObject | None:
        return self._objects.find(("secret", self._namespace, name))
