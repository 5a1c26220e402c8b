"""Detects deletions and usage reductions of objects that quotas count.

Only resources that a quota names are watched: without a quota, nothing is.
"""

import asyncio
from collections.abc import Callable

from kilonova.kube import Client, Reflector, Resource
from kilonova.local.controllers.garbagecollector.graph import OwnedObject
from kilonova.local.controllers.resourcequota.objects import ResourceQuota
from kilonova.local.controllers.resourcequota.usage import select_resources
from kilonova.local.controllers.shared.discovery import discover_resources
from kilonova.local.objects.core import Pod
from kilonova.local.quota.evaluators import CLAIMS, PODS, SERVICES

_SHRINKABLE = (SERVICES, CLAIMS)


class QuotaMonitor:
    """Calls `replenish_quota` with a namespace. Pods are taken from the shared cache."""

    name = "resource quota monitor"

    def __init__(
        self,
        client: Client,
        quotas: Reflector[ResourceQuota],
        pods: Reflector[Pod],
        replenish_quota: Callable[[str], None],
    ) -> None:
        self._client = client
        self._quotas = quotas
        self._replenish_quota = replenish_quota
        self._monitored: set[str] = {PODS}
        self._changed = asyncio.Event()
        quotas.store.add_event_handler(lambda old, new: self._changed.set())
        pods.store.add_event_handler(self._handle_pod_change)

    async def run(self) -> None:
        """Watch the resources that quotas name, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._changed.wait()
                self._changed.clear()
                resource = {
                    name
                    for quota in self._quotas.store.objects()
                    for name in select_resources(quota.spec.hard)
                }
                if resource - self._monitored:
                    await self._start_monitors(resource, group)

    async def _start_monitors(self, resources: set[str], group: asyncio.TaskGroup) -> None:
        served = await discover_resources(self._client, OwnedObject, "list", "watch")
        for resource in served:
            name = resource.full_name
            if resource.namespaced and name in resources - self._monitored:
                self._monitored.add(name)
                group.create_task(self._build_reflector(resource).run(), name=f"quota of {name}")

    def _build_reflector(self, resource: Resource[OwnedObject]) -> Reflector[OwnedObject]:
        reflector = Reflector(self._client, resource)
        shrinks = resource.full_name in _SHRINKABLE

        def seen(old: OwnedObject | None, new: OwnedObject | None) -> None:
            if old is not None and (new is None or shrinks):
                self._replenish_quota(old.metadata.namespace)

        reflector.store.add_event_handler(seen)
        return reflector

    def _handle_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or (new.is_terminal and not old.is_terminal)):
            self._replenish_quota(old.metadata.namespace)
