"""A machine, what its agent publishes of it, and the machine simulated from that are alike."""

import pytest

from kilonova.api.gpu.annotations import Topology, format_topology, parse_topology
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.devices.simulated import PERSONAS, machine_from_topology
from kilonova.scheduler.convert.gpus import NodeGpus, convert_node_gpus
from tests.gpu.devices.machines import CATALOG, first_uuid, simulate

MACHINES = [*PERSONAS, "a100-80:4", "h100:4", "H200-NVL:2", "V100-SXM2-16GB:8", "A30:2", "B300:8"]


def publish(inventory: NodeInventory) -> Topology:
    topology = parse_topology(format_topology(build_topology(inventory, {})))
    assert isinstance(topology, Topology)
    return topology


@pytest.mark.parametrize("persona", MACHINES)
def test_simulated_machine_is_what_was_published(persona: str) -> None:
    original = simulate(persona).read_inventory()
    again = machine_from_topology(publish(original), CATALOG)
    assert again.paths == original.paths
    for one, other in zip(original.devices, again.devices, strict=True):
        assert (one.uuid, one.pci, one.numa, one.pcie_switch) == (
            other.uuid,
            other.pci,
            other.numa,
            other.pcie_switch,
        )
        assert (one.memory_mib, one.sms, one.architecture, one.geometry, one.nvlinks) == (
            other.memory_mib,
            other.sms,
            other.architecture,
            other.geometry,
            other.nvlinks,
        )
    assert publish(again) == publish(original)


@pytest.mark.parametrize("persona", MACHINES)
def test_scheduler_understands_what_is_published(persona: str) -> None:
    inventory = simulate(persona).read_inventory()
    annotations = {"gpu.kilonova.dev/topology": format_topology(publish(inventory))}
    converted = convert_node_gpus(annotations, {}, len(inventory.devices))
    assert isinstance(converted, NodeGpus)
    for gpu, device in zip(converted.layout.gpus, inventory.devices, strict=True):
        assert (gpu.memory, gpu.architecture, gpu.numa, gpu.pcie, gpu.mig) == (
            device.memory_mib,
            device.architecture,
            device.numa,
            device.pcie_switch,
            device.geometry,
        )


def test_instances_survive_publication() -> None:
    backend = simulate("h200:2")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "3g.71gb", 4)
    backend.create_instance(uuid, "1g.18gb+me", 0)
    original = backend.read_inventory()
    again = machine_from_topology(publish(original), CATALOG)
    assert again.devices[0].instances == original.devices[0].instances
    assert again.devices[0].mig_enabled
