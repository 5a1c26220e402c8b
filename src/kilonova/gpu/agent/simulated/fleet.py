"""The agents of all simulated nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kilonova.api.gpu.annotations import InvalidAnnotation, parse_topology
from kilonova.api.gpu.health import GPU_HEALTHY
from kilonova.api.gpu.metrics import GpuReading
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.desire.conditions import healthy_condition
from kilonova.gpu.agent.desire.node import DesiredNode
from kilonova.gpu.agent.holders import read_holders
from kilonova.gpu.agent.node_writer import NodeWriter
from kilonova.gpu.agent.resources import Node, Pod
from kilonova.gpu.agent.simulated.claim_objects import Claim, list_node_keys
from kilonova.gpu.agent.simulated.faults import Xid, find_new_xid
from kilonova.gpu.mig.parted.labels import CONFIG_LABEL
from kilonova.kube import Controller, Key, Reflector, Result, Watch
from kilonova.kube.informers.store import Store
from kilonova.kube.status import find_condition

if TYPE_CHECKING:
    from kilonova.gpu.agent.simulated.node import SimulatedDevices

BY_NODE = "node"
"""Pods by the name of the node that they are bound to, claims by that of their devices."""
_WORKERS = 8
_MAX_MEASURED = 256
"""Nodes whose devices are simulated for their telemetry alone."""


def index_by_node(pod: Pod) -> tuple[str, ...]:
    """The index value of a pod."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class SimulatedAgents:
    """Reconciles simulated nodes; `directory` is for the journals of their engines.

    `monotonic` is the time by which devices warm up and count energy.
    """

    def __init__(
        self,
        nodes: Reflector[Node],
        pods: Reflector[Pod],
        claims: Reflector[Claim],
        context: AgentContext,
        directory: Callable[[], Path],
        monotonic: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._claims = claims
        self._directory = directory
        self._monotonic = monotonic
        self._devices: dict[str, SimulatedDevices] = {}
        self._xids: dict[str, list[Xid]] = {}
        self.controller = Controller(
            "gpu agents",
            self._reconcile,
            [Watch(nodes), Watch(pods, _node_key), Watch(claims, list_node_keys)],
            workers=_WORKERS,
        )
        self._context = replace(context, enqueue=self._enqueue)
        self._writer = NodeWriter(context.client, context.metrics)

    @property
    def simulated_count(self) -> int:
        """The number of nodes whose devices are simulated."""
        return len(self._devices)

    def watch_faults(self) -> Callable[[], None]:
        """Take up XIDs from changes of Nodes; call the result to stop."""
        store: Store[Node] = self._nodes.store

        def handle(old: Node | None, new: Node | None) -> None:
            if new is None:
                return
            xid = find_new_xid(old, new, self._context.now())
            if xid is not None:
                self._xids.setdefault(new.metadata.name, []).append(xid)

        return store.add_event_handler(handle)

    async def close(self) -> None:
        """Give all nodes back."""
        devices, self._devices = self._devices, {}
        for each in devices.values():
            if each.agent is not None:
                await each.agent.close()

    def read_gpus(self, name: str) -> tuple[GpuReading, ...] | None:
        """What is measured of a node's devices; None where nothing runs on them, or where so many
        nodes are looked at that it would cost too much."""
        devices = self.measured_devices(name)
        return None if devices is None else devices.read(self.pods_of(name))

    def measured_devices(self, name: str) -> SimulatedDevices | None:
        """The devices of a node that can be measured, as for `read_gpus`."""
        node = self._nodes.store.get(("", name))
        known = self._devices.get(name)
        if known is not None and known.agent is not None:
            return known
        if node is None or not _runs_on_devices(self.pods_of(name)):
            self._devices.pop(name, None)
            return None
        if known is None and len(self._devices) >= _MAX_MEASURED:
            return None
        return self._find_devices(node)

    def pods_of(self, name: str) -> list[Pod]:
        """The pods that are bound to a node."""
        return self._pods.store.by_index(BY_NODE, name)

    def claims_of(self, name: str) -> list[Claim]:
        """The ResourceClaims that have devices of a node."""
        return self._claims.store.by_index(BY_NODE, name)

    @property
    def nodes(self) -> Store[Node]:
        """All simulated nodes."""
        return self._nodes.store

    @property
    def pods(self) -> Store[Pod]:
        """All pods that are bound to a node."""
        return self._pods.store

    async def _reconcile(self, key: Key) -> Result | None:
        name = key[1]
        node = self._nodes.store.get(key)
        if node is None:
            await self._forget(name)
            return None
        if not node.metadata.annotations.topology:
            return None  # its machine has published no devices
        pods = self._pods.store.by_index(BY_NODE, name)
        known = self._devices.get(name)
        has_agent = known is not None and known.agent is not None
        claims = self._claims.store.by_index(BY_NODE, name)
        is_idle = not claims and name not in self._xids and not _needs_devices(node, pods)
        if not has_agent and is_idle:
            await self._claim(node)
            return None
        devices = self._find_devices(node)
        if devices is None:
            return None
        agent = devices.agent
        if agent is None:
            agent = devices.start_agent(
                name,
                self._directory() / name,
                self._context,
                lambda: self._claims.store.by_index(BY_NODE, name),
            )
        delay = await devices.reconcile(agent, node, pods, self._xids.pop(name, []))
        return None if delay is None else Result(max(delay, 0.05))

    async def _claim(self, node: Node) -> None:
        """Take a node as its machine has published it."""
        if node.metadata.annotations.agent and find_condition(node.status.conditions, GPU_HEALTHY):
            return
        topology = parse_topology(node.metadata.annotations.topology)
        count = 0 if isinstance(topology, InvalidAnnotation) else len(topology.gpus)
        desired = DesiredNode(conditions=(healthy_condition(count),), manages_taint=False)
        await self._writer.write(node, desired, self._context.now())

    def _find_devices(self, node: Node) -> SimulatedDevices | None:
        """The devices of a node, as it has published them; None if it reports nothing valid."""
        name = node.metadata.name
        if name not in self._devices:
            topology = parse_topology(node.metadata.annotations.topology)
            if isinstance(topology, InvalidAnnotation):
                return None
            # Engines and hardware are loaded when there are some: few clusters have them at once.
            from kilonova.gpu.agent.simulated.node import simulate_devices

            self._devices[name] = simulate_devices(topology, self._context.catalog, self._monotonic)
        return self._devices[name]

    async def _forget(self, name: str) -> None:
        self._xids.pop(name, None)
        devices = self._devices.pop(name, None)
        if devices is not None and devices.agent is not None:
            await devices.agent.close()

    def _enqueue(self, name: str) -> None:
        self.controller.queue.add(("", name))


def _node_key(pod: Pod) -> tuple[Key, ...]:
    """Pods without GPUs change nothing."""
    if not pod.metadata.annotations.devices or not pod.spec.node_name:
        return ()
    return (("", pod.spec.node_name),)


def _runs_on_devices(pods: Sequence[Pod]) -> bool:
    return any(
        each.metadata.annotations.devices and each.status.phase == "Running" for each in pods
    )


def _needs_devices(node: Node, pods: Sequence[Pod]) -> bool:
    """Whether something happens that only simulated devices show."""
    annotations = node.metadata.annotations
    if annotations.lost_gpus or annotations.health or annotations.strategy:
        return True
    if node.metadata.labels.get(CONFIG_LABEL):
        return True
    if "migEnabled" in annotations.topology or '"healthy"' in annotations.topology:
        return True
    return any(each.profile for holder in read_holders(pods) for each in holder.devices)
