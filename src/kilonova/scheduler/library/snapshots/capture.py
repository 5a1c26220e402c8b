"""Captures a snapshot of a live cluster: lists what a scheduler would watch, and converts it alike.

State that only a running scheduler has is missing: its assumed pods are still pending here, and the
past usage of queues is unknown.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    Client,
    Forbidden,
    NotFound,
    Reflector,
)
from kilonova.kube.events import random_id
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.eviction.nominations import restore_nominated_gangs
from kilonova.scheduler.library.snapshots.cached import (
    PRIORITY_CLASSES,
    PriorityClass,
    snapshot_caches,
)
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.unserved_pods import (
    find_gated_pods,
    find_unserved_pods,
)
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.settings import SchedulerSettings


@dataclass(frozen=True, slots=True)
class CapturedSnapshot:
    """A snapshot, and the resources that the API server does not serve. PodGroups are optional and
    never listed there."""

    cluster_snapshot: ClusterSnapshot
    unknown_kinds: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    gangs: tuple[PodGang, ...] = ()
    queues: tuple[Queue, ...] = ()
    unserved: Mapping[str, GangNotReady] = field(default_factory=dict[str, GangNotReady])
    """Pods that are gated, or name a scheduler that does not serve them."""


async def capture_snapshot(
    client: Client,
    settings: SchedulerSettings | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CapturedSnapshot:
    """Capture the cluster as a scheduler that starts now would see it. Only reads."""
    settings = settings or SchedulerSettings()
    context = SchedulerContext.create(
        client,
        settings,
        now=now,
        monotonic=time.monotonic,
        runtime_metrics=NO_RUNTIME_METRICS,
        registry=None,
        new_id=random_id,
    )
    unknown: list[str] = []
    informers = Informers.from_client(client, NO_RUNTIME_METRICS)
    subsystem = CacheSubsystem.build(context, informers)
    scheduler_cache = subsystem.scheduler_cache
    for informer in informers.all:
        is_pod_group = informer in informers.pod_group_informers
        if not await _fill_store(client, informer, optional=is_pod_group) and not is_pod_group:
            unknown.append(informer.resource.full_name)
    scheduler_cache.refresh()
    restore_nominated_gangs(scheduler_cache)
    scheduler_cache.refresh()
    pods = tuple(informers.pods.store.objects())
    cluster_snapshot = snapshot_caches(
        subsystem, informers, await _list_priority_classes(client), settings, now()
    )
    return CapturedSnapshot(
        cluster_snapshot,
        tuple(unknown),
        pods,
        tuple(informers.gangs.store.objects()),
        tuple(informers.queues.store.objects()),
        {**find_unserved_pods(pods, settings.scheduler_names), **find_gated_pods(pods)},
    )


async def _fill_store(client: Client, reflector: Reflector[Any], *, optional: bool) -> bool:
    """List the objects of an informer into its store; False if the API server does not serve the
    kind, or, for `optional` ones, forbids it."""
    store = reflector.store
    try:
        listing = await client.list(reflector.resource, on_undecodable=lambda _: None)
    except (NotFound, Forbidden) as error:
        if isinstance(error, Forbidden) and not optional:
            raise
        store.replace({})
        return False
    store.replace({store.key_of(each): each for each in listing.items})
    return True


async def _list_priority_classes(client: Client) -> list[PriorityClass]:
    """All PriorityClasses; none if they may not be listed."""
    try:
        listing = await client.list(PRIORITY_CLASSES)
    except (Forbidden, NotFound):
        return []
    return list(listing.items)
