"""The extended resources of a node without a device plugin. Pure."""

from collections import Counter
from collections.abc import Container, Mapping

from kilonova.api.gpu.health import HealthRecord
from kilonova.catalog.resource_names import GPU, mig_resource
from kilonova.gpu.agent.desire.topology import unhealthy_reason
from kilonova.gpu.devices.model import NodeInventory


def build_resources(
    inventory: NodeInventory,
    health: Mapping[str, HealthRecord],
    withheld: Container[str] = frozenset(),
) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable.

    `nvidia.com/gpu` counts devices in MIG mode too: the agent disables it where the scheduler
    assigns the whole device. Unhealthy devices, and their instances, are not allocatable; nor are
    `withheld` devices as a whole, by their UUIDs.
    """
    usable = [each for each in inventory.devices if not unhealthy_reason(each, health)]
    capacity = Counter({GPU: len(inventory.devices)})
    allocatable = Counter({GPU: sum(each.uuid not in withheld for each in usable)})
    for counts, devices in ((capacity, inventory.devices), (allocatable, usable)):
        counts.update(
            mig_resource(instance.profile)
            for device in devices
            for instance in device.instances
            if not instance.is_partial
        )
    names = sorted(capacity)
    return (
        {name: str(capacity[name]) for name in names},
        {name: str(allocatable[name]) for name in names},
    )
