"""Waits until victims have terminated, and handles those that do not.

An evicted pod keeps its devices until it is deleted, which may take long: its grace period, or a
kubelet that does not respond. Until then its capacity is nominated for the gang for which it was
evicted, and no other pod is evicted for it.

- The gang keeps its nomination while its victims terminate. When other capacity becomes free and
  the whole gang fits there, it is placed there instead.
- A victim is **overdue** when it still exists more than five times `evictionTimeout` after its
  `deletionTimestamp`. Then the nomination is withdrawn, so that it blocks no other gang: the victim
  counts as running again, and the gang is pending.
- While victims of a gang are overdue, it preempts nothing else, unless their nodes are no longer
  feasible for it (cordoned, tainted, deleted): then it may select other victims.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.kube import Store
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.podgangs import single_pod_gang_name
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.filters.node_filters import FilterReason, filter_nodes
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.eviction.evictor import Evictor
from kilonova.scheduler.eviction.nominations import NominationWriter
from kilonova.scheduler.objects.core_v1 import Node, Pod
from kilonova.scheduler.status.gang_status import GangStatusWriter

_log = get_logger(__name__)

_OVERDUE_FACTOR = 5.0
"""Multiple of the eviction timeout after which terminating victims are overdue."""
_RECHECK_SECONDS = 5.0
"""Seconds between checks whether the placement is still valid."""


class VictimWaiter:
    """Waits for the victims of gangs."""

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        evictor: Evictor,
        nominations: NominationWriter,
        planner: Planner,
        gang_status: GangStatusWriter,
    ) -> None:
        """`planner` places a gang on free capacity, `gang_status` reports which pods it waits
        for."""
        self._cache = cache
        self._evictor = evictor
        self._nominations = nominations
        self._planner = planner
        self._gang_status = gang_status
        self._now = context.now
        self._eviction_timeout = context.settings.eviction_timeout
        self._overdue: dict[str, tuple[str, ...]] = {}
        """Overdue victims by the gang for which they were evicted."""

    def attach(self, pods: Store[Pod], nodes: Store[Node], gangs: Store[PodGang]) -> None:
        """Mark gangs dirty on events of their overdue victims, and forget deleted ones."""
        pods.add_event_handler(self._pod_changed)
        nodes.add_event_handler(self._node_changed)
        gangs.add_event_handler(self._gang_changed)

    async def clear_victims(self, placement: GangPlacement) -> bool | GangPlacement:
        """Evict the victims of a placement and wait for them.

        True when all of them terminated, False when the placement failed, or a new placement on
        capacity that was free earlier.
        """
        remaining = self._remaining_victims(placement)
        if not remaining:
            return True
        self._gang_status.record_waiting_for_victims(placement.gang, remaining)
        cleared = await self._evictor.evict_victims(placement) or await self._wait_for_victims(
            placement
        )
        if cleared is True and not all(map(self._cache.find_unbound_pod, placement.pods)):
            await self._nominations.withdraw_nominations(
                placement
            )  # superseded by a later decision
            return False
        return cleared

    def reservation_outcome(self, placement: GangPlacement) -> bool | None:
        """Whether the victims of a reservation, already evicted, have terminated; None while they
        are terminating."""
        remaining = self._remaining_victims(placement)
        overdue = [pod for pod in remaining if self._is_overdue(pod)]
        if overdue:
            self._record_overdue(placement, overdue)
            return False
        if not all(map(self._cache.still_fits, placement.pods)):
            return False
        return None if remaining else True

    def forget(self, gang: str) -> None:
        """A gang or reservation was deleted."""
        self._overdue.pop(gang, None)

    def suspend_preemption(self, gang: Gang) -> Gang:
        """A pending gang; it does not preempt while its victims are overdue."""
        victims = self._overdue.get(gang.name)
        if victims is None:
            return gang
        if not any(self._can_release_for(victim, gang) for victim in victims):
            del self._overdue[gang.name]
            return gang
        return replace(gang, preempts=False)

    async def _wait_for_victims(self, placement: GangPlacement) -> bool | GangPlacement:
        """Wait until all victims have terminated, or waiting is no longer worthwhile."""
        cache, last_capacity_events = self._cache, -1
        while remaining := self._remaining_victims(placement):
            overdue = [pod for pod in remaining if self._is_overdue(pod)]
            if overdue:
                await self._give_up_nomination(placement, overdue)
                return False
            if not self._is_still_valid(placement):
                await self._nominations.withdraw_nominations(placement)
                return False
            if last_capacity_events != cache.capacity_events.count:
                new_placement = cache.place_elsewhere(placement, self._planner.place)
                if new_placement is not None:
                    _log.info(
                        "gang placed on other nodes before its victims terminated",
                        gang=placement.gang.name,
                    )
                    return new_placement
                last_capacity_events = cache.capacity_events.count
            self._gang_status.record_waiting_for_victims(placement.gang, remaining)
            await cache.terminating.wait_for_change(_RECHECK_SECONDS)
        return True

    async def _give_up_nomination(self, placement: GangPlacement, overdue: list[str]) -> None:
        self._record_overdue(placement, overdue)
        await self._nominations.withdraw_nominations(placement)

    def _record_overdue(self, placement: GangPlacement, overdue: list[str]) -> None:
        gang = placement.gang.name
        _log.warning("victims overdue, nomination withdrawn", gang=gang, pods=overdue)
        if placement.victims or any(map(self._is_nominated, placement.pods)):
            self._overdue[gang] = tuple(overdue)
        self._cache.restore_victims(overdue)

    def _remaining_victims(self, placement: GangPlacement) -> list[str]:
        """Victims that have not terminated, and other pods terminating on the placement's nodes."""
        victims = [pod for unit in placement.victims for pod in unit.pods]
        names = self._cache.cluster.snapshot.names
        nodes = {names[pod_placement.row] for pod_placement in placement.pods}
        terminating = self._cache.terminating.remaining(victims, nodes)
        counted = (pod for pod in victims if pod not in terminating and self._is_terminating(pod))
        return [*terminating, *counted]

    def _is_still_valid(self, placement: GangPlacement) -> bool:
        """Whether the pods of a placement are still unbound and its nodes still feasible."""
        cache = self._cache
        return all(
            cache.find_unbound_pod(pod_placement) is not None
            and cache.still_fits(pod_placement)
            and self._is_node_feasible(pod_placement)
            for pod_placement in placement.pods
        )

    def _is_node_feasible(self, pod_placement: PodPlacement) -> bool:
        row = np.array([pod_placement.row], np.intp)
        return (
            int(filter_nodes(self._cache.cluster.snapshot, pod_placement.shape, row)[0])
            == FilterReason.FITS
        )

    def _can_release_for(self, victim: str, gang: Gang) -> bool:
        """Whether a victim terminates on a node that is feasible for a gang."""
        pod, snapshot = self._cache.find_pod(victim), self._cache.cluster.snapshot
        if pod is None or not self._is_terminating(victim) or pod.spec.node_name not in snapshot:
            return False
        row = np.array([snapshot.row(pod.spec.node_name)], np.intp)
        shapes = {member.shape for group in gang.groups for member in group.members}
        return any(
            int(filter_nodes(snapshot, shape, row)[0]) == FilterReason.FITS for shape in shapes
        )

    def _is_terminating(self, key: str) -> bool:
        pod = self._cache.find_pod(key)
        return pod is not None and not pod.ended and pod.metadata.deletion_timestamp is not None

    def _is_overdue(self, key: str) -> bool:
        pod = self._cache.find_pod(key)
        if pod is None or pod.metadata.deletion_timestamp is None:
            return False
        due = parse_time(pod.metadata.deletion_timestamp).timestamp()
        return self._now().timestamp() >= due + _OVERDUE_FACTOR * self._eviction_timeout

    def _is_nominated(self, pod_placement: PodPlacement) -> bool:
        pod = self._cache.find_pod(pod_placement.pod)
        return pod is not None and bool(pod.status.nominated_node_name)

    # Event handlers.

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if self._overdue and pod is not None and (new is None or new.ended):
            self._overdue.pop(single_pod_gang_name(pod.key), None)
            self._mark_dirty(gang for gang, victims in self._overdue.items() if pod.key in victims)

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None and old is not None:
            self._overdue.pop(f"{old.metadata.namespace}/{old.metadata.name}", None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._overdue and (old is None or new is None or old.spec != new.spec):
            self._mark_dirty(self._overdue)

    def _mark_dirty(self, gangs: Iterable[str]) -> None:
        for gang in list(gangs):
            if is_reservation_gang(gang):
                self._cache.reservations.mark_dirty(gang)
            else:
                self._cache.mark_dirty(gang)
