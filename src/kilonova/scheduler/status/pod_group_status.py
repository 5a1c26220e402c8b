"""Marks Kubernetes PodGroups as scheduled, once enough of their pods have a node.

The condition is derived from the pods, not from a decision: a new leader writes what the previous
one did not get to. Why a group is pending is written by `gang_status`.
"""

from collections.abc import Iterable

from kilonova.api.meta import Condition
from kilonova.kube import ChangeWatch, Controller, Key, Watch
from kilonova.kube.status import apply_status, encode_condition, keep_transition_time
from kilonova.scheduler.cache.extensions.pod_groups import PodGroupCache
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.pod_groups import (
    NATIVE_KIND,
    PodGroupRef,
    find_pod_group_ref,
    pod_group_min_count,
)
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.pod_groups import (
    KUBERNETES_POD_GROUPS,
    POD_GROUP_SCHEDULED,
    KubernetesPodGroup,
)


class PodGroupStatusWriter:
    """Writes the condition once for each group."""

    def __init__(
        self,
        context: SchedulerContext,
        informers: Informers,
        pod_groups: PodGroupCache,
    ) -> None:
        self._client = context.client
        self._groups = informers.kubernetes_pod_groups.store
        self._pod_groups = pod_groups
        self._now = context.now
        watches = [
            Watch(informers.kubernetes_pod_groups),
            ChangeWatch(informers.pods, _groups_of_newly_bound),
        ]
        self.controller = Controller("pod-group-status", self._reconcile, watches)

    async def _reconcile(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None:
            return
        pods = self._pod_groups.pods_of(PodGroupRef(NATIVE_KIND, *key))
        new, old = scheduled_condition(group, pods), group.status.scheduled_condition
        if new is None:
            return
        condition = encode_condition(keep_transition_time(new, old, self._now()))
        status = {"conditions": [condition]}
        await apply_status(self._client, KUBERNETES_POD_GROUPS, group.metadata, status)


def scheduled_condition(group: KubernetesPodGroup, pods: Iterable[Pod]) -> Condition | None:
    """The condition of a group with enough bound pods; None if it has it already, or lacks pods.
    Pure."""
    current = group.status.scheduled_condition
    placed = sum(bool(pod.spec.node_name) for pod in pods)
    if (current is not None and current.status == "True") or placed < pod_group_min_count(group):
        return None
    message = f"{placed} pods are scheduled"
    return Condition(POD_GROUP_SCHEDULED, "True", "Scheduled", message)


def _groups_of_newly_bound(old: Pod | None, new: Pod | None) -> Iterable[Key]:
    """The group of a pod that was just bound."""
    if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
        return ()
    ref = find_pod_group_ref(new)
    return () if ref is None or ref.kind != NATIVE_KIND else ((ref.namespace, ref.name),)
