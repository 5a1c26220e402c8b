"""The conditions and the taint of a node, from its devices. Pure."""

from collections.abc import Mapping, Sequence

import msgspec

from kilonova.api.gpu.health import GPU_HEALTHY, MIG_READY, UNHEALTHY_TAINT, HealthRecord
from kilonova.api.meta import Condition
from kilonova.gpu.agent.desire.topology import unhealthy_reason
from kilonova.gpu.agent.resources import Taint
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory

_MAX_LISTED = 4


class MigProblem(msgspec.Struct, frozen=True):
    """Something about MIG that is wanted and is not so yet."""

    reason: str
    message: str
    is_pending: bool = False
    """Whether it is being made, rather than having failed."""


def gpu_health_condition(inventory: NodeInventory, health: Mapping[str, HealthRecord]) -> Condition:
    """`GPUHealthy`: whether pods may get all devices."""
    problems = [
        f"GPU {device.index}: {reason}"
        for device in inventory.devices
        if (reason := unhealthy_reason(device, health))
    ]
    if problems:
        return Condition(GPU_HEALTHY, "False", "GPUUnhealthy", _join(problems))
    observed = [
        f"GPU {device.index}: {reason}"
        for device in inventory.devices
        if (reason := _degraded_reason(device, health.get(device.uuid)))
    ]
    if observed:
        return Condition(GPU_HEALTHY, "True", "GPUDegraded", _join(observed))
    return Condition(GPU_HEALTHY, "True", "AllGPUsHealthy", _count(len(inventory.devices)))


def healthy_condition(count: int) -> Condition:
    """`GPUHealthy` of a node with so many healthy devices."""
    return Condition(GPU_HEALTHY, "True", "AllGPUsHealthy", _count(count))


def unreadable_condition(error: GpuError) -> Condition:
    """`GPUHealthy` while the devices cannot be read."""
    return Condition(GPU_HEALTHY, "Unknown", error.kind.value, str(error))


def mig_condition(problems: Sequence[MigProblem], instances: int) -> Condition:
    """`MIGReady`: whether the instances exist that pods wait for."""
    failed = [each for each in problems if not each.is_pending]
    if failed:
        return Condition(MIG_READY, "False", failed[0].reason, _join([x.message for x in failed]))
    if problems:
        messages = [each.message for each in problems]
        return Condition(MIG_READY, "False", problems[0].reason, _join(messages))
    return Condition(
        MIG_READY, "True", "InstancesExist", f"{instances} MIG instances, as many as desired"
    )


def build_taint(inventory: NodeInventory, health: Mapping[str, HealthRecord]) -> Taint | None:
    """Repels pods from a node whose devices are all unhealthy. Where only some are, the scheduler
    avoids those."""
    devices = inventory.devices
    if devices and all(unhealthy_reason(each, health) for each in devices):
        return Taint(UNHEALTHY_TAINT, "NoSchedule", "true")
    return None


def _degraded_reason(device: Device, record: HealthRecord | None) -> str:
    """What a device that pods may get has; empty if nothing."""
    if record is not None:
        return record.reason
    if device.health.state is HealthState.DEGRADED:
        return device.health.reasons[0] if device.health.reasons else "degraded"
    return ""


def _count(number: int) -> str:
    return "1 GPU is healthy" if number == 1 else f"all {number} GPUs are healthy"


def _join(messages: Sequence[str]) -> str:
    shown = "; ".join(messages[:_MAX_LISTED])
    more = len(messages) - _MAX_LISTED
    return f"{shown}; and {more} more" if more > 0 else shown
