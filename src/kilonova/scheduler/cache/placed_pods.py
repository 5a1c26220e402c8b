"""The pods counted in the snapshot: each change is also passed on to what depends on it.

These are the reserved capacity of the row, the usage of the gang's queue, gangs that wait for a
terminating pod, and gangs that wait for capacity.
"""

import dataclasses

from kilonova.scheduler.cache.state import CacheState
from kilonova.scheduler.convert.pods.placements import convert_placed_pod
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import Pod


class PlacedPods:
    """Adds pods to the snapshot and removes them."""

    def __init__(self, state: CacheState) -> None:
        self.on_unknown_nodes: dict[str, set[str]] = {}
        """Pods on unknown nodes, by node."""
        self._cluster = state.cluster
        self._snapshot = state.cluster.snapshot
        self._gangs = state.gangs
        self._reservations = state.reservations
        self._terminating = state.terminating
        self._capacity_events = state.capacity_events

    def is_on_its_node(self, pod: Pod) -> bool:
        """Whether a pod is counted on the node that it is bound to."""
        pod_placement = self._snapshot.placements.get(pod.key)
        return (
            pod_placement is not None
            and self._snapshot.names[pod_placement.row] == pod.spec.node_name
        )

    def account_bound_pod(self, pod: Pod) -> None:
        """Count a bound pod on its node, wherever it was counted before."""
        snapshot = self._snapshot
        before = snapshot.placements.get(pod.key)
        if before is not None:
            self.remove(pod.key, readded=True)
        if pod.spec.node_name not in snapshot:
            self.add_on_unknown_node(pod.key, pod.spec.node_name)
            return
        self.add_to_snapshot(pod, before)
        self._reservations.row_filled(snapshot.row(pod.spec.node_name))

    def add_on_unknown_node(self, pod: str, node: str) -> None:
        """Have a pod counted when its node is added."""
        self.on_unknown_nodes.setdefault(node, set()).add(pod)

    def add_to_snapshot(self, pod: Pod, before: PodPlacement | None = None) -> None:
        """Add a pod to the snapshot on its node; `before` is its removed placement."""
        snapshot, gangs = self._snapshot, self._gangs
        if pod.spec.node_name not in snapshot:
            return
        row = snapshot.row(pod.spec.node_name)
        member = gangs.usage_of(pod)
        if before is not None and before.member.budgets:
            member = dataclasses.replace(member, budgets=before.member.budgets)
        snapshot.add_pod(convert_placed_pod(snapshot, row, pod, member, gangs.gang_name_of(pod)))

    def remove(self, pod: str, *, readded: bool = False) -> None:
        """Free the capacity of a pod, unless it is reserved; with `readded` the pod is added again
        at once."""
        pod_placement = self._snapshot.remove_pod(pod)
        running_gang = self._cluster.running_gangs.get(pod_placement.gang)
        if running_gang is not None and pod in running_gang.pods:
            self._cluster.record_removed(pod_placement.gang, [pod])
        if not readded:
            self._reservations.row_freed(pod_placement.row)
            self._terminating.notify_waiters()
        self._capacity_events.record()

    def update_labels(self, pod_placement: PodPlacement, labels: dict[str, str]) -> None:
        """Update the labels of a pod, which other pods' affinity may select; its usage is
        unchanged."""
        member = dataclasses.replace(pod_placement.member, labels=labels)
        relabelled = dataclasses.replace(pod_placement, member=member)
        if self._snapshot.pod_counts.is_active:
            self._snapshot.remove_pod(pod_placement.pod)
            self._snapshot.add_pod(relabelled)
            self.note_affinity_change()
        else:
            self._snapshot.update_pod(relabelled)

    def note_affinity_change(self) -> None:
        """A newly placed pod may satisfy another gang's pod affinity: retry those gangs."""
        if self._gangs.has_affinity_waiters():
            self._capacity_events.record()
