"""node-lifecycle-controller: notices silent nodes, and keeps taints true to conditions.

When a node was last heard of is remembered by this process's own clock: a node whose clock is
wrong, or jumps, is heard all the same. If this process itself was held up, nobody is blamed.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from kilonova.api.times import rfc3339
from kilonova.kube import (
    Client,
    Conflict,
    Controller,
    KubeError,
    NotFound,
    Part,
    Reflector,
    Resource,
    Result,
    Watch,
)
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.kube.logging import get_logger
from kilonova.kube.verbs import PatchKind
from kilonova.local.controllers.indexes import BY_NODE, pods_by_node
from kilonova.local.controllers.nodes.conditions import (
    NOT_READY,
    UNREACHABLE,
    evicting_taint,
    lost_conditions,
    ready_status,
    scheduling_taints,
    taints_with,
)
from kilonova.local.controllers.nodes.zones import Allowance, Zone, all_disrupted, survey, zone_of
from kilonova.local.controllers.objects import NODES, PODS, Node, Pod
from kilonova.local.controllers.podconditions import set_pod_condition
from kilonova.local.controllers.workshop import Workshop

GRACE = 50.0
_PERIOD = 5.0
_LOOK_AGAIN = 5.0
_WORKERS = 8
_log = get_logger(__name__)


class _LeaseMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""


class _Lease(msgspec.Struct, frozen=True):
    """That it changed is all that matters."""

    metadata: _LeaseMetadata


_LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, _Lease)


def node_lifecycle_parts(workshop: Workshop) -> Iterable[Part]:
    """The controller, and the watch that it keeps over heartbeats."""
    client = workshop.account("node-controller")
    leases = Reflector(client, _LEASES, "kube-node-lease")
    nodes, pods = workshop.cache(NODES), pods_by_node(workshop)
    zones = Zones(nodes)
    monitor = HeartbeatMonitor(client, nodes, leases, workshop.clock.now, zones)
    events = workshop.recorder("node-controller")
    lifecycle = NodeLifecycle(client, nodes, pods, workshop.clock.now, zones, events)
    return [leases, monitor, lifecycle.controller]


class Zones:
    """The state of all zones, as of the last look."""

    def __init__(self, nodes: Reflector[Node]) -> None:
        self._nodes = nodes
        self._allowances: dict[str, Allowance] = {}
        self.states: dict[str, Zone] = {}

    def look(self) -> None:
        self.states = survey(self._nodes.store.objects())

    @property
    def all_disrupted(self) -> bool:
        return all_disrupted(self.states)

    def wait_to_give_up(self, node: Node, now: float) -> float:
        """0 if the node may be given up now, else when to ask again."""
        name = zone_of(node)
        zone = self.states.get(name)
        if zone is None or self.all_disrupted:
            return _LOOK_AGAIN
        allowance = self._allowances.setdefault(name, Allowance())
        wait = allowance.take(zone.rate, now)
        return _LOOK_AGAIN if wait is None else wait


class HeartbeatMonitor:
    """Looks every few seconds for nodes that have not been heard of."""

    name = "heartbeat monitor"

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        leases: Reflector[_Lease],
        now: Callable[[], datetime],
        zones: Zones,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._leases = leases
        self._now = now
        self._zones = zones
        self._heard: dict[str, float] = {}

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        stops = [
            self._leases.store.subscribe(self._lease_changed),
            self._nodes.store.subscribe(self._node_changed),
        ]
        try:
            await self._nodes.wait_synced()
            await self._leases.wait_synced()
            last = loop.time()
            for _, name in self._nodes.store.keys():  # noqa: SIM118 (a Store is no dictionary)
                self._heard[name] = last
            while True:
                await asyncio.sleep(_PERIOD)
                if loop.time() - last > GRACE / 2:
                    self._heard = dict.fromkeys(self._heard, loop.time())
                last = loop.time()
                await self._look(last)
        finally:
            for stop in stops:
                stop()

    def _lease_changed(self, _old: _Lease | None, new: _Lease | None) -> None:
        if new is not None and new.metadata.name in self._heard:
            self._heard[new.metadata.name] = asyncio.get_running_loop().time()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None
        if new is None:
            self._heard.pop(node.metadata.name, None)
        elif old is None or _heartbeat(old) != _heartbeat(new):
            self._heard[node.metadata.name] = asyncio.get_running_loop().time()

    async def _look(self, moment: float) -> None:
        silent = [name for name, heard in self._heard.items() if moment - heard > GRACE]
        for name in silent:
            node = self._nodes.store.get(("", name))
            if node is not None:
                await self._mark(node)
        self._zones.look()

    async def _mark(self, node: Node) -> None:
        conditions = lost_conditions(node, rfc3339(self._now()))
        if conditions is None:
            return
        name = node.metadata.name
        try:
            await self._client.patch(
                NODES,
                name,
                {"status": {"conditions": conditions}},
                kind=PatchKind.STRATEGIC,
                subresource="status",
            )
        except NotFound:
            return
        except KubeError as error:
            _log.warning("will try again", node=name, error=str(error))
            return
        _log.info("node is silent", node=name)


class NodeLifecycle:
    """Taints of nodes, and readiness of pods on nodes that are lost."""

    def __init__(
        self,
        client: Client,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        now: Callable[[], datetime],
        zones: Zones,
        events: Recorder,
    ) -> None:
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._now = now
        self._zones = zones
        self._events = events
        self._unready: set[str] = set()
        self.controller = Controller(
            "node lifecycle",
            self._reconcile,
            [Watch(nodes), Watch(pods, lambda _: ())],
            workers=_WORKERS,
        )

    async def _reconcile(self, key: Key) -> Result | None:
        node = self._nodes.store.get(key)
        if node is None:
            self._unready.discard(key[1])
            return None
        wanted, wait = self._evicting(node)
        taints = taints_with(node, scheduling_taints(node), wanted, rfc3339(self._now()))
        if taints is not None:
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [_written(each) for each in taints] or None},
            }
            try:
                await self._client.patch(NODES, key[1], body)
            except NotFound:
                return None
            except Conflict:
                return Result(0.05)
        await self._tell_pods(node)
        return Result(wait) if wait else None

    def _evicting(self, node: Node) -> tuple[str | None, float]:
        """The NoExecute taint that the node should have now, and when to ask again."""
        wanted = evicting_taint(node)
        if wanted is None:
            return None, 0.0
        if self._zones.all_disrupted:
            return None, _LOOK_AGAIN
        lost = (NOT_READY, UNREACHABLE)
        if any(each.effect == "NoExecute" and each.key in lost for each in node.spec.taints):
            return wanted, 0.0  # one of them may follow the other at once
        wait = self._zones.wait_to_give_up(node, asyncio.get_running_loop().time())
        return (None, wait) if wait else (wanted, 0.0)

    async def _tell_pods(self, node: Node) -> None:
        """Pods of a node that is lost are not ready, whatever their status still says."""
        name = node.metadata.name
        if ready_status(node) in (None, "True"):
            self._unready.discard(name)
            return
        if name in self._unready:
            return
        about = Reference.to(NODES, name, "", node.metadata.uid)
        self._events.event(about, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self._pods.store.find(BY_NODE, name):
            if pod.ready:
                await self._tell_pod(pod)
        self._unready.add(name)

    async def _tell_pod(self, pod: Pod) -> None:
        known = pod.metadata
        condition = {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": rfc3339(self._now()),
        }
        if not await set_pod_condition(self._client, pod, condition):
            return
        about = Reference.to(PODS, known.name, known.namespace, known.uid)
        self._events.event(about, "NodeNotReady", "Node is not ready", warning=True)


def _heartbeat(node: Node) -> str | None:
    for each in node.status.conditions:
        if each.type == "Ready":
            return each.last_heartbeat_time
    return None


def _written(taint: object) -> object:
    found = msgspec.to_builtins(taint)
    return {name: value for name, value in found.items() if value not in (None, "")}
