"""taint-eviction-controller: pods that do not tolerate a NoExecute taint of their node end.

A pod that tolerates it for a time stays that long. The time is counted from when the taint came
(`timeAdded`), so that a restart of this controller gives nobody more.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from kilonova.api.times import parse_time, rfc3339
from kilonova.kube import Client, Conflict, Controller, NotFound, Part, Reflector, Result, Watch
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.controllers.indexes import BY_NODE, pods_by_node
from kilonova.local.controllers.nodes.tolerance import FOREVER, endured_seconds
from kilonova.local.controllers.objects import NODES, PODS, Node, Pod, Taint
from kilonova.local.controllers.podconditions import set_pod_condition
from kilonova.local.controllers.workshop import Workshop

_WORKERS = 8


def taint_eviction_parts(workshop: Workshop) -> Iterable[Part]:
    """The controller."""
    client = workshop.account("taint-eviction-controller")
    events = workshop.recorder("taint-eviction-controller")
    nodes, pods = workshop.cache(NODES), pods_by_node(workshop)
    return [TaintEviction(client, nodes, pods, workshop.clock.now, events).controller]


class TaintEviction:
    """One reconcile looks at one pod and the taints of its node."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        now: Callable[[], datetime],
        events: Recorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._now = now
        self._events = events
        self._planned: set[Key] = set()
        self.controller = Controller(
            "taint eviction",
            self._reconcile,
            [Watch(nodes, self._pods_of_tainted), Watch(pods, self._on_tainted)],
            workers=_WORKERS,
        )

    def _pods_of_tainted(self, node: Node) -> Iterator[Key]:
        # Asked about a node before and after a change: one of them has the taint that matters.
        if _evicting(node):
            for pod in self._pods.store.find(BY_NODE, node.metadata.name):
                yield pod.metadata.namespace, pod.metadata.name

    def _on_tainted(self, pod: Pod) -> Iterator[Key]:
        node = self._nodes.store.get(("", pod.spec.node_name))
        if node is not None and _evicting(node):
            yield pod.metadata.namespace, pod.metadata.name

    async def _reconcile(self, key: Key) -> Result | None:
        pod = self._pods.store.get(key)
        node = self._nodes.store.get(("", pod.spec.node_name)) if pod is not None else None
        if pod is None or pod.metadata.deletion_timestamp or node is None:
            self._planned.discard(key)
            return None
        taints = _evicting(node)
        endured = endured_seconds(taints, pod.spec.tolerations) if taints else FOREVER
        if endured == FOREVER:
            if key in self._planned:
                self._planned.discard(key)
                self._tell(pod, f"Cancelling deletion of Pod {key[0]}/{key[1]}")
            return None
        left = endured - self._tainted_for(taints)
        if left > 0:
            self._planned.add(key)
            return Result(left)
        self._planned.discard(key)
        self._tell(pod, f"Marking for deletion Pod {key[0]}/{key[1]}")
        await self._evict(pod)
        return None

    def _tainted_for(self, taints: list[Taint]) -> float:
        """How long ago the latest of the taints came."""
        added = [each.time_added for each in taints if each.time_added]
        return (self._now() - parse_time(max(added))).total_seconds() if added else 0.0

    def _tell(self, pod: Pod, message: str) -> None:
        known = pod.metadata
        about = Reference.to(PODS, known.name, known.namespace, known.uid)
        self._events.event(about, "TaintManagerEviction", message)

    async def _evict(self, pod: Pod) -> None:
        known = pod.metadata
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": rfc3339(self._now()),
        }
        if not await set_pod_condition(self._client, pod, condition):
            return
        try:
            await self._client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return


def _evicting(node: Node) -> list[Taint]:
    return [each for each in node.spec.taints if each.effect == "NoExecute"]
