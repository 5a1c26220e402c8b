"""What the parts of the scheduler cache share."""

from dataclasses import dataclass

from kilonova.scheduler.cache.capacity_events import CapacityEvents
from kilonova.scheduler.cache.gangs import GangCache
from kilonova.scheduler.cache.reservations.reservation_cache import ReservationCache
from kilonova.scheduler.cache.terminating_pods import TerminatingPods
from kilonova.scheduler.core.model.cluster import Cluster


@dataclass(frozen=True, slots=True)
class CacheState:
    """The cluster as it is counted, and the gangs, reservations and waiters derived from it."""

    cluster: Cluster
    gangs: GangCache
    reservations: ReservationCache
    terminating: TerminatingPods
    capacity_events: CapacityEvents
