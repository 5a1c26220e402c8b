"""taint-eviction-controller: evicts pods that do not tolerate a NoExecute taint of their node.

A pod that tolerates it for a time stays that long, counted from `timeAdded` of the taint, so that a
restart of this controller does not extend it.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from kilonova.api.times import format_rfc3339, parse_time
from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Result, Runnable, Watch
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import pods_by_node
from kilonova.local.controllers.shared.pod_conditions import set_pod_condition
from kilonova.local.objects.core import NODES, PODS, Node, Pod, Taint
from kilonova.local.objects.indexes import BY_NODE
from kilonova.local.objects.tolerations import FOREVER, tolerated_seconds

_WORKERS = 8


def taint_eviction_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """The controller."""
    client = context.client_for("taint-eviction-controller")
    events = context.recorder("taint-eviction-controller")
    nodes, pods = context.informer(NODES), pods_by_node(context)
    return [TaintEvictionController(client, nodes, pods, context.clock.now, events).controller]


class TaintEvictionController:
    """Reconciles one pod with the taints of its node."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        now: Callable[[], datetime],
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._now = now
        self._events = events
        self._scheduled: set[Key] = set()
        self.controller = Controller(
            "taint eviction",
            self._reconcile,
            [Watch(nodes, self._map_node_to_pods), Watch(pods, self._enqueue_if_tainted)],
            workers=_WORKERS,
        )

    def _map_node_to_pods(self, node: Node) -> Iterator[Key]:
        # Evaluated for a node before and after a change: one of them has the relevant taint.
        if _no_execute_taints(node):
            for pod in self._pods.store.by_index(BY_NODE, node.metadata.name):
                yield pod.metadata.namespace, pod.metadata.name

    def _enqueue_if_tainted(self, pod: Pod) -> Iterator[Key]:
        node = self._nodes.store.get(("", pod.spec.node_name))
        if node is not None and _no_execute_taints(node):
            yield pod.metadata.namespace, pod.metadata.name

    async def _reconcile(self, key: Key) -> Result | None:
        pod = self._pods.store.get(key)
        node = self._nodes.store.get(("", pod.spec.node_name)) if pod is not None else None
        if pod is None or pod.metadata.deletion_timestamp or node is None:
            self._scheduled.discard(key)
            return None
        taints = _no_execute_taints(node)
        tolerated = tolerated_seconds(taints, pod.spec.tolerations) if taints else FOREVER
        if tolerated == FOREVER:
            if key in self._scheduled:
                self._scheduled.discard(key)
                self._record_event(pod, f"Cancelling deletion of Pod {key[0]}/{key[1]}")
            return None
        left = tolerated - self._seconds_tainted(taints)
        if left > 0:
            self._scheduled.add(key)
            return Result(left)
        self._scheduled.discard(key)
        self._record_event(pod, f"Marking for deletion Pod {key[0]}/{key[1]}")
        await self._evict(pod)
        return None

    def _seconds_tainted(self, taints: list[Taint]) -> float:
        """How long ago the latest of the taints was added."""
        added = [each.time_added for each in taints if each.time_added]
        return (self._now() - parse_time(max(added))).total_seconds() if added else 0.0

    def _record_event(self, pod: Pod, message: str) -> None:
        metadata = pod.metadata
        about = ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)
        self._events.event(about, "TaintManagerEviction", message)

    async def _evict(self, pod: Pod) -> None:
        metadata = pod.metadata
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
            "lastTransitionTime": format_rfc3339(self._now()),
        }
        if not await set_pod_condition(self._client, pod, condition):
            return
        try:
            await self._client.delete(PODS, metadata.name, metadata.namespace, uid=metadata.uid)
        except (NotFound, Conflict):
            return


def _no_execute_taints(node: Node) -> list[Taint]:
    return [each for each in node.spec.taints if each.effect == "NoExecute"]
