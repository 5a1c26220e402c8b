"""Writes statuses: only changed fields, only to the object with the same uid."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.local.controllers.apps.objects import WorkloadStatus


class HasStatus(Protocol):
    """An object with a `WorkloadStatus`."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def status(self) -> WorkloadStatus: ...


T = TypeVar("T", bound=HasStatus)


@dataclass(frozen=True, slots=True)
class WorkloadStatusWriter(Generic[T]):
    """Writes the statuses of one kind of workload, and waits until its cache shows them."""

    client: Client
    resource: Resource[T]
    writes: Expectations[T]

    async def write(
        self, obj: T, status: WorkloadStatus, annotations: dict[str, str] | None = None
    ) -> None:
        """Write the status and these annotations; no request if they are up to date."""
        known = obj.metadata
        metadata: JsonObject = {"uid": known.uid}
        change = build_status_patch(obj.status, status)
        if annotations and not annotations.items() <= known.annotations.items():
            metadata["annotations"] = annotations
        elif not change:
            return
        try:
            written = await self.client.patch(
                self.resource,
                known.name,
                {"metadata": metadata, "status": change},
                known.namespace,
                subresource="status",
            )
        except NotFound:
            return
        await self.writes.wait_for_version(written.metadata.resource_version)


def build_status_patch(old: WorkloadStatus, new: WorkloadStatus) -> JsonObject:
    """The merge patch of a status; empty if nothing changed."""
    before, after = old.as_json(), new.as_json()
    return {
        name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)
    }
