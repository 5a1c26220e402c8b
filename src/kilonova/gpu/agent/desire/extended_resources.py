"""The extended resources of a node without a device plugin. Pure."""

from collections import Counter
from collections.abc import Mapping

from kilonova.api.gpu_health import HealthRecord
from kilonova.gpu.agent.desire.topology import unhealthy_reason
from kilonova.gpu.devices.model import NodeInventory

GPU_RESOURCE = "nvidia.com/gpu"
MIG_RESOURCE_PREFIX = "nvidia.com/mig-"


def mig_resource(profile: str) -> str:
    """The resource of a profile, as NVIDIA's device plugin names it."""
    return f"{MIG_RESOURCE_PREFIX}{profile.replace('+', '.')}"


def build_resources(
    inventory: NodeInventory, health: Mapping[str, HealthRecord]
) -> tuple[dict[str, str], dict[str, str]]:
    """Capacity and allocatable.

    `nvidia.com/gpu` counts devices in MIG mode too: the agent disables it where the scheduler
    assigns the whole device. Unhealthy devices, and their instances, are not allocatable.
    """
    usable = [each for each in inventory.devices if not unhealthy_reason(each, health)]
    capacity = Counter({GPU_RESOURCE: len(inventory.devices)})
    allocatable = Counter({GPU_RESOURCE: len(usable)})
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
