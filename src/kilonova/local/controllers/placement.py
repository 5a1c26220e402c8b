"""Enough placement that a pod runs: the node with the most room among those that fit.

Holds the place of the scheduler; it knows nothing of gangs or topology. One worker places
one pod at a time, and counts a placement from the moment it is decided.
"""

from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Result, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.fitting import (
    PODS,
    SCHEDULER_NAME,
    Amounts,
    PlaceableNode,
    PlacedPod,
    Unplaceable,
    choose_node,
    pod_requests,
)
from kilonova.local.quantity import QuantityError


class Placement:
    """Places pods that name the default scheduler. Keeps what is used per node as pods change."""

    def __init__(
        self, client: Client, pods: Reflector[PlacedPod], nodes: Reflector[PlaceableNode]
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._used: dict[str, Amounts] = {}
        self._counted: dict[str, tuple[str, Amounts]] = {}
        self._waiting: set[Key] = set()
        self._controller = Controller("placement", self._place, [Watch(pods)])
        pods.store.subscribe(self._count)
        nodes.store.subscribe(self._node_changed)

    @property
    def controller(self) -> Controller:
        return self._controller

    def _node_changed(self, _old: PlaceableNode | None, _new: PlaceableNode | None) -> None:
        for key in self._waiting:
            self._controller.queue.add(key)

    def _count(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._release(old.metadata.uid)
        if new is None or not new.spec.node_name:
            return
        if new.status.phase in ("Succeeded", "Failed"):
            self._release(new.metadata.uid)
        elif new.metadata.uid not in self._counted:
            self._charge(new.metadata.uid, new.spec.node_name, pod_requests(new))

    def _charge(self, uid: str, node: str, amounts: Amounts) -> None:
        self._counted[uid] = (node, amounts)
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount

    def _release(self, uid: str) -> None:
        node, amounts = self._counted.pop(uid, ("", {}))
        used = self._used.get(node)
        if used is None:
            return
        for name, amount in amounts.items():
            used[name] -= amount
        for key in self._waiting:
            self._controller.queue.add(key)

    async def _place(self, key: Key) -> Result | None:
        await self._nodes.wait_synced()
        pod = self._pods.store.get(key)
        self._waiting.discard(key)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp:
            return None
        if pod.spec.scheduler_name != SCHEDULER_NAME or pod.spec.scheduling_gates:
            return None
        if pod.metadata.uid in self._counted:
            return None
        try:
            chosen = choose_node(pod, list(self._nodes.store.objects()), self._used)
        except QuantityError as error:
            chosen = Unplaceable(0, {f"unreadable request ({error})": 1})
        if isinstance(chosen, Unplaceable):
            self._waiting.add(key)
            await self._tell(pod, str(chosen))
            return None
        self._charge(pod.metadata.uid, chosen, pod_requests(pod))
        try:
            await self._client.bind(
                pod.metadata.name, pod.metadata.namespace, chosen, uid=pod.metadata.uid
            )
        except (NotFound, Conflict):
            self._release(pod.metadata.uid)
        except BaseException:
            self._release(pod.metadata.uid)
            raise
        return None

    async def _tell(self, pod: PlacedPod, reason: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
        }
        await self._client.apply(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            pod.metadata.namespace,
            subresource="status",
        )
