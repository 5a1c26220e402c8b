"""Counts what a namespace uses, and says so in the status of its quotas.

The quota is read before the objects, and written only if it has not changed since. Admission
changes it in the same moment in which it lets an object in, so that whatever was let in before
the quota was read is among the objects read after it, and whatever came later makes the write
fail: nothing is forgotten.
"""

from dataclasses import dataclass

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.identity import Key
from kilonova.kube.resource import plain
from kilonova.local.admission.amounts import amounts
from kilonova.local.clock import Clock
from kilonova.local.controllers.quota.counting import (
    counted_status,
    resources_needed,
    status_patch,
)
from kilonova.local.controllers.quota.objects import Quota
from kilonova.local.controllers.resources import served_resources

_BY_NAMESPACE = "namespace"
_SOON = 0.25
"""Things that go within so many seconds are counted together."""
_LATER = 5.0
"""After a change by admission: what it let in may have been refused by somebody else."""
_ALWAYS = 300.0

_WHOLE_QUOTAS = plain("", "v1", "resourcequotas", "ResourceQuota", True)


@dataclass(slots=True)
class _Looked:
    at: float = float("-inf")
    version: str = ""
    changed: float | None = None
    """Since when the quota is another than the one that was counted for."""


class QuotaController:
    """Keeps the statuses of quotas true."""

    def __init__(self, client: Client, quotas: Reflector[Quota], clock: Clock) -> None:
        self._client = client
        self._quotas = quotas
        self._clock = clock
        self._looked: dict[Key, _Looked] = {}
        self._freed: set[Key] = set()
        self._resources: dict[str, Resource[JsonObject]] = {}
        quotas.store.add_index(_BY_NAMESPACE, lambda quota: (quota.metadata.namespace,))
        self.controller = Controller(
            "quotas", self._reconcile, [Watch(quotas)], workers=2, resync=_ALWAYS
        )

    def something_went(self, namespace: str) -> None:
        """An object of a namespace is gone, or uses less than before."""
        for quota in self._quotas.store.find(_BY_NAMESPACE, namespace):
            key = (namespace, quota.metadata.name)
            self._freed.add(key)
            self.controller.queue.add(key)

    async def _reconcile(self, key: Key) -> Result | None:
        quota = self._quotas.store.get(key)
        if quota is None:
            self._looked.pop(key, None)
            self._freed.discard(key)
            return None
        looked = self._looked.setdefault(key, _Looked())
        wait = self._wait(key, quota, looked)
        if wait is None or wait > 0:
            return None if wait is None else Result(wait)
        looked.at, looked.changed = self._clock.monotonic(), None
        self._freed.discard(key)
        looked.version = await self._count(key)
        return None

    def _wait(self, key: Key, quota: Quota, looked: _Looked) -> float | None:
        """How many seconds until the quota is to be counted; None where it need not be."""
        now = self._clock.monotonic()
        counted = quota.metadata.resource_version == looked.version
        if amounts(quota.spec.hard) != amounts(quota.status.hard) and not counted:
            return 0.0
        if key in self._freed:
            return looked.at + _SOON - now
        if now - looked.at >= _ALWAYS:
            return 0.0
        if counted:
            looked.changed = None
            return None
        if looked.changed is None:
            looked.changed = now
        return looked.changed + _LATER - now

    async def _count(self, key: Key) -> str:
        """Count, and write what differs; the version of the quota that this holds for."""
        namespace, name = key
        try:
            quota = await self._client.get(_WHOLE_QUOTAS, name, namespace)
        except NotFound:
            return ""
        found: dict[str, list[JsonObject]] = {}
        for wanted in resources_needed(quota.get("spec", {}).get("hard", {})):
            resource = await self._resource(wanted)
            if resource is not None:
                found[wanted] = (await self._client.list(resource, namespace)).items
        patch = status_patch(quota, counted_status(quota, found, self._clock.now()))
        metadata = quota["metadata"]
        if patch is None:
            return metadata["resourceVersion"]
        body = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": patch,
        }
        written = await self._client.patch(
            _WHOLE_QUOTAS, name, body, namespace, subresource="status"
        )
        return written["metadata"]["resourceVersion"]

    async def _resource(self, name: str) -> Resource[JsonObject] | None:
        """The resource of a name, if it is served and its objects are in namespaces."""
        if name not in self._resources:
            objects: type[JsonObject] = dict
            served = await served_resources(self._client, objects, "list")
            self._resources = {each.full_name: each for each in served if each.namespaced}
        return self._resources.get(name)
