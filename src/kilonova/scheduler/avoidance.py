"""Keeps workloads off nodes on which they failed, as long as there is another place.

What is known comes from pods that failed and are still in the API, and from those that were seen to
fail; nothing is written, and whoever starts anew knows most of it again. It is a wish: who finds no
other place forgets what happened until then, and is decided about once more.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime

from kilonova.api.gpus import DEVICES, Unreadable
from kilonova.kube import Store
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.plan import NoRoom, Refusal
from kilonova.scheduler.core.snapshot import Snapshot
from kilonova.scheduler.failures import Failure, failure_of, nodes_to_avoid, workload_of
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gpus import shares_of


class Avoidance:
    """What workloads suffered, and where."""

    def __init__(
        self,
        pods: Store[Pod],
        now: Callable[[], datetime],
        *,
        lasting: float,
    ) -> None:
        """Failures count for `lasting` seconds. Hears of pods before who asks about gangs does."""
        self._pods = pods
        self._snapshot = Snapshot()
        self._touch: Callable[[str], None] = lambda _: None
        self._now = now
        self._lasting = lasting
        self._failures: dict[str, dict[str, Failure]] = {}
        """By workload and id of the pod."""
        self._forgotten: dict[str, float] = {}
        """Workloads that found no other place, and when."""
        pods.subscribe(self._pod_changed)

    def attach(self, snapshot: Snapshot, touch: Callable[[str], None]) -> None:
        """Looks at the GPUs of a snapshot's nodes; `touch` has a gang read anew."""
        self._snapshot, self._touch = snapshot, touch

    def mindful(self, gang: Gang) -> Gang:
        """A gang that waits, so that it avoids the nodes on which its workload failed."""
        if not self._failures:
            return gang
        groups = tuple(self._group(group) for group in gang.groups)
        return gang if groups == gang.groups else replace(gang, groups=groups)

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Gangs without a place: what they avoid is better than none."""
        if not self._failures:
            return
        now = self._now().timestamp()
        for refusal in refusals:
            workloads = {
                workload
                for group in refusal.gang.groups
                for member in group.members
                if (workload := self._workload(member)) and self._avoided(workload)
            }
            if workloads and isinstance(refusal.why, NoRoom):
                self._forgotten.update(dict.fromkeys(workloads, now))
                self._touch(refusal.gang.name)

    def _group(self, group: Group) -> Group:
        members = tuple(map(self._member, group.members))
        return group if members == group.members else replace(group, members=members)

    def _member(self, member: Member) -> Member:
        workload = self._workload(member)
        nodes = self._avoided(workload) if workload else frozenset[str]()
        if not nodes:
            return member
        shape = replace(member.shape, avoided=member.shape.avoided | nodes)
        return replace(member, shape=shape)

    def _workload(self, member: Member) -> str | None:
        namespace, _, name = member.pod.partition("/")
        pod = self._pods.get((namespace, name))
        workload = None if pod is None else workload_of(pod)
        return workload if workload in self._failures else None

    def _avoided(self, workload: str) -> frozenset[str]:
        since, now = self._forgotten.get(workload, float("-inf")), self._now().timestamp()
        late = (each for each in self._failures[workload].values() if each.at > since)
        return nodes_to_avoid(late, now, self._lasting)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            return
        now = self._now().timestamp()
        failure = failure_of(new, now, sick=self._is_sick(new))
        if failure is None or now - failure.at >= self._lasting:
            return
        self._forget_old(now)
        known = self._failures.setdefault(workload_of(new), {})
        known.setdefault(new.metadata.uid, failure)

    def _forget_old(self, now: float) -> None:
        for workload, failures in list(self._failures.items()):
            if all(now - each.at >= self._lasting for each in failures.values()):
                del self._failures[workload]
                self._forgotten.pop(workload, None)

    def _is_sick(self, pod: Pod) -> bool:
        """Whether a GPU is not healthy that was given to a pod."""
        text, node = pod.metadata.annotations.get(DEVICES), pod.spec.node_name
        snapshot = self._snapshot
        if text is None or pod.status.phase != "Failed" or node not in snapshot:
            return False
        layout = snapshot.layout(snapshot.row(node))
        shares = shares_of(text, layout)
        return not isinstance(shares, Unreadable) and any(
            not layout.gpus[share.index].healthy for share in shares
        )
