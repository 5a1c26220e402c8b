"""Notices when objects that quotas count go, or come to use less.

Only resources that some quota names are followed: without a quota, this follows nothing.
"""

import asyncio
from collections.abc import Callable

from kilonova.kube import Client, Reflector, Resource
from kilonova.local.admission.usage import CLAIMS, PODS, SERVICES
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.ownership import AnyObject
from kilonova.local.controllers.quota.counting import resources_needed
from kilonova.local.controllers.quota.objects import Quota
from kilonova.local.controllers.resources import served_resources

_MAY_SHRINK = (SERVICES, CLAIMS)


class Departures:
    """Calls `something_went` with a namespace. Pods are looked at in the shared cache."""

    name = "departures for quotas"

    def __init__(
        self,
        client: Client,
        quotas: Reflector[Quota],
        pods: Reflector[Pod],
        something_went: Callable[[str], None],
    ) -> None:
        self._client = client
        self._quotas = quotas
        self._something_went = something_went
        self._followed: set[str] = {PODS}
        self._changed = asyncio.Event()
        quotas.store.subscribe(lambda old, new: self._changed.set())
        pods.store.subscribe(self._pod_changed)

    async def run(self) -> None:
        """Follow what quotas name, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._changed.wait()
                self._changed.clear()
                wanted = {
                    name
                    for quota in self._quotas.store.objects()
                    for name in resources_needed(quota.spec.hard)
                }
                if wanted - self._followed:
                    await self._follow(wanted, group)

    async def _follow(self, wanted: set[str], group: asyncio.TaskGroup) -> None:
        served = await served_resources(self._client, AnyObject, "list", "watch")
        for resource in served:
            name = resource.full_name
            if resource.namespaced and name in wanted - self._followed:
                self._followed.add(name)
                group.create_task(self._reflector(resource).run(), name=f"quota of {name}")

    def _reflector(self, resource: Resource[AnyObject]) -> Reflector[AnyObject]:
        reflector = Reflector(self._client, resource)
        shrinks = resource.full_name in _MAY_SHRINK

        def seen(old: AnyObject | None, new: AnyObject | None) -> None:
            if old is not None and (new is None or shrinks):
                self._something_went(old.metadata.namespace)

        reflector.store.subscribe(seen)
        return reflector

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or (new.ended and not old.ended)):
            self._something_went(old.metadata.namespace)
