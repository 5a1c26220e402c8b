"""Keeps the gangs of all who have some: PodGangs as they are, and PodGroups of others as the gangs
that they mean. Nothing is written to those groups here.

A group is **touched** when something happened to it or to who belongs to it, and translated at the
next refresh: many pods that come at once cost one translation.
"""

from collections.abc import Callable, Iterable

from kilonova.api.podgang import PodGang
from kilonova.kube import Store
from kilonova.scheduler.groupobjects import CoscheduledGroup, NativeGroup
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet, not_there, pods_of_gang
from kilonova.scheduler.reading.podgroups import (
    NATIVE_KIND,
    Group,
    GroupRef,
    gang_of_group,
    group_named,
    is_of_group,
    ref_of,
)

_BY_GROUP = "group of others"

Owner = Callable[[str], str | None]
"""The gang that a pod belongs to."""
Reread = Callable[[Iterable[str], bool], None]


class ForeignGroups:
    """PodGroups and PodGangs in one store of gangs."""

    def __init__(
        self,
        podgangs: Store[PodGang],
        coscheduled: Store[CoscheduledGroup],
        native: Store[NativeGroup],
        pods: Store[Pod],
        serves: frozenset[str],
        wake: Callable[[], None],
    ) -> None:
        """`serves` are the names of schedulers whose pods are placed: groups of others' pods are
        left to them."""
        self.gangs: Store[PodGang] = Store(PodGang)
        """All gangs."""
        self._coscheduled = coscheduled
        self._native = native
        self._pods = pods
        self._serves = serves
        self._wake = wake
        self._owner: Owner = lambda _pod: None
        self._reread: Reread = lambda _pods, _gained: None
        self._touched: dict[GroupRef, None] = {}
        pods.add_index(_BY_GROUP, self._named_by)
        podgangs.subscribe(self._podgang_changed)
        coscheduled.subscribe(self._group_changed)
        native.subscribe(self._group_changed)
        pods.subscribe(self._pod_changed)

    def attach(self, owner: Owner, reread: Reread) -> None:
        """Begins to have pods read again whose groups came or went."""
        self._owner = owner
        self._reread = reread

    def refresh(self) -> None:
        """Translates all groups that something happened to."""
        touched, self._touched = self._touched, {}
        for ref in touched:
            self._translate(ref)

    def pods_of(self, ref: GroupRef) -> list[Pod]:
        """The pods that name a group, and are ours to place."""
        return self._pods.find(_BY_GROUP, ref)

    def awaited(self, pod: Pod) -> NotYet | None:
        """Why a pod waits whose group is not there."""
        ref = group_named(pod)
        return None if ref is None or self._group(ref) is not None else not_there(ref)

    def _translate(self, ref: GroupRef) -> None:
        group, gangs = self._group(ref), self.gangs
        pods = [pod for pod in self.pods_of(ref) if not self._is_listed(pod)]
        gang = None if group is None else gang_of_group(group, pods)
        key = f"{ref.kind}/{ref.namespace}", ref.name
        old = gangs.get(key)
        if gang is None or (old is not None and old.metadata.uid != gang.metadata.uid):
            gangs.remove(key)
        if gang is not None and gang != old:
            gangs.put(gang)

    def _is_listed(self, pod: Pod) -> bool:
        """Whether a PodGang lists a pod, whatever group it names."""
        gang = self._owner(pod.key)
        return gang is not None and not is_of_group(gang)

    def _group(self, ref: GroupRef) -> Group | None:
        store = self._native if ref.kind == NATIVE_KIND else self._coscheduled
        return store.get((ref.namespace, ref.name))

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is not None:
            self.gangs.put(new)
        elif old is not None:
            self.gangs.remove((old.metadata.namespace, old.metadata.name))
        if self._pods.index_values(_BY_GROUP) and (
            old is None or new is None or old.spec != new.spec
        ):
            for pod in (pod for gang in (old, new) if gang for pod in pods_of_gang(gang)):
                namespace, _, name = pod.partition("/")
                self._touch(self._pods.get((namespace, name)))

    def _group_changed(self, old: Group | None, new: Group | None) -> None:
        group = new or old
        assert group is not None
        ref = ref_of(group)
        self._touched[ref] = None
        if old is None or new is None:
            self._reread([pod.key for pod in self.pods_of(ref)], False)
        self._wake()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or group_named(old) != group_named(new):
            self._touch(old)
            self._touch(new)

    def _touch(self, pod: Pod | None) -> None:
        if pod is not None:
            for ref in self._named_by(pod):
                self._touched[ref] = None
                self._wake()

    def _named_by(self, pod: Pod) -> Iterable[GroupRef]:
        ref = group_named(pod) if pod.spec.scheduler_name in self._serves else None
        return () if ref is None else (ref,)
