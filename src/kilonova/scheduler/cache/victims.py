"""Victims of decisions: their capacity is nominated for another gang, or they stay after all."""

from collections.abc import Callable, Collection, Iterable

from kilonova.scheduler.cache.assumed_pods import AssumedPods
from kilonova.scheduler.cache.placed_pods import PlacedPods
from kilonova.scheduler.cache.state import CacheState
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.storage.index import volume_claim_keys


class VictimCache:
    """Counts victims, from the decision to evict them until they are deleted."""

    def __init__(self, state: CacheState, placed: PlacedPods, assumed: AssumedPods) -> None:
        self._snapshot = state.cluster.snapshot
        self._gangs = state.gangs
        self._reservations = state.reservations
        self._placed = placed
        self._assumed = assumed
        self._terminating = state.terminating
        self._capacity_events = state.capacity_events
        self._find_pod = state.gangs.find_pod

    def mark_victim(self, pod: str) -> None:
        """Mark a pod as terminating. An assumed pod that is not being bound yet only loses its
        placement, and its gang is pending again."""
        found, assumed = self._find_pod(pod), self._assumed.get(pod)
        if found is None or found.ended:
            return
        if found.spec.node_name or assumed is None:
            self._terminating.add(pod, found.spec.node_name)
        elif self._assumed.is_binding(pod):
            self._terminating.add(pod, self._snapshot.names[assumed.row])
        else:
            self._assumed.withdraw(pod)
            self._terminating.notify_waiters()

    def release_terminating(self, pods: Iterable[str]) -> None:
        """Free the capacity of terminating pods for the gangs that nominated it."""
        for pod in pods:
            found = self._find_pod(pod)
            if found is not None and pod in self._snapshot.placements:
                self._placed.remove(pod)
                self._terminating.add(pod, found.spec.node_name)

    def restore_victims(self, pods: Iterable[str]) -> None:
        """Count pods again that were to be evicted and stay."""
        for pod in pods:
            self._terminating.discard(pod)
            found = self._find_pod(pod)
            if found is not None and found.spec.node_name and not found.ended:
                self._placed.account_bound_pod(found)
                self._gangs.mark_pod_dirty(pod)

    def keep_unevicted_victims(self, placement: GangPlacement) -> None:
        """Victims of a failed placement stay, unless they terminate already."""
        self.restore_victims(
            pod
            for unit in placement.victims
            for pod in unit.pods
            if pod in self._terminating
            and ((found := self._find_pod(pod)) is None or not found.metadata.deletion_timestamp)
        )

    def place_elsewhere(
        self, placement: GangPlacement, place: Callable[[Gang], list[PodPlacement] | None]
    ) -> GangPlacement | None:
        """Place a gang that waits for its victims on capacity that is free now, if it fits.

        Its victims count as running again, except those that terminate where other gangs wait for
        them, too. Returns None, and changes nothing, if the gang does not fit.
        """
        snapshot = self._snapshot
        pods = {pod_placement.pod for pod_placement in placement.pods}
        if placement.gang.reservation or any(
            pod_placement.claims or self._has_volumes(pod_placement)
            for pod_placement in placement.pods
        ):
            return None
        trial = snapshot.begin_trial()
        try:
            rows = [pod_placement.row for pod_placement in snapshot.remove_pods(sorted(pods))]
            staying = self._unneeded_victims(placement)
            for victim in staying:
                self._placed.add_to_snapshot(victim)
            pod_placements = place(placement.gang.with_only_members(pods))
        except BaseException:
            snapshot.rollback(trial)
            raise
        names = snapshot.names
        terminating_nodes = self._terminating.nodes()
        if pod_placements is None or any(
            names[pod_placement.row] in terminating_nodes for pod_placement in pod_placements
        ):
            snapshot.rollback(trial)
            return None
        snapshot.commit(trial)
        for victim in staying:
            self._terminating.discard(victim.key)
            self._gangs.mark_pod_dirty(victim.key)
        for row in rows:
            self._reservations.row_freed(row)
        self._assumed.add(pod_placements)
        self._gangs.mark_dirty(placement.gang.name)
        self._capacity_events.record()
        return GangPlacement(placement.gang, tuple(pod_placements))

    def _unneeded_victims(self, placement: GangPlacement) -> list[Pod]:
        """Victims that no other gang waits for.

        A victim that terminates on a node nominated for another gang stays terminating: otherwise
        that gang would lose its nomination and evict more pods.
        """
        pods = {pod_placement.pod for pod_placement in placement.pods}
        victims = (self._find_pod(pod) for unit in placement.victims for pod in unit.pods)
        return [
            victim
            for victim in victims
            if victim is not None
            and not victim.ended
            and victim.key not in self._snapshot.placements
            and not (
                victim.metadata.deletion_timestamp
                and self._is_nominated(victim.spec.node_name, excluded_pods=pods)
            )
        ]

    def _is_nominated(self, node: str, excluded_pods: Collection[str]) -> bool:
        """Whether a pod that is not bound yet is assumed on a node."""
        snapshot = self._snapshot
        return node in snapshot and any(
            pod not in excluded_pods
            and not ((found := self._find_pod(pod)) and found.spec.node_name)
            for pod in snapshot.pods_on[snapshot.row(node)]
        )

    def _has_volumes(self, pod_placement: PodPlacement) -> bool:
        pod = self._find_pod(pod_placement.pod)
        return pod is not None and bool(volume_claim_keys(pod))
