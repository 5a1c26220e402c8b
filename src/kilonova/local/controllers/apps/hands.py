"""Making and removing the pods of sets, with the events that tell of it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import ApiStatusError, Client, Conflict, NotFound, Resource
from kilonova.kube.batches import raise_first, slow_start
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.local.controllers.apps.claims import controller_reference
from kilonova.local.controllers.objects import PODS, Pod

BURST = 500
"""How many pods are made or removed in one round."""

_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Hands:
    """What a controller makes and removes pods with, for sets of one kind."""

    client: Client
    events: Recorder
    owners: Resource[Any]
    pods: Echo[Pod]

    def about(self, owner: Metadata) -> Reference:
        """The set, as events name it."""
        return Reference.to(self.owners, owner.name, owner.namespace, owner.uid)

    async def create(self, owner: Metadata, bodies: Sequence[JsonObject]) -> None:
        """Make pods, few at first: what refuses one will likely refuse all.

        Raises the first refusal, after an event about each.
        """
        versions: list[str] = []
        try:
            await slow_start([partial(self._create, owner, body, versions) for body in bodies])
        finally:
            if versions:
                await self.pods.of_version(max(versions, key=int))

    async def _create(self, owner: Metadata, body: JsonObject, versions: list[str]) -> None:
        try:
            pod = await self.client.create(PODS, body, owner.namespace)
        except ApiStatusError as error:
            if is_terminating_namespace(error):
                return  # all that follows would fail as well, and go with the namespace
            self.events.event(
                self.about(owner), "FailedCreate", f"Error creating: {error.message}", warning=True
            )
            raise
        self.events.event(
            self.about(owner), "SuccessfulCreate", f"Created pod: {pod.metadata.name}"
        )
        versions.append(pod.metadata.resource_version)

    async def delete(self, owner: Metadata, pods: Sequence[Pod]) -> None:
        """Remove pods, all at once; raises the first refusal after all have been asked for."""
        results = await asyncio.gather(
            *(self._delete(owner, pod) for pod in pods), return_exceptions=True
        )
        raise_first(results)
        for known in (pod.metadata for pod in pods):
            await self.pods.of_deletion((known.namespace, known.name), known.uid)

    async def _delete(self, owner: Metadata, pod: Pod) -> None:
        known = pod.metadata
        try:
            await self.client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return  # gone, or another pod of that name
        except ApiStatusError as error:
            self.events.event(
                self.about(owner), "FailedDelete", f"Error deleting: {error.message}", warning=True
            )
            raise
        self.events.event(self.about(owner), "SuccessfulDelete", f"Deleted pod: {known.name}")


def pod_of_template(
    template: JsonObject, owners: Resource[Any], owner: Metadata, **metadata: Any
) -> JsonObject:
    """A pod as a set makes it: what its template says, under a name that begins with its own."""
    wanted: JsonObject = template.get("metadata") or {}
    prefix = f"{owner.name}-" if len(owner.name) < _LONGEST_NAME else owner.name
    copied = {name: wanted[name] for name in ("annotations", "finalizers") if wanted.get(name)}
    return {
        "metadata": {
            "generateName": prefix,
            "labels": {**(wanted.get("labels") or {})},
            **copied,
            "ownerReferences": [controller_reference(owners, owner)],
            **metadata,
        },
        "spec": template.get("spec") or {},
    }


def is_terminating_namespace(error: ApiStatusError) -> bool:
    """Whether something was refused because its namespace is going."""
    return any(cause.get("reason") == "NamespaceTerminating" for cause in error.causes)
