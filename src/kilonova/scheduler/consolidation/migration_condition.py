"""The pod condition that names the node where capacity for a pod's replacement is held.

A new leader restores its holds from it. It is a condition because a bound pod cannot nominate
another node.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import count

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.kube import ApiStatusError, Backoff, Conflict, ConnectionFailed, NotFound
from kilonova.kube.client.client import PatchType
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.status import encode_condition, find_condition, keep_transition_time
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.objects.core_v1 import PODS, Pod

_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(0.2, 5.0)
_MIGRATION_CONDITION = "scheduling.kilonova.dev/Migrating"


def migration_target(pod: Pod) -> str:
    """The node on which capacity is held for the pod's replacement; empty if there is none."""
    found = find_condition(pod.status.conditions, _MIGRATION_CONDITION)
    return found.message if found is not None and found.status == "True" else ""


class MigrationConditionWriter:
    """Writes the condition."""

    def __init__(self, context: SchedulerContext, cache: SchedulerCache) -> None:
        self._client = context.client
        self._cache = cache
        self._slots = context.write_slots
        self._now = context.now

    async def write_targets(self, nodes: Mapping[str, str]) -> None:
        """Write to each pod the node on which capacity is held."""
        await asyncio.gather(
            *(self._retry_condition(pod, "True", node) for pod, node in nodes.items())
        )

    async def withdraw_targets(self, pods: Iterable[str]) -> None:
        """Mark the migration of pods as cancelled."""
        await asyncio.gather(
            *(self._retry_condition(pod, "False", "the pod stays on its node") for pod in pods)
        )

    async def _retry_condition(self, key: str, status: str, message: str) -> None:
        for failures in count(1):
            pod = self._cache.find_pod(key)
            if pod is None:
                return
            try:
                await self._patch_condition(pod, status, message)
                return
            except (NotFound, Conflict):
                return  # deleted; another pod may have its name
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("migration condition not written, retrying", pod=key, error=str(error))
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))

    async def _patch_condition(self, pod: Pod, status: str, message: str) -> None:
        reason = "CapacityHeld" if status == "True" else "MigrationCancelled"
        condition = keep_transition_time(
            Condition(_MIGRATION_CONDITION, status, reason, message),
            find_condition(pod.status.conditions, _MIGRATION_CONDITION),
            self._now(),
        )
        meta = pod.metadata
        patch: JsonObject = {
            "metadata": {"uid": meta.uid},
            "status": {"conditions": [encode_condition(condition)]},
        }
        async with self._slots:
            await self._client.patch(
                PODS,
                meta.name,
                patch,
                meta.namespace,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
