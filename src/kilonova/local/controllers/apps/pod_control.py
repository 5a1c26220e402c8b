"""Creates and deletes the pods of workloads, and records events about it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import ApiStatusError, Client, Conflict, NotFound, Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import raise_first_failure, slow_start
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.controllers.apps.controller_refs import build_controller_reference
from kilonova.local.objects.core import PODS, Pod

BURST_REPLICAS = 500
"""How many pods are created or deleted in one reconcile."""

_MAX_NAME_LENGTH = 253


@dataclass(frozen=True, slots=True)
class PodControl:
    """Creates and deletes pods for workloads of one kind."""

    client: Client
    events: EventRecorder
    owner_resource: Resource[Any]
    writes: Expectations[Pod]

    def object_reference(self, owner: Metadata) -> ObjectReference:
        """The workload, as events refer to it."""
        return ObjectReference.to(self.owner_resource, owner.name, owner.namespace, owner.uid)

    async def create(self, owner: Metadata, bodies: Sequence[JsonObject]) -> None:
        """Create pods with slow start: an error of one is likely an error of all.

        Raises the first error, after an event about each.
        """
        versions: list[str] = []
        try:
            await slow_start([partial(self._create, owner, body, versions) for body in bodies])
        finally:
            if versions:
                await self.writes.wait_for_version(max(versions, key=int))

    async def _create(self, owner: Metadata, body: JsonObject, versions: list[str]) -> None:
        try:
            pod = await self.client.create(PODS, body, owner.namespace)
        except ApiStatusError as error:
            if is_namespace_terminating_error(error):
                return  # all further ones would fail as well, and be deleted with the namespace
            self.events.event(
                self.object_reference(owner),
                "FailedCreate",
                f"Error creating: {error.message}",
                warning=True,
            )
            raise
        self.events.event(
            self.object_reference(owner), "SuccessfulCreate", f"Created pod: {pod.metadata.name}"
        )
        versions.append(pod.metadata.resource_version)

    async def delete(self, owner: Metadata, pods: Sequence[Pod]) -> None:
        """Delete pods concurrently; raises the first error after all requests have been made."""
        results = await asyncio.gather(
            *(self._delete(owner, pod) for pod in pods), return_exceptions=True
        )
        raise_first_failure(results)
        for metadata in (pod.metadata for pod in pods):
            await self.writes.wait_for_deletion((metadata.namespace, metadata.name), metadata.uid)

    async def _delete(self, owner: Metadata, pod: Pod) -> None:
        metadata = pod.metadata
        try:
            await self.client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return  # deleted, or replaced by another pod of that name
        except ApiStatusError as error:
            self.events.event(
                self.object_reference(owner),
                "FailedDelete",
                f"Error deleting: {error.message}",
                warning=True,
            )
            raise
        self.events.event(
            self.object_reference(owner), "SuccessfulDelete", f"Deleted pod: {metadata.name}"
        )


def build_pod_from_template(
    template: JsonObject, owner_resource: Resource[Any], owner: Metadata, **metadata: Any
) -> JsonObject:
    """A pod from the template of a workload, with a generated name."""
    desired: JsonObject = template.get("metadata") or {}
    prefix = f"{owner.name}-" if len(owner.name) < _MAX_NAME_LENGTH else owner.name
    copied = {name: desired[name] for name in ("annotations", "finalizers") if desired.get(name)}
    return {
        "metadata": {
            "generateName": prefix,
            "labels": {**(desired.get("labels") or {})},
            **copied,
            "ownerReferences": [build_controller_reference(owner_resource, owner)],
            **metadata,
        },
        "spec": template.get("spec") or {},
    }


def is_namespace_terminating_error(error: ApiStatusError) -> bool:
    """Whether a create failed because the namespace is terminating."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
