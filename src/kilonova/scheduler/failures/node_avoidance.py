"""Keeps workloads off nodes on which they failed, as long as other nodes are feasible.

Failures are taken from failed pods, in the API or observed earlier; nothing is written, and a new
leader learns most of it again. Avoidance is soft: a workload without another feasible node forgets
its failures so far and is scheduled once more.

A pod whose binding to a node was rejected avoids that node, too, and its gang does not preempt
meanwhile: the next node may reject it as well.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from kilonova.api.gpu.annotations import DEVICES, InvalidAnnotation
from kilonova.kube import Store
from kilonova.scheduler.convert.gpus import convert_devices
from kilonova.scheduler.core.decisions import InsufficientCapacity, UnschedulableGang
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.failures.binding_rejections import BindingRejection
from kilonova.scheduler.failures.pod_failures import (
    PodFailure,
    detect_failure,
    nodes_to_avoid,
    workload_of,
)
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.keys import split_key

_BINDING_REJECTION_SECONDS = 300.0
"""Seconds for which a pod avoids a node that rejected its binding."""


class NodeAvoidance:
    """Failures of workloads by node."""

    def __init__(
        self,
        pods: Store[Pod],
        now: Callable[[], datetime],
        *,
        retention: float,
    ) -> None:
        """Failures count for `retention` seconds. Its pod handler must run before those that read
        gangs."""
        self._pods = pods
        self._snapshot = Snapshot()
        self._mark_dirty: Callable[[str], None] = lambda _: None
        self._now = now
        self._retention = retention
        self._failures: dict[str, dict[str, PodFailure]] = {}
        """Failures by workload and pod UID."""
        self._forgiven: dict[str, float] = {}
        """Workloads that had no other feasible node, and when."""
        self._rejecting_nodes: dict[str, dict[str, tuple[str, float]]] = {}
        """Nodes that rejected the binding of a pod, by pod: its UID and the time."""
        pods.add_event_handler(self._pod_changed)

    def attach(self, snapshot: Snapshot, mark_dirty: Callable[[str], None]) -> None:
        """Use the GPU health of a snapshot's nodes; `mark_dirty` has a gang read again."""
        self._snapshot, self._mark_dirty = snapshot, mark_dirty

    def apply_avoidance(self, gang: Gang) -> Gang:
        """A pending gang that avoids the nodes on which its workload failed."""
        if not self._failures and not self._rejecting_nodes:
            return gang
        groups = tuple(self._apply_to_group(group) for group in gang.groups)
        if self._rejecting_nodes and any(map(self._nodes_rejecting, _pods_of_gang(gang))):
            gang = replace(gang, preempts=False)
        return gang if groups == gang.groups else replace(gang, groups=groups)

    def record_binding_rejections(self, gang: str, rejections: Iterable[BindingRejection]) -> None:
        """Record bindings of a gang that the API server rejected."""
        now = self._now().timestamp()
        for pod, nodes in list(self._rejecting_nodes.items()):
            if all(now - at >= _BINDING_REJECTION_SECONDS for _, at in nodes.values()):
                del self._rejecting_nodes[pod]
        for each in rejections:
            pod = self._find_pod(each.pod)
            if pod is not None:
                rejections_by_node = self._rejecting_nodes.setdefault(each.pod, {})
                rejections_by_node[each.node] = pod.metadata.uid, now
                self._mark_dirty(gang)

    def record_rejections(self, rejections: Iterable[UnschedulableGang]) -> set[str]:
        """Forget what unschedulable gangs avoid; returns the gangs that are scheduled once more."""
        rescheduled: set[str] = set()
        now = self._now().timestamp()
        for rejection in rejections:
            if not isinstance(rejection.reason, InsufficientCapacity):
                continue
            rejected = [pod for pod in _pods_of_gang(rejection.gang) if self._nodes_rejecting(pod)]
            for pod in rejected:
                del self._rejecting_nodes[pod]
            if rejected:
                rescheduled.add(rejection.gang.name)
                self._mark_dirty(rejection.gang.name)
            if not self._failures:
                continue
            workloads = {
                workload
                for group in rejection.gang.groups
                for member in group.members
                if (workload := self._failed_workload_of(member)) and self._nodes_to_avoid(workload)
            }
            if workloads:
                self._forgiven.update(dict.fromkeys(workloads, now))
                rescheduled.add(rejection.gang.name)
                self._mark_dirty(rejection.gang.name)
        return rescheduled

    def _apply_to_group(self, group: Group) -> Group:
        members = tuple(map(self._apply_to_member, group.members))
        return group if members == group.members else replace(group, members=members)

    def _apply_to_member(self, member: Member) -> Member:
        workload = self._failed_workload_of(member) if self._failures else None
        nodes = self._nodes_to_avoid(workload) if workload else frozenset[str]()
        nodes |= self._nodes_rejecting(member.pod)
        if not nodes:
            return member
        shape = replace(member.shape, avoided_nodes=member.shape.avoided_nodes | nodes)
        return replace(member, shape=shape)

    def _failed_workload_of(self, member: Member) -> str | None:
        pod = self._find_pod(member.pod)
        workload = None if pod is None else workload_of(pod)
        return workload if workload in self._failures else None

    def _nodes_rejecting(self, key: str) -> frozenset[str]:
        """Nodes that recently rejected the binding of a pod."""
        rejections_by_node = self._rejecting_nodes.get(key)
        pod = None if rejections_by_node is None else self._find_pod(key)
        if rejections_by_node is None or pod is None:
            return frozenset()
        since, uid = self._now().timestamp() - _BINDING_REJECTION_SECONDS, pod.metadata.uid
        return frozenset(
            node
            for node, (pod_uid, at) in rejections_by_node.items()
            if pod_uid == uid and at > since
        )

    def _find_pod(self, key: str) -> Pod | None:
        return self._pods.get(split_key(key))

    def _nodes_to_avoid(self, workload: str) -> frozenset[str]:
        since, now = self._forgiven.get(workload, float("-inf")), self._now().timestamp()
        recent = (each for each in self._failures[workload].values() if each.at > since)
        return nodes_to_avoid(recent, now, self._retention)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        now = self._now().timestamp()
        failure = detect_failure(new, now, has_unhealthy_gpu=self._has_unhealthy_gpu(new))
        if failure is None or now - failure.at >= self._retention:
            return
        self._expire_failures(now)
        failures = self._failures.setdefault(workload_of(new), {})
        failures.setdefault(new.metadata.uid, failure)

    def _expire_failures(self, now: float) -> None:
        for workload, failures in list(self._failures.items()):
            if all(now - each.at >= self._retention for each in failures.values()):
                del self._failures[workload]
                self._forgiven.pop(workload, None)

    def _has_unhealthy_gpu(self, pod: Pod) -> bool:
        """Whether a GPU assigned to a pod is unhealthy."""
        text, node = pod.metadata.annotations.get(DEVICES), pod.spec.node_name
        snapshot = self._snapshot
        if text is None or pod.status.phase != "Failed" or node not in snapshot:
            return False
        layout = snapshot.layout(snapshot.row(node))
        shares = convert_devices(text, layout)
        return not isinstance(shares, InvalidAnnotation) and any(
            not layout.gpus[share.index].healthy for share in shares
        )


def _pods_of_gang(gang: Gang) -> Iterable[str]:
    return (member.pod for group in gang.groups for member in group.members)
