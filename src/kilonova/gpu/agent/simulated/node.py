"""One simulated node whose devices are simulated: imported when there is one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kilonova.api.gpu.annotations import Topology
from kilonova.api.gpu.metrics import GpuReading
from kilonova.catalog import Catalog
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.node_agent import NodeAgent
from kilonova.gpu.agent.resources import Node, Pod
from kilonova.gpu.agent.simulated.calls import PacedCalls
from kilonova.gpu.agent.simulated.claim_objects import Claim
from kilonova.gpu.agent.simulated.claims import read_claim_holders
from kilonova.gpu.agent.simulated.faults import Xid, apply_lost_devices, apply_xid
from kilonova.gpu.agent.simulated.loads import LoadFollower
from kilonova.gpu.agent.telemetry.readings import build_readings
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.devices.simulated import SimulatedBackend, machine_from_topology
from kilonova.gpu.devices.simulated.backend import INSTANT
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.states import StateChange


@dataclass(slots=True)
class SimulatedDevices:
    """The devices of a node, and its agent once it needs one."""

    backend: SimulatedBackend
    loads: LoadFollower
    agent: NodeAgent | None = field(default=None)

    def read(self, pods: "list[Pod]") -> tuple[GpuReading, ...]:
        """What is measured now, of pods that run."""
        self.loads.follow(pods)
        return build_readings(self.backend.read_inventory(), self.backend.read_telemetry())

    def start_agent(
        self,
        name: str,
        directory: Path,
        context: AgentContext,
        list_claims: Callable[[], Iterable[Claim]],
    ) -> NodeAgent:
        """The agent of the node; it opens itself when it is first used."""
        calls = PacedCalls()

        def build_engine(report: Callable[[StateChange], None]) -> MigEngine:
            return MigEngine(self.backend, directory, calls=calls, report=report)

        def read_claims(inventory: NodeInventory) -> Sequence[Holder]:
            return read_claim_holders(name, inventory, list_claims())

        self.agent = NodeAgent(
            name, self.backend, build_engine, calls, context, directory, read_claims=read_claims
        )
        return self.agent

    async def reconcile(
        self, agent: NodeAgent, node: Node, pods: "list[Pod]", xids: "list[Xid]"
    ) -> float | None:
        """Let faults have their effect, then bring everything in line."""
        for xid in xids:
            apply_xid(self.backend, xid)
        apply_lost_devices(self.backend, node, agent.now())
        events = self.backend.wait_events(0)
        if events:
            agent.take_events(events)
        delay = await agent.reconcile(node, pods)
        self.loads.follow(pods)
        return delay


def simulate_devices(
    topology: Topology, catalog: Catalog, monotonic: Callable[[], float]
) -> SimulatedDevices:
    """The devices that a node has published."""
    machine = machine_from_topology(topology, catalog)
    backend = SimulatedBackend(machine, now=monotonic, durations=INSTANT)
    return SimulatedDevices(backend, LoadFollower(backend))
