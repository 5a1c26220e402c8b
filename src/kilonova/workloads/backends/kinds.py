"""A kind that need not be installed, and a cache of its objects that fills once it is.

Neither is a cache that the process must have filled to be ready: a scheduler that is not there is
no reason to leave webhooks unanswered. What waits for it is what is made for that scheduler.
"""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import UNMEASURED, Client, Instruments, Reflector, Resource

T = TypeVar("T")


class _Schema(msgspec.Struct, frozen=True, gc=False):
    root: JsonObject = msgspec.field(name="openAPIV3Schema", default_factory=dict[str, Any])


class _Version(msgspec.Struct, frozen=True, gc=False):
    name: str
    served: bool = False
    schema: _Schema = _Schema()


class _Spec(msgspec.Struct, frozen=True, gc=False):
    versions: tuple[_Version, ...] = ()


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class Definition(msgspec.Struct, gc=False):
    """A CustomResourceDefinition: what is used of it."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    Definition,
)


class OptionalKind(Generic[T]):
    """One kind of another's: its definition, and its objects while it is served."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        labels: str = "",
        instruments: Instruments = UNMEASURED,
    ) -> None:
        self.full_name = f"{resource.plural}.{resource.group}"
        self.name = f"cache of {self.full_name}, if it is installed"
        self.definition = Reflector(
            client,
            DEFINITIONS,
            fields=f"metadata.name={self.full_name}",
            instruments=instruments,
        )
        self.objects = Reflector(client, resource, labels=labels, instruments=instruments)
        self._version = resource.version
        self._served = asyncio.Event()
        self.definition.store.subscribe(self._changed)

    @property
    def served(self) -> bool:
        """Whether the server knows the kind, in the version that is used."""
        return self._served.is_set()

    @property
    def spec_fields(self) -> frozenset[str]:
        """The fields that a spec may have; none where the kind is not served."""
        found = self._serving()
        if found is None:
            return frozenset()
        properties: JsonObject = found.schema.root.get("properties") or {}
        spec: JsonObject = properties.get("spec") or {}
        return frozenset(spec.get("properties") or ())

    @property
    def missing(self) -> str:
        """What to tell people of a kind that is not served."""
        group = f"{self.objects.resource.group}/{self._version}"
        return f"{self.full_name} is not installed in version {group}"

    async def run(self) -> None:
        """Follow the definition, and the objects from when there can be some."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.definition.run())
            await self._served.wait()
            group.create_task(self.objects.run())

    def _changed(self, old: Definition | None, new: Definition | None) -> None:
        if self._serving() is None:
            self._served.clear()
        else:
            self._served.set()

    def _serving(self) -> _Version | None:
        found = self.definition.store.get(("", self.full_name))
        if found is None or not any(
            each.type == "Established" and each.status == "True" for each in found.status.conditions
        ):
            return None
        versions = (each for each in found.spec.versions if each.name == self._version)
        return next((each for each in versions if each.served), None)
