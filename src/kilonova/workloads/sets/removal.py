"""Deletes what belongs to sets, and to replicas of sets, that there should be no more."""

import asyncio
from collections.abc import Sequence, Set
from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Conflict, Key, NotFound, Reflector, Resource
from kilonova.kube.batches import raise_first
from kilonova.kube.echo import Echo
from kilonova.workloads import resources
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.keys import index_of
from kilonova.workloads.resources import COMPUTE_DOMAINS, Child
from kilonova.workloads.sets.desire import is_surplus

_AT_A_TIME = 16
"""Pods of cliques that go are not to queue behind all that goes with them."""


class Removal:
    """Finds and deletes; a deletion is over when the cache shows that the object is going."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        # Cliques first: their pods are what takes room.
        kept: list[tuple[Resource[Any], Reflector[Any]]] = [
            (resources.CLIQUES, caches.cliques),
            (resources.GROUPS, caches.groups),
            (resources.GANGS, caches.gangs),
            (resources.SERVICES, caches.services),
            (resources.AUTOSCALERS, caches.autoscalers),
            (resources.CLAIMS, caches.claims),
            (resources.REVISIONS, caches.revisions),
        ]
        if caches.compute_domains is not None:
            kept.append((COMPUTE_DOMAINS, caches.compute_domains))
        self._kept = [(resource, cache.store, Echo(cache)) for resource, cache in kept]
        self._slots = asyncio.Semaphore(_AT_A_TIME)
        self._domains = caches.compute_domains
        self._sets = caches.sets.store
        self._groups = caches.groups.store
        self._cliques = caches.cliques.store

    async def remove_beyond(self, set_: PodCliqueSet, wanted: int) -> tuple[int, ...]:
        """Delete every object of replicas from index `wanted` on; which replicas these were.

        What is only labelled like theirs is somebody else's.
        """
        key, uid = (set_.metadata.namespace, set_.metadata.name), set_.metadata.uid
        groups = (each.metadata for each in self._groups.find(BY_SET, key))
        owners = {uid, *(each.uid for each in groups if _is_owned(each, {uid}))}
        cliques = (each.metadata for each in self._cliques.find(BY_SET, key))
        owners |= {each.uid for each in cliques if _is_owned(each, owners)}
        surplus = [
            (resource, each, echo)
            for resource, store, echo in self._kept
            for each in store.find(BY_SET, key)
            if is_surplus(each.metadata, wanted) and _is_owned(each.metadata, owners)
        ]
        if not surplus:
            return ()
        await self._delete_all(surplus)
        indexes = (index_of(each.metadata, names.SET_REPLICA_INDEX) for _, each, _ in surplus)
        return tuple(sorted({each for each in indexes if each is not None}))

    async def remove_all(self, set_: PodCliqueSet) -> None:
        """Delete every object of a set: of its replicas first, then what is the whole set's."""
        await self.remove_beyond(set_, 0)
        key, uid = (set_.metadata.namespace, set_.metadata.name), set_.metadata.uid
        await self._delete_all(
            [
                (resource, each, echo)
                for resource, store, echo in self._kept
                for each in store.find(BY_SET, key)
                if each.metadata.deletion_timestamp is None and _is_owned(each.metadata, {uid})
            ]
        )

    async def release_going(self, key: Key) -> None:
        """Let compute domains go that are deleted, or whose set is."""
        if self._domains is None:
            return
        set_ = self._sets.get(key)
        ending = set_ is None or set_.metadata.deletion_timestamp is not None
        held = [
            each
            for each in self._domains.store.find(BY_SET, key)
            if names.COMPUTE_DOMAIN_FINALIZER in each.metadata.finalizers
            and (ending or each.metadata.deletion_timestamp is not None)
        ]
        raise_first(await asyncio.gather(*map(self._release, held), return_exceptions=True))

    async def _delete_all(self, found: Sequence[tuple[Resource[Any], Any, Echo[Any]]]) -> None:
        calls = (self._delete(*each) for each in found)
        raise_first(await asyncio.gather(*calls, return_exceptions=True))

    async def _delete(self, resource: Resource[Any], child: Any, echo: Echo[Any]) -> None:
        known = child.metadata
        try:
            async with self._slots:
                await self._client.delete(resource, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        await echo.of_deletion((known.namespace, known.name), known.uid)

    async def _release(self, domain: Child) -> None:
        known = domain.metadata
        rest = [each for each in known.finalizers if each != names.COMPUTE_DOMAIN_FINALIZER]
        metadata = {"finalizers": rest, "resourceVersion": known.resource_version}
        try:
            await self._client.patch(
                COMPUTE_DOMAINS, known.name, {"metadata": metadata}, known.namespace
            )
        except NotFound:
            return


def _is_owned(child: Metadata, owners: Set[str]) -> bool:
    return child.controller is not None and child.controller.uid in owners
