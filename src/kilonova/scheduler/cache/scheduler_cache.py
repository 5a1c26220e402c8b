"""The cluster as the informers report it, plus the decisions that they do not show yet.

Event handlers keep it up to date (`snapshot_updater`). A pod with a decision is **assumed**
(`assumed_pods`): counted on its node before its binding is written, and until the informer shows
it. An evicted pod is **terminating** (`victims`): its capacity is already nominated for another
gang.

`cache.gangs` derives which gangs are pending.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from kilonova.api.scheduling import Queue
from kilonova.scheduler.cache.assumed_pods import AssumedPods
from kilonova.scheduler.cache.capacity_events import CapacityEvents
from kilonova.scheduler.cache.gangs import GangCache
from kilonova.scheduler.cache.placed_pods import PlacedPods
from kilonova.scheduler.cache.reservations.reservation_cache import ReservationCache
from kilonova.scheduler.cache.snapshot_updater import SnapshotUpdater
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores, GangSelection
from kilonova.scheduler.cache.state import CacheState
from kilonova.scheduler.cache.terminating_pods import TerminatingPods
from kilonova.scheduler.cache.victims import VictimCache
from kilonova.scheduler.convert.gangs.podgangs import is_schedulable
from kilonova.scheduler.convert.queues import convert_queues
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape, is_volume_pool
from kilonova.scheduler.error_reporter import ErrorReporter
from kilonova.scheduler.objects.core_v1 import Pod


class SchedulerCache:
    """The state that scheduling decides from, and the pending gangs.

    What its parts do alone is offered as their bound methods: a call costs no further lookup.
    """

    def __init__(
        self,
        stores: ClusterStores,
        now: Callable[[], datetime],
        wake: Callable[[], None],
        *,
        selection: GangSelection | None = None,
        extensions: CacheExtensions | None = None,
        on_pod_request: Callable[[Shape], None] = lambda _: None,
        errors: ErrorReporter | None = None,
    ) -> None:
        """Subscribe to the stores; `wake` is called when a gang may be due.

        `on_pod_request` is called with the shape of each unbound pod. An error while one gang is
        read is reported to `errors`, and raised without it.
        """
        extensions = extensions or CacheExtensions()
        self.cluster = Cluster()
        self._gangs = gangs = GangCache(
            self.cluster,
            stores,
            now,
            wake,
            selection or GangSelection(),
            extensions,
            on_pod_request,
            errors,
        )
        self.capacity_events = CapacityEvents(wake)
        self.reservations = ReservationCache(
            self.cluster, stores, now, wake, gangs, self.capacity_events
        )
        """Reserved capacity."""
        gangs.apply_reservation = self.reservations.apply_reservation
        self.terminating = TerminatingPods()
        state = CacheState(
            self.cluster, gangs, self.reservations, self.terminating, self.capacity_events
        )
        self._placed = placed = PlacedPods(state)
        self._assumed = assumed = AssumedPods(state, placed)
        self._victims = victims = VictimCache(state, placed, assumed)
        updater = SnapshotUpdater(state, extensions, placed, assumed)
        self._queues = stores.queues
        self._queues_changed = False
        self._volumes = extensions.volumes
        self._wake = wake

        self.waiting = gangs.waiting
        """Gangs that have pods to schedule."""
        self.not_ready = gangs.not_ready
        """Gangs that cannot be scheduled as they are."""
        self.reported_not_ready = gangs.reported_not_ready
        """The not schedulable gangs that are reported to users: invalid requests, volumes not
        ready."""
        self.partial_gangs = gangs.partial_gangs
        """Gangs with bound pods but never their minimum, and since when."""
        self.gang_adjusters = gangs.adjusters
        """Adjust pending gangs when they are read."""
        self.mark_dirty = gangs.mark_dirty
        self.find_pod = gangs.find_pod
        self.bound_pods = gangs.bound_pods

        self.assume_pod = assumed.assume_pod
        self.begin_binding = assumed.begin_binding
        self.finish_binding = assumed.finish_binding
        self.forget_assumed = assumed.forget
        self.find_unbound_pod = assumed.find_unbound_pod
        self.is_superseded = assumed.is_superseded

        self.release_terminating = victims.release_terminating
        self.restore_victims = victims.restore_victims
        self.keep_unevicted_victims = victims.keep_unevicted_victims
        self.place_elsewhere = victims.place_elsewhere

        self.exclude_node = updater.exclude_node
        updater.attach(stores)
        stores.queues.add_event_handler(self._queue_changed)

    @property
    def has_unread_queues(self) -> bool:
        """Whether queues were created, changed or deleted since the last refresh."""
        return self._queues_changed

    def refresh(self) -> None:
        """Apply queue changes and read dirty gangs again."""
        if self._queues_changed:
            self._queues_changed = False
            self.cluster.replace_queues(convert_queues(self._queues.objects()))
            self.capacity_events.count += 1
        self._gangs.refresh()
        self.reservations.refresh()
        if self._volumes is not None and self._volumes.recount_free_volumes():
            self.capacity_events.count += 1

    def assume(self, placement: GangPlacement) -> None:
        """Count a decision: the gang's pods are assumed, its victims terminate, the rest of the
        gang is read again."""
        gang = placement.gang
        for unit in placement.victims:
            for pod in unit.pods:
                self._victims.mark_victim(pod)
        if is_reservation_gang(gang.name):
            self.reservations.assume(placement)
            return
        self._assumed.add(placement.pods)
        self.reservations.account_capacity(gang.reservation)
        self.waiting.pop(gang.name, None)
        if any(member.pod not in self.cluster.snapshot.placements for member in _members_of(gang)):
            self._gangs.mark_dirty(gang.name)
        self._gangs.mark_dependents_dirty(gang.name)
        self._placed.note_affinity_change()

    def revoke(self, placement: GangPlacement) -> None:
        """Undo a decision that failed before any of it was written; its victims stay."""
        name = placement.gang.name
        if is_reservation_gang(name):
            self.reservations.revoke(name)
        else:
            self._assumed.add(placement.pods)
            self.forget_assumed(placement.pods)
        self.restore_victims(pod for unit in placement.victims for pod in unit.pods)

    def resync_running_gangs(self) -> None:
        """Make running gangs agree with the snapshot again, after a decision that failed midway."""
        placements = self.cluster.snapshot.placements
        for name, running_gang in list(self.cluster.running_gangs.items()):
            removed = [pod for pod in running_gang.pods if pod not in placements]
            if removed:
                self.cluster.record_removed(name, removed)
        for pod_placement in placements.values():
            running_gang = self.cluster.running_gangs.get(pod_placement.gang)
            if self._gangs.is_known(pod_placement.gang) and (
                running_gang is None or pod_placement.pod not in running_gang.pods
            ):
                self._gangs.mark_dirty(pod_placement.gang)

    def adopt_bound_pod(self, pod: Pod) -> bool:
        """Count a pod that the API shows on a node, even if the informer does not yet; False if the
        informer does not know the pod at all."""
        found = self.find_pod(pod.key)
        if found is None or found.metadata.uid != pod.metadata.uid:
            return False
        if is_schedulable(found) and not self._placed.is_on_its_node(pod):
            self._placed.account_bound_pod(pod)
            self._gangs.mark_pod_dirty(pod.key)
        return True

    def still_fits(self, pod_placement: PodPlacement) -> bool:
        """Whether the node still has capacity for all pods placed there, as far as this pod is
        concerned: another scheduler may have used some since."""
        snapshot, row = self.cluster.snapshot, pod_placement.row
        columns, _ = snapshot.request_columns(pod_placement.shape)
        is_short = (snapshot.free[columns, row] < 0).tolist()
        requests = zip(pod_placement.shape.requests, is_short, strict=True)
        return (
            # Volumes that are no longer free may have been bound for this very pod.
            not any(short and not is_volume_pool(name) for (name, _), short in requests)
            and not snapshot.has_device_conflict(pod_placement)
            and not snapshot.claims.is_overallocated(row, pod_placement.claims)
        )

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._queues_changed = True
            self._wake()


def _members_of(gang: Gang) -> Iterable[Member]:
    return (member for group in gang.groups for member in group.members)
