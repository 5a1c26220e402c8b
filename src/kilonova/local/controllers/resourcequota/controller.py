"""Calculates the usage of a namespace, and writes it to the status of its quotas.

The quota is read before the objects, and written only if it has not changed since. Admission
updates it in the same commit that admits an object, so that everything admitted before the quota
was read is among the objects read after it, and everything admitted later makes the write fail: no
usage is lost.
"""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.informers.object_keys import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.resourcequota.objects import ResourceQuota
from kilonova.local.controllers.resourcequota.usage import (
    build_status_patch,
    compute_status,
    select_resources,
)
from kilonova.local.controllers.shared.discovery import discover_resources
from kilonova.local.quota.resource_lists import parse_resource_list

_BY_NAMESPACE = "namespace"
_REPLENISH_DELAY = 0.25
"""Deletions within so many seconds are processed together."""
_ADMISSION_DELAY = 5.0
"""After an update by admission: the object that it admitted may have been rejected later."""
_RESYNC_PERIOD = 300.0

_UNTYPED_QUOTAS = unstructured_resource("", "v1", "resourcequotas", "ResourceQuota", True)


@dataclass(slots=True)
class _SyncState:
    last_sync: float = float("-inf")
    version: str = ""
    changed_since: float | None = None
    """Since when the quota differs from the version that was calculated."""


class ResourceQuotaController:
    """Keeps the statuses of quotas up to date."""

    def __init__(self, client: Client, quotas: Reflector[ResourceQuota], clock: Clock) -> None:
        self._client = client
        self._quotas = quotas
        self._clock = clock
        self._sync_states: dict[Key, _SyncState] = {}
        self._replenished: set[Key] = set()
        self._resources: dict[str, Resource[JsonObject]] = {}
        quotas.store.add_index(_BY_NAMESPACE, lambda quota: (quota.metadata.namespace,))
        self.controller = Controller(
            "quotas", self._reconcile, [Watch(quotas)], workers=2, resync_period=_RESYNC_PERIOD
        )

    def replenish_quota(self, namespace: str) -> None:
        """An object of a namespace was deleted, or uses less than before."""
        for quota in self._quotas.store.by_index(_BY_NAMESPACE, namespace):
            key = (namespace, quota.metadata.name)
            self._replenished.add(key)
            self.controller.queue.add(key)

    async def _reconcile(self, key: Key) -> Result | None:
        quota = self._quotas.store.get(key)
        if quota is None:
            self._sync_states.pop(key, None)
            self._replenished.discard(key)
            return None
        state = self._sync_states.setdefault(key, _SyncState())
        wait = self._sync_delay(key, quota, state)
        if wait is None or wait > 0:
            return None if wait is None else Result(wait)
        state.last_sync, state.changed_since = self._clock.monotonic(), None
        self._replenished.discard(key)
        state.version = await self._sync_usage(key)
        return None

    def _sync_delay(self, key: Key, quota: ResourceQuota, state: _SyncState) -> float | None:
        """Seconds until the usage has to be calculated; None if it is up to date."""
        now = self._clock.monotonic()
        counted = quota.metadata.resource_version == state.version
        if (
            parse_resource_list(quota.spec.hard) != parse_resource_list(quota.status.hard)
            and not counted
        ):
            return 0.0
        if key in self._replenished:
            return state.last_sync + _REPLENISH_DELAY - now
        if now - state.last_sync >= _RESYNC_PERIOD:
            return 0.0
        if counted:
            state.changed_since = None
            return None
        if state.changed_since is None:
            state.changed_since = now
        return state.changed_since + _ADMISSION_DELAY - now

    async def _sync_usage(self, key: Key) -> str:
        """Calculate, and write what differs; returns the resourceVersion that it is valid for."""
        namespace, name = key
        try:
            quota = await self._client.get(_UNTYPED_QUOTAS, name, namespace)
        except NotFound:
            return ""
        found: dict[str, list[JsonObject]] = {}
        for resource_name in select_resources(quota.get("spec", {}).get("hard", {})):
            resource = await self._find_resource(resource_name)
            if resource is not None:
                found[resource_name] = (await self._client.list(resource, namespace)).items
        patch = build_status_patch(quota, compute_status(quota, found, self._clock.now()))
        metadata = quota["metadata"]
        if patch is None:
            return metadata["resourceVersion"]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": patch,
        }
        written = await self._client.patch(
            _UNTYPED_QUOTAS, name, body, namespace, subresource="status"
        )
        return written["metadata"]["resourceVersion"]

    async def _find_resource(self, name: str) -> Resource[JsonObject] | None:
        """The resource of a name, if it is served and namespaced."""
        if name not in self._resources:
            objects: type[JsonObject] = dict
            served = await discover_resources(self._client, objects, "list")
            self._resources = {each.full_name: each for each in served if each.namespaced}
        return self._resources.get(name)
