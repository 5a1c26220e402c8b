"""What containers have of devices and what they do with it, in every sharing mode. Pure.

Utilisation has two forms. `kilonova_gpu_pod_utilization_ratio` is relative to what the pod has: 1
is all of its MIG instance, or of its share. `kilonova_gpu_pod_device_ratio` is relative to the
device, so that it adds up over the pods of a device, whatever they were given.
"""

from collections.abc import Iterator, Sequence

from kilonova.api.gpu.metrics import GpuReading
from kilonova.catalog.mig import MigGeometry
from kilonova.gpu.devices.model import Device, DeviceTelemetry, MigInstance
from kilonova.gpu.exporter.attribution import Attribution, Use, count_pods
from kilonova.gpu.exporter.metrics import Labels, Sample, gauge
from kilonova.gpu.exporter.model import NodeReading

_ALLOCATED = gauge(
    "kilonova_gpu_pod_allocated_ratio", "The part of a GPU that a container was assigned."
)
_UTILISATION = gauge(
    "kilonova_gpu_pod_utilization_ratio",
    "How busy a container keeps what it was assigned; a share may be exceeded.",
)
_DEVICE = gauge(
    "kilonova_gpu_pod_device_ratio", "How busy a container keeps the GPU: the part of all of it."
)
_MEMORY_USED = gauge("kilonova_gpu_pod_memory_used_bytes", "GPU memory that a container uses.")
_MEMORY = gauge("kilonova_gpu_pod_memory_bytes", "GPU memory that a container was assigned.")
_DEVICE_ALLOCATED = gauge(
    "kilonova_gpu_allocated_ratio", "The part of a GPU that is assigned to pods, at most 1."
)
_INSTANCE_ACTIVITY = gauge(
    "kilonova_mig_instance_activity_ratio",
    "SM activity of a MIG instance, relative to the instance or to the whole GPU.",
)
_INSTANCE_ALLOCATED = gauge(
    "kilonova_mig_instance_allocated", "Whether a MIG instance is assigned to a pod."
)

_MEBIBYTE = 1 << 20
_MILLI = 1000


def list_pod_samples(reading: NodeReading, attribution: Attribution) -> Iterator[Sample]:
    """The samples of the users of a node, and how much of each device is assigned."""
    telemetry = {each.uuid: each for each in reading.telemetry}
    readings = {each.index: each for each in reading.readings}
    for device in reading.inventory.devices:
        measured, shown = telemetry.get(device.uuid), readings.get(device.index)
        labels = {"node": reading.node, "gpu": str(device.index), "UUID": device.uuid}
        allocated = 0.0
        uses = attribution.uses_of_device(device)
        for use in uses:
            allocated += use.assignment.milli / _MILLI
            yield from _list_use(device, use, uses, attribution, measured, shown, labels)
        for instance in device.instances:
            if instance.is_partial:
                continue
            found = attribution.uses_of_instance(device, instance)
            share = _instance_share(device.geometry, instance)
            allocated += share if found else 0.0
            yield from _list_instance(instance, found, share, measured, shown, labels)
        yield Sample(_DEVICE_ALLOCATED, labels, round(min(1.0, allocated), 4))


def _list_use(
    device: Device,
    use: Use,
    uses: Sequence[Use],
    attribution: Attribution,
    measured: DeviceTelemetry | None,
    shown: GpuReading | None,
    labels: Labels,
) -> Iterator[Sample]:
    """A container with a device, or a share of one.

    Containers of one pod with the same device are not distinguished: processes belong to pods.
    """
    assignment = use.assignment
    share, is_shared = assignment.milli / _MILLI, count_pods(uses) > 1
    mode = "exclusive" if assignment.is_whole and not is_shared else "shared"
    own = {**labels, **_user_labels(use), "mode": mode}
    total = device.memory_mib * _MEBIBYTE
    yield Sample(_ALLOCATED, own, share)
    yield Sample(_MEMORY, own, total * assignment.memory_milli / _MILLI)
    if measured is None or not _is_first_of_pod(use, uses):
        return
    if is_shared:
        found = attribution.measure_processes(measured, use.user.uid)
        busy = None if found is None else found.utilisation
        memory = None if found is None else found.memory_bytes
    else:
        busy = None if shown is None else shown.utilisation
        memory = measured.memory_used_bytes
    if busy is not None:
        yield Sample(_UTILISATION, own, round(busy / share, 4))
        yield Sample(_DEVICE, own, busy)
    if memory is not None:
        yield Sample(_MEMORY_USED, own, memory)


def _list_instance(
    instance: MigInstance,
    uses: Sequence[Use],
    share: float,
    measured: DeviceTelemetry | None,
    shown: GpuReading | None,
    labels: Labels,
) -> Iterator[Sample]:
    """A MIG instance, and the containers that have it."""
    place = {
        **labels,
        "GPU_I_PROFILE": instance.profile,
        "GPU_I_ID": str(instance.gpu_instance),
    }
    busy = None
    for each in () if shown is None else shown.instances:
        if (each.profile, each.start) == (instance.profile, instance.start):
            busy = each.utilisation
    yield Sample(_INSTANCE_ALLOCATED, place, float(bool(uses)))
    if busy is not None:
        yield Sample(_INSTANCE_ACTIVITY, {**place, "relative_to": "instance"}, busy)
        yield Sample(_INSTANCE_ACTIVITY, {**place, "relative_to": "gpu"}, round(busy * share, 4))
    memory = None
    for found in () if measured is None else measured.instances:
        if found.uuid == instance.uuid:
            memory = found.memory_used_bytes
    for use in uses:
        own = {**place, **_user_labels(use), "mode": "mig"}
        yield Sample(_ALLOCATED, own, round(share, 4))
        yield Sample(_MEMORY, own, instance.memory_mib * _MEBIBYTE)
        if not _is_first_of_pod(use, uses):
            continue
        if busy is not None:
            yield Sample(_UTILISATION, own, busy)
            yield Sample(_DEVICE, own, round(busy * share, 4))
        if memory is not None:
            yield Sample(_MEMORY_USED, own, memory)


def _is_first_of_pod(use: Use, uses: Sequence[Use]) -> bool:
    return next(each for each in uses if each.user.uid == use.user.uid) is use


def _user_labels(use: Use) -> Labels:
    user = use.user
    return {"namespace": user.namespace, "pod": user.pod, "container": user.container}


def _instance_share(geometry: MigGeometry | None, instance: MigInstance) -> float:
    """The part of its device that an instance takes."""
    share = None if geometry is None else geometry.device_share(instance.profile)
    return 0.0 if share is None else share
