"""Applies informer events to the snapshot, each at the cost of its event."""

import dataclasses
from collections.abc import Iterable

from kilonova.api.podgang import PodGang
from kilonova.scheduler.cache.assumed_pods import AssumedPods
from kilonova.scheduler.cache.placed_pods import PlacedPods
from kilonova.scheduler.cache.sources import CacheExtensions, ClusterStores
from kilonova.scheduler.cache.state import CacheState
from kilonova.scheduler.convert.devices.claims import pod_claim_keys
from kilonova.scheduler.convert.gangs.podgangs import is_schedulable
from kilonova.scheduler.convert.nodes import convert_node
from kilonova.scheduler.convert.pods.changes import (
    affects_conversion,
    has_other_devices,
    has_usage_changed,
)
from kilonova.scheduler.objects.core_v1 import Node, Pod
from kilonova.scheduler.storage.index import volume_claim_keys


class SnapshotUpdater:
    """The event handlers of nodes, pods and gangs."""

    def __init__(
        self,
        state: CacheState,
        extensions: CacheExtensions,
        placed: PlacedPods,
        assumed: AssumedPods,
    ) -> None:
        self._snapshot = state.cluster.snapshot
        self._extensions = extensions
        self._volumes = extensions.volumes
        self._gangs = state.gangs
        self._reservations = state.reservations
        self._placed = placed
        self._assumed = assumed
        self._terminating = state.terminating
        self._capacity_events = state.capacity_events
        self._find_pod = state.gangs.find_pod
        self._is_on_its_node = placed.is_on_its_node

    def attach(self, stores: ClusterStores) -> None:
        """Follow the stores from now on."""
        stores.nodes.add_event_handler(self._node_changed)
        stores.gangs.add_event_handler(self._gang_changed)
        stores.pods.add_event_handler(self._pod_changed)
        self._extensions.attach(self._snapshot, self._gangs.gang_of, self._reread_pods)

    def exclude_node(self, name: str, pod: str | None = None) -> None:
        """Use no capacity of a node whose usage is unknown, until its next event. `pod` could not
        be counted: it must be before the node is used again."""
        if name and pod is not None:
            self._placed.add_on_unknown_node(pod, name)
        if name in self._snapshot:
            self._remove_node(name)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        snapshot, volumes = self._snapshot, self._volumes
        if new is not None:
            self._capacity_events.node_count += 1
            node, _ = convert_node(new)
            snapshot.put_node(node if volumes is None else volumes.with_volume_capacity(node))
            # Cleared only when all pods are counted: one that fails has the node excluded again.
            on_unknown_nodes = self._placed.on_unknown_nodes
            for pod in sorted(on_unknown_nodes.get(node.name, ())):
                found = self._find_pod(pod)
                if found is not None and found.spec.node_name == node.name:
                    self._pod_changed(None, found)
            on_unknown_nodes.pop(node.name, None)
        elif old is not None and old.metadata.name in snapshot:
            self._remove_node(old.metadata.name)
        node = new or old
        if volumes is not None and node is not None and (old is None or new is None):
            volumes.node_added_or_removed(node.metadata.name)
        self._capacity_events.record()

    def _remove_node(self, name: str) -> None:
        snapshot = self._snapshot
        self._reservations.node_removed(name)
        for pod in list(snapshot.pods_on[snapshot.row(name)]):
            self._placed.remove(pod)
            self._gangs.mark_pod_dirty(pod)
            if (found := self._find_pod(pod)) is not None and found.spec.node_name == name:
                self._placed.add_on_unknown_node(pod, name)
        snapshot.remove_node(name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key, gangs, terminating = pod.key, self._gangs, self._terminating
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._pod_changed(old, None)
            old = None
        if old is None or new is None or affects_conversion(old, new):
            gangs.forget_member(key)
        if new is None or new.ended:
            terminating.discard(key)
            self._placed.on_unknown_nodes.get(pod.spec.node_name, set()).discard(key)
            if key in self._snapshot.placements:
                self._placed.remove(key)
            gangs.mark_pod_dirty(key)
        elif new.spec.node_name:
            if key not in terminating and not self._is_on_its_node(new):
                self._placed.account_bound_pod(new)
                gangs.mark_pod_dirty(key)
                self._placed.note_affinity_change()
            elif old is not None and not old.spec.node_name and volume_claim_keys(new):
                self._reread_pods([key], False)
            elif key not in terminating:
                self._update_bound_pod(old, new)
            if new.metadata.deletion_timestamp:
                gangs.mark_pod_dirty(key)
        elif old is None or is_schedulable(old) != is_schedulable(new) or not gangs.has_member(key):
            gangs.mark_pod_dirty(key)

    def _update_bound_pod(self, old: Pod | None, pod: Pod) -> None:
        """Count a bound pod as it is now: it may have been resized, relabelled, or assigned other
        devices than the assumed ones."""
        pod_placement = self._snapshot.placements[pod.key]
        devices_changed = has_other_devices(old, pod, pod_placement)
        if devices_changed or not self._gangs.has_member(pod.key):
            if devices_changed or has_usage_changed(
                pod_placement.member, self._gangs.usage_of(pod)
            ):
                self._placed.account_bound_pod(pod)
            self._gangs.mark_pod_dirty(pod.key)
        elif pod_placement.member.labels != pod.metadata.labels:
            self._placed.update_labels(pod_placement, pod.metadata.labels)

    def _reread_pods(self, pods: Iterable[str], capacity_freed: bool) -> None:
        """Read pods again after a change of an object that they refer to, such as a claim."""
        for key in pods:
            self._gangs.forget_member(key)
            pod, pod_placement = self._find_pod(key), self._snapshot.placements.get(key)
            if pod is not None and pod_placement is not None and self._is_on_its_node(pod):
                claims_match = tuple(pod_claim_keys(pod)) == pod_placement.member.claims
                usage = self._gangs.usage_of(pod)
                if (
                    not claims_match
                    or None in pod_placement.claims
                    or has_usage_changed(pod_placement.member, usage)
                ):
                    self._placed.account_bound_pod(pod)
            self._gangs.mark_pod_dirty(key)
        if capacity_freed:
            self._capacity_events.record()

    def _gang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        for pod in self._gangs.update_podgang(old, new):
            self._reassign_to_gang(pod)

    def _reassign_to_gang(self, pod: str) -> None:
        """Count a pod for the gang that it belongs to now. A decision for another gang is void,
        unless its binding is being written."""
        pod_placement, found = self._snapshot.placements.get(pod), self._find_pod(pod)
        if pod_placement is None or found is None:
            return
        gang = self._gangs.gang_name_of(found)
        if pod_placement.gang == gang:
            return
        if found.spec.node_name or self._assumed.is_binding(pod):
            self._placed.remove(pod, readded=True)
            self._snapshot.add_pod(dataclasses.replace(pod_placement, gang=gang))
        else:
            self._placed.remove(pod)
