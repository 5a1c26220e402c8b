"""Which devices a container gets. Pure; raises `AllocationRefused`.

The annotation lists the devices of a pod. Its containers take them in the order in which they are
started: init containers run one after the other and use the same devices, sidecars and main
containers have their own.
"""

from collections.abc import Iterable, Iterator, Sequence

from kilonova.api.gpu.annotations import (
    DeviceAssignment,
    InvalidAnnotation,
    parse_devices,
)
from kilonova.catalog.mig import MigProfile
from kilonova.catalog.resource_names import profile_of_resource
from kilonova.gpu.deviceplugin.matching import Candidate, KubeletRequest
from kilonova.gpu.deviceplugin.plugin_devices import SHARED_GPU, is_usable, resource_of
from kilonova.gpu.deviceplugin.pods import ContainerKind, NodePod
from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.kubelet.holdings import Holding, find_conflict
from kilonova.gpu.kubelet.interfaces import AllocationRefused

_WHOLE_DEVICE_MILLI = DeviceAssignment(0).milli


def select_devices(
    inventory: NodeInventory,
    candidate: Candidate,
    request: KubeletRequest,
    holdings: Sequence[Holding],
    pods: Iterable[NodePod],
    shares_per_gpu: int = 0,
) -> tuple[DeviceAssignment, ...]:
    """The devices of a container: those of its pod's annotation, else the first free ones that no
    other pod of the node is assigned."""
    pod = candidate.pod
    if pod.devices is None:
        taken = [
            each
            for other in pods
            if other.uid != pod.uid and not other.is_terminal
            for each in parse_or_nothing(other.devices)
        ]
        found = _choose_free(inventory, pod.uid, request, holdings, taken, shares_per_gpu)
    else:
        found = select_assigned(candidate, request.resource)
    for each in found:
        _check_device(inventory, holdings, pod, each)
    return found


def select_assigned(candidate: Candidate, resource: str) -> tuple[DeviceAssignment, ...]:
    """The devices of the pod's annotation that are a container's."""
    pod, container = candidate.pod, candidate.container
    parsed = parse_devices(pod.devices or "")
    if isinstance(parsed, InvalidAnnotation):
        raise AllocationRefused(f"{pod}: {parsed}")
    own = [each for each in parsed if resource_of(each) == resource]
    if resource == SHARED_GPU:
        if not own:
            raise AllocationRefused(f"{pod} requests {resource}, and is assigned no share of a GPU")
        return tuple(own)  # a share is the pod's, whichever of its containers use it
    first = 0
    for each in pod.containers:
        last = first + each.amounts.get(resource, 0)
        if each is container or each.name == container.name:
            if last > len(own):
                raise AllocationRefused(
                    f"{pod} is assigned {len(own)} devices of {resource} "
                    f"({pod.devices or 'none'}), and container {each.name} needs device "
                    f"{last} of them: it requests more than the scheduler assigned"
                )
            return tuple(own[first:last])
        if each.kind is not ContainerKind.INIT:
            first = last
    raise AllocationRefused(f"{pod} has no container {container.name}")


def parse_or_nothing(text: str | None) -> tuple[DeviceAssignment, ...]:
    """The devices of an annotation; none if it is missing or invalid."""
    parsed = parse_devices(text or "")
    return () if isinstance(parsed, InvalidAnnotation) else parsed


def _check_device(
    inventory: NodeInventory, holdings: Sequence[Holding], pod: NodePod, wanted: DeviceAssignment
) -> None:
    device = next((each for each in inventory.devices if each.index == wanted.index), None)
    if device is None:
        raise AllocationRefused(
            f"{pod} is assigned GPU {wanted.index}, and the node has {len(inventory.devices)}"
        )
    name = f"GPU {device.index} ({device.uuid})"
    if not is_usable(device):
        why = "; ".join(device.health.reasons) or device.health.state.value
        raise AllocationRefused(f"{pod} is assigned {name}, which is unhealthy: {why}")
    if device.withheld and not wanted.profile:
        raise AllocationRefused(
            f"{pod} is assigned {wanted}, and {name} is given as MIG instances only: "
            f"{device.withheld}"
        )
    if wanted.profile:
        profile = _find_profile(device, wanted.profile)
        if profile is None or wanted.start not in profile.starts:
            raise AllocationRefused(
                f"{pod} is assigned {wanted}, and {name} has no such MIG instance"
            )
    holder = find_conflict(inventory, holdings, pod.uid, wanted)
    if holder is not None:
        raise AllocationRefused(f"{pod} is assigned {wanted}: {holder} has {name}")


def _choose_free(
    inventory: NodeInventory,
    uid: str,
    request: KubeletRequest,
    holdings: Sequence[Holding],
    taken: Sequence[DeviceAssignment],
    shares_per_gpu: int,
) -> tuple[DeviceAssignment, ...]:
    """The first free devices: those that the kubelet counts first, so that its count is right."""
    chosen: list[DeviceAssignment] = []
    options = _options(inventory, request, shares_per_gpu)
    for option in options:
        if len(chosen) == request.count:
            break
        beside = [*taken, *chosen]
        if find_conflict(inventory, holdings, uid, option) is None and _fits_beside(
            inventory, beside, option
        ):
            chosen.append(option)
    if len(chosen) < request.count:
        raise AllocationRefused(
            f"the node has {len(chosen)} free devices of {request.resource}, not "
            f"{request.count}: the others are held, assigned to other pods, to be "
            "partitioned, or unhealthy"
        )
    return tuple(chosen)


def _options(
    inventory: NodeInventory, request: KubeletRequest, shares_per_gpu: int
) -> Iterator[DeviceAssignment]:
    """All devices of a resource, in order of preference."""
    devices = [each for each in inventory.devices if is_usable(each)]
    # Ids of plugin devices begin with the UUID of their GPU, or are that of a MIG instance.
    counted = {id.partition("/")[0].partition("::")[0] for id in request.ids}
    profile_name = profile_of_resource(request.resource)
    if profile_name is not None:
        yield from _instance_options(devices, profile_name, counted)
        return
    devices.sort(key=lambda each: (each.uuid not in counted, bool(each.instances), each.index))
    for device in devices:
        if device.withheld:
            continue
        if request.resource == SHARED_GPU:
            milli = _WHOLE_DEVICE_MILLI // max(shares_per_gpu, 1)
            yield DeviceAssignment(device.index, milli)
        else:
            yield DeviceAssignment(device.index)


def _instance_options(
    devices: Sequence[Device], name: str, counted: set[str]
) -> Iterator[DeviceAssignment]:
    """Instances that exist, then those that could, on GPUs that have instances before others."""
    existing = [
        (each.uuid not in counted, device.index, each.start, each.profile)
        for device in devices
        for each in device.instances
        if each.profile == name
    ]
    seen = [DeviceAssignment(index, 0, profile, start) for _, index, start, profile in existing]
    by_preference = sorted(zip(existing, seen, strict=True), key=lambda pair: pair[0])
    yield from (each for _, each in by_preference)
    for device in sorted(
        devices, key=lambda each: (each.uuid not in counted, not each.instances, each.index)
    ):
        profile = _find_profile(device, name)
        for start in profile.starts if profile is not None else ():
            option = DeviceAssignment(device.index, 0, name, start)
            if option not in seen:
                yield option


def _fits_beside(
    inventory: NodeInventory, others: Sequence[DeviceAssignment], wanted: DeviceAssignment
) -> bool:
    """Whether a device can be had beside devices that are assigned to pods."""
    device = next(each for each in inventory.devices if each.index == wanted.index)
    same = [each for each in others if each.index == wanted.index]
    if not wanted.profile:
        used = sum(max(each.milli, each.memory_milli) for each in same)
        free = used + wanted.milli <= _WHOLE_DEVICE_MILLI
        return free and not any(each.profile for each in same)
    mine = _mask(device, wanted)
    return all(each.profile and not _mask(device, each) & mine for each in same)


def _mask(device: Device, assignment: DeviceAssignment) -> int:
    profile = _find_profile(device, assignment.profile)
    return 0 if profile is None else profile.mask_at(assignment.start)


def _find_profile(device: Device, name: str) -> MigProfile | None:
    return None if device.geometry is None else device.geometry.profile(name)
