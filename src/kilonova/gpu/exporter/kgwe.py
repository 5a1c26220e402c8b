"""Samples under KGWE's names, of what the agent of a node knows. Pure.

`kgwe_gpu_*` have one series for each device, in every sharing mode. A device in MIG mode is as busy
as its instances are, weighted by their part of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from kilonova.api.gpu.annotations import InvalidAnnotation, parse_topology
from kilonova.api.gpu.metrics import GpuReading
from kilonova.gpu.devices.model import (
    Device,
    DeviceTelemetry,
    HealthState,
    NodeInventory,
    PathKind,
)
from kilonova.gpu.exporter.metrics import Sample, counter, gauge
from kilonova.gpu.exporter.model import IdleNode, NodeReading

_COUNT = gauge("kgwe_gpu_count", "GPUs of a node, by model.")
_UTILISATION = gauge(
    "kgwe_gpu_utilization_percent",
    "Utilization of a GPU: active SMs where they are measured, else the time with a kernel.",
)
_MEMORY_USED = gauge("kgwe_gpu_memory_used_bytes", "Used memory of a GPU.")
_MEMORY_TOTAL = gauge("kgwe_gpu_memory_total_bytes", "Memory of a GPU.")
_TEMPERATURE = gauge("kgwe_gpu_temperature_celsius", "Temperature of a GPU.")
_POWER = gauge("kgwe_gpu_power_watts", "Power draw of a GPU.")
_HEALTH = gauge(
    "kgwe_gpu_health_status", "Health of a GPU: 1 healthy, 0.5 degraded, 0 unhealthy or unknown."
)
_INSTANCES = gauge("kgwe_mig_instance_count", "MIG instances of a GPU, by profile.")
_INSTANCE_UTILISATION = gauge(
    "kgwe_mig_instance_utilization_percent",
    "Utilization of a MIG instance, of what the instance has.",
)
_ALLOCATIONS = counter("kgwe_mig_allocations", "MIG instances that were assigned to pods.")
_RELEASES = counter("kgwe_mig_releases", "MIG instances that pods released.")
_NVLINK = gauge(
    "kgwe_nvlink_bandwidth_gbps",
    "Bandwidth of the NVLinks between two GPUs in GB/s, both directions together.",
)
_PCIE = gauge(
    "kgwe_pcie_bandwidth_gbps",
    "Bandwidth of a GPU's PCIe link in GB/s, both directions together.",
)
_SCORE = gauge(
    "kgwe_topology_score",
    "How well a node's GPUs are linked: 50, 100 with NVSwitch, 70 with NVLink.",
)

_HEALTH_VALUES = {HealthState.HEALTHY: 1.0, HealthState.DEGRADED: 0.5}
_LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one PCIe lane in one direction, by generation."""
_BASE_SCORE, _SWITCH_SCORE, _LINK_SCORE = 50, 30, 20
_MEBIBYTE = 1 << 20


def list_kgwe_samples(reading: NodeReading) -> Iterator[Sample]:
    """The samples of a node. Lost devices have no utilisation, but count and health."""
    node, inventory = reading.node, reading.inventory
    for model, count in sorted(Counter(each.product for each in inventory.devices).items()):
        yield Sample(_COUNT, {"node": node, "model": model}, count)
    telemetry = {each.uuid: each for each in reading.telemetry}
    readings = {each.index: each for each in reading.readings}
    for device in inventory.devices:
        measured, shown = telemetry.get(device.uuid), readings.get(device.index)
        yield from _list_device(node, device, measured, shown)
    yield from _list_links(node, inventory)
    if inventory.devices:
        yield Sample(_SCORE, {"node": node}, topology_score(inventory))
    if any(each.geometry is not None for each in inventory.devices):
        yield Sample(_ALLOCATIONS, {"node": node}, reading.mig.allocations)
        yield Sample(_RELEASES, {"node": node}, reading.mig.releases)


def list_idle_samples(idle: IdleNode) -> Iterator[Sample]:
    """What is known of a node of which nothing is measured: its GPUs."""
    topology = parse_topology(idle.topology)
    if isinstance(topology, InvalidAnnotation):
        return
    counts = Counter(each.product or topology.product for each in topology.gpus)
    for model, count in sorted(counts.items()):
        # The annotation has the name as a label value: without spaces.
        labels = {"node": idle.node, "model": model.replace("-", " ")}
        yield Sample(_COUNT, labels, count)


def topology_score(inventory: NodeInventory) -> int:
    """KGWE's score of a node: 50, and 30 for NVSwitch, and 20 for any NVLink."""
    links = [link for each in inventory.devices for link in each.nvlinks if link.is_active]
    has_switch = any(link.is_switch for link in links)
    return _BASE_SCORE + _SWITCH_SCORE * has_switch + _LINK_SCORE * bool(links)


def _list_device(
    node: str, device: Device, measured: DeviceTelemetry | None, shown: GpuReading | None
) -> Iterator[Sample]:
    labels = {"gpu_uuid": device.uuid, "node": node, "model": device.product}
    yield Sample(_HEALTH, labels, _HEALTH_VALUES.get(device.health.state, 0.0))
    total = device.memory_mib * _MEBIBYTE
    if measured is not None and measured.memory_total_bytes is not None:
        total = measured.memory_total_bytes
    yield Sample(_MEMORY_TOTAL, labels, total)
    if shown is not None and shown.utilisation is not None:
        yield Sample(_UTILISATION, labels, shown.utilisation * 100)
    if measured is not None:
        for metric, value in (
            (_MEMORY_USED, measured.memory_used_bytes),
            (_TEMPERATURE, measured.temperature_celsius),
            (_POWER, measured.power_watts),
        ):
            if value is not None:
                yield Sample(metric, labels, value)
    yield from _list_instances(node, device, shown)
    if device.pcie_generation in _LANE_GBPS and device.pcie_width:
        bandwidth = 2 * device.pcie_width * _LANE_GBPS[device.pcie_generation]
        yield Sample(_PCIE, {"gpu_uuid": device.uuid, "node": node}, round(bandwidth, 3))


def _list_instances(node: str, device: Device, shown: GpuReading | None) -> Iterator[Sample]:
    counts = Counter(each.profile for each in device.instances if not each.is_partial)
    for profile, count in sorted(counts.items()):
        labels = {"gpu_uuid": device.uuid, "node": node, "profile": profile}
        yield Sample(_INSTANCES, labels, count)
    busy: Mapping[tuple[str, int], float | None] = (
        {} if shown is None else {(x.profile, x.start): x.utilisation for x in shown.instances}
    )
    for each in device.instances:
        utilisation = busy.get((each.profile, each.start))
        if utilisation is not None:
            labels = {
                "instance_uuid": each.uuid,
                "gpu_uuid": device.uuid,
                "profile": each.profile,
                "node": node,
            }
            yield Sample(_INSTANCE_UTILISATION, labels, utilisation * 100)


def _list_links(node: str, inventory: NodeInventory) -> Iterator[Sample]:
    uuids = {each.index: each.uuid for each in inventory.devices}
    for path in inventory.paths:
        if path.kind is PathKind.NVLINK and path.first in uuids and path.second in uuids:
            labels = {
                "gpu_uuid_1": uuids[path.first],
                "gpu_uuid_2": uuids[path.second],
                "node": node,
            }
            yield Sample(_NVLINK, labels, path.bandwidth)
