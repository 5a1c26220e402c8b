"""Inventories, holders and Nodes for tests of decisions."""

from datetime import UTC, datetime

from msgspec.structs import replace

from kilonova.api.gpu.annotations import DeviceAssignment, parse_devices
from kilonova.catalog import load_catalog
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.resources import (
    Node,
    NodeAnnotations,
    NodeMetadata,
    NodeSpec,
    NodeStatus,
)
from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.devices.simulated import build_machine, find_persona
from kilonova.gpu.devices.simulated.machines import build_instance

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def machine(persona: str = "h100:2") -> NodeInventory:
    """The inventory of a persona."""
    catalog = load_catalog()
    return build_machine(find_persona(persona, catalog), catalog, node="node-a")


def with_instances(inventory: NodeInventory, index: int, *slots: str) -> NodeInventory:
    """With MIG instances on a device: `1g.10gb@4`."""
    device = inventory.devices[index]
    assert device.geometry is not None
    instances: list[object] = []
    for slot in slots:
        name, _, start = slot.partition("@")
        profile = device.geometry.profile(name)
        assert profile is not None
        instances.append(build_instance(device, profile, int(start)))
    return with_device(inventory, index, mig_enabled=True, instances=tuple(instances))


def with_device(inventory: NodeInventory, index: int, **changes: object) -> NodeInventory:
    """With changes of a device."""
    devices: list[Device] = list(inventory.devices)
    devices[index] = replace(devices[index], **changes)
    return replace(inventory, devices=tuple(devices))


def holder(name: str, devices: str, *, is_terminating: bool = False) -> Holder:
    """A pod with devices, as in its annotation."""
    parsed = parse_devices(devices)
    assert isinstance(parsed, tuple)
    assigned: tuple[DeviceAssignment, ...] = parsed
    return Holder("default", name, f"uid-{name}", assigned, is_terminating)


def node(
    annotations: NodeAnnotations | None = None,
    labels: dict[str, str] | None = None,
    spec: NodeSpec | None = None,
    status: NodeStatus | None = None,
) -> Node:
    """A Node."""
    metadata = NodeMetadata(
        "node-a", "uid-node-a", "7", labels or {}, annotations or NodeAnnotations()
    )
    return Node(metadata, spec or NodeSpec(), status or NodeStatus())
