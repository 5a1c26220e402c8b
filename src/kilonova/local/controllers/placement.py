"""Enough placement that a pod runs: the node with the most room among those that fit.

Holds the place of the scheduler; it knows nothing of gangs or topology. A node is chosen and
counted against without an await in between, so that any number of workers may wait for their
binding at the same time. Pods that fit nowhere are looked at again when a node changes or
something is freed.
"""

from kilonova.api.times import rfc3339
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.clock import Clock
from kilonova.local.controllers.attachments import Attachments
from kilonova.local.controllers.fitting import (
    Amounts,
    Candidate,
    Unplaceable,
    choose_node,
    pod_requests,
)
from kilonova.local.controllers.objects import PODS, SCHEDULER_NAME, Node, Pod

_WORKERS = 16


class Placement:
    """Places pods that name the default scheduler. Keeps what is used per node as pods change."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        nodes: Reflector[Node],
        clock: Clock,
        events: Recorder,
        attachments: Attachments,
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._clock = clock
        self._events = events
        self._attachments = attachments
        self._candidates: dict[str, Candidate] = {}
        self._used: dict[str, Amounts] = {}
        self._counted: dict[str, tuple[str, Amounts]] = {}
        self._waiting: dict[Key, None] = {}
        self._attached: dict[Key, None] = {}
        self._controller = Controller("placement", self._place, [Watch(pods)], workers=_WORKERS)
        pods.store.subscribe(self._count)
        nodes.store.subscribe(self._node_changed)
        attachments.subscribe(self._look_at_attached)

    @property
    def controller(self) -> Controller:
        return self._controller

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._candidates[new.metadata.name] = Candidate.of(new)
        elif old is not None:
            del self._candidates[old.metadata.name]
        self._look_again()

    def _look_again(self) -> None:
        for key in self._waiting:
            self._controller.queue.add(key)

    def _look_at_attached(self) -> None:
        for key in self._attached:
            self._controller.queue.add(key)

    def _count(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._release(old.metadata.uid)
        if new is None or not new.spec.node_name:
            return
        if new.status.phase in ("Succeeded", "Failed"):
            self._release(new.metadata.uid)
        elif self._counted.get(new.metadata.uid, ("",))[0] != new.spec.node_name:
            self._charge(new.metadata.uid, new.spec.node_name, pod_requests(new))

    def _charge(self, uid: str, node: str, amounts: Amounts) -> None:
        self._release(uid)
        self._counted[uid] = (node, amounts)
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount

    def _release(self, uid: str) -> None:
        counted = self._counted.pop(uid, None)
        if counted is None:
            return
        node, amounts = counted
        for name, amount in amounts.items():
            self._used[node][name] -= amount
        self._look_again()

    async def _place(self, key: Key) -> None:
        await self._nodes.wait_synced()
        await self._attachments.wait_synced()
        pod = self._pods.store.get(key)
        self._waiting.pop(key, None)
        self._attached.pop(key, None)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp:
            return
        if pod.spec.scheduler_name != SCHEDULER_NAME or pod.spec.scheduling_gates:
            return
        if pod.metadata.uid in self._counted:
            return
        needs = self._attachments.needs(pod, self._candidates.__contains__)
        if needs.waiting:
            self._attached[key] = None
            await self._tell(pod, needs.waiting)
            return
        chosen = choose_node(pod, self._candidates.values(), self._used, needs.objection)
        if isinstance(chosen, Unplaceable):
            self._waiting[key] = self._attached[key] = None
            await self._tell(pod, str(chosen))
        elif needs.unbound:
            self._attached[key] = None
            await self._attachments.select(needs, chosen)
        else:
            self._charge(pod.metadata.uid, chosen, pod_requests(pod))
            await self._bind(pod, chosen)

    async def _bind(self, pod: Pod, node: str) -> None:
        bound = False
        try:
            await self._client.bind(
                pod.metadata.name, pod.metadata.namespace, node, uid=pod.metadata.uid
            )
            bound = True
            where = f"{pod.metadata.namespace}/{pod.metadata.name} to {node}"
            self._events.event(_about(pod), "Scheduled", f"Successfully assigned {where}")
        except (NotFound, Conflict):
            return  # it went, or somebody else placed it: its next change tells
        finally:
            # Where it went meanwhile is counted already, and stays.
            if not bound and self._counted.get(pod.metadata.uid, ("",))[0] == node:
                self._release(pod.metadata.uid)
                self._count(None, self._pods.store.get((pod.metadata.namespace, pod.metadata.name)))

    async def _tell(self, pod: Pod, reason: str) -> None:
        if pod.unschedulable == reason:
            return
        self._events.event(_about(pod), "FailedScheduling", reason, warning=True)
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
            "lastProbeTime": None,
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        await self._client.apply(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            pod.metadata.namespace,
            subresource="status",
        )


def _about(pod: Pod) -> Reference:
    return Reference.to(PODS, pod.metadata.name, pod.metadata.namespace, pod.metadata.uid)
