"""The topology annotation of a node."""

import pytest
from msgspec.structs import replace

from kilonova.api.gpu.annotations import Topology, format_topology, parse_topology
from kilonova.api.gpu.health import HealthRecord
from kilonova.catalog import load_catalog
from kilonova.gpu.agent.desire.topology import build_topology
from kilonova.gpu.devices.model import DeviceHealth, HealthState
from kilonova.gpu.devices.simulated import PERSONAS, machine_from_topology
from kilonova.scheduler.convert.gpus import NodeGpus, convert_node_gpus
from tests.gpu.agent.builders import machine, with_device, with_instances


@pytest.mark.parametrize("persona", PERSONAS)
def test_annotation_describes_a_machine_that_publishes_the_same(persona: str) -> None:
    inventory = machine(persona)
    topology = build_topology(inventory, {})
    parsed = parse_topology(format_topology(topology))
    assert parsed == topology
    again = machine_from_topology(topology, load_catalog())
    assert build_topology(again, {}) == topology


@pytest.mark.parametrize("persona", PERSONAS)
def test_scheduler_reads_the_annotation_of_every_persona(persona: str) -> None:
    inventory = machine(persona)
    text = format_topology(build_topology(inventory, {}))
    gpus = convert_node_gpus({"gpu.kilonova.dev/topology": text}, {}, len(inventory.devices))
    assert isinstance(gpus, NodeGpus)
    assert len(gpus.layout.gpus) == len(inventory.devices)
    assert [each.uuid for each in gpus.ids] == [each.uuid for each in inventory.devices]


def test_what_is_the_same_in_all_devices_is_said_once() -> None:
    topology = build_topology(machine("h100:2"), {})
    assert (topology.product, topology.memory, topology.port) == (
        "NVIDIA-H100-80GB-HBM3",
        81559,
        900,
    )
    assert all(each.product is None and each.memory is None for each in topology.gpus)


def test_devices_that_differ_say_so() -> None:
    topology = build_topology(machine("mixed"), {})
    assert topology.product == "NVIDIA-H100-NVL"
    assert [each.product for each in topology.gpus][:3] == [None, None, "NVIDIA-A100-80GB-PCIe"]


def test_instances_are_those_that_exist_and_can_be_used() -> None:
    inventory = with_instances(machine(), 1, "1g.10gb@0", "3g.40gb@4")
    partial = replace(inventory.devices[1].instances[0], compute_instance=-1)
    inventory = with_device(inventory, 1, instances=(partial, inventory.devices[1].instances[1]))
    gpu = build_topology(inventory, {}).gpus[1]
    assert gpu.mig_enabled
    assert [(each.profile, each.start) for each in gpu.instances] == [("3g.40gb", 4)]


@pytest.mark.parametrize(
    ("state", "healthy"),
    [
        (HealthState.HEALTHY, True),
        (HealthState.DEGRADED, True),
        (HealthState.UNHEALTHY, False),
        (HealthState.UNKNOWN, False),
    ],
)
def test_health_of_the_device_counts(state: HealthState, healthy: bool) -> None:
    inventory = with_device(machine(), 0, health=DeviceHealth(state, ("why",)))
    gpu = build_topology(inventory, {}).gpus[0]
    assert (gpu.healthy, gpu.reason) == (healthy, "" if healthy else "why")


def test_record_makes_a_device_unhealthy_that_the_driver_calls_healthy() -> None:
    inventory = machine()
    record = HealthRecord("Unhealthy", "XID 48: double-bit ECC error", "2026-05-01T12:00:00Z")
    gpu = build_topology(inventory, {inventory.devices[1].uuid: record}).gpus[1]
    assert (gpu.healthy, gpu.reason) == (False, "XID 48: double-bit ECC error")


def test_geometry_that_the_catalog_lacks_is_published() -> None:
    inventory = machine("h100:1")
    geometry = inventory.devices[0].geometry
    assert geometry is not None
    own = replace(geometry, name="my part", profiles=geometry.profiles[:2])
    topology: Topology = build_topology(with_device(inventory, 0, geometry=own), {})
    assert topology.mig == "my part"
    assert [each.name for each in topology.geometries["my part"]] == [
        each.name for each in own.profiles
    ]
