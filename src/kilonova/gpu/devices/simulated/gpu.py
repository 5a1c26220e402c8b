"""One simulated GPU: its state, what may be changed in it, and what is measured."""

import math
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from kilonova.catalog.mig import MigProfile
from kilonova.catalog.xids import FALLEN_OFF_BUS, XidAction, find_xid
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import (
    Activity,
    Device,
    DeviceHealth,
    DeviceTelemetry,
    HealthState,
    InstanceTelemetry,
    MigInstance,
    ProcessUsage,
)

_MEBIBYTE = 1 << 20
_RESERVED_SHARE = 0.0043
"""The part of the memory that the driver keeps: as on an H200."""
_ROOM_CELSIUS = 28.0
_RISE_CELSIUS = 42.0
"""At the power limit, above the ambient temperature."""
_THERMAL_SECONDS = 30.0
_IDLE_CLOCK_MHZ = 345
_IDLE_SHARE = 0.12
_POWER_CAP_LOAD = 0.98
_SM_ACTIVE, _SM_OCCUPANCY, _TENSOR, _DRAM = 0.92, 0.45, 0.55, 0.5
"""Parts of the activity of a simulated training process."""


class ProcessLoad(msgspec.Struct, frozen=True):
    """A process on a device or MIG instance; `activity` is the part of it that it keeps busy."""

    pid: int
    activity: float = 0.0
    memory_bytes: int = 0


class SimulatedGpu:
    """A device. Not synchronised: the backend sees to that. `device` is it without its state."""

    def __init__(self, device: Device, now: float) -> None:
        self.device = replace(device, instances=(), mig_enabled=False, mig_pending=None)
        self.mig_enabled = device.mig_enabled
        self.mig_pending = device.mig_enabled
        self.instances = {each.uuid: each for each in device.instances}
        self.processes: dict[str, tuple[ProcessLoad, ...]] = {}
        self.is_exclusive = False
        self.lost_until = ""
        """`reset` or `reboot` while it is lost."""
        self.needs_reset = False
        self.last_xid = 0
        self.throttle_reasons: tuple[str, ...] = ()
        self.ecc = [0, 0]
        """Corrected and uncorrected errors."""
        self.rows = [0, 0]
        self.row_remap_pending = False
        self.row_remap_failed = False
        self._updated = now
        self._temperature = _ROOM_CELSIUS + _RISE_CELSIUS * _IDLE_SHARE
        self._energy = 0.0

    def describe(self) -> Device:
        """The device as the driver reports it now."""
        instances = sorted(self.instances.values(), key=lambda each: (each.start, each.uuid))
        pending = self.mig_pending if self.mig_pending != self.mig_enabled else None
        health = DeviceHealth()
        if self.lost_until:
            reasons = (str(find_xid(FALLEN_OFF_BUS)),)
            health = DeviceHealth(HealthState.UNHEALTHY, reasons)
        return replace(
            self.device,
            mig_enabled=self.mig_enabled,
            mig_pending=pending,
            instances=tuple(instances),
            health=health,
        )

    def require_usable(self, operation: str) -> None:
        """`GpuError` where the device is lost or waits for a reset."""
        if self.lost_until:
            raise self.error(GpuErrorKind.DEVICE_LOST, operation)
        if self.needs_reset:
            raise self.error(GpuErrorKind.RESET_REQUIRED, operation)

    def require_idle(self, operation: str) -> None:
        """`GpuError` where a process uses the device or an instance of it."""
        pids = sorted({each.pid for loads in self.processes.values() for each in loads})
        if pids:
            listed = ", ".join(map(str, pids))
            raise self.error(GpuErrorKind.IN_USE, operation, f"processes {listed}")

    def check_placement(self, operation: str, profile: str, start: int) -> MigProfile:
        """The profile of an instance that could be created at a start; `GpuError` if none."""
        geometry = self.device.geometry
        if geometry is None or not self.mig_enabled:
            why = "no MIG" if geometry is None else "MIG mode is disabled"
            raise self.error(GpuErrorKind.NOT_SUPPORTED, operation, why)
        known = geometry.profile(profile)
        if known is None:
            names = ", ".join(each.name for each in geometry.profiles)
            why = f"no profile {profile}, but {names}"
            raise self.error(GpuErrorKind.INVALID_REQUEST, operation, why)
        if start not in known.starts:
            starts = ", ".join(map(str, known.starts))
            why = f"{profile} starts at {starts}, not {start}"
            raise self.error(GpuErrorKind.INVALID_REQUEST, operation, why)
        existing = [each for each in self.instances.values() if each.profile == known.name]
        if known.mask_at(start) & self.occupied_mask() or len(existing) >= known.limit:
            why = f"no free slices for {profile} at {start}"
            raise self.error(GpuErrorKind.INSUFFICIENT_RESOURCES, operation, why)
        return known

    def occupied_mask(self) -> int:
        """The slices that instances occupy, and the media extension."""
        mask = 0
        for each in self.instances.values():
            profile = self.device.geometry and self.device.geometry.profile(each.profile)
            mask |= profile.mask_at(each.start) if profile else 0
        return mask

    def find_instance(self, operation: str, uuid: str) -> MigInstance:
        """The instance of that UUID; `GpuError` if there is none."""
        if uuid not in self.instances:
            raise self.error(GpuErrorKind.NOT_FOUND, operation, f"no instance {uuid}")
        return self.instances[uuid]

    def set_processes(self, target: str, loads: tuple[ProcessLoad, ...], now: float) -> None:
        """The processes of the device or of an instance, instead of those before."""
        operation = "set_load"
        if loads:
            self.require_usable(operation)
        if target != self.device.uuid:
            if self.find_instance(operation, target).is_partial:
                raise self.error(GpuErrorKind.NOT_SUPPORTED, operation, "no compute instance")
        elif loads and self.mig_enabled:
            why = "MIG mode is enabled: processes run on instances"
            raise self.error(GpuErrorKind.NOT_SUPPORTED, operation, why)
        if self.is_exclusive and len({each.pid for each in loads}) > 1:
            why = "the compute mode admits one process"
            raise self.error(GpuErrorKind.IN_USE, operation, why)
        self._advance(now)
        self.processes.pop(target, None)
        if loads:
            self.processes[target] = loads

    def end_processes(self, pids: Iterable[int], now: float) -> tuple[int, ...]:
        """End these processes, or all if none are given; those that ended."""
        self._advance(now)
        wanted = set(pids)
        ended: list[int] = []
        for target, loads in list(self.processes.items()):
            kept = tuple(each for each in loads if wanted and each.pid not in wanted)
            ended += [each.pid for each in loads if each not in kept]
            if kept:
                self.processes[target] = kept
            else:
                del self.processes[target]
        return tuple(sorted(set(ended)))

    def apply_xid(self, action: XidAction, pids: tuple[int, ...], now: float) -> tuple[int, ...]:
        """What an XID does to the device; the processes that ended."""
        match action:
            case XidAction.NONE | XidAction.CHECK_LINK | XidAction.CONTACT_SUPPORT:
                return ()
            case XidAction.RESTART_APPLICATION:
                return self.end_processes(pids, now)
            case XidAction.RESET_GPU:
                self.needs_reset = True
                return self.end_processes((), now)
            case XidAction.RESTART_NODE:
                self.lost_until = "reboot"
                return self.end_processes((), now)

    def restart(self, now: float, *, keeps_mig_mode: bool) -> None:
        """After a reset or a reboot: instances and volatile counters are gone, a pending MIG mode
        counts."""
        self.end_processes((), now)
        self.instances.clear()
        self.mig_enabled = self.mig_pending = self.mig_pending and keeps_mig_mode
        self.lost_until, self.needs_reset = "", False
        self.throttle_reasons, self.is_exclusive = (), False
        self.ecc = [0, 0]
        if self.row_remap_pending:
            self.rows[1] += 1
            self.row_remap_pending = False

    def measure(self, now: float) -> DeviceTelemetry:
        """What the driver measures now."""
        self._advance(now)
        load, watts = self._load(), self._power()
        has_counters = (self.device.capability or (0, 0)) >= (9, 0)
        total = self.device.memory_mib * _MEBIBYTE
        reserved = int(total * _RESERVED_SHARE)
        used = sum(each.memory_bytes for loads in self.processes.values() for each in loads)
        is_busy = load > 0
        return DeviceTelemetry(
            uuid=self.device.uuid,
            activity=Activity() if self.mig_enabled else _activity(load, has_counters),
            memory_used_bytes=min(used, total - reserved),
            memory_total_bytes=total,
            memory_reserved_bytes=reserved,
            power_watts=round(watts, 3),
            energy_millijoules=int(self._energy * 1000),
            temperature_celsius=round(self._temperature),
            memory_temperature_celsius=round(self._temperature) + 2,
            sm_clock_mhz=self.device.max_sm_clock_mhz if is_busy else _IDLE_CLOCK_MHZ,
            memory_clock_mhz=self.device.max_memory_clock_mhz,
            pcie_sent_bytes=int(load * 2e9),
            pcie_received_bytes=int(load * 5e9),
            pcie_replays=0,
            nvlink_bytes=int(load * 1e11) if self.device.nvlinks else None,
            throttle_reasons=self._throttle_reasons(load),
            ecc_corrected=self.ecc[0],
            ecc_uncorrected=self.ecc[1],
            rows_remapped_corrected=self.rows[0],
            rows_remapped_uncorrected=self.rows[1],
            row_remap_pending=self.row_remap_pending,
            row_remap_failed=self.row_remap_failed,
            last_xid=self.last_xid,
            processes=self._list_processes(),
            instances=self._measure_instances(has_counters),
        )

    def error(self, kind: GpuErrorKind, operation: str, detail: str = "") -> GpuError:
        """An error of this device."""
        return GpuError(kind, operation, device=self.device.uuid, detail=detail)

    def _load(self) -> float:
        """How busy the device is: instances count with their part of it."""
        total = max((each.slices for each in self._profiles()), default=1)
        load = 0.0
        for target, loads in self.processes.items():
            instance = self.instances.get(target)
            share = 1.0 if instance is None else instance.slices / total
            load += share * min(1.0, sum(each.activity for each in loads))
        return min(1.0, load)

    def _profiles(self) -> tuple[MigProfile, ...]:
        return self.device.geometry.profiles if self.device.geometry else ()

    def _power(self) -> float:
        limit = self.device.power_limit_watts or 300.0
        return limit * (_IDLE_SHARE + (1 - _IDLE_SHARE) * self._load())

    def _advance(self, now: float) -> None:
        """Energy and temperature up to now, by the load since the last change."""
        passed, self._updated = max(0.0, now - self._updated), now
        watts = self._power()
        self._energy += watts * passed
        target = _ROOM_CELSIUS + _RISE_CELSIUS * watts / (self.device.power_limit_watts or 300.0)
        self._temperature = target + (self._temperature - target) * math.exp(
            -passed / _THERMAL_SECONDS
        )

    def _throttle_reasons(self, load: float) -> tuple[str, ...]:
        own = ("GpuIdle",) if not load else ("SwPowerCap",) if load >= _POWER_CAP_LOAD else ()
        return tuple(dict.fromkeys((*self.throttle_reasons, *own)))

    def _list_processes(self) -> tuple[ProcessUsage, ...]:
        found: list[ProcessUsage] = []
        for target, loads in self.processes.items():
            instance = self.instances.get(target)
            for each in loads:
                usage = ProcessUsage(each.pid, each.memory_bytes, each.activity)
                if instance is not None:
                    usage = replace(
                        usage,
                        utilisation=None,
                        gpu_instance=instance.gpu_instance,
                        compute_instance=instance.compute_instance,
                    )
                found.append(usage)
        return tuple(sorted(found, key=lambda each: each.pid))

    def _measure_instances(self, has_counters: bool) -> tuple[InstanceTelemetry, ...]:
        return tuple(
            InstanceTelemetry(
                each.uuid,
                each.gpu_instance,
                sum(load.memory_bytes for load in self.processes.get(each.uuid, ())),
                each.memory_mib * _MEBIBYTE,
                _activity(
                    min(1.0, sum(load.activity for load in self.processes.get(each.uuid, ()))),
                    has_counters,
                    is_instance=True,
                ),
            )
            for each in sorted(self.instances.values(), key=lambda each: each.start)
            if not each.is_partial
        )


def _activity(load: float, has_counters: bool, *, is_instance: bool = False) -> Activity:
    """The profiling counters exist from Hopper on. Instances have no other utilisation: with
    counters, the time with a kernel is one of them."""
    activity = (
        Activity()
        if is_instance
        else Activity(gpu=load, memory_copy=load * _DRAM, encoder=0.0, decoder=0.0)
    )
    if has_counters:
        activity = replace(
            activity,
            gpu=load,
            sm_active=load * _SM_ACTIVE,
            sm_occupancy=load * _SM_OCCUPANCY,
            tensor=load * _TENSOR,
            dram=load * _DRAM,
        )
    return activity
