"""MIG through NVML: profiles with their placements, the instances that exist, and changes.

What Kubernetes calls a MIG device is two objects of NVML: a GPU instance, which has slices, and a
compute instance in it. Here, each GPU instance has one compute instance with all of it. A further
compute instance, which only others make, is destroyed with its GPU instance.
"""

import ctypes
from collections.abc import Sequence
from typing import cast

import msgspec

from kilonova.catalog.mig import MigProfile
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.geometries import build_profile, profile_order
from kilonova.gpu.devices.model import MigInstance, MigResources, partial_instance_uuid
from kilonova.gpu.devices.nvml.library import Handle, Placement, reference
from kilonova.gpu.devices.nvml.session import IN_USE, RESET_REQUIRED, SUCCESS, Session

_SHARED_ENGINES = 0
_ALL_MEDIA = "+me.all"
"""Profiles whose rules a mask of slices cannot express: beside one, all others lack engines."""


class DriverProfile(msgspec.Struct, frozen=True):
    """A MIG profile with the id by which the driver knows it."""

    id: int
    profile: MigProfile
    resources: MigResources


class _Existing(msgspec.Struct, frozen=True):
    """A compute instance that exists: its MIG device's UUID, and its ids."""

    uuid: str
    gpu_instance: int
    compute_instance: int


def read_profiles(session: Session, device: Handle) -> list[DriverProfile]:
    """The profiles of a device, smallest first, with the names that NVML prints, without `MIG `."""
    library = session.library
    found: list[DriverProfile] = []
    for index in range(library.NVML_GPU_INSTANCE_PROFILE_COUNT):
        info = session.read(library.nvmlDeviceGetGpuInstanceProfileInfo, device, index)
        if info is None:
            continue
        name = info.name.removeprefix("MIG ")
        placements = _read_placements(session, device, info.id)
        if not name or not placements or name.endswith(_ALL_MEDIA):
            continue
        found.append(
            DriverProfile(
                info.id,
                build_profile(
                    name,
                    info.sliceCount,
                    [(each.start, each.size) for each in placements],
                    info.instanceCount,
                    info.multiprocessorCount,
                ),
                MigResources(
                    name,
                    info.memorySizeMB,
                    info.multiprocessorCount,
                    info.copyEngineCount,
                    info.decoderCount,
                    info.encoderCount,
                    info.jpegCount,
                    info.ofaCount,
                ),
            )
        )
    return sorted(found, key=lambda each: profile_order(each.profile))


def list_instances(
    session: Session, device: Handle, uuid: str, profiles: Sequence[DriverProfile]
) -> tuple[MigInstance, ...]:
    """The instances that exist on a device, by their start."""
    compute = {each.gpu_instance: each for each in reversed(_list_compute(session, device))}
    library = session.library
    found: list[MigInstance] = []
    for each in profiles:
        for handle in _list_gpu_instances(session, device, each):
            info = session.call(library.nvmlGpuInstanceGetInfo, handle)
            known = compute.get(info.id)
            found.append(
                MigInstance(
                    partial_instance_uuid(uuid, info.id) if known is None else known.uuid,
                    each.profile.name,
                    info.placement.start,
                    info.placement.size,
                    info.id,
                    -1 if known is None else known.compute_instance,
                    each.resources.memory_mib,
                    each.resources.sms,
                )
            )
    return tuple(sorted(found, key=lambda instance: (instance.start, instance.gpu_instance)))


def set_mode(session: Session, device: Handle, enabled: bool) -> None:
    """Switch MIG mode; a change that could not be made does not stay pending."""
    library, operation = session.library, "nvmlDeviceSetMigMode"
    current, pending = session.call(library.nvmlDeviceGetMigMode, device)
    wanted = int(enabled)
    if current == pending == wanted:
        return
    if current != wanted:
        pids = [
            str(each.pid)
            for each in session.read(library.nvmlDeviceGetComputeRunningProcesses_v3, device) or ()
        ]
        if pids:
            why = f"processes {', '.join(pids)}"
            raise GpuError(GpuErrorKind.IN_USE, operation, detail=why)
    if not enabled and _count_instances(session, device):
        raise GpuError(GpuErrorKind.IN_USE, operation, detail="instances exist")
    status = session.call(library.nvmlDeviceSetMigMode, device, wanted)
    if status == SUCCESS:
        return
    if status == RESET_REQUIRED:
        why = "the mode is pending until a reset"
        raise GpuError(GpuErrorKind.RESET_REQUIRED, operation, detail=why)
    session.call(library.nvmlDeviceSetMigMode, device, current)
    kind = GpuErrorKind.IN_USE if status == IN_USE else GpuErrorKind.UNKNOWN
    raise GpuError(kind, operation, detail=f"activation failed with NVML error {status}")


def create_instance(session: Session, device: Handle, name: str, start: int) -> MigInstance:
    """Create a GPU instance at a start, and a compute instance in it; both or none."""
    library, operation = session.library, "create_instance"
    if not session.call(library.nvmlDeviceGetMigMode, device)[0]:
        raise GpuError(GpuErrorKind.NOT_SUPPORTED, operation, detail="MIG mode is disabled")
    profiles = {each.profile.name: each for each in read_profiles(session, device)}
    found = profiles.get(name)
    if found is None:
        why = f"no profile {name}, but {', '.join(profiles)}"
        raise GpuError(GpuErrorKind.INVALID_REQUEST, operation, detail=why)
    profile = found.profile
    if start not in profile.starts:
        starts = ", ".join(map(str, profile.starts))
        why = f"{name} starts at {starts}, not {start}"
        raise GpuError(GpuErrorKind.INVALID_REQUEST, operation, detail=why)
    handle = session.call(
        library.nvmlDeviceCreateGpuInstanceWithPlacement,
        device,
        found.id,
        reference(Placement(start, profile.slices)),
    )
    compute: Handle | None = None
    try:
        info = session.call(library.nvmlGpuInstanceGetInfo, handle)
        compute = session.call(
            library.nvmlGpuInstanceCreateComputeInstance,
            handle,
            _compute_profile(session, handle, profile),
        )
        existing = next(
            (each for each in _list_compute(session, device) if each.gpu_instance == info.id), None
        )
        if existing is None:
            why = "the new instance is not listed"
            raise GpuError(GpuErrorKind.UNKNOWN, operation, detail=why)
    except GpuError as error:
        _undo_creation(session, handle, compute, error)
        raise
    return MigInstance(
        existing.uuid,
        name,
        info.placement.start,
        info.placement.size,
        info.id,
        existing.compute_instance,
        found.resources.memory_mib,
        found.resources.sms,
    )


def destroy_instance(session: Session, device: Handle, uuid: str, instance: str) -> None:
    """Destroy the compute instances of an instance, then its GPU instance; both or none."""
    library = session.library
    existing = list_instances(session, device, uuid, read_profiles(session, device))
    found = next((each for each in existing if each.uuid == instance), None)
    if found is None:
        raise GpuError(GpuErrorKind.NOT_FOUND, "destroy_instance", detail=f"no {instance}")
    handle = session.call(library.nvmlDeviceGetGpuInstanceById, device, found.gpu_instance)
    destroyed = False
    for each in _list_compute(session, device):
        if each.gpu_instance == found.gpu_instance:
            compute = session.call(
                library.nvmlGpuInstanceGetComputeInstanceById, handle, each.compute_instance
            )
            session.call(library.nvmlComputeInstanceDestroy, compute)
            destroyed = True
    try:
        session.call(library.nvmlGpuInstanceDestroy, handle)
    except GpuError as error:
        if destroyed:
            _restore_compute(session, device, handle, found.profile, error)
        raise


def _read_placements(session: Session, device: Handle, profile: int) -> Sequence[Placement]:
    read = session.library.nvmlDeviceGetGpuInstancePossiblePlacements
    count = ctypes.c_uint(0)
    if session.read(read, device, profile, None, reference(count)) is None or not count.value:
        return ()
    placements = (Placement * count.value)()
    if session.read(read, device, profile, placements, reference(count)) is None:
        return ()
    return list(placements)[: count.value]


def _list_gpu_instances(session: Session, device: Handle, profile: DriverProfile) -> list[Handle]:
    handles = (ctypes.c_void_p * max(profile.profile.limit, 1))()
    count = ctypes.c_uint(len(handles))
    read = session.read(
        session.library.nvmlDeviceGetGpuInstances, device, profile.id, handles, reference(count)
    )
    if read is None:
        return []
    # An element of the array is a number, which NVML would take for 32 bits.
    return [
        Handle(ctypes.c_void_p(cast("int | None", each))) for each in list(handles)[: count.value]
    ]


def _count_instances(session: Session, device: Handle) -> int:
    profiles = read_profiles(session, device)
    return sum(len(_list_gpu_instances(session, device, each)) for each in profiles)


def list_mig_devices(session: Session, device: Handle) -> list[tuple[Handle, int]]:
    """The handles of the MIG devices of a device, with the ids of their GPU instances."""
    library = session.library
    count = session.read(library.nvmlDeviceGetMaxMigDeviceCount, device) or 0
    handles = (
        session.read(library.nvmlDeviceGetMigDeviceHandleByIndex, device, index)
        for index in range(count)
    )
    return [
        (handle, session.call(library.nvmlDeviceGetGpuInstanceId, handle))
        for handle in handles
        if handle is not None
    ]


def _list_compute(session: Session, device: Handle) -> list[_Existing]:
    library = session.library
    return [
        _Existing(
            session.call(library.nvmlDeviceGetUUID, handle),
            gpu_instance,
            session.call(library.nvmlDeviceGetComputeInstanceId, handle),
        )
        for handle, gpu_instance in list_mig_devices(session, device)
    ]


def _compute_profile(session: Session, instance: Handle, profile: MigProfile) -> int:
    """The id of the compute profile that has all of a GPU instance."""
    library = session.library
    found = [
        info
        for index in range(library.NVML_COMPUTE_INSTANCE_PROFILE_COUNT)
        if (
            info := session.read(
                library.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                instance,
                index,
                _SHARED_ENGINES,
            )
        )
        is not None
        and info.sliceCount == profile.compute
    ]
    if not found:
        why = f"no compute profile with {profile.compute} slices"
        raise GpuError(GpuErrorKind.NOT_SUPPORTED, "create_instance", detail=why)
    return max(found, key=lambda info: info.multiprocessorCount).id


def _undo_creation(
    session: Session, instance: Handle, compute: Handle | None, cause: GpuError
) -> None:
    """Destroy what was created. Where that fails too, the caller cannot know: `TIMEOUT`."""
    try:
        if compute is not None:
            session.call(session.library.nvmlComputeInstanceDestroy, compute)
        session.call(session.library.nvmlGpuInstanceDestroy, instance)
    except GpuError as error:
        detail = f"{cause}; undoing it: {error}"
        raise GpuError(GpuErrorKind.TIMEOUT, "create_instance", detail=detail) from cause


def _restore_compute(
    session: Session, device: Handle, instance: Handle, name: str, cause: GpuError
) -> None:
    """Create the compute instance again that is gone. Where that fails too: `TIMEOUT`."""
    try:
        profiles = read_profiles(session, device)
        profile = next(each.profile for each in profiles if each.profile.name == name)
        session.call(
            session.library.nvmlGpuInstanceCreateComputeInstance,
            instance,
            _compute_profile(session, instance, profile),
        )
    except GpuError as error:
        detail = f"{cause}; undoing it: {error}"
        raise GpuError(GpuErrorKind.TIMEOUT, "destroy_instance", detail=detail) from cause
