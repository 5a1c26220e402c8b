"""Snapshots of a live cluster, from informers that keep up with it.

For a component that asks again and again: unlike `capture_snapshot`, this lists nothing each time.
What only a running scheduler knows is missing here, too: its assumed pods are still pending.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import Client, EventHandler, Reflector, RuntimeMetrics
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.library.snapshots.cached import (
    PRIORITY_CLASSES,
    PriorityClass,
    snapshot_caches,
)
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.objects.core_v1 import Node, Pod
from kilonova.scheduler.settings import SchedulerSettings


class LiveSnapshots:
    """Takes snapshots while it runs. A `Runnable`.

    Its informers are its own: a process is ready without them, and a replica that does not lead
    need not run them.
    """

    name = "live snapshots"

    def __init__(
        self,
        client: Client,
        settings: SchedulerSettings,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        runtime_metrics: RuntimeMetrics,
        new_id: Callable[[], str],
    ) -> None:
        context = SchedulerContext.create(
            client,
            settings,
            now=now,
            monotonic=monotonic,
            runtime_metrics=runtime_metrics,
            # Its metrics are those of a scheduler, which this is not.
            registry=CollectorRegistry(),
            new_id=new_id,
        )
        self._settings = settings
        self._now = now
        self._informers = Informers.from_client(client, runtime_metrics)
        self._caches = CacheSubsystem.build(context, self._informers)
        self._classes: Reflector[PriorityClass] = Reflector(
            client, PRIORITY_CLASSES, runtime_metrics=runtime_metrics
        )
        self._changes = 0
        informers = self._informers
        for each in (informers.reservations, informers.claims, informers.slices, self._classes):
            each.store.add_event_handler(self._on_change)
        for each, facts in (
            (informers.nodes, _node_facts),
            (informers.pods, _pod_facts),
            (informers.gangs, _declared_facts),
            (informers.queues, _declared_facts),
        ):
            each.store.add_event_handler(self._build_handler(facts))

    async def run(self) -> None:
        """Keep up with the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._all_informers:
                group.create_task(each.run())

    @property
    def _all_informers(self) -> list[Reflector[Any]]:
        return [*self._informers.all, self._classes]

    @property
    def version(self) -> int:
        """Changes with everything that placement may depend on; heartbeats do not count."""
        return self._changes

    def take(self) -> ClusterSnapshot | None:
        """The cluster as it is now; None until all informers have synced."""
        if not all(each.has_synced for each in self._all_informers):
            return None
        self._caches.scheduler_cache.refresh()
        classes = self._classes.store.objects()
        return snapshot_caches(self._caches, self._informers, classes, self._settings, self._now())

    def _on_change(self, old: object, new: object) -> None:
        del old, new
        self._changes += 1

    def _build_handler(self, facts: Callable[[Any], object]) -> EventHandler[Any]:
        def on_change(old: Any, new: Any) -> None:
            if old is None or new is None or facts(old) != facts(new):
                self._changes += 1

        return on_change


def _node_facts(node: Node) -> object:
    known = node.metadata
    return known.labels, known.annotations, node.spec, node.status.allocatable


def _pod_facts(pod: Pod) -> object:
    known = pod.metadata
    return (
        known.labels,
        known.annotations,
        known.deletion_timestamp,
        pod.spec.node_name,
        pod.spec.scheduling_gates,
        pod.status.phase,
    )


def _declared_facts(obj: PodGang | Queue) -> object:
    """Without the status, which schedulers write again and again."""
    known = obj.metadata
    return known.uid, known.generation, known.labels, known.annotations
