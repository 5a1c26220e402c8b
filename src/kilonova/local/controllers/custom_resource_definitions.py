"""CustomResourceDefinitions: finalization, and names that were rejected.

A definition is validated and accepted in the write that creates it. Done here is what happens
later: the deletion of the objects of a deleted definition, and the acceptance of names that another
definition held.
"""

import msgspec

from kilonova.api.times import format_rfc3339
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.garbagecollector.graph import Metadata, OwnedObject
from kilonova.local.objects.crd_names import CLEANUP_FINALIZER, accept_names

_RETRY_SECONDS = 0.2


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


class CustomResourceDefinition(msgspec.Struct):
    """The fields of a definition about its resource and the acceptance of its names."""

    metadata: Metadata
    spec: _Spec
    status: _Status = _Status()

    def has_condition(self, condition: str, status: str) -> bool:
        found = self.status.conditions or ()
        return any(each.type == condition and each.status == status for each in found)

    def served_resource(self) -> Resource[OwnedObject] | None:
        """Its resource, if it is served."""
        served = next((each.name for each in self.spec.versions if each.served), None)
        if served is None or not self.has_condition("Established", "True"):
            return None
        names, namespaced = self.spec.names, self.spec.scope == "Namespaced"
        return Resource(self.spec.group, served, names.plural, names.kind, namespaced, OwnedObject)


DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    CustomResourceDefinition,
)
_UNTYPED_DEFINITIONS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)


class CrdFinalizer:
    """Removes the finalizer of a deleted definition when no object of its kind is left."""

    def __init__(self, client: Client, definitions: Reflector[CustomResourceDefinition]) -> None:
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
        resource = definition.served_resource()
        if resource is not None and await self._delete_objects(resource):
            return Result(_RETRY_SECONDS)
        await self._set_finalizers(
            definition, [name for name in finalizers if name != CLEANUP_FINALIZER]
        )
        return None

    async def _delete_objects(self, resource: Resource[OwnedObject]) -> int:
        """Delete all objects of the kind; returns how many still exist."""
        objects = (await self._client.list(resource)).items
        to_delete = [obj for obj in objects if not obj.metadata.deletion_timestamp]
        for obj in to_delete:
            metadata = obj.metadata
            try:
                await self._client.delete(
                    resource, metadata.name, metadata.namespace or None, uid=metadata.uid
                )
            except NotFound:
                continue
        return len((await self._client.list(resource)).items) if to_delete else len(objects)

    async def _set_finalizers(
        self, definition: CustomResourceDefinition, finalizers: list[str]
    ) -> None:
        known = definition.metadata
        metadata = {"resourceVersion": known.resource_version, "finalizers": finalizers or None}
        await self._client.patch(_UNTYPED_DEFINITIONS, known.name, {"metadata": metadata})


class CrdNamingController:
    """Re-evaluates rejected names whenever a definition of the same group changes or is deleted."""

    def __init__(
        self, client: Client, definitions: Reflector[CustomResourceDefinition], clock: Clock
    ) -> None:
        self._client = client
        self._definitions = definitions
        self._clock = clock

    def controller(self) -> Controller:
        watch = Watch(self._definitions, mapper=lambda definition: [("", definition.spec.group)])
        return Controller("custom resource definition names", self._reconcile, [watch])

    async def _reconcile(self, key: Key) -> None:
        _, group = key
        refused = [
            definition.metadata.name
            for definition in self._definitions.store.objects()
            if definition.spec.group == group and definition.has_condition("NamesAccepted", "False")
        ]
        for name in refused:
            await self._recheck_names(name)

    async def _recheck_names(self, name: str) -> None:
        everything = (await self._client.list(_UNTYPED_DEFINITIONS)).items
        others = [each for each in everything if each["metadata"]["name"] != name]
        for definition in everything:
            if definition["metadata"]["name"] == name:
                before = definition.get("status")
                accept_names(definition, others, format_rfc3339(self._clock.now()))
                if definition["status"] != before:
                    version = definition["metadata"]["resourceVersion"]
                    change = {
                        "metadata": {"resourceVersion": version},
                        "status": definition["status"],
                    }
                    await self._client.patch(
                        _UNTYPED_DEFINITIONS, name, change, subresource="status"
                    )
