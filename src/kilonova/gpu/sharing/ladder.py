"""Which way of sharing a request gets: the first rung of a ladder that meets its needs. Pure.

The rungs, from the best isolated: a device of its own (**exclusive**), a **MIG** instance, **MPS**,
**time-slicing**. The choice goes down only as far as the request allows, and reports why it is not
lower where it does, and what was wrong with the rungs above.

Sizes are compared in memory and in multiprocessors, not in the "g" of a profile's name: on an
H200 a `3g.71gb` has 60 of 132 SMs and a `4g.71gb` 64, and four `1g.35gb` have 104 together. The
memory of a profile is what its name states, in GiB: a request for exactly that fits, although the
driver keeps a little of it.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kilonova.catalog.mig import MigGeometry, MigProfile

_VOLTA = (7, 0)
_MIB_PER_GIB = 1024


class Rung(StrEnum):
    """A way of sharing a device."""

    EXCLUSIVE = "Exclusive"
    MIG = "MIG"
    MPS = "MPS"
    TIME_SLICE = "TimeSlice"


class Isolation(StrEnum):
    """What a request must be protected from."""

    NONE = "None"
    MEMORY = "Memory"
    """Others cannot take its memory: MIG, or MPS with limits."""
    FULL = "Full"
    """Neither errors nor bandwidth of others reach it: MIG, or a device of its own."""


class SharingRequest(msgspec.Struct, frozen=True):
    """What is requested of one device. `compute` is the part of its SMs, 0 to 1."""

    memory_mib: int
    compute: float = 0.0
    isolation: Isolation = Isolation.NONE
    profile: str = ""
    """A MIG profile that is requested by name."""
    preferred: Rung | None = None
    """Where the request would like to be; a rung above is taken if it is not possible."""
    workload_type: str = ""


class SharingDevice(msgspec.Struct, frozen=True):
    """What a device can do now."""

    memory_mib: int
    geometry: MigGeometry | None = None
    capability: tuple[int, int] | None = None
    has_mps: bool = True
    """Whether MPS is installed and wanted on its node."""
    mig_mask: int = 0
    """The occupied slices."""
    mig_enabled: bool = False
    mps_threads_left: int = 100
    """Percent."""
    mps_memory_left_mib: int | None = None
    """None is all of it."""
    is_shared: bool = False
    """Whether pods use it by MPS or time-slicing."""


class SharingPolicy(msgspec.Struct, frozen=True):
    """What the cluster prefers."""

    by_workload_type: Mapping[str, Rung] = {}
    """For workloads of a type; comes before what the request prefers."""
    max_waste: float = 0.5
    """The part of a MIG instance that may remain unused. More goes to MPS, if that is allowed."""


class RejectedRung(msgspec.Struct, frozen=True):
    """A rung that was not taken, and why."""

    rung: Rung
    reason: str


class RungChoice(msgspec.Struct, frozen=True):
    """The rung of a request; None if no rung meets its needs."""

    rung: Rung | None
    reason: str
    profile: str = ""
    """The MIG profile, on that rung."""
    rejected: tuple[RejectedRung, ...] = ()


def choose_rung(
    request: SharingRequest, device: SharingDevice, policy: SharingPolicy | None = None
) -> RungChoice:
    """The rung for a request on a device, and the reasons."""
    rules = policy or SharingPolicy()
    wanted = rules.by_workload_type.get(request.workload_type, request.preferred)
    rejected: list[RejectedRung] = []
    checks = (
        (Rung.EXCLUSIVE, _check_exclusive(request, device, wanted)),
        (Rung.MIG, _check_mig(request, device, rules, wanted)),
        (Rung.MPS, _check_mps(request, device, wanted)),
        (Rung.TIME_SLICE, _check_time_slice(request, device)),
    )
    for rung, (is_possible, reason, profile) in checks:
        if is_possible:
            return RungChoice(rung, reason, profile, tuple(rejected))
        rejected.append(RejectedRung(rung, reason))
    reasons = "; ".join(f"{each.rung}: {each.reason}" for each in rejected)
    return RungChoice(None, reasons, rejected=tuple(rejected))


_Check = tuple[bool, str, str]


def _check_exclusive(request: SharingRequest, device: SharingDevice, wanted: Rung | None) -> _Check:
    if device.mig_enabled or device.is_shared:
        state = "sliced" if device.mig_enabled else "shared"
        return False, f"the device is {state} already", ""
    if request.memory_mib > device.memory_mib:
        return False, f"{request.memory_mib} MiB exceed the device's {device.memory_mib} MiB", ""
    if wanted is Rung.EXCLUSIVE:
        return True, "a device of its own is requested", ""
    if request.profile:
        return False, f"the profile {request.profile} is requested", ""
    largest = _largest_part(device)
    if request.isolation is Isolation.FULL and not _fits(request, device, largest):
        return True, "no MIG instance is large enough for full isolation", ""
    if request.compute > 0.5 and request.memory_mib > device.memory_mib / 2:
        return True, "more than half of the device is requested, in memory and in compute", ""
    return False, "less than the device is requested", ""


def _check_mig(
    request: SharingRequest, device: SharingDevice, policy: SharingPolicy, wanted: Rung | None
) -> _Check:
    if device.geometry is None:
        return False, "the device does not support MIG", ""
    if device.is_shared:
        return False, "the device is shared already, and MIG mode needs it idle", ""
    if wanted in (Rung.MPS, Rung.TIME_SLICE) and request.isolation is not Isolation.FULL:
        return False, f"{wanted} is preferred", ""
    profile = _smallest_profile(request, device, device.geometry)
    if profile is None:
        what = request.profile or f"{request.memory_mib} MiB and {request.compute:.0%} of the SMs"
        return False, f"no free slices for {what}", ""
    share = device.geometry.device_share(profile.name) or 1.0
    if _is_whole(profile, device.geometry) and not request.profile and wanted is not Rung.MIG:
        return False, f"only {profile.name} would be large enough, which is the whole device", ""
    needed = max(request.memory_mib / device.memory_mib, request.compute)
    waste = 1 - needed / share
    is_free_to_leave = request.isolation is not Isolation.FULL and not request.profile
    if is_free_to_leave and wanted is not Rung.MIG and waste > policy.max_waste:
        return False, f"{profile.name} would be unused by {waste:.0%}", ""
    why = "is requested" if request.profile else "is the smallest that fits"
    return True, f"{profile.name} {why}", profile.name


def _check_mps(request: SharingRequest, device: SharingDevice, wanted: Rung | None) -> _Check:
    if device.mig_enabled:
        return False, "the device is in MIG mode", ""
    if request.isolation is Isolation.FULL:
        return False, "clients of an MPS server share errors and bandwidth", ""
    if request.profile:
        return False, f"the profile {request.profile} is requested", ""
    if not device.has_mps:
        return False, "MPS is not available on the node", ""
    if device.capability is None or device.capability < _VOLTA:
        return False, "MPS limits threads and memory from compute capability 7.0 on", ""
    if wanted is Rung.TIME_SLICE:
        return False, f"{wanted} is preferred", ""
    threads = max(round(100 * request.compute), 1)
    if threads > device.mps_threads_left:
        return False, f"{threads} % of the threads, of {device.mps_threads_left} % left", ""
    left = device.memory_mib if device.mps_memory_left_mib is None else device.mps_memory_left_mib
    if request.memory_mib > left:
        return False, f"{request.memory_mib} MiB, of {left} MiB left", ""
    return True, f"{threads} % of the threads and {request.memory_mib} MiB are left", ""


def _check_time_slice(request: SharingRequest, device: SharingDevice) -> _Check:
    if device.mig_enabled:
        return False, "the device is in MIG mode", ""
    if request.isolation is not Isolation.NONE:
        return False, f"nothing limits memory, and {request.isolation} isolation is required", ""
    if request.profile:
        return False, f"the profile {request.profile} is requested", ""
    if request.memory_mib > device.memory_mib:
        return False, f"{request.memory_mib} MiB exceed the device's {device.memory_mib} MiB", ""
    return True, "processes take turns: no rung above is possible", ""


def _smallest_profile(
    request: SharingRequest, device: SharingDevice, geometry: MigGeometry
) -> MigProfile | None:
    if request.profile:
        named = geometry.profile(request.profile)
        if named is None or not geometry.free_starts(device.mig_mask, named.name):
            return None
        return named
    able = [
        profile
        for profile in geometry.profiles
        if not profile.extended
        and _fits(request, device, profile)
        and geometry.free_starts(device.mig_mask, profile.name)
    ]
    return min(able, key=lambda each: geometry.device_share(each.name) or 1.0, default=None)


def _largest_part(device: SharingDevice) -> MigProfile | None:
    """The largest profile that is not the whole device."""
    geometry = device.geometry
    if geometry is None:
        return None
    parts = [each for each in geometry.profiles if not _is_whole(each, geometry)]
    return max(parts, key=lambda each: geometry.device_share(each.name) or 0, default=None)


def _is_whole(profile: MigProfile, geometry: MigGeometry) -> bool:
    return profile.slices == max(each.slices for each in geometry.profiles)


def _fits(request: SharingRequest, device: SharingDevice, profile: MigProfile | None) -> bool:
    """Whether the memory and the multiprocessors of a profile are enough."""
    geometry = device.geometry
    if profile is None or geometry is None:
        return False
    whole = max(geometry.profiles, key=lambda each: (each.compute, each.slices))
    if profile.sms and whole.sms:
        compute = profile.sms / whole.sms
    else:
        compute = profile.compute / max(whole.compute, 1)
    slices = max(each.slices for each in geometry.profiles)
    memory = max(device.memory_mib * profile.slices // slices, profile.memory * _MIB_PER_GIB)
    return request.memory_mib <= memory and request.compute <= compute + 1e-9
