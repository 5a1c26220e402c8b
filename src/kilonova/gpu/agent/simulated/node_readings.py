"""What the exporter of `kilonova up` serves: all simulated nodes.

Nothing is measured, and nothing counted but MIG instances that pods get, until it is asked for.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from kilonova.gpu.agent.remediation.overlay import overlay_health
from kilonova.gpu.agent.resources import Pod
from kilonova.gpu.agent.simulated.claim_objects import Claim
from kilonova.gpu.agent.simulated.fleet import SimulatedAgents
from kilonova.gpu.agent.simulated.loads import process_id
from kilonova.gpu.agent.simulated.node import SimulatedDevices
from kilonova.gpu.agent.telemetry.device_users import list_device_users
from kilonova.gpu.agent.telemetry.mig_allocations import MigAllocationCounter
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.dra.resource_slices import list_pool_devices
from kilonova.gpu.exporter import ExporterReading, IdleNode, NodeReading
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding


class SimulatedReadings:
    """Reads simulated nodes; a runnable, which counts MIG instances. `now` is the wall clock."""

    name = "gpu metrics"

    def __init__(self, agents: SimulatedAgents, now: Callable[[], datetime]) -> None:
        self._agents = agents
        self._now = now
        self._mig = MigAllocationCounter()

    async def read(self) -> ExporterReading:
        """All nodes; those on which something runs are measured one after the other, so that other
        tasks go on."""
        nodes: list[NodeReading] = []
        idle: list[IdleNode] = []
        for node in list(self._agents.nodes.objects()):
            name = node.metadata.name
            devices = self._agents.measured_devices(name)
            if devices is not None:
                nodes.append(self._read_node(name, devices))
                await asyncio.sleep(0)
            elif node.metadata.annotations.topology:
                idle.append(IdleNode(name, node.metadata.annotations.topology))
        return ExporterReading(tuple(nodes), tuple(idle))

    async def run(self) -> None:
        """Count MIG instances that pods get."""
        unwatch = self._agents.pods.add_event_handler(self._handle_pod)
        try:
            await asyncio.Event().wait()
        finally:
            unwatch()

    def _read_node(self, name: str, devices: SimulatedDevices) -> NodeReading:
        pods, agent = self._agents.pods_of(name), devices.agent
        devices.loads.follow(pods)
        inventory = devices.backend.read_inventory()
        telemetry = tuple(devices.backend.read_telemetry())
        holdings = list_claim_holdings(name, inventory, self._agents.claims_of(name))
        users = list_device_users(pods, inventory, holdings)
        return NodeReading(
            name,
            inventory if agent is None else overlay_health(inventory, agent.health),
            telemetry,
            build_readings(inventory, telemetry),
            users,
            {process_id(each.uid): each.uid for each in users},
            self._now().timestamp(),
            () if agent is None else agent.xids.counts,
            self._mig.counts(name),
        )

    def _handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        found = [
            each for each in (old, new) if each is not None and each.metadata.annotations.devices
        ]
        if not any("@" in each.metadata.annotations.devices for each in found):
            return  # no MIG instance
        node = found[-1].spec.node_name
        self._mig.observe(node, list_device_users(self._agents.pods_of(node), NodeInventory()))


def list_claim_holdings(
    node: str, inventory: NodeInventory, claims: Sequence[Claim]
) -> tuple[Holding, ...]:
    """What claims have of a node, as its DRA driver would have noted it. Pure."""
    if not claims:
        return ()
    pool, uuids = list_pool_devices(inventory), {x.index: x.uuid for x in inventory.devices}
    found: list[Holding] = []
    for claim in claims:
        held = tuple(
            HeldDevice(uuids[assignment.index], assignment, name=each.device, request=each.request)
            for each in claim.results
            if each.pool == node and each.device in pool
            for assignment in (pool[each.device].assignment,)
            if assignment.index in uuids
        )
        known = claim.metadata
        found.append(Holding(HolderKind.CLAIM, known.uid, known.namespace, known.name, held))
    return tuple(found)
