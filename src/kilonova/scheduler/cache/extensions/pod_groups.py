"""Merges PodGangs with the PodGroups of Kubernetes and coscheduling, translated to gangs.

Nothing is written to those groups here. A group is **dirty** after an event of the group or its
pods, and is translated at the next refresh: many pods created at once cost one translation.
"""

from collections.abc import Callable, Iterable

from kilonova.api.podgang import PodGang
from kilonova.kube import Store
from kilonova.scheduler.convert.gangs.pod_groups import (
    NATIVE_KIND,
    PodGroupObject,
    PodGroupRef,
    convert_pod_group,
    find_pod_group_ref,
    is_pod_group_gang,
    pod_group_ref,
)
from kilonova.scheduler.convert.gangs.podgangs import (
    GangNotReady,
    pod_group_not_found,
    podgang_pod_keys,
)
from kilonova.scheduler.convert.pods.changes import RereadPods
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.objects.pod_groups import CoschedulingPodGroup, KubernetesPodGroup

_BY_POD_GROUP = "pod group"

GangLookup = Callable[[str], str | None]
"""The gang that a pod belongs to."""


class PodGroupCache:
    """All gangs in one store: PodGangs, and PodGroups translated to gangs."""

    def __init__(
        self,
        podgangs: Store[PodGang],
        coscheduling_groups: Store[CoschedulingPodGroup],
        kubernetes_groups: Store[KubernetesPodGroup],
        pods: Store[Pod],
        scheduler_names: frozenset[str],
        wake: Callable[[], None],
    ) -> None:
        """Only groups of pods whose `schedulerName` is in `scheduler_names` are translated."""
        self.gangs: Store[PodGang] = Store(PodGang)
        """All gangs."""
        self._coscheduling_groups = coscheduling_groups
        self._kubernetes_groups = kubernetes_groups
        self._pods = pods
        self._scheduler_names = scheduler_names
        self._wake = wake
        self._gang_of_pod: GangLookup = lambda _pod: None
        self._reread_pods: RereadPods = lambda _pods, _capacity_freed: None
        self._dirty: dict[PodGroupRef, None] = {}
        pods.add_index(_BY_POD_GROUP, self._group_refs_of)
        podgangs.add_event_handler(self._podgang_changed)
        coscheduling_groups.add_event_handler(self._group_changed)
        kubernetes_groups.add_event_handler(self._group_changed)
        pods.add_event_handler(self._pod_changed)

    def attach_to_cache(self, gang_of_pod: GangLookup, reread_pods: RereadPods) -> None:
        """Have pods read again from now on when their group is created or deleted."""
        self._gang_of_pod = gang_of_pod
        self._reread_pods = reread_pods

    def refresh(self) -> None:
        """Translate all dirty groups."""
        dirty, self._dirty = self._dirty, {}
        for ref in dirty:
            self._translate(ref)

    def pods_of(self, ref: PodGroupRef) -> list[Pod]:
        """The pods of this scheduler that name a group."""
        return self._pods.by_index(_BY_POD_GROUP, ref)

    def missing_group(self, pod: Pod) -> GangNotReady | None:
        """Why a pod is not schedulable whose group does not exist."""
        ref = find_pod_group_ref(pod)
        return (
            None if ref is None or self._find_group(ref) is not None else pod_group_not_found(ref)
        )

    def _translate(self, ref: PodGroupRef) -> None:
        group, gangs = self._find_group(ref), self.gangs
        pods = [pod for pod in self.pods_of(ref) if not self._is_listed_by_podgang(pod)]
        gang = None if group is None else convert_pod_group(group, pods)
        key = f"{ref.kind}/{ref.namespace}", ref.name
        old = gangs.get(key)
        if gang is None or (old is not None and old.metadata.uid != gang.metadata.uid):
            gangs.remove(key)
        if gang is not None and gang != old:
            gangs.put(gang)

    def _is_listed_by_podgang(self, pod: Pod) -> bool:
        """Whether a PodGang lists a pod, whatever group the pod names."""
        gang = self._gang_of_pod(pod.key)
        return gang is not None and not is_pod_group_gang(gang)

    def _find_group(self, ref: PodGroupRef) -> PodGroupObject | None:
        store = self._kubernetes_groups if ref.kind == NATIVE_KIND else self._coscheduling_groups
        return store.get((ref.namespace, ref.name))

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is not None:
            self.gangs.put(new)
        elif old is not None:
            self.gangs.remove((old.metadata.namespace, old.metadata.name))
        if self._pods.index_values(_BY_POD_GROUP) and (
            old is None or new is None or old.spec != new.spec
        ):
            for pod in (pod for gang in (old, new) if gang for pod in podgang_pod_keys(gang)):
                self._mark_group_dirty(self._pods.get(split_key(pod)))

    def _group_changed(self, old: PodGroupObject | None, new: PodGroupObject | None) -> None:
        group = new or old
        assert group is not None
        ref = pod_group_ref(group)
        self._dirty[ref] = None
        if old is None or new is None:
            self._reread_pods([pod.key for pod in self.pods_of(ref)], False)
        self._wake()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or find_pod_group_ref(old) != find_pod_group_ref(new):
            self._mark_group_dirty(old)
            self._mark_group_dirty(new)

    def _mark_group_dirty(self, pod: Pod | None) -> None:
        if pod is not None:
            for ref in self._group_refs_of(pod):
                self._dirty[ref] = None
                self._wake()

    def _group_refs_of(self, pod: Pod) -> Iterable[PodGroupRef]:
        ref = find_pod_group_ref(pod) if pod.spec.scheduler_name in self._scheduler_names else None
        return () if ref is None else (ref,)
