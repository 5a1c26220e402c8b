"""CustomResourceDefinitions: one that goes takes its objects along; one that was refused waits.

A definition is judged in the write that brings it. What remains to be done later is done
here: remove the objects of a deleted one, and judge again those whose names another held.
"""

import msgspec

from kilonova.api.times import rfc3339
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.identity import Key
from kilonova.kube.resource import plain
from kilonova.local.clock import Clock
from kilonova.local.controllers.ownership import AnyObject, Metadata
from kilonova.local.customresources import CLEANUP_FINALIZER, accept_names

_LOOK_AGAIN = 0.2


class _Names(msgspec.Struct, frozen=True):
    plural: str
    kind: str


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False


class _Spec(msgspec.Struct, frozen=True):
    group: str
    scope: str
    names: _Names
    versions: tuple[_Version, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class Definition(msgspec.Struct):
    """The fields of a definition that tell where its objects are, and whether they may be."""

    metadata: Metadata
    spec: _Spec
    status: _Status = _Status()

    def has(self, condition: str, status: str) -> bool:
        found = self.status.conditions or ()
        return any(each.type == condition and each.status == status for each in found)

    def resource(self) -> Resource[AnyObject] | None:
        """Where its objects are served, if they are."""
        served = next((each.name for each in self.spec.versions if each.served), None)
        if served is None or not self.has("Established", "True"):
            return None
        names, namespaced = self.spec.names, self.spec.scope == "Namespaced"
        return Resource(self.spec.group, served, names.plural, names.kind, namespaced, AnyObject)


DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    Definition,
)
_WHOLE = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


class DefinitionCleaner:
    """Removes the finalizer of a deleted definition when no object of its kinds is left."""

    def __init__(self, client: Client, definitions: Reflector[Definition]) -> None:
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
        resource = definition.resource()
        if resource is not None and await self._left(resource):
            return Result(_LOOK_AGAIN)
        await self._set_finalizers(
            definition, [name for name in finalizers if name != CLEANUP_FINALIZER]
        )
        return None

    async def _left(self, resource: Resource[AnyObject]) -> int:
        """Ask for all objects of the kind to go; tell how many are still there."""
        objects = (await self._client.list(resource)).items
        going = [obj for obj in objects if not obj.metadata.deletion_timestamp]
        for obj in going:
            known = obj.metadata
            try:
                await self._client.delete(
                    resource, known.name, known.namespace or None, uid=known.uid
                )
            except NotFound:
                continue
        return len((await self._client.list(resource)).items) if going else len(objects)

    async def _set_finalizers(self, definition: Definition, finalizers: list[str]) -> None:
        known = definition.metadata
        metadata = {"resourceVersion": known.resource_version, "finalizers": finalizers or None}
        await self._client.patch(_WHOLE, known.name, {"metadata": metadata})


class NameAcceptance:
    """Judges refused names again whenever a definition of the same group changes or goes."""

    def __init__(self, client: Client, definitions: Reflector[Definition], clock: Clock) -> None:
        self._client = client
        self._definitions = definitions
        self._clock = clock

    def controller(self) -> Controller:
        watch = Watch(self._definitions, keys=lambda definition: [("", definition.spec.group)])
        return Controller("definition names", self._reconcile, [watch])

    async def _reconcile(self, key: Key) -> None:
        _, group = key
        refused = [
            definition.metadata.name
            for definition in self._definitions.store.objects()
            if definition.spec.group == group and definition.has("NamesAccepted", "False")
        ]
        for name in refused:
            await self._judge(name)

    async def _judge(self, name: str) -> None:
        everything = (await self._client.list(_WHOLE)).items
        others = [each for each in everything if each["metadata"]["name"] != name]
        for definition in everything:
            if definition["metadata"]["name"] == name:
                before = definition.get("status")
                accept_names(definition, others, rfc3339(self._clock.now()))
                if definition["status"] != before:
                    version = definition["metadata"]["resourceVersion"]
                    change = {
                        "metadata": {"resourceVersion": version},
                        "status": definition["status"],
                    }
                    await self._client.patch(_WHOLE, name, change, subresource="status")
