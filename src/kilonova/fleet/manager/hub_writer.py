"""Writes to the hub: statuses, finalizers, restored objects.

The pass only decides what should be there and goes on. One task writes it, the latest state of each
object; while the hub is away, writes wait.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.fleet.manager.hub import HubObject, ObjectId, Status
from kilonova.fleet.manager.resources import NAMESPACES, RESOURCES
from kilonova.kube import (
    AlreadyExists,
    Client,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    PatchType,
)
from kilonova.kube.client.options import JsonPatch
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.status.patch import build_status_patch

log = get_logger(__name__)

_RETRY_SECONDS = 5.0
_CONCURRENT_WRITES = 8


@dataclass(frozen=True, slots=True)
class HubWrite:
    """What should be written of one object, in this order."""

    id: ObjectId
    found: HubObject | None
    """The object as it was observed."""
    create: JsonObject | None = None
    """The object to create; without its status."""
    metadata: JsonObject | None = None
    """Metadata to merge into those of the object as it was observed."""
    spec: JsonObject | None = None
    """The spec to replace that of the object by."""
    status: Status | None = None
    delete: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to write."""
        changes = self.create or self.metadata or self.spec or self.delete
        return bool(changes) or self._status_patch() is not None

    def _status_patch(self) -> JsonObject | None:
        if self.status is None or self.found is None:
            return None
        return build_status_patch(self.found.status, self.status)


class HubWriter:
    """Writes until cancelled, while `may_write`."""

    name = "fleet hub writer"

    def __init__(self, client: Client, may_write: Callable[[], bool]) -> None:
        self._client = client
        self._may_write = may_write
        self._pending: dict[ObjectId, HubWrite] = {}
        self._wake = asyncio.Event()
        self._problems: dict[ObjectId, str] = {}

    def submit(self, writes: Sequence[HubWrite]) -> None:
        """Write these; they replace those of the same objects that still wait."""
        for each in writes:
            if each.is_needed:
                self._pending[each.id] = each
            else:
                self._pending.pop(each.id, None)
        if self._pending:
            self._wake.set()

    async def run(self) -> None:
        """Write what is pending, again and again."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                batch = [self._pending.pop(key) for key in list(self._pending)[:_CONCURRENT_WRITES]]
                failed = [
                    write
                    for write, done in zip(
                        batch, await asyncio.gather(*map(self._try_write, batch)), strict=True
                    )
                    if not done
                ]
                for each in failed:
                    self._pending.setdefault(each.id, each)
                if failed:
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _try_write(self, write: HubWrite) -> bool:
        """Whether it need not be tried again. After a conflict, the next pass sees the object."""
        if not self._may_write():
            return True
        try:
            await self._write(write)
        except (Conflict, AlreadyExists):
            return True
        except NotFound:
            # The object was deleted; or its namespace is, and it will be restored with that.
            return write.create is None
        except Invalid as error:
            self._report(write.id, "hub rejects an object", str(error))
            return True
        except KubeError as error:
            self._report(write.id, "hub not written, retrying", str(error))
            return False
        self._problems.pop(write.id, None)
        return True

    def _report(self, key: ObjectId, message: str, problem: str) -> None:
        """Log a problem once: the write is tried with each pass."""
        if self._problems.get(key) != problem:
            log.warning(message, object=str(key), error=problem)
        self._problems[key] = problem

    async def _write(self, write: HubWrite) -> None:
        resource = RESOURCES[write.id.kind]
        namespace, name = write.id.namespace, write.id.name
        found = write.found
        if write.delete and found is not None:
            await self._client.delete(resource, name, namespace, uid=found.metadata.uid)
            return
        if write.create is not None:
            found = await self._create(write, write.create)
        elif found is not None:
            await self._change(write, found)
        if write.status is None or found is None:
            return
        status = build_status_patch(found.status, write.status)
        if status is not None:
            body = {"metadata": {"uid": found.metadata.uid}, "status": status}
            await self._client.patch(resource, name, body, namespace, subresource="status")

    async def _change(self, write: HubWrite, found: HubObject) -> None:
        """Change spec and metadata of the object that was observed, and of no other."""
        resource, namespace, name = RESOURCES[write.id.kind], write.id.namespace, write.id.name
        version = found.metadata.resource_version
        if write.spec is not None:
            operations: JsonPatch = [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/spec", "value": write.spec},
            ]
            written: HubObject = await self._client.patch(
                resource, name, operations, namespace, patch_type=PatchType.JSON
            )
            version = written.metadata.resource_version
        if write.metadata is not None:
            patch = {"metadata": {**write.metadata, "resourceVersion": version}}
            await self._client.patch(resource, name, patch, namespace)

    async def _create(self, write: HubWrite, manifest: JsonObject) -> HubObject:
        resource, namespace = RESOURCES[write.id.kind], write.id.namespace
        try:
            return await self._client.create(resource, manifest, namespace)
        except NotFound:
            body = {"metadata": {"name": namespace}}
            with suppress(AlreadyExists):
                await self._client.create(NAMESPACES, body)
            return await self._client.create(resource, manifest, namespace)
