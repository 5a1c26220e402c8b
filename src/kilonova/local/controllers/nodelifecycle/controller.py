"""node-lifecycle-controller: detects unreachable nodes, and sets taints from conditions.

The time of a node's last heartbeat is measured on this process's own clock, so that a node with a
wrong clock is not affected. If this process itself was suspended, no node is marked.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from kilonova.api.times import format_rfc3339
from kilonova.kube import (
    Client,
    Conflict,
    Controller,
    KubeError,
    NotFound,
    Reflector,
    Resource,
    Result,
    Runnable,
    Watch,
)
from kilonova.kube.client.options import PatchType
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.nodelifecycle.conditions import (
    NOT_READY_TAINT,
    UNREACHABLE_TAINT,
    build_unknown_conditions,
    merge_taints,
    ready_status,
    select_no_execute_taint,
    select_no_schedule_taints,
)
from kilonova.local.controllers.nodelifecycle.zones import (
    EvictionRateLimiter,
    Zone,
    compute_zones,
    is_fully_disrupted,
    zone_of,
)
from kilonova.local.controllers.shared.indexes import pods_by_node
from kilonova.local.controllers.shared.pod_conditions import set_pod_condition
from kilonova.local.objects.core import NODES, PODS, Node, Pod
from kilonova.local.objects.indexes import BY_NODE

NODE_MONITOR_GRACE_PERIOD = 50.0
_NODE_MONITOR_PERIOD = 5.0
_RETRY_SECONDS = 5.0
_WORKERS = 8
_log = get_logger(__name__)


class _LeaseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Lease(msgspec.Struct, frozen=True):
    """Only its resourceVersion matters."""

    metadata: _LeaseMetadata


_LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, _Lease)


def node_lifecycle_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """The controller, and the monitor of heartbeats."""
    client = context.client_for("node-controller")
    leases = Reflector(client, _LEASES, "kube-node-lease")
    nodes, pods = context.informer(NODES), pods_by_node(context)
    zones = ZoneTracker(nodes)
    monitor = NodeHealthMonitor(client, nodes, leases, context.clock.now, zones)
    events = context.recorder("node-controller")
    lifecycle = NodeLifecycleController(client, nodes, pods, context.clock.now, zones, events)
    return [leases, monitor, lifecycle.controller]


class ZoneTracker:
    """The state of all zones, as of the last check."""

    def __init__(self, nodes: Reflector[Node]) -> None:
        self._nodes = nodes
        self._rate_limiters: dict[str, EvictionRateLimiter] = {}
        self.states: dict[str, Zone] = {}

    def update(self) -> None:
        self.states = compute_zones(self._nodes.store.objects())

    @property
    def is_fully_disrupted(self) -> bool:
        return is_fully_disrupted(self.states)

    def eviction_delay(self, node: Node, now: float) -> float:
        """0 if the node may be evicted now, else the delay until the next attempt."""
        name = zone_of(node)
        zone = self.states.get(name)
        if zone is None or self.is_fully_disrupted:
            return _RETRY_SECONDS
        allowance = self._rate_limiters.setdefault(name, EvictionRateLimiter())
        wait = allowance.try_accept(zone.eviction_rate, now)
        return _RETRY_SECONDS if wait is None else wait


class NodeHealthMonitor:
    """Checks every few seconds for nodes without a recent heartbeat."""

    name = "node health monitor"

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        leases: Reflector[_Lease],
        now: Callable[[], datetime],
        zones: ZoneTracker,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._leases = leases
        self._now = now
        self._zones = zones
        self._last_heartbeat: dict[str, float] = {}

    async def run(self) -> None:
        """Monitor until cancelled."""
        loop = asyncio.get_running_loop()
        stops = [
            self._leases.store.add_event_handler(self._handle_lease_change),
            self._nodes.store.add_event_handler(self._handle_node_change),
        ]
        try:
            await self._nodes.wait_for_sync()
            await self._leases.wait_for_sync()
            last = loop.time()
            for _, name in self._nodes.store.keys():  # noqa: SIM118 (a Store is no dictionary)
                self._last_heartbeat[name] = last
            while True:
                await asyncio.sleep(_NODE_MONITOR_PERIOD)
                if loop.time() - last > NODE_MONITOR_GRACE_PERIOD / 2:
                    self._last_heartbeat = dict.fromkeys(self._last_heartbeat, loop.time())
                last = loop.time()
                await self._check_nodes(last)
        finally:
            for stop in stops:
                stop()

    def _handle_lease_change(self, _old: _Lease | None, new: _Lease | None) -> None:
        if new is not None and new.metadata.name in self._last_heartbeat:
            self._last_heartbeat[new.metadata.name] = asyncio.get_running_loop().time()

    def _handle_node_change(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if new is None:
            self._last_heartbeat.pop(node.metadata.name, None)
        elif old is None or _last_heartbeat_time(old) != _last_heartbeat_time(new):
            self._last_heartbeat[node.metadata.name] = asyncio.get_running_loop().time()

    async def _check_nodes(self, now: float) -> None:
        unreachable = [
            name
            for name, received in self._last_heartbeat.items()
            if now - received > NODE_MONITOR_GRACE_PERIOD
        ]
        for name in unreachable:
            node = self._nodes.store.get(("", name))
            if node is not None:
                await self._mark_unknown(node)
        self._zones.update()

    async def _mark_unknown(self, node: Node) -> None:
        conditions = build_unknown_conditions(node, format_rfc3339(self._now()))
        if conditions is None:
            return
        name = node.metadata.name
        try:
            await self._client.patch(
                NODES,
                name,
                {"status": {"conditions": conditions}},
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
        except NotFound:
            return
        except KubeError as error:
            _log.warning("node conditions not updated, will retry", node=name, error=str(error))
            return
        _log.info("node stopped posting status", node=name)


class NodeLifecycleController:
    """Taints of nodes, and readiness of pods on nodes that are not ready."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        now: Callable[[], datetime],
        zones: ZoneTracker,
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._now = now
        self._zones = zones
        self._events = events
        self._reported_not_ready: set[str] = set()
        self.controller = Controller(
            "node lifecycle",
            self._reconcile,
            [Watch(nodes), Watch(pods, lambda _: ())],
            workers=_WORKERS,
        )

    async def _reconcile(self, key: Key) -> Result | None:
        node = self._nodes.store.get(key)
        if node is None:
            self._reported_not_ready.discard(key[1])
            return None
        desired, wait = self._decide_no_execute_taint(node)
        taints = merge_taints(
            node, select_no_schedule_taints(node), desired, format_rfc3339(self._now())
        )
        if taints is not None:
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [_encode_taint(each) for each in taints] or None},
            }
            try:
                await self._client.patch(NODES, key[1], body)
            except NotFound:
                return None
            except Conflict:
                return Result(0.05)
        await self._mark_pods_not_ready(node)
        return Result(wait) if wait else None

    def _decide_no_execute_taint(self, node: Node) -> tuple[str | None, float]:
        """The NoExecute taint that the node should have now, and the delay until the next check."""
        desired = select_no_execute_taint(node)
        if desired is None:
            return None, 0.0
        if self._zones.is_fully_disrupted:
            return None, _RETRY_SECONDS
        lost = (NOT_READY_TAINT, UNREACHABLE_TAINT)
        if any(each.effect == "NoExecute" and each.key in lost for each in node.spec.taints):
            # A taint may be replaced by the other without rate limit. The node is looked at again:
            # its taint is removed if all zones are disrupted later.
            return desired, _RETRY_SECONDS
        wait = self._zones.eviction_delay(node, asyncio.get_running_loop().time())
        return (None, wait) if wait else (desired, _RETRY_SECONDS)

    async def _mark_pods_not_ready(self, node: Node) -> None:
        """Mark the pods of a node that is not ready as not ready, whatever their status says."""
        name = node.metadata.name
        if ready_status(node) in (None, "True"):
            self._reported_not_ready.discard(name)
            return
        if name in self._reported_not_ready:
            return
        about = ObjectReference.to(NODES, name, "", node.metadata.uid)
        self._events.event(about, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self._pods.store.by_index(BY_NODE, name):
            if pod.is_ready:
                await self._mark_pod_not_ready(pod)
        self._reported_not_ready.add(name)

    async def _mark_pod_not_ready(self, pod: Pod) -> None:
        metadata = pod.metadata
        condition = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": format_rfc3339(self._now()),
        }
        if not await set_pod_condition(self._client, pod, condition):
            return
        about = ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)
        self._events.event(about, "NodeNotReady", "Node is not ready", warning=True)


def _last_heartbeat_time(node: Node) -> str | None:
    for each in node.status.conditions:
        if each.type == "Ready":
            return each.last_heartbeat_time
    return None


def _encode_taint(taint: object) -> object:
    found = msgspec.to_builtins(taint)
    return {name: value for name, value in found.items() if value not in (None, "")}
