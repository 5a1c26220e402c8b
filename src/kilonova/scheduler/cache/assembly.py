"""Builds the scheduler cache, and the caches that it is derived from."""

from dataclasses import dataclass

from kilonova.scheduler.cache.extensions.devices import DeviceCache
from kilonova.scheduler.cache.extensions.disruption_budgets import DisruptionBudgetCache
from kilonova.scheduler.cache.extensions.namespaces import NamespaceCache
from kilonova.scheduler.cache.extensions.pod_groups import PodGroupCache
from kilonova.scheduler.cache.handler_errors import HandlerErrorContainment
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores, GangSelection
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit
from kilonova.scheduler.failures.backoff import GangBackoff
from kilonova.scheduler.failures.node_avoidance import NodeAvoidance
from kilonova.scheduler.storage.index import StorageIndex
from kilonova.scheduler.storage.volume_cache import VolumeCache


@dataclass(frozen=True, slots=True)
class CacheSubsystem:
    """What a scheduler knows: the cluster, pending gangs, and what it learned about them."""

    scheduler_cache: SchedulerCache
    pod_groups: PodGroupCache
    """Has all gangs in one store: PodGangs, and PodGroups translated to gangs."""
    devices: DeviceCache
    storage: StorageIndex
    avoidance: NodeAvoidance
    backoff: GangBackoff
    fit: LearnedPackingFit

    @staticmethod
    def build(context: SchedulerContext, informers: Informers) -> "CacheSubsystem":
        """Subscribe to the informers. The order matters: handlers run in the order of their
        registration."""
        settings, wake = context.settings, context.wakeup.set
        nodes, pods = informers.nodes.store, informers.pods.store
        devices = DeviceCache(
            informers.slices.store, informers.classes.store, informers.claims.store, pods, nodes
        )
        storage, fit = informers.storage.build_index(pods), LearnedPackingFit()
        pod_groups = PodGroupCache(
            informers.gangs.store,
            informers.coscheduling_pod_groups.store,
            informers.kubernetes_pod_groups.store,
            pods,
            settings.scheduler_names,
            wake,
        )
        avoidance = NodeAvoidance(pods, context.now, retention=settings.avoid_failed_nodes_for)
        namespaces = NamespaceCache(informers.namespaces.store, pods)
        scheduler_cache = SchedulerCache(
            ClusterStores(
                nodes,
                pods,
                pod_groups.gangs,
                informers.queues.store,
                informers.reservations.store,
            ),
            context.now,
            wake,
            selection=GangSelection(settings.scheduler_names, include_foreign_gangs=False),
            extensions=CacheExtensions(devices, VolumeCache(storage), namespaces, pod_groups),
            on_pod_request=fit.record_arrival,
            errors=context.errors,
        )
        HandlerErrorContainment(scheduler_cache, context.errors).attach(informers)
        avoidance.attach(scheduler_cache.cluster.snapshot, scheduler_cache.mark_dirty)
        scheduler_cache.gang_adjusters.add(avoidance.apply_avoidance)
        DisruptionBudgetCache(scheduler_cache.cluster, informers.budgets.store, pods)
        return CacheSubsystem(
            scheduler_cache, pod_groups, devices, storage, avoidance, GangBackoff(wake), fit
        )
