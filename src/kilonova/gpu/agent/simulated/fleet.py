"""The agents of all simulated nodes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kilonova.api.gpu_annotations import InvalidAnnotation, parse_topology
from kilonova.api.gpu_health import GPU_HEALTHY
from kilonova.api.gpu_metrics import GpuReading
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.desire.conditions import healthy_condition
from kilonova.gpu.agent.desire.node import DesiredNode
from kilonova.gpu.agent.holders import read_holders
from kilonova.gpu.agent.node_agent import NodeAgent
from kilonova.gpu.agent.node_writer import NodeWriter
from kilonova.gpu.agent.resources import MIG_CONFIG_LABEL, Node, Pod
from kilonova.gpu.agent.simulated.calls import PacedCalls
from kilonova.gpu.agent.simulated.faults import (
    Xid,
    apply_lost_devices,
    apply_xid,
    find_new_xid,
)
from kilonova.gpu.agent.simulated.loads import LoadFollower
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.devices.simulated import SimulatedBackend, machine_from_topology
from kilonova.gpu.devices.simulated.backend import INSTANT
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.states import StateChange
from kilonova.kube import Controller, Key, Reflector, Result, Watch
from kilonova.kube.informers.store import Store
from kilonova.kube.status import find_condition

BY_NODE = "node"
"""Pods by the name of the node that they are bound to."""
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
        context: AgentContext,
        directory: Callable[[], Path],
        monotonic: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._pods = pods
        self._directory = directory
        self._monotonic = monotonic
        self._agents: dict[str, NodeAgent] = {}
        self._backends: dict[str, SimulatedBackend] = {}
        self._loads: dict[str, LoadFollower] = {}
        self._xids: dict[str, list[Xid]] = {}
        self.controller = Controller(
            "gpu agents",
            self._reconcile,
            [Watch(nodes), Watch(pods, _node_key)],
            workers=_WORKERS,
        )
        self._context = replace(context, enqueue=self._enqueue)
        self._writer = NodeWriter(context.client, context.metrics)

    @property
    def simulated_count(self) -> int:
        """The number of nodes whose devices are simulated."""
        return len(self._agents)

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
        agents, self._agents = self._agents, {}
        for agent in agents.values():
            await agent.close()

    def agent_of(self, name: str) -> NodeAgent | None:
        """The agent of a node whose devices are simulated."""
        return self._agents.get(name)

    def read_gpus(self, name: str) -> tuple[GpuReading, ...] | None:
        """What is measured of a node's devices; None where nothing runs on them, or where so many
        nodes are looked at that it would cost too much."""
        node = self._nodes.store.get(("", name))
        pods = self._pods.store.by_index(BY_NODE, name)
        if node is None or (name not in self._agents and not _runs_on_devices(pods)):
            self._release_backend(name)
            return None
        if name not in self._backends and len(self._backends) >= _MAX_MEASURED:
            return None
        backend = self._find_backend(node)
        if backend is None:
            return None
        self.follow_load(name)
        return build_readings(backend.read_inventory(), backend.read_telemetry())

    def follow_load(self, name: str) -> None:
        """Bring the load of a node's devices in line with the pods that run on it."""
        if name in self._loads:
            self._loads[name].follow(self._pods.store.by_index(BY_NODE, name))

    async def _reconcile(self, key: Key) -> Result | None:
        name = key[1]
        node = self._nodes.store.get(key)
        if node is None:
            await self._forget(name)
            return None
        agent = self._agents.get(name)
        pods = self._pods.store.by_index(BY_NODE, name)
        if agent is None:
            if not _is_claimable(node):
                return None
            if name not in self._xids and not _needs_devices(node, pods):
                await self._claim(node)
                return None
            agent = await self._build_agent(node)
            if agent is None:
                return None
        self._bring_faults(name, node, agent)
        delay = await agent.reconcile(node, pods)
        self.follow_load(name)
        return None if delay is None else Result(max(delay, 0.05))

    async def _claim(self, node: Node) -> None:
        """Take a node as its machine has published it."""
        if node.metadata.annotations.agent and find_condition(node.status.conditions, GPU_HEALTHY):
            return
        topology = parse_topology(node.metadata.annotations.topology)
        count = 0 if isinstance(topology, InvalidAnnotation) else len(topology.gpus)
        desired = DesiredNode(conditions=(healthy_condition(count),), manages_taint=False)
        await self._writer.write(node, desired, self._context.now())

    async def _build_agent(self, node: Node) -> NodeAgent | None:
        name, calls = node.metadata.name, PacedCalls()
        backend = self._find_backend(node)
        if backend is None:
            return None

        def build_engine(report: Callable[[StateChange], None]) -> MigEngine:
            return MigEngine(backend, self._directory() / name, calls=calls, report=report)

        self._agents[name] = NodeAgent(name, backend, build_engine, calls, self._context)
        return self._agents[name]

    def _find_backend(self, node: Node) -> SimulatedBackend | None:
        """The devices of a node, as it has published them; None if it says nothing valid."""
        name = node.metadata.name
        if name not in self._backends:
            topology = parse_topology(node.metadata.annotations.topology)
            if isinstance(topology, InvalidAnnotation):
                return None
            machine = machine_from_topology(topology, self._context.catalog)
            backend = SimulatedBackend(machine, now=self._monotonic, durations=INSTANT)
            self._backends[name] = backend
            self._loads[name] = LoadFollower(backend)
        return self._backends[name]

    def _release_backend(self, name: str) -> None:
        if name not in self._agents:
            self._backends.pop(name, None)
            self._loads.pop(name, None)

    async def _forget(self, name: str) -> None:
        agent = self._agents.pop(name, None)
        self._release_backend(name)
        self._xids.pop(name, None)
        if agent is not None:
            await agent.close()

    def _bring_faults(self, name: str, node: Node, agent: NodeAgent) -> None:
        backend = self._backends[name]
        for xid in self._xids.pop(name, ()):
            apply_xid(backend, xid)
        apply_lost_devices(backend, node, self._context.now())
        events = backend.wait_events(0)
        if events:
            agent.take_events(events)

    def _enqueue(self, name: str) -> None:
        self.controller.queue.add(("", name))


def _node_key(pod: Pod) -> tuple[Key, ...]:
    """Pods without GPUs change nothing."""
    if not pod.metadata.annotations.devices or not pod.spec.node_name:
        return ()
    return (("", pod.spec.node_name),)


def _is_claimable(node: Node) -> bool:
    """Whether its machine has published devices."""
    return bool(node.metadata.annotations.topology)


def _runs_on_devices(pods: Sequence[Pod]) -> bool:
    return any(
        each.metadata.annotations.devices and each.status.phase == "Running" for each in pods
    )


def _needs_devices(node: Node, pods: Sequence[Pod]) -> bool:
    """Whether something happens that only simulated devices show."""
    annotations = node.metadata.annotations
    if annotations.lost_gpus or annotations.health or annotations.strategy:
        return True
    if node.metadata.labels.get(MIG_CONFIG_LABEL):
        return True
    if "migEnabled" in annotations.topology or '"healthy"' in annotations.topology:
        return True
    return any(each.profile for holder in read_holders(pods) for each in holder.devices)
