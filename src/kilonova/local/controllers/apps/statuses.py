"""Writing statuses: only what changed, only of that very object."""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.echo import Echo
from kilonova.local.controllers.apps.objects import Status


class HasStatus(Protocol):
    """An object with a status of ours."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def status(self) -> Status: ...


T = TypeVar("T", bound=HasStatus)


@dataclass(frozen=True, slots=True)
class StatusWriter(Generic[T]):
    """Writes the statuses of one kind of set, and waits until its cache shows them."""

    client: Client
    resource: Resource[T]
    echo: Echo[T]

    async def write(
        self, obj: T, status: Status, annotations: dict[str, str] | None = None
    ) -> None:
        """Make the status so, and these annotations with it; does nothing where it is so."""
        known = obj.metadata
        metadata: JsonObject = {"uid": known.uid}
        change = status_change(obj.status, status)
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
        await self.echo.of_version(written.metadata.resource_version)


def status_change(old: Status, new: Status) -> JsonObject:
    """The merge patch of a status; empty where nothing changed."""
    before, after = old.as_json(), new.as_json()
    return {
        name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)
    }
