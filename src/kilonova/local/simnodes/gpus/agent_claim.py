"""Node agents of simulated nodes: what an agent that has claimed a Node has made there.

An agent claims a Node with the annotation `gpu.kilonova.dev/agent`. From then on it alone publishes
the devices, and a container starts only when, by the Node's topology annotation, the MIG instances
of its pod exist, and devices that it has as a whole are not in MIG mode. Without an agent,
instances come and go with the pods that use them.
"""

from collections.abc import Callable, Mapping

from kilonova.api.gpu.annotations import (
    AGENT,
    TOPOLOGY,
    DeviceAssignment,
    InvalidAnnotation,
    parse_topology,
)
from kilonova.kube import Reflector
from kilonova.local.simnodes.lifecycle.node_objects import SimulatedNode
from kilonova.local.simnodes.machine import MadeDevices, SimulatedMachine


def read_made_devices(annotations: Mapping[str, str]) -> MadeDevices | None:
    """What an agent has made; None without an agent. With an annotation that cannot be parsed there
    are no instances."""
    if not annotations.get(AGENT):
        return None
    text = annotations.get(TOPOLOGY, "")
    topology = parse_topology(text) if '"migEnabled"' in text else None
    if topology is None or isinstance(topology, InvalidAnnotation):
        return MadeDevices()
    return MadeDevices(
        frozenset(
            DeviceAssignment(index, 0, each.profile, each.start)
            for index, gpu in enumerate(topology.gpus)
            for each in gpu.instances
        ),
        frozenset(index for index, gpu in enumerate(topology.gpus) if gpu.mig_enabled),
    )


class AgentClaims:
    """Keeps what agents have made in the machines. `changed` is called when it has changed."""

    def __init__(
        self,
        nodes: Reflector[SimulatedNode],
        machines: Mapping[str, SimulatedMachine],
        changed: Callable[[SimulatedMachine], None],
    ) -> None:
        self._nodes = nodes
        self._machines = machines
        self._changed = changed

    def start(self) -> Callable[[], None]:
        """Follow the Nodes of all machines; call the result to stop."""
        for machine in self._machines.values():
            self.add_machine(machine)
        return self._nodes.store.add_event_handler(self._handle_node_change)

    def add_machine(self, machine: SimulatedMachine) -> None:
        """Read the claim of a machine's Node."""
        node = self._nodes.store.get(("", machine.node.name))
        if node is not None:
            machine.made = read_made_devices(node.metadata.annotations)

    def _handle_node_change(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        machine = self._machines.get(new.metadata.name) if new is not None else None
        if new is None or machine is None:
            return
        after = new.metadata.annotations
        before = old.metadata.annotations if old is not None else {}
        if all(before.get(each) == after.get(each) for each in (AGENT, TOPOLOGY)):
            return
        known, machine.made = machine.made, read_made_devices(after)
        if known is not None and machine.made != known:
            self._changed(machine)
