"""Writing what is planned for a replica, with the events that tell of it."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from kilonova.api.grove import PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Client,
    Conflict,
    NotFound,
    Reflector,
    Resource,
)
from kilonova.kube.batches import Trust, raise_first
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.workloads import resources
from kilonova.workloads.caches import Caches
from kilonova.workloads.replicas.changes import lost_labels
from kilonova.workloads.replicas.plan import Create, Delete, Patch, Plan, Write
from kilonova.workloads.resources import SETS

_TOLD = frozenset({"PodClique", "PodCliqueScalingGroup", "PodGang", "ComputeDomain"})
"""Kinds whose making and going people are told of; of others only what goes wrong."""

_SYNC = {
    "PodGang": "ERR_SYNC_POD_GANGS",
    "PodClique": "ERR_SYNC_POD_CLIQUES",
    "PodCliqueScalingGroup": "ERR_SYNC_SCALING_GROUPS",
    "Service": "ERR_SYNC_SERVICES",
    "HorizontalPodAutoscaler": "ERR_SYNC_AUTOSCALERS",
    "ResourceClaim": "ERR_SYNC_RESOURCE_CLAIMS",
    "ResourceClaimTemplate": "ERR_SYNC_RESOURCE_CLAIMS",
    "ComputeDomain": "ERR_SYNC_COMPUTE_DOMAINS",
}


class Refused(Exception):
    """What the server refused to do, and what it said."""

    def __init__(self, act: str, resource: Resource[Any], name: str, error: ApiStatusError) -> None:
        super().__init__(error.message)
        self.error = error
        self.code = _SYNC[resource.kind]
        self.reason = f"{resource.kind}{act}Failed"
        self.description = f"Cannot {act.lower()} {resource.kind} {name}: {error.message}"


class Hands:
    """Each act waits until the caches show what it did."""

    def __init__(
        self, client: Client, caches: Caches, recorder: Recorder, monotonic: Callable[[], float]
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._trust = Trust(monotonic)
        kept: list[tuple[Resource[Any], Reflector[Any] | None]] = [
            (resources.CLIQUES, caches.cliques),
            (resources.GROUPS, caches.groups),
            (resources.GANGS, caches.gangs),
            (resources.SERVICES, caches.services),
            (resources.AUTOSCALERS, caches.autoscalers),
            (resources.CLAIMS, caches.claims),
            (resources.COMPUTE_DOMAINS, caches.compute_domains),
        ]
        self._echoes = {resource.kind: Echo(cache) for resource, cache in kept if cache is not None}

    async def carry_out(self, plan: Plan, set_: PodCliqueSet) -> None:
        """Write what comes first in a plan; `Refused` at the end if the server refused some."""
        namespace, name = set_.metadata.namespace, set_.metadata.name
        done: list[Write] = []
        kinds: defaultdict[str, list[Callable[[], Awaitable[None]]]] = defaultdict(list)
        for each in plan.first_creates:
            kinds[each.resource.kind].append(partial(self._create, each, namespace, done))
        creates = (
            self._trust.start((kind, namespace, name), calls) for kind, calls in kinds.items()
        )
        changes = self._patch_all(plan, namespace)
        removals = (self._delete(each, namespace, done) for each in plan.deletes)
        results = await asyncio.gather(*creates, changes, *removals, return_exceptions=True)
        self._tell(set_, done)
        raise_first(results)

    async def write_status(
        self, resource: Resource[Any], metadata: Metadata, patch: JsonObject
    ) -> None:
        """Write a status; one of an object that is gone is of no use."""
        own = {"uid": metadata.uid, **patch.get("metadata", {})}
        try:
            written = await self._client.patch(
                resource,
                metadata.name,
                {**patch, "metadata": own},
                metadata.namespace,
                subresource="status",
            )
        except NotFound:
            return
        await self._echoes[resource.kind].of_version(written.metadata.resource_version)

    async def let_go(self, resource: Resource[Any], metadata: Metadata, finalizer: str) -> None:
        """Take our finalizer from an object that is deleted."""
        left = [each for each in metadata.finalizers if each != finalizer]
        fields = {"finalizers": left, "resourceVersion": metadata.resource_version}
        try:
            changed = await self._client.patch(
                resource, metadata.name, {"metadata": fields}, metadata.namespace
            )
        except NotFound:
            return
        echo = self._echoes[resource.kind]
        if left:
            await echo.of_version(changed.metadata.resource_version)
        else:
            await echo.of_departure((metadata.namespace, metadata.name), metadata.uid)

    def tell(
        self,
        resource: Resource[Any],
        about: Metadata,
        reason: str,
        message: str,
        *,
        bad: bool = False,
    ) -> None:
        """Tell people what happened to an object."""
        reference = Reference.to(resource, about.name, about.namespace, about.uid)
        self._recorder.event(reference, reason, message, warning=bad)

    def tell_refused(self, set_: PodCliqueSet, refused: Refused) -> None:
        """Tell people what could not be done; what only has to be looked at again is no news."""
        if not isinstance(refused.error, Conflict):
            self.tell(SETS, set_.metadata, refused.reason, refused.description, bad=True)

    async def _create(self, write: Create, namespace: str, done: list[Write]) -> None:
        try:
            made = await self._client.create(write.resource, write.body, namespace)
        except AlreadyExists as error:
            await self._find_again(write, namespace, error)
            return
        except ApiStatusError as error:
            raise Refused("Create", write.resource, write.name, error) from error
        done.append(write)
        await self._echoes[write.resource.kind].of_version(made.metadata.resource_version)

    async def _find_again(self, write: Create, namespace: str, error: AlreadyExists) -> None:
        """Give an object its labels back without which no cache shows it; if it is ours."""
        refused = Refused("Create", write.resource, write.name, error)
        try:
            live = await self._client.get(write.resource, write.name, namespace)
        except ApiStatusError:
            raise refused from error
        body = lost_labels(live.metadata, write.body)
        if body is None:
            raise refused from error
        await self._patch(Patch(write.resource, live.metadata, body), namespace)

    async def _patch_all(self, plan: Plan, namespace: str) -> None:
        for wave in plan.waves:
            calls = (self._patch(each, namespace) for each in wave)
            raise_first(await asyncio.gather(*calls, return_exceptions=True))

    async def _patch(self, write: Patch, namespace: str) -> None:
        known = write.metadata
        own = {"uid": known.uid, **write.body.get("metadata", {})}
        try:
            changed = await self._client.patch(
                write.resource, known.name, {**write.body, "metadata": own}, namespace
            )
        except NotFound:
            return
        except ApiStatusError as error:
            raise Refused("Update", write.resource, known.name, error) from error
        await self._echoes[write.resource.kind].of_version(changed.metadata.resource_version)

    async def _delete(self, write: Delete, namespace: str, done: list[Write]) -> None:
        known = write.metadata
        try:
            await self._client.delete(write.resource, known.name, namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        except ApiStatusError as error:
            raise Refused("Delete", write.resource, known.name, error) from error
        done.append(write)
        key = known.namespace, known.name
        await self._echoes[write.resource.kind].of_deletion(key, known.uid)

    def _tell(self, set_: PodCliqueSet, done: Sequence[Write]) -> None:
        """One event for all objects of a kind that were made, and one for those that went."""
        by_reason: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for write in done:
            if write.resource.kind in _TOLD:
                act = "Create" if isinstance(write, Create) else "Delete"
                by_reason[act, write.resource.kind].append(write.name)
        for (act, kind), names in by_reason.items():
            message = f"{act}d {kind} {', '.join(sorted(names))}"
            self.tell(SETS, set_.metadata, f"{kind}{act}Successful", message)
