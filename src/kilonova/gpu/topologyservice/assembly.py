"""Builds the topology service, whose runnables a `kube.Manager` runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.gpu.topologyservice.authorization import Authorizer
from kilonova.gpu.topologyservice.handlers import TopologyHandlers
from kilonova.gpu.topologyservice.index import TopologyIndex
from kilonova.gpu.topologyservice.service import TopologyService
from kilonova.kube import (
    NO_RUNTIME_METRICS,
    Client,
    Reflector,
    Runnable,
    RuntimeMetrics,
    Store,
)
from kilonova.scheduler.cache.extensions.devices import DeviceCache
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.objects.core_v1 import NODES, PODS
from kilonova.scheduler.objects.resource_v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)


@dataclass(frozen=True, slots=True)
class BuiltTopologyService:
    """The parts of a topology service."""

    service: TopologyService
    handlers: TopologyHandlers
    authorizer: Authorizer | None
    informers: tuple[Runnable, ...]


def build_topology_service(
    client: Client,
    *,
    authorize: bool = True,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
) -> BuiltTopologyService:
    """Build the service over a client. It only reads, but for reviews of its callers' tokens.

    Gangs and queues are not read: which GPUs are used follows from pods and claims.
    """
    nodes = Reflector(client, NODES, runtime_metrics=runtime_metrics)
    pods = Reflector(client, PODS, runtime_metrics=runtime_metrics)
    slices = Reflector(client, RESOURCE_SLICES, runtime_metrics=runtime_metrics, optional=True)
    classes = Reflector(client, DEVICE_CLASSES, runtime_metrics=runtime_metrics, optional=True)
    claims = Reflector(client, RESOURCE_CLAIMS, runtime_metrics=runtime_metrics, optional=True)
    informers = (nodes, slices, classes, claims, pods)
    devices = DeviceCache(slices.store, classes.store, claims.store, pods.store, nodes.store)
    cache = SchedulerCache(
        ClusterStores(nodes.store, pods.store, Store(PodGang), Store(Queue)),
        now,
        _ignore_gangs,
        extensions=CacheExtensions(devices),
    )
    snapshot = cache.cluster.snapshot
    service = TopologyService(
        snapshot,
        TopologyIndex(snapshot, nodes.store),
        default_scoring(),
        lambda: all(each.has_synced for each in informers),
    )
    authorizer = Authorizer(client, monotonic) if authorize else None
    return BuiltTopologyService(
        service, TopologyHandlers(service, authorizer), authorizer, informers
    )


def _ignore_gangs() -> None:
    """Nothing here depends on gangs."""
