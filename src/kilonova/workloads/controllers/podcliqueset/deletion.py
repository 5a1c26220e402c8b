"""Deletes the objects of deleted sets and of surplus replicas."""

import asyncio
from collections.abc import Sequence, Set
from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Conflict, Key, NotFound, Reflector, Resource
from kilonova.kube.controllers.controller_revisions import CONTROLLER_REVISIONS
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import raise_first_failure
from kilonova.workloads import resources
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.keys import get_label_index
from kilonova.workloads.resources import COMPUTE_DOMAINS, ChildObject
from kilonova.workloads.update_strategy import is_surplus

_MAX_CONCURRENT_DELETES = 16
"""Deletions of cliques' pods must not queue behind these."""


class ChildDeleter:
    """Deletes objects of sets; a deletion is done when the cache shows the deletionTimestamp."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        # Cliques first: their pods occupy capacity.
        kinds: list[tuple[Resource[Any], Reflector[Any]]] = [
            (resources.CLIQUES, caches.cliques),
            (resources.SCALING_GROUPS, caches.groups),
            (resources.GANGS, caches.gangs),
            (resources.SERVICES, caches.services),
            (resources.AUTOSCALERS, caches.autoscalers),
            (resources.RESOURCE_CLAIMS, caches.claims),
            (CONTROLLER_REVISIONS, caches.revisions),
        ]
        if caches.compute_domains is not None:
            kinds.append((COMPUTE_DOMAINS, caches.compute_domains))
        self._kinds = [(resource, cache.store, Expectations(cache)) for resource, cache in kinds]
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_DELETES)
        self._domains = caches.compute_domains
        self._sets = caches.sets.store
        self._groups = caches.groups.store
        self._cliques = caches.cliques.store

    async def delete_surplus_replicas(
        self, set_: PodCliqueSet, desired_replicas: int
    ) -> tuple[int, ...]:
        """Delete every object of replicas from index `desired_replicas` on; returns their indexes.

        Objects with the same labels and another owner are not touched.
        """
        key, uid = (set_.metadata.namespace, set_.metadata.name), set_.metadata.uid
        groups = (each.metadata for each in self._groups.by_index(BY_SET, key))
        owners = {uid, *(each.uid for each in groups if _is_owned(each, {uid}))}
        cliques = (each.metadata for each in self._cliques.by_index(BY_SET, key))
        owners |= {each.uid for each in cliques if _is_owned(each, owners)}
        surplus = [
            (resource, each, expectations)
            for resource, store, expectations in self._kinds
            for each in store.by_index(BY_SET, key)
            if is_surplus(each.metadata, desired_replicas) and _is_owned(each.metadata, owners)
        ]
        if not surplus:
            return ()
        await self._delete_all(surplus)
        indexes = (
            get_label_index(each.metadata, names.SET_REPLICA_INDEX) for _, each, _ in surplus
        )
        return tuple(sorted({each for each in indexes if each is not None}))

    async def delete_all(self, set_: PodCliqueSet) -> None:
        """Delete every object of a set: those of replicas first, then those of the whole set."""
        await self.delete_surplus_replicas(set_, 0)
        key, uid = (set_.metadata.namespace, set_.metadata.name), set_.metadata.uid
        await self._delete_all(
            [
                (resource, each, expectations)
                for resource, store, expectations in self._kinds
                for each in store.by_index(BY_SET, key)
                if each.metadata.deletion_timestamp is None and _is_owned(each.metadata, {uid})
            ]
        )

    async def finalize_compute_domains(self, key: Key) -> None:
        """Remove the finalizer of compute domains that are deleted, or whose set is."""
        if self._domains is None:
            return
        set_ = self._sets.get(key)
        is_deleted = set_ is None or set_.metadata.deletion_timestamp is not None
        domains = [
            each
            for each in self._domains.store.by_index(BY_SET, key)
            if names.COMPUTE_DOMAIN_FINALIZER in each.metadata.finalizers
            and (is_deleted or each.metadata.deletion_timestamp is not None)
        ]
        raise_first_failure(
            await asyncio.gather(*map(self._remove_finalizer, domains), return_exceptions=True)
        )

    async def _delete_all(
        self, found: Sequence[tuple[Resource[Any], Any, Expectations[Any]]]
    ) -> None:
        calls = (self._delete(*each) for each in found)
        raise_first_failure(await asyncio.gather(*calls, return_exceptions=True))

    async def _delete(
        self, resource: Resource[Any], child: Any, expectations: Expectations[Any]
    ) -> None:
        known = child.metadata
        try:
            async with self._slots:
                await self._client.delete(resource, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        await expectations.wait_for_deletion((known.namespace, known.name), known.uid)

    async def _remove_finalizer(self, domain: ChildObject) -> None:
        known = domain.metadata
        remaining = [each for each in known.finalizers if each != names.COMPUTE_DOMAIN_FINALIZER]
        metadata = {"finalizers": remaining, "resourceVersion": known.resource_version}
        try:
            await self._client.patch(
                COMPUTE_DOMAINS, known.name, {"metadata": metadata}, known.namespace
            )
        except NotFound:
            return


def _is_owned(child: Metadata, owners: Set[str]) -> bool:
    return child.controller is not None and child.controller.uid in owners
