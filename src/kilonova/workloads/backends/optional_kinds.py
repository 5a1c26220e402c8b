"""A kind whose CRD need not be installed, and a cache that starts once it is served.

These caches do not count for the readiness of the process: webhooks must be served even if a
scheduler is not installed. Only what is written for that scheduler waits for them.
"""

import asyncio
from typing import Any, Generic, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import NO_RUNTIME_METRICS, Client, Reflector, Resource, RuntimeMetrics

T = TypeVar("T")


class _CrdSchema(msgspec.Struct, frozen=True, gc=False):
    root: JsonObject = msgspec.field(name="openAPIV3Schema", default_factory=dict[str, Any])


class _CrdVersion(msgspec.Struct, frozen=True, gc=False):
    name: str
    served: bool = False
    schema: _CrdSchema = _CrdSchema()


class _CrdSpec(msgspec.Struct, frozen=True, gc=False):
    versions: tuple[_CrdVersion, ...] = ()


class _CrdStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(msgspec.Struct, gc=False):
    """The fields of a CustomResourceDefinition that are used."""

    metadata: Metadata
    spec: _CrdSpec = _CrdSpec()
    status: _CrdStatus = _CrdStatus()


CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    CustomResourceDefinition,
)


class OptionalKind(Generic[T]):
    """An optional kind: its CRD, and its objects while it is served."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        label_selector: str = "",
        runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    ) -> None:
        self.full_name = f"{resource.plural}.{resource.group}"
        self.name = f"optional reflector of {self.full_name}"
        self.definition = Reflector(
            client,
            CUSTOM_RESOURCE_DEFINITIONS,
            field_selector=f"metadata.name={self.full_name}",
            runtime_metrics=runtime_metrics,
        )
        self.objects = Reflector(
            client, resource, label_selector=label_selector, runtime_metrics=runtime_metrics
        )
        self._version = resource.version
        self._served_event = asyncio.Event()
        self.definition.store.add_event_handler(self._on_definition_change)

    @property
    def is_served(self) -> bool:
        """Whether the API server serves the kind in the version that is used."""
        return self._served_event.is_set()

    @property
    def spec_fields(self) -> frozenset[str]:
        """The fields of the spec by the CRD's schema; empty where the kind is not served."""
        found = self._find_served_version()
        if found is None:
            return frozenset()
        properties: JsonObject = found.schema.root.get("properties") or {}
        spec: JsonObject = properties.get("spec") or {}
        return frozenset(spec.get("properties") or ())

    @property
    def missing_message(self) -> str:
        """The message for events about a kind that is not served."""
        group = f"{self.objects.resource.group}/{self._version}"
        return f"{self.full_name} is not installed in version {group}"

    async def run(self) -> None:
        """Watch the CRD, and the objects from when the kind is first served."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.definition.run())
            await self._served_event.wait()
            group.create_task(self.objects.run())

    def _on_definition_change(
        self, old: CustomResourceDefinition | None, new: CustomResourceDefinition | None
    ) -> None:
        if self._find_served_version() is None:
            self._served_event.clear()
        else:
            self._served_event.set()

    def _find_served_version(self) -> _CrdVersion | None:
        found = self.definition.store.get(("", self.full_name))
        if found is None or not any(
            each.type == "Established" and each.status == "True" for each in found.status.conditions
        ):
            return None
        versions = (each for each in found.spec.versions if each.name == self._version)
        return next((each for each in versions if each.served), None)
