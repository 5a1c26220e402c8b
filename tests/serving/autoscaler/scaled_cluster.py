"""A cluster in virtual time whose services are scaled by figures that a test sets."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.kube import Key
from kilonova.serving.autoscaler.controller import build_autoscaler
from kilonova.serving.context import ServingContext
from kilonova.serving.controllers.service.controller import build_service_controller
from kilonova.serving.providers import Listener
from kilonova.serving.signals import GroupSignals, ServiceSignals
from tests.local.embedded_cluster import LoopClock
from tests.serving.serving_cluster import (
    NAMESPACE,
    ServingCluster,
    build_context,
    serving_cluster,
)
from tests.workloads.workload_cluster import run_runnables

KEY: Key = (NAMESPACE, "web")


@dataclass
class ScriptedLoad:
    """What gateways and the control plane say: a `SignalSource` and `HeldRequests`."""

    figures: GroupSignals | None = field(default_factory=lambda: GroupSignals(in_flight=0))
    held: int = 0
    is_complete: bool = True
    key: Key = KEY
    _listeners: list[Listener] = field(default_factory=list[Listener])

    def latest(self, key: Key) -> ServiceSignals | None:
        if self.figures is None:
            return None
        now = asyncio.get_running_loop().time()
        return ServiceSignals(now, {"model": self.figures}, is_complete=self.is_complete)

    def count(self, key: Key, group: str) -> int:
        return self.held

    def add_listener(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def tell(self) -> None:
        """There are new figures, or a request is held."""
        for each in self._listeners:
            each(self.key)

    async def report(self) -> None:
        """Report every second, as the collector does."""
        while True:
            self.tell()
            await asyncio.sleep(1.0)


@dataclass
class ScaledCluster:
    """The cluster, its load, and the metrics of the autoscaler."""

    serving: ServingCluster
    context: ServingContext
    load: ScriptedLoad
    registry: CollectorRegistry

    async def get_scaling(self) -> dict[str, Any]:
        """The status of scaling of the only group."""
        return (await self.serving.get_status()).get("scaling", [{}])[0]

    def get_metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@asynccontextmanager
async def scaled_cluster() -> AsyncGenerator[ScaledCluster]:
    """The cluster from start to stop."""
    async with serving_cluster(controllers=False) as serving, running_autoscaler(serving) as found:
        yield found


@asynccontextmanager
async def running_autoscaler(
    serving: ServingCluster, load: ScriptedLoad | None = None
) -> AsyncGenerator[ScaledCluster]:
    """The controller of services and the autoscaler from start to stop."""
    load = load or ScriptedLoad()
    load._listeners.clear()
    context = build_context(serving.cluster.client("serving"), LoopClock())
    registry = CollectorRegistry()
    leaders = (
        build_service_controller(context),
        *build_autoscaler(context, load, load, registry),
    )
    async with run_runnables((*context.caches.runnables, context.recorder), leaders):
        reporting = asyncio.create_task(load.report())
        try:
            yield ScaledCluster(serving, context, load, registry)
        finally:
            reporting.cancel()
