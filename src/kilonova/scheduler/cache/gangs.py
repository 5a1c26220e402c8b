"""Which gangs are pending, derived from PodGangs and pods.

A gang is **dirty** after an event that concerns it, and only dirty gangs are read again at the next
refresh. An assumed pod counts as bound to its node.
"""

from collections.abc import Callable, Collection, Iterable
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import names
from kilonova.api.podgang import PodGang
from kilonova.api.times import parse_time
from kilonova.scheduler.cache.gang_adjusters import GangAdjusters
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores, GangSelection
from kilonova.scheduler.convert.gangs.podgangs import (
    INVALID_REQUEST,
    POD_GROUP_NOT_FOUND,
    GangNotReady,
    convert_placed_podgang,
    convert_podgang,
    convert_single_pod,
    is_placed,
    is_schedulable,
    is_single_pod_gang,
    podgang_pod_keys,
    single_pod_gang_name,
    single_pod_key,
)
from kilonova.scheduler.convert.pods.members import convert_pod
from kilonova.scheduler.convert.pods.placements import bound_since, convert_pod_leniently
from kilonova.scheduler.convert.storage.volumes import VOLUME_REASONS
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.error_reporter import ErrorReporter, internal_error_message
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.keys import split_key


class GangCache:
    """Gangs and single pods by name, and their state."""

    def __init__(
        self,
        cluster: Cluster,
        stores: ClusterStores,
        now: Callable[[], datetime],
        wake: Callable[[], None],
        selection: GangSelection,
        extensions: CacheExtensions,
        on_pod_request: Callable[[Shape], None],
        errors: ErrorReporter | None,
    ) -> None:
        self.waiting: dict[str, Gang] = {}
        self.not_ready: dict[str, GangNotReady] = {}
        self.reported_not_ready: dict[str, GangNotReady] = {}
        self.partial_gangs: dict[str, float] = {}
        self.adjusters = GangAdjusters()
        self.apply_reservation: Callable[[Gang], Gang] = lambda gang: gang
        """Adds to a gang the reservation that it may consume."""
        self._cluster = cluster
        self._pods = stores.pods
        self._gangs = stores.gangs
        self._now = now
        self._wake = wake
        self._scheduler_names = selection.scheduler_names
        self._include_foreign_gangs = selection.include_foreign_gangs
        self._devices = extensions.devices
        self._volumes = extensions.volumes
        self._namespaces = {} if extensions.namespaces is None else extensions.namespaces.labels
        self._groups = extensions.pod_groups
        self._on_pod_request = on_pod_request
        self._errors = errors
        self._members: dict[str, Member] = {}
        self._gang_of: dict[str, str] = {}
        self._completed: set[str] = set()
        """Gangs that were seen with their minimum bound."""
        self._dependents: dict[str, dict[str, None]] = {}
        """Scaled gangs that wait for their base gang, by base gang."""
        self._affinity_waiters: set[str] = set()
        """Gangs, pending or not, whose pod affinity or spread constraints other pods may
        satisfy."""
        self._dirty: dict[str, None] = {}

    def refresh(self) -> None:
        """Read all dirty gangs."""
        if self._groups is not None:
            self._groups.refresh()
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            try:
                self._read_dirty(name)
            except Exception as error:
                if self._errors is None:
                    raise
                failed = self._errors.report("gang", name, error)
                self.waiting.pop(name, None)
                self.not_ready[name] = self.reported_not_ready[name] = GangNotReady(
                    "SchedulerError", internal_error_message(failed)
                )

    def find_pod(self, pod: str) -> Pod | None:
        """A pod as the informer shows it."""
        return self._pods.get(split_key(pod))

    def bound_pods(self, gang: PodGang) -> list[Pod]:
        """The bound pods of a gang that have not ended."""
        pods = filter(None, map(self.find_pod, _pods_of(gang)))
        return [
            pod
            for pod in pods
            if pod.spec.scheduler_name in self._scheduler_names and is_placed(pod)
        ]

    def is_known(self, name: str) -> bool:
        """Whether a gang is read here; reservations and capacity holds are not."""
        return is_single_pod_gang(name) or self._gangs.get(split_key(name)) is not None

    def gang_of(self, pod: str) -> str | None:
        """The gang that lists a pod."""
        return self._gang_of.get(pod)

    def gang_name_of(self, pod: Pod) -> str:
        """The gang of a pod; empty for a pod of another scheduler."""
        gang = self._gang_of.get(pod.key)
        if gang is not None:
            return gang
        return (
            single_pod_gang_name(pod.key)
            if pod.spec.scheduler_name in self._scheduler_names
            else ""
        )

    def usage_of(self, pod: Pod) -> Member:
        """The usage of a bound pod, even if its requests are invalid."""
        member = self._members.get(pod.key)
        if member is None:
            member = convert_pod_leniently(pod, self._namespaces)
            if self._devices is not None:
                member = self._devices.with_claims_in_use(pod, member)
            if self._volumes is not None:
                member = self._volumes.with_volumes_in_use(pod, member)
            self._members[pod.key] = member
        return member

    def forget_member(self, pod: str) -> None:
        """The requests of a pod may have changed."""
        self._members.pop(pod, None)

    def has_affinity_waiters(self) -> bool:
        """Whether a pending gang depends on where other pods are placed."""
        return any(name in self.waiting for name in self._affinity_waiters)

    def has_member(self, pod: str) -> bool:
        """Whether the requests of a pod are known."""
        return pod in self._members

    def update_podgang(self, old: PodGang | None, new: PodGang | None) -> list[str]:
        """Apply a PodGang event; returns the pods that may belong to another gang now."""
        if old is not None and new is not None and _relevant_fields(old) == _relevant_fields(new):
            return []
        gang = new or old
        assert gang is not None
        name = f"{gang.metadata.namespace}/{gang.metadata.name}"
        for pod in _pods_of(old):
            if self._gang_of.get(pod) == name:
                del self._gang_of[pod]
        for pod in _pods_of(new):
            self._gang_of[pod] = name
        self.mark_dirty(name)
        pods = list(dict.fromkeys((*_pods_of(old), *_pods_of(new))))
        for pod in pods:
            self.mark_dirty(single_pod_gang_name(pod))
        return pods

    def record_bound_pods(self, gang: Gang, pods: Collection[str]) -> None:
        """Record pods that the API server bound: the gang may have its minimum now."""
        if is_single_pod_gang(gang.name) or not self.is_known(gang.name):
            return
        if self._has_minimum_bound(gang, pods):
            self._completed.add(gang.name)
            self.partial_gangs.pop(gang.name, None)

    def mark_pod_dirty(self, pod: str) -> None:
        """Mark the gang of a pod dirty."""
        self.mark_dirty(self._gang_of.get(pod) or single_pod_gang_name(pod))

    def mark_dependents_dirty(self, name: str) -> None:
        """Mark the gangs dirty that wait for this base gang."""
        for dependent in self._dependents.pop(name, {}):
            self.mark_dirty(dependent)

    def mark_dirty(self, name: str) -> None:
        """Have a gang read again at the next refresh."""
        self._dirty[name] = None
        self._wake()

    def _read_dirty(self, name: str) -> None:
        self.waiting.pop(name, None)
        self._affinity_waiters.discard(name)
        self.not_ready.pop(name, None)
        self.reported_not_ready.pop(name, None)
        is_single_pod = is_single_pod_gang(name)
        converted = self._read_single_pod(name) if is_single_pod else self._read_gang(name)
        if isinstance(converted, Gang):
            converted = self.apply_reservation(converted)
        if not is_single_pod:
            self._update_partial_gang(name, converted)
        if isinstance(converted, GangNotReady):
            self.not_ready[name] = converted
            if converted.reason in _REPORTED_REASONS:
                self.reported_not_ready[name] = converted
            self._account_partial_gang(name)
        elif converted is not None:
            self._account_running_gang(converted)
            if any(group.members for group in converted.groups):
                self.waiting[name] = converted = self.adjusters.adjust(converted)
                if _depends_on_other_pods(converted):
                    self._affinity_waiters.add(name)
        elif (running_gang := self._cluster.running_gangs.get(name)) is not None:
            self._cluster.record_removed(name, list(running_gang.pods))

    def _update_partial_gang(self, name: str, converted: Gang | GangNotReady | None) -> None:
        gang = self._gangs.get(split_key(name))
        if gang is None:
            self._completed.discard(name)
        elif isinstance(converted, Gang) and self._has_minimum_bound(converted):
            self._completed.add(name)
        elif name not in self._completed and self.bound_pods(gang):
            self.partial_gangs.setdefault(name, self._now().timestamp())
            return
        self.partial_gangs.pop(name, None)

    def _has_minimum_bound(self, gang: Gang, bound: Collection[str] = ()) -> bool:
        """Whether the minimum of every group is bound; assumed pods do not count. Pods in `bound`
        count even if the informer does not show it yet."""
        return all(
            sum(
                member.pod in bound or self._has_node(member)
                for member in (*group.placed_members, *group.members)
            )
            >= group.minimum
            for group in gang.groups
        )

    def _has_node(self, member: Member) -> bool:
        found = self.find_pod(member.pod)
        return found is not None and bool(found.spec.node_name)

    def _read_single_pod(self, name: str) -> Gang | GangNotReady | None:
        pod = self._find_assumed(single_pod_key(name))
        if (
            pod is None
            or pod.spec.scheduler_name not in self._scheduler_names
            or pod.key in self._gang_of
        ):
            return None
        gang = pod.metadata.labels.get(names.POD_GANG)
        if gang is not None and not pod.spec.node_name:
            return GangNotReady("NotListedInGang", f"PodGang {gang} does not list this pod yet")
        missing = self._groups.missing_group(pod) if self._groups is not None else None
        if missing is not None and not pod.spec.node_name:
            return missing
        return (
            convert_single_pod(pod, self._member_of)
            if is_schedulable(pod) or is_placed(pod)
            else None
        )

    def _read_gang(self, name: str) -> Gang | GangNotReady | None:
        gang = self._gangs.get(split_key(name))
        if gang is None:
            return None
        return convert_podgang(
            gang,
            self._find_served,
            self._member_of,
            base_nodes=self._nodes_of_base(gang),
        )

    def _account_partial_gang(self, name: str) -> None:
        """Count the bound pods of a gang that cannot be scheduled as it is: they use capacity and
        may be preempted."""
        gang = self._gangs.get(split_key(name))
        converted = (
            None
            if gang is None
            else convert_placed_podgang(gang, self._find_served, self._member_of)
        )
        if converted is not None:
            self._account_running_gang(self.apply_reservation(converted))

    def _account_running_gang(self, gang: Gang) -> None:
        """Count exactly the placed pods of a gang for its queue."""
        placements = self._cluster.snapshot.placements
        placed = {
            member.pod: placements[member.pod]
            for group in gang.groups
            for member in group.placed_members
            if member.pod in placements
        }
        running_gang = self._cluster.running_gangs.get(gang.name)
        if running_gang is not None:
            if running_gang.gang.queue != gang.queue:
                self._cluster.record_removed(gang.name, list(running_gang.pods))
            else:
                self._cluster.record_removed(
                    gang.name, [pod for pod in running_gang.pods if pod not in placed]
                )
        counted = self._cluster.running_gangs.get(gang.name)
        added = [each for pod, each in placed.items() if counted is None or pod not in counted.pods]
        if added or counted is not None:
            self._cluster.record_placed(gang, added, self._start_time_of(added))

    def _start_time_of(self, pod_placements: Iterable[PodPlacement]) -> float:
        pods = filter(None, (self.find_pod(pod_placement.pod) for pod_placement in pod_placements))
        times = [parse_time(since).timestamp() for pod in pods if (since := bound_since(pod))]
        return min(times, default=self._now().timestamp())

    def _nodes_of_base(self, gang: PodGang) -> tuple[str, ...] | None:
        """The nodes of a gang's base gang; None if it has none, or the base is not placed."""
        ref = gang.spec.base_ref
        if ref is None:
            return None
        name = f"{ref.namespace}/{ref.name}"
        self._dependents.setdefault(name, {})[f"{gang.metadata.namespace}/{gang.metadata.name}"] = (
            None
        )
        is_pending = name in self.not_ready or (name in self.waiting and self.waiting[name].needed)
        return None if is_pending else self._cluster.nodes_of_gang(name)

    def _find_served(self, pod: str) -> Pod | None:
        """A pod of a gang, if this scheduler is responsible for it."""
        found = self._find_assumed(pod)
        is_served = found is not None and found.spec.scheduler_name in self._scheduler_names
        return found if is_served or self._include_foreign_gangs else None

    def _find_assumed(self, pod: str) -> Pod | None:
        """A pod, with the assumed node if it is not bound yet."""
        found = self.find_pod(pod)
        pod_placement = self._cluster.snapshot.placements.get(pod)
        if found is None or found.spec.node_name or pod_placement is None:
            return found
        node = self._cluster.snapshot.names[pod_placement.row]
        return Pod(found.metadata, replace(found.spec, node_name=node), found.status)

    def _member_of(self, pod: Pod) -> Member:
        member = self._members.get(pod.key)
        if member is None:
            member = convert_pod(pod, self._namespaces)
            if self._devices is not None:
                member = self._devices.with_claims(pod, member)
            if self._volumes is not None:
                add_volumes = (
                    self._volumes.with_volumes_in_use
                    if pod.spec.node_name
                    else self._volumes.with_volume_needs
                )
                member = add_volumes(pod, member)
            self._members[pod.key] = member
            if not pod.spec.node_name:
                self._on_pod_request(member.shape)
        return member


_REPORTED_REASONS = {INVALID_REQUEST, POD_GROUP_NOT_FOUND, *VOLUME_REASONS}
"""Reasons that are reported to users, because they may have to act."""


def _depends_on_other_pods(gang: Gang) -> bool:
    rules = (each.shape.pod_rules for group in gang.groups for each in group.members)
    return any(each is not None and bool(each.affinity or each.topology_spread) for each in rules)


def _pods_of(gang: PodGang | None) -> Iterable[str]:
    return () if gang is None else podgang_pod_keys(gang)


def _relevant_fields(gang: PodGang) -> tuple[object, ...]:
    return gang.spec, gang.metadata.labels, gang.metadata.annotations
