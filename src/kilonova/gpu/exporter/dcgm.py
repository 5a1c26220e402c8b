"""Samples under the names of DCGM's exporter. Pure.

The series of a field of one device add up to the device. In MIG mode there is one for each
instance instead of one for the device, for what instances have of their own: activity, relative to
the instance, and memory. Where pods share a device, utilisation and used memory are divided among
them by their processes, as DCGM's exporter does for virtual GPUs (label `vgpu`); what belongs to
none of them has empty labels. Everything else has one series for the device.
"""

from collections.abc import Iterator, Mapping, Sequence

from kilonova.gpu.devices.model import Device, DeviceTelemetry
from kilonova.gpu.exporter.attribution import (
    NOBODY,
    Attribution,
    ProcessShare,
    Use,
    count_pods,
    pod_labels,
)
from kilonova.gpu.exporter.device_labels import device_labels, instance_labels
from kilonova.gpu.exporter.fields import (
    DEVICE_FIELDS,
    FB_FREE,
    FB_USED,
    GPU_UTIL,
    PROFILING_FIELDS,
    read_profiling,
)
from kilonova.gpu.exporter.metrics import Labels, Sample
from kilonova.gpu.exporter.model import NodeReading

_MEBIBYTE = 1 << 20
_DRIVER = "DCGM_FI_DRIVER_VERSION"


def list_dcgm_samples(reading: NodeReading, attribution: Attribution) -> Iterator[Sample]:
    """The samples of the devices that were measured."""
    by_uuid = {each.uuid: each for each in reading.telemetry}
    for device in reading.inventory.devices:
        measured = by_uuid.get(device.uuid)
        if measured is None:
            continue
        labels = {**device_labels(reading.node, device), _DRIVER: reading.inventory.driver}
        yield from _list_device_samples(device, measured, attribution, labels)
        if device.mig_enabled:
            yield from _list_instance_samples(device, measured, attribution, labels)


def _list_device_samples(
    device: Device, measured: DeviceTelemetry, attribution: Attribution, labels: Labels
) -> Iterator[Sample]:
    uses = () if device.mig_enabled else attribution.uses_of_device(device)
    whole = {**labels, **pod_labels(uses)}
    for field in DEVICE_FIELDS:
        value = field.read(device, measured)
        if value is not None:
            yield Sample(field.metric, whole, float(value))
    has_counters = measured.activity.sm_active is not None
    if not device.mig_enabled:
        for name, value in read_profiling(measured.activity, has_counters=has_counters).items():
            yield Sample(PROFILING_FIELDS[name], whole, value)
    if device.mig_enabled and measured.instances:
        return
    free = _free_mebibytes(measured)
    if free is not None:
        yield Sample(FB_FREE, whole, free)
    shares = _divide(measured, uses, attribution)
    if shares:
        yield from _list_shared(measured, uses, shares, labels)
        return
    if measured.activity.gpu is not None and not device.mig_enabled:
        yield Sample(GPU_UTIL, whole, measured.activity.gpu * 100)
    if measured.memory_used_bytes is not None:
        yield Sample(FB_USED, whole, measured.memory_used_bytes / _MEBIBYTE)


def _divide(
    measured: DeviceTelemetry, uses: Sequence[Use], attribution: Attribution
) -> Mapping[str, ProcessShare]:
    """What each pod uses of a shared device, by the UID of the pod; nothing if it is not shared, or
    if processes cannot be attributed."""
    if count_pods(uses) < 2:
        return {}
    shares: dict[str, ProcessShare] = {}
    for each in uses:
        share = attribution.measure_processes(measured, each.user.uid)
        if share is not None:
            shares[each.user.uid] = share
    return shares


def _list_shared(
    measured: DeviceTelemetry,
    uses: Sequence[Use],
    shares: Mapping[str, ProcessShare],
    labels: Labels,
) -> Iterator[Sample]:
    """Utilisation and used memory by pod, and what belongs to no pod."""
    utilisation, memory = measured.activity.gpu, measured.memory_used_bytes
    pods = sorted(shares, key=lambda uid: _pod_key(uses, uid))
    for number, uid in enumerate(pods):
        own = [each for each in uses if each.user.uid == uid]
        found = {**labels, **pod_labels(own), "vgpu": str(number)}
        share = shares[uid]
        if share.utilisation is not None:
            yield Sample(GPU_UTIL, found, share.utilisation * 100)
            utilisation = None if utilisation is None else utilisation - share.utilisation
        if share.memory_bytes is not None:
            yield Sample(FB_USED, found, share.memory_bytes / _MEBIBYTE)
            memory = None if memory is None else memory - share.memory_bytes
    rest = {**labels, **NOBODY, "vgpu": ""}
    if utilisation is not None:
        yield Sample(GPU_UTIL, rest, max(0.0, utilisation) * 100)
    if memory is not None:
        yield Sample(FB_USED, rest, max(0, memory) / _MEBIBYTE)


def _pod_key(uses: Sequence[Use], uid: str) -> tuple[str, str, str]:
    user = next(each.user for each in uses if each.user.uid == uid)
    return user.namespace, user.pod, uid


def _list_instance_samples(
    device: Device, measured: DeviceTelemetry, attribution: Attribution, labels: Labels
) -> Iterator[Sample]:
    by_uuid = {each.uuid: each for each in measured.instances}
    for instance in device.instances:
        found = by_uuid.get(instance.uuid)
        if found is None:
            continue
        uses = attribution.uses_of_instance(device, instance)
        own = {**labels, **instance_labels(instance), **pod_labels(uses)}
        for name, value in read_profiling(found.activity, has_counters=True).items():
            yield Sample(PROFILING_FIELDS[name], own, value)
        used, total = found.memory_used_bytes, found.memory_total_bytes
        if used is not None:
            yield Sample(FB_USED, own, used / _MEBIBYTE)
            if total is not None:
                yield Sample(FB_FREE, own, max(0, total - used) / _MEBIBYTE)


def _free_mebibytes(measured: DeviceTelemetry) -> float | None:
    used, total = measured.memory_used_bytes, measured.memory_total_bytes
    if used is None or total is None:
        return None
    return max(0, total - used - (measured.memory_reserved_bytes or 0)) / _MEBIBYTE
