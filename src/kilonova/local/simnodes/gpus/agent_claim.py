"""Node agents of simulated nodes: what an agent that has claimed a Node has made there.

An agent claims a Node with the annotation `gpu.kilonova.dev/agent`. From then on it alone publishes
the devices, and a container starts only when the MIG instances of its pod exist in the Node's
topology annotation. Without an agent, instances come and go with the pods that use them.
"""

from collections.abc import Callable, Mapping

from kilonova.api.gpu_annotations import (
    AGENT,
    TOPOLOGY,
    DeviceAssignment,
    InvalidAnnotation,
    parse_topology,
)
from kilonova.kube import Reflector
from kilonova.local.simnodes.lifecycle.node_objects import SimulatedNode
from kilonova.local.simnodes.machine import SimulatedMachine

MadeInstances = frozenset[DeviceAssignment]
"""The MIG instances that exist on a node."""


def read_made_instances(annotations: Mapping[str, str]) -> MadeInstances | None:
    """The MIG instances that an agent has made; None without an agent. With an annotation that
    cannot be parsed there are none."""
    if not annotations.get(AGENT):
        return None
    text = annotations.get(TOPOLOGY, "")
    topology = parse_topology(text) if '"instances"' in text else None
    if topology is None or isinstance(topology, InvalidAnnotation):
        return frozenset()
    return frozenset(
        DeviceAssignment(index, 0, each.profile, each.start)
        for index, gpu in enumerate(topology.gpus)
        for each in gpu.instances
    )


class AgentClaims:
    """Keeps what agents have made in the machines. `changed` is called when there is more, or when
    an agent has left."""

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
            machine.made_instances = read_made_instances(node.metadata.annotations)

    def _handle_node_change(self, old: SimulatedNode | None, new: SimulatedNode | None) -> None:
        machine = self._machines.get(new.metadata.name) if new is not None else None
        if new is None or machine is None:
            return
        after = new.metadata.annotations
        before = old.metadata.annotations if old is not None else {}
        if all(before.get(each) == after.get(each) for each in (AGENT, TOPOLOGY)):
            return
        known, machine.made_instances = machine.made_instances, read_made_instances(after)
        if known is not None and machine.made_instances != known:
            self._changed(machine)
