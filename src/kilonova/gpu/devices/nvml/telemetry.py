"""What NVML measures of a device."""

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import (
    Activity,
    DeviceTelemetry,
    InstanceTelemetry,
    ProcessUsage,
)
from kilonova.gpu.devices.nvml.library import Handle, ProcessInfo, ProcessSample
from kilonova.gpu.devices.nvml.mig import list_mig_devices
from kilonova.gpu.devices.nvml.profiling import Counters, Profiler
from kilonova.gpu.devices.nvml.session import SUCCESS, Session
from kilonova.gpu.devices.throttle_reasons import list_throttle_reasons

_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_GPU_SENSOR = 0
_PCIE_SENT, _PCIE_RECEIVED = 0, 1
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_MEMORY_TEMPERATURE = 82
_NVLINK_SENT, _NVLINK_RECEIVED = 138, 139
_ALL_LINKS = 0xFFFFFFFF
_NO_INSTANCE = 0xFFFFFFFF
_KIBIBYTE = 1024
_NO_MEMORY = (1 << 64) - 1


class _Past(msgspec.Struct):
    """What is remembered of a device between readings."""

    seen: int = 0
    """The time of the last sample of processes, microseconds."""
    shares: dict[int, float] = {}
    nvlink_bytes: int | None = None
    nvlink_read: float = 0.0


class TelemetryReader:
    """Reads devices; remembers counters, of which only the difference says something."""

    def __init__(
        self, session: Session, now: Callable[[], float], *, profiles: bool = True
    ) -> None:
        self._session = session
        self._now = now
        self._profiler = Profiler(session, now, is_enabled=profiles)
        self._past: dict[str, _Past] = {}

    def read(self, uuid: str, device: Handle, last_xid: int = 0) -> DeviceTelemetry:
        """What is measured of a device now. `GpuError` if it does not answer."""
        session, library = self._session, self._session.library
        past = self._past.setdefault(uuid, _Past())
        counters = self._profiler.read(uuid, device)
        memory = session.read(library.nvmlDeviceGetMemoryInfo, device, library.nvmlMemory_v2)
        reserved = None if memory is None else memory.reserved
        if memory is None:
            memory = session.read(library.nvmlDeviceGetMemoryInfo, device)
        power = session.read(library.nvmlDeviceGetPowerUsage, device)
        rows = session.read(library.nvmlDeviceGetRemappedRows, device) or (None,) * 4
        nvlink = counters.nvlink
        if nvlink is None:
            nvlink = self._read_nvlink(device, past)
        pending, failed = rows[2], rows[3]
        return DeviceTelemetry(
            uuid=uuid,
            activity=self._read_activity(device, counters),
            memory_used_bytes=None if memory is None else memory.used,
            memory_total_bytes=None if memory is None else memory.total,
            memory_reserved_bytes=reserved,
            power_watts=None if power is None else power / 1000,
            energy_millijoules=session.read(library.nvmlDeviceGetTotalEnergyConsumption, device),
            temperature_celsius=session.read(library.nvmlDeviceGetTemperature, device, _GPU_SENSOR),
            memory_temperature_celsius=self._read_field(device, _MEMORY_TEMPERATURE),
            sm_clock_mhz=session.read(library.nvmlDeviceGetClockInfo, device, _SM_CLOCK),
            memory_clock_mhz=session.read(library.nvmlDeviceGetClockInfo, device, _MEMORY_CLOCK),
            pcie_sent_bytes=self._read_pcie(device, _PCIE_SENT, counters.pcie_sent),
            pcie_received_bytes=self._read_pcie(device, _PCIE_RECEIVED, counters.pcie_received),
            pcie_replays=session.read(library.nvmlDeviceGetPcieReplayCounter, device),
            nvlink_bytes=nvlink,
            throttle_reasons=list_throttle_reasons(
                session.read(library.nvmlDeviceGetCurrentClocksEventReasons, device) or 0
            ),
            ecc_corrected=session.read(
                library.nvmlDeviceGetTotalEccErrors, device, _CORRECTED, _VOLATILE
            ),
            ecc_uncorrected=session.read(
                library.nvmlDeviceGetTotalEccErrors, device, _UNCORRECTED, _VOLATILE
            ),
            rows_remapped_corrected=rows[0],
            rows_remapped_uncorrected=rows[1],
            row_remap_pending=None if pending is None else bool(pending),
            row_remap_failed=None if failed is None else bool(failed),
            last_xid=last_xid,
            processes=self._read_processes(device, past),
            instances=self._read_instances(uuid, device),
        )

    def forget(self, keep: set[str]) -> None:
        """Forget devices that are not there any more."""
        for uuid in self._past.keys() - keep:
            del self._past[uuid]

    def _read_activity(self, device: Handle, counters: Counters) -> Activity:
        session, library = self._session, self._session.library
        rates = session.read(library.nvmlDeviceGetUtilizationRates, device)
        encoder = session.read(library.nvmlDeviceGetEncoderUtilization, device)
        decoder = session.read(library.nvmlDeviceGetDecoderUtilization, device)
        return replace(
            counters.activity,
            gpu=counters.activity.gpu if rates is None else rates.gpu / 100,
            memory_copy=None if rates is None else rates.memory / 100,
            encoder=None if encoder is None else encoder[0] / 100,
            decoder=None if decoder is None else decoder[0] / 100,
        )

    def _read_field(self, device: Handle, field: int) -> int | None:
        values = self._session.read(self._session.library.nvmlDeviceGetFieldValues, device, [field])
        if not values or values[0].nvmlReturn != SUCCESS:
            return None
        return values[0].value.uiVal

    def _read_pcie(self, device: Handle, counter: int, profiled: int | None) -> int | None:
        """Bytes per second. NVML itself measures for 20 ms, so the counters are preferred."""
        if profiled is not None:
            return profiled
        found = self._session.read(
            self._session.library.nvmlDeviceGetPcieThroughput, device, counter
        )
        return None if found is None else found * _KIBIBYTE

    def _read_nvlink(self, device: Handle, past: _Past) -> int | None:
        """Bytes per second since the last reading, from totals of all links."""
        fields = [(_NVLINK_SENT, _ALL_LINKS), (_NVLINK_RECEIVED, _ALL_LINKS)]
        values = self._session.read(self._session.library.nvmlDeviceGetFieldValues, device, fields)
        if not values or any(each.nvmlReturn != SUCCESS for each in values):
            return None
        total, now = sum(each.value.ullVal for each in values) * _KIBIBYTE, self._now()
        before, passed = past.nvlink_bytes, now - past.nvlink_read
        past.nvlink_bytes, past.nvlink_read = total, now
        if before is None or passed <= 0 or total < before:
            return None
        return int((total - before) / passed)

    def _read_processes(self, device: Handle, past: _Past) -> tuple[ProcessUsage, ...]:
        session, library = self._session, self._session.library
        found: dict[int, ProcessInfo] = {}
        for function in (
            library.nvmlDeviceGetComputeRunningProcesses_v3,
            library.nvmlDeviceGetMPSComputeRunningProcesses_v3,
        ):
            for each in session.read(function, device) or ():
                found.setdefault(each.pid, each)
        samples = self._read_samples(device, past.seen)
        fresh = {
            each.pid: min(each.smUtil / 100, 1.0)
            for each in sorted(samples or (), key=lambda each: each.timeStamp)
            if each.timeStamp > past.seen
        }
        if samples:
            past.seen = max(past.seen, *(each.timeStamp for each in samples))
        past.shares = {pid: fresh[pid] for pid in fresh if pid in found}
        # A process without a sample since the last reading was idle, if samples exist at all.
        supports_samples = samples is not None
        return tuple(
            ProcessUsage(
                pid,
                None if each.usedGpuMemory in (None, _NO_MEMORY) else each.usedGpuMemory,
                _share_of_process(each, past.shares.get(pid), supports_samples),
                _instance_id(each.gpuInstanceId),
                _instance_id(each.computeInstanceId),
            )
            for pid, each in sorted(found.items())
        )

    def _read_samples(self, device: Handle, since: int) -> Sequence[ProcessSample] | None:
        """Samples of processes; none if all were idle, None if the device takes none."""
        session = self._session
        try:
            return session.call(session.library.nvmlDeviceGetProcessUtilization, device, since)
        except GpuError as error:
            if error.kind is GpuErrorKind.NOT_FOUND:
                return ()
            if session.is_absent(error):
                return None
            raise

    def _read_instances(self, uuid: str, device: Handle) -> tuple[InstanceTelemetry, ...]:
        session, library = self._session, self._session.library
        mode = session.read(library.nvmlDeviceGetMigMode, device)
        devices = [] if mode is None or not mode[0] else list_mig_devices(session, device)
        found: list[InstanceTelemetry] = []
        for handle, gpu_instance in devices:
            memory = session.read(library.nvmlDeviceGetMemoryInfo, handle)
            found.append(
                InstanceTelemetry(
                    session.call(library.nvmlDeviceGetUUID, handle),
                    gpu_instance,
                    None if memory is None else memory.used,
                    None if memory is None else memory.total,
                    self._profiler.read(uuid, device, gpu_instance).activity,
                )
            )
        self._profiler.forget_instances(uuid, {each.gpu_instance for each in found})
        return tuple(found)


def _share_of_process(
    process: ProcessInfo, share: float | None, supports_samples: bool
) -> float | None:
    if _instance_id(process.gpuInstanceId) is not None:
        return None
    return share if share is not None else 0.0 if supports_samples else None


def _instance_id(number: int) -> int | None:
    return None if number == _NO_INSTANCE else number
