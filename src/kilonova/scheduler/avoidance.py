"""Keeps workloads off nodes on which they failed, as long as there is another place.

What is known comes from pods that failed and are still in the API, and from those that were seen to
fail; nothing is written, and whoever starts anew knows most of it again. It is a wish: who finds no
other place forgets what happened until then, and is decided about once more.

A pod whose binding to a node was rejected avoids that node, too, and nobody is evicted meanwhile so
that it finds another: the next node may reject it as well.
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
from kilonova.scheduler.rejections import Rejection

_REJECTED_FOR = 300.0
"""Seconds for which a pod avoids a node on which it was rejected."""


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
        self._rejected: dict[str, dict[str, tuple[str, float]]] = {}
        """Nodes that rejected pods, by pod: the id of the pod, and when that was."""
        pods.subscribe(self._pod_changed)

    def attach(self, snapshot: Snapshot, touch: Callable[[str], None]) -> None:
        """Looks at the GPUs of a snapshot's nodes; `touch` has a gang read anew."""
        self._snapshot, self._touch = snapshot, touch

    def mindful(self, gang: Gang) -> Gang:
        """A gang that waits, so that it avoids the nodes on which its workload failed."""
        if not self._failures and not self._rejected:
            return gang
        groups = tuple(self._group(group) for group in gang.groups)
        if self._rejected and any(map(self._rejecting, _pods_of(gang))):
            gang = replace(gang, preempts=False)
        return gang if groups == gang.groups else replace(gang, groups=groups)

    def rejected(self, gang: str, rejections: Iterable[Rejection]) -> None:
        """Bindings of a gang that the API server rejected."""
        now = self._now().timestamp()
        for pod, nodes in list(self._rejected.items()):
            if all(now - at >= _REJECTED_FOR for _, at in nodes.values()):
                del self._rejected[pod]
        for each in rejections:
            pod = self._find(each.pod)
            if pod is not None:
                known = self._rejected.setdefault(each.pod, {})
                known[each.node] = pod.metadata.uid, now
                self._touch(gang)

    def refused(self, refusals: Iterable[Refusal]) -> set[str]:
        """Gangs without a place: what they avoid is better than none. Those that are decided about
        once more, without it."""
        again: set[str] = set()
        now = self._now().timestamp()
        for refusal in refusals:
            if not isinstance(refusal.why, NoRoom):
                continue
            rejected = [pod for pod in _pods_of(refusal.gang) if self._rejecting(pod)]
            for pod in rejected:
                del self._rejected[pod]
            if rejected:
                again.add(refusal.gang.name)
                self._touch(refusal.gang.name)
            if not self._failures:
                continue
            workloads = {
                workload
                for group in refusal.gang.groups
                for member in group.members
                if (workload := self._workload(member)) and self._avoided(workload)
            }
            if workloads:
                self._forgotten.update(dict.fromkeys(workloads, now))
                again.add(refusal.gang.name)
                self._touch(refusal.gang.name)
        return again

    def _group(self, group: Group) -> Group:
        members = tuple(map(self._member, group.members))
        return group if members == group.members else replace(group, members=members)

    def _member(self, member: Member) -> Member:
        workload = self._workload(member) if self._failures else None
        nodes = self._avoided(workload) if workload else frozenset[str]()
        nodes |= self._rejecting(member.pod)
        if not nodes:
            return member
        shape = replace(member.shape, avoided=member.shape.avoided | nodes)
        return replace(member, shape=shape)

    def _workload(self, member: Member) -> str | None:
        pod = self._find(member.pod)
        workload = None if pod is None else workload_of(pod)
        return workload if workload in self._failures else None

    def _rejecting(self, key: str) -> frozenset[str]:
        """Nodes that rejected a pod lately."""
        known = self._rejected.get(key)
        pod = None if known is None else self._find(key)
        if known is None or pod is None:
            return frozenset()
        since, uid = self._now().timestamp() - _REJECTED_FOR, pod.metadata.uid
        return frozenset(node for node, (of, at) in known.items() if of == uid and at > since)

    def _find(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self._pods.get((namespace, name))

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


def _pods_of(gang: Gang) -> Iterable[str]:
    return (member.pod for group in gang.groups for member in group.members)
