"""Tells PodGroups of Kubernetes that they are scheduled, once enough of their pods have a node.

Read off the pods, not off a decision: what a scheduler that stopped did not come to say, the next
one says. Why a group waits is told by `telling`.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from kilonova.api.meta import Condition
from kilonova.kube import Client, Comparison, Controller, Key, NotFound, Reflector, Watch
from kilonova.scheduler.foreigngroups import ForeignGroups
from kilonova.scheduler.groupobjects import NATIVE, SCHEDULED, NativeGroup
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.podgroups import NATIVE_KIND, GroupRef, group_named, minimum_of
from kilonova.scheduler.speaking import wire


class GroupStatuses:
    """Writes the condition, once for each group."""

    def __init__(
        self,
        client: Client,
        groups: Reflector[NativeGroup],
        pods: Reflector[Pod],
        members: ForeignGroups,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._groups = groups.store
        self._members = members
        self._now = now
        watches = [Watch(groups), Comparison(pods, _groups_that_grew)]
        self.controller = Controller("group-status", self._write, watches)

    async def _write(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None:
            return
        pods = self._members.pods_of(GroupRef(NATIVE_KIND, *key))
        new, old = scheduled(group, pods), group.status.scheduled
        if new is None:
            return
        body = {
            "metadata": {"uid": group.metadata.uid},
            "status": {"conditions": [wire(new, old, self._now())]},
        }
        try:
            await self._client.apply(NATIVE, key[1], body, key[0], subresource="status")
        except NotFound:
            return  # it went; nobody needs to know any more


def scheduled(group: NativeGroup, pods: Iterable[Pod]) -> Condition | None:
    """What a group is to say of its place; None if it says so already, or has none. Pure."""
    told = group.status.scheduled
    placed = sum(bool(pod.spec.node_name) for pod in pods)
    if (told is not None and told.status == "True") or placed < minimum_of(group):
        return None
    message = f"{placed} pods have a node"
    return Condition(SCHEDULED, "True", "Scheduled", message)


def _groups_that_grew(old: Pod | None, new: Pod | None) -> Iterable[Key]:
    """The group of a pod that got its node."""
    if new is None or not new.spec.node_name or (old is not None and old.spec.node_name):
        return ()
    ref = group_named(new)
    return () if ref is None or ref.kind != NATIVE_KIND else ((ref.namespace, ref.name),)
