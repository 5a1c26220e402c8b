"""A snapshot of what a scheduler's caches have."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource, Store
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.convert.devices.allocations import convert_claim_status
from kilonova.scheduler.convert.devices.resource_slices import convert_resource_pool
from kilonova.scheduler.convert.queues import convert_queue
from kilonova.scheduler.core.dra.inventory import DevicePool, PoolId
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from kilonova.scheduler.library.unserved_pods import find_unserved_gangs
from kilonova.scheduler.objects.resource_v1 import ResourceSlice
from kilonova.scheduler.score_plugins import build_scoring
from kilonova.scheduler.settings import SchedulerSettings


class PriorityClass(msgspec.Struct, rename="camel"):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0
    preemption_policy: str = ""


PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass
)


def snapshot_caches(
    subsystem: CacheSubsystem,
    informers: Informers,
    classes: Iterable[PriorityClass],
    settings: SchedulerSettings,
    now: datetime,
) -> ClusterSnapshot:
    """The snapshot; the caches are up to date (`SchedulerCache.refresh`)."""
    cache, by_class = subsystem.scheduler_cache, list(classes)
    subsystem.fit.learn(cache.cluster.snapshot)
    by_key = {pod.key: pod for pod in informers.pods.store.objects()}
    return take_snapshot(
        cache.cluster,
        cache.waiting.values(),
        map(convert_queue, informers.queues.store.objects()),
        settings.policy,
        now.timestamp(),
        scoring=build_scoring(settings.weights),
        not_ready={
            **cache.not_ready,
            **find_unserved_gangs(cache.not_ready, by_key.get, settings.scheduler_names),
        },
        pools=_convert_device_pools(informers.slices.store),
        claims={
            claim.key: written
            for claim in informers.claims.store.objects()
            if (written := convert_claim_status(claim)) is not None
        },
        priorities={each.metadata.name: each.value for each in by_class},
        never_preempting=(
            each.metadata.name for each in by_class if each.preemption_policy == "Never"
        ),
    )


def _convert_device_pools(slices: Store[ResourceSlice]) -> dict[PoolId, DevicePool]:
    by_pool: dict[PoolId, list[ResourceSlice]] = {}
    for each in slices.objects():
        by_pool.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    pools = ((id, convert_resource_pool(some)) for id, some in by_pool.items())
    return {id: pool for id, pool in pools if pool is not None}
