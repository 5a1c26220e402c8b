"""A deleted CustomResourceDefinition takes its objects along, and goes last."""

from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.identity import Key
from kilonova.kube.resource import plain
from kilonova.local.controllers.ownership import AnyObject
from kilonova.local.customresources import CLEANUP_FINALIZER

_DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
_LOOK_AGAIN = 0.2


class DefinitionCleaner:
    """Removes the finalizer of a deleted definition when no object of its kinds is left."""

    def __init__(self, client: Client, definitions: Reflector[AnyObject]) -> None:
        self._client = client
        self._definitions = definitions

    def controller(self) -> Controller:
        return Controller("definitions", self._reconcile, [Watch(self._definitions)])

    async def _reconcile(self, key: Key) -> Result | None:
        definition = self._definitions.store.get(key)
        if definition is None:
            return None
        finalizers = definition.metadata.finalizers
        if not definition.metadata.deletion_timestamp or CLEANUP_FINALIZER not in finalizers:
            return None
        if await self._left(definition.metadata.name):
            return Result(_LOOK_AGAIN)
        left = [name for name in finalizers if name != CLEANUP_FINALIZER]
        await self._set_finalizers(definition, left)
        return None

    async def _left(self, name: str) -> int:
        """Ask for all objects of the kind to go; tell how many are still there."""
        spec = (await self._client.get(_DEFINITIONS, name))["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        resource = Resource(
            spec["group"],
            version,
            spec["names"]["plural"],
            spec["names"]["kind"],
            spec["scope"] == "Namespaced",
            AnyObject,
        )
        objects = (await self._client.list(resource)).items
        for obj in objects:
            if not obj.metadata.deletion_timestamp:
                try:
                    await self._client.delete(
                        resource, obj.metadata.name, obj.metadata.namespace or None
                    )
                except NotFound:
                    continue
        return len((await self._client.list(resource)).items)

    async def _set_finalizers(self, definition: AnyObject, finalizers: list[str]) -> None:
        known = definition.metadata
        metadata = {"resourceVersion": known.resource_version, "finalizers": finalizers or None}
        await self._client.patch(_DEFINITIONS, known.name, {"metadata": metadata})
