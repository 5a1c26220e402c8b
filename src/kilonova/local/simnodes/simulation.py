"""Simulated nodes: registration, heartbeats, faults and pods."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from random import Random

from kilonova.api.nodes.kinds import NODE_KIND_LABEL, SIMULATED_NODE
from kilonova.kube import AlreadyExists, Client, Reflector
from kilonova.kube.events import EventRecorder
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.kubelet_api import Kubelets
from kilonova.local.kubelet_common.leases import ApiLeaseRenewer, LeaseRenewer
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import BY_NODE
from kilonova.local.simnodes.faults.injection import FaultInjector
from kilonova.local.simnodes.fleet.model import Fleet, iter_fleet_nodes
from kilonova.local.simnodes.gpus.agent_claim import AgentClaims
from kilonova.local.simnodes.gpus.publisher import GpuPublisher
from kilonova.local.simnodes.kubelet import SimulatedKubelet
from kilonova.local.simnodes.lifecycle.capacity import (
    CAPACITY_NAME,
    CAPACITY_NAMESPACE,
    CONFIG_MAPS,
    build_config_map,
)
from kilonova.local.simnodes.lifecycle.controller import (
    LifecycleContext,
    MachineListener,
    NodeLifecycle,
)
from kilonova.local.simnodes.lifecycle.descriptions import is_described
from kilonova.local.simnodes.lifecycle.node_objects import (
    FLEET_ANNOTATION,
    NODES,
    SimulatedNode,
)
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.lifecycle import PodSimulator
from kilonova.local.simnodes.registration import NodeRegistration
from kilonova.local.simnodes.timer_queue import TimerQueue

_log = get_logger(__name__)

__all__ = ["PODS", "SimulatedNodes"]


class SimulatedNodes:
    """Simulates a fleet. `now` gives the time of day; delays use the event loop's clock.

    `exclusive` indicates that no other process simulates nodes on this cluster: nodes of an earlier
    fleet are then deleted, and Nodes that anyone else creates with the label of simulated nodes are
    simulated as well. The kubelet API of each machine is registered with `kubelets`. `has_agents`
    indicates that node agents run beside it: claims of agents that ran before count on.
    """

    name = "simulated nodes"

    def __init__(
        self,
        client: Client,
        fleet: Fleet,
        now: Callable[[], datetime],
        pods: Reflector[Pod],
        *,
        exclusive: bool = False,
        lease_renewer: LeaseRenewer | None = None,
        kubelets: Kubelets | None = None,
        has_agents: bool = False,
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._now = now
        self._exclusive = exclusive
        self._kubelets = kubelets or Kubelets()
        self._fleet_nodes = {shape.name: shape for shape in iter_fleet_nodes(fleet)}
        self._machines: dict[str, SimulatedMachine] = {}
        self._registration = NodeRegistration(
            client,
            now,
            fleet.heartbeat_seconds,
            lease_renewer or ApiLeaseRenewer(client),
            keeps_agent_claims=has_agents or not exclusive,
        )
        self._nodes: Reflector[SimulatedNode] = Reflector(
            client, NODES, label_selector=f"{NODE_KIND_LABEL}={SIMULATED_NODE}"
        )
        random = Random(fleet.seed)  # noqa: S311 (a simulation)
        names = Random(fleet.seed)  # noqa: S311 (likewise; event names do not affect the simulation)
        self._events = EventRecorder(
            client,
            "simulated-node",
            clock=lambda: now().timestamp(),
            wall=now,
            new_id=lambda: f"{names.getrandbits(64):016x}",
        )
        self._timers = TimerQueue()
        self._pods = pods
        self._pod_simulator = PodSimulator(
            client, pods, self._machines, self._timers, random, now, self._events
        )
        self._fault_injector = FaultInjector(
            client,
            self._nodes,
            self._machines,
            self._pod_simulator,
            self._timers,
            random,
            now,
            self._events,
        )
        self._agent_claims = AgentClaims(
            self._nodes, self._machines, self._pod_simulator.retry_waiting_pods
        )
        self._gpu_publisher = GpuPublisher(client, self._timers, self._find_node_uid)
        self._lifecycle = NodeLifecycle(
            LifecycleContext(
                client, self._nodes, self._registration, self._timers, self._events, now, fleet.seed
            ),
            self._machines,
            self._is_managed,
            MachineListener(self._handle_machine_added, self._handle_machine_removed),
        )
        self._registered = asyncio.Event()

    @property
    def registration_progress(self) -> tuple[int, int]:
        """The number of nodes of the fleet registered by this process, and the total."""
        return self._registration.registered_count, len(self._fleet_nodes)

    async def wait_registered(self) -> None:
        """Wait until all nodes of the fleet are registered."""
        await self._registered.wait()

    async def run(self) -> None:
        """Simulate until cancelled."""
        if self._exclusive:
            await self._registration.remove_other_nodes(self._fleet_nodes)
        await self._write_capacity_rules()
        await self._registration.register_nodes(list(self._fleet_nodes.values()))
        self._registered.set()
        if not self._fleet_nodes and not self._exclusive:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run())
            group.create_task(self._events.run())
            await self._nodes.wait_for_sync()
            await self._pods.wait_for_sync()
            stops = [
                self._lifecycle.start(),
                self._agent_claims.start(),
                self._fault_injector.start(self._fleet),
                self._pod_simulator.start(_log_failure),
            ]
            for machine in self._machines.values():
                self._register_kubelet(machine)
                self._gpu_publisher.add_machine(machine)
            group.create_task(self._registration.renew_leases(self._lifecycle.list_heartbeats))
            try:
                await self._timers.run()
            finally:
                for stop in stops:
                    stop()

    def _is_managed(self, node: SimulatedNode) -> bool:
        if node.metadata.name in self._fleet_nodes:
            return True
        of_other_fleet = FLEET_ANNOTATION in node.metadata.annotations
        return self._exclusive and is_described(node) and not of_other_fleet

    async def _write_capacity_rules(self) -> None:
        """The fleet's rules, in place of those of an earlier one."""
        if not self._fleet.capacity:
            return
        body = build_config_map(self._fleet.capacity, self._now())
        try:
            await self._client.create(CONFIG_MAPS, body, CAPACITY_NAMESPACE)
        except AlreadyExists:
            await self._client.patch(
                CONFIG_MAPS, CAPACITY_NAME, {"data": body["data"]}, CAPACITY_NAMESPACE
            )

    def _handle_machine_added(self, machine: SimulatedMachine) -> None:
        self._register_kubelet(machine)
        self._agent_claims.add_machine(machine)
        self._gpu_publisher.add_machine(machine)
        self._fault_injector.add_machine(machine)
        self._pod_simulator.add_machine(machine)

    def _handle_machine_removed(self, machine: SimulatedMachine) -> None:
        self._kubelets.unregister(machine.node.name)

    def _find_node_uid(self, name: str) -> str | None:
        node = self._nodes.store.get(("", name))
        return node.metadata.uid if node is not None else None

    def _register_kubelet(self, machine: SimulatedMachine) -> None:
        name = machine.node.name
        bound = partial(self._pods.store.by_index, BY_NODE, name)
        self._kubelets.register(name, SimulatedKubelet(name, bound, self._now))


def _log_failure(pod: str, error: Exception) -> None:
    _log.error("pod simulation failed", pod=pod, error=f"{type(error).__name__}: {error}")
