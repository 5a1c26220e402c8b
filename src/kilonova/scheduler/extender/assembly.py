"""Builds an extender, whose runnables a `kube.Manager` runs.

extender = await build_extender(client)
manager.add(*extender.informers)
manager.add(WebServer("extender", extender.handlers.routes(), port=8888))
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.api.podgang import PodGang
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    Client,
    NotFound,
    Reflector,
    Request,
    Runnable,
    RuntimeMetrics,
    Store,
)
from kilonova.scheduler.cache.extensions.devices import DeviceCache
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.scoring.plugins import PREFERENCES, default_scoring
from kilonova.scheduler.extender.handlers import ExtenderHandlers
from kilonova.scheduler.extender.pod_binder import PodBinder
from kilonova.scheduler.objects.core_v1 import GANGS, NODES, PODS, QUEUES
from kilonova.scheduler.objects.resource_v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)


@dataclass(frozen=True, slots=True)
class Extender:
    """The parts of an extender."""

    cache: SchedulerCache
    handlers: ExtenderHandlers
    informers: tuple[Runnable, ...]


async def build_extender(
    client: Client,
    *,
    leader_client: Client | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    registry: CollectorRegistry | None = None,
) -> Extender:
    """Build an extender over a client; bindings are written with `leader_client`.

    PodGangs are considered if the cluster serves their kind when this is called. Queues are not:
    kube-scheduler decides whether a pod may run. ResourceClaims are allocated by kube-scheduler,
    too; GPUs that they hold are not given to other pods.
    """
    nodes = Reflector(client, NODES, runtime_metrics=runtime_metrics)
    pods = Reflector(client, PODS, runtime_metrics=runtime_metrics)
    gangs = await _podgang_informer(client, runtime_metrics)
    slices = Reflector(client, RESOURCE_SLICES, runtime_metrics=runtime_metrics, optional=True)
    classes = Reflector(client, DEVICE_CLASSES, runtime_metrics=runtime_metrics, optional=True)
    claims = Reflector(client, RESOURCE_CLAIMS, runtime_metrics=runtime_metrics, optional=True)
    informers = [
        informer
        for informer in (nodes, slices, classes, claims, pods, gangs)
        if informer is not None
    ]
    devices = DeviceCache(slices.store, classes.store, claims.store, pods.store, nodes.store)
    gang_refresher = _GangRefresher()
    stores = ClusterStores(
        nodes.store,
        pods.store,
        Store(PodGang) if gangs is None else gangs.store,
        Store(QUEUES.type),
    )
    scheduler_cache = gang_refresher.cache = SchedulerCache(
        stores, now, gang_refresher.schedule_refresh, extensions=CacheExtensions(devices)
    )
    scoring = default_scoring().with_weights(
        {PREFERENCES: 0}
    )  # kube-scheduler scores preferences itself
    feasibility = FeasibilityCache(scheduler_cache.cluster.snapshot, scoring)
    handlers = ExtenderHandlers(
        scheduler_cache,
        feasibility,
        scoring,
        PodBinder(leader_client or client, scheduler_cache, feasibility, pods.store),
        lambda: all(informer.has_synced for informer in informers),
        registry,
    )
    return Extender(scheduler_cache, handlers, tuple(informers))


async def _podgang_informer(
    client: Client, runtime_metrics: RuntimeMetrics
) -> Reflector[PodGang] | None:
    """The informer of PodGangs; None if the cluster does not serve their kind."""
    try:
        await client.send(Request("GET", f"/apis/{GANGS.group}/{GANGS.version}"))
    except NotFound:
        return None
    return Reflector(client, GANGS, runtime_metrics=runtime_metrics)


class _GangRefresher:
    """Refreshes dirty gangs in the next iteration of the event loop: no scheduling cycle does it
    here."""

    cache: SchedulerCache | None = None
    _due = False

    def schedule_refresh(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._refresh)

    def _refresh(self) -> None:
        self._due = False
        if self.cache is not None:
            self.cache.refresh()
