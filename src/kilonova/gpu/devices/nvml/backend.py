"""The backend of the GPUs of this machine."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from kilonova.catalog.tables import Catalog, load_catalog
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import (
    Device,
    DeviceHealth,
    DeviceTelemetry,
    GpuEvent,
    HealthState,
    MigInstance,
    NodeInventory,
)
from kilonova.gpu.devices.nvml import mig
from kilonova.gpu.devices.nvml.events import EventReader
from kilonova.gpu.devices.nvml.inventory import read_device
from kilonova.gpu.devices.nvml.library import Handle, NvmlLibrary
from kilonova.gpu.devices.nvml.paths import read_paths
from kilonova.gpu.devices.nvml.reset import RunCommand, reset_device, run_command
from kilonova.gpu.devices.nvml.session import Session, of_device
from kilonova.gpu.devices.nvml.sysfs import SYSFS
from kilonova.gpu.devices.nvml.telemetry import TelemetryReader

_DEFAULT_MODE, _EXCLUSIVE_PROCESS = 0, 3
_NOT_ANSWERING = frozenset(
    {GpuErrorKind.DEVICE_LOST, GpuErrorKind.NOT_FOUND, GpuErrorKind.RESET_REQUIRED}
)


class NvmlBackend:
    """The GPUs of this machine. `library` is the module `pynvml`, which is loaded when needed;
    `profiles` indicates whether profiling counters are read."""

    name = "nvml"

    def __init__(
        self,
        *,
        library: NvmlLibrary | None = None,
        catalog: Catalog | None = None,
        profiles: bool = True,
        sysfs: Path = SYSFS,
        run: RunCommand = run_command,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._session = Session(library)
        self._catalog = catalog or load_catalog()
        self._sysfs = sysfs
        self._run = run
        self._telemetry = TelemetryReader(self._session, now, profiles=profiles)
        self._events = EventReader(self._session, now, sleep)
        self._reading = threading.Lock()
        self._seen: dict[str, Device] = {}

    def read_inventory(self) -> NodeInventory:
        """All devices. One that was seen before and does not answer any more keeps its index, and
        one that never answered has a name by its position, so that the others keep theirs."""
        with self._reading, self._session.using():
            session, library = self._session, self._session.library
            found = self._read_devices()
            cuda = session.read(library.nvmlSystemGetCudaDriverVersion_v2)
            return NodeInventory(
                tuple(device for device, _ in found),
                read_paths(session, found),
                session.read(library.nvmlSystemGetDriverVersion) or "",
                "" if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
                self.name,
            )

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What is measured of each device that answers."""
        with self._reading, self._session.using():
            found: list[DeviceTelemetry] = []
            for uuid, handle in self._list_answering().items():
                try:
                    with of_device(uuid):
                        xid = self._events.last_xids.get(uuid, 0)
                        found.append(self._telemetry.read(uuid, handle, xid))
                except GpuError as error:
                    if error.kind not in _NOT_ANSWERING:
                        raise
            self._telemetry.forget({each.uuid for each in found})
            return found

    def wait_events(self, timeout: float) -> Sequence[GpuEvent]:
        """Events of the driver. One thread may wait."""
        return self._events.wait(self._list_answering, timeout)

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        """Switch MIG mode: on Hopper and later at once, before with a reset."""
        with self._session.using(), of_device(device):
            mig.set_mode(self._session, self._find(device), enabled)

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """Create a GPU instance with its compute instance."""
        with self._session.using(), of_device(device):
            return mig.create_instance(self._session, self._find(device), profile, start)

    def destroy_instance(self, device: str, instance: str) -> None:
        """Destroy the compute instance, then the GPU instance."""
        with self._session.using(), of_device(device):
            mig.destroy_instance(self._session, self._find(device), device, instance)

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """Set the compute mode to `EXCLUSIVE_PROCESS`, or to `DEFAULT`."""
        with self._session.using(), of_device(device):
            handle, library = self._find(device), self._session.library
            mode = _EXCLUSIVE_PROCESS if enabled else _DEFAULT_MODE
            if self._session.call(library.nvmlDeviceGetComputeMode, handle) != mode:
                self._session.call(library.nvmlDeviceSetComputeMode, handle, mode)

    def reset(self, device: str) -> None:
        """Reset a device by `nvidia-smi --gpu-reset`. NVML is closed meanwhile: all other calls
        wait."""
        if device not in self._seen:
            with self._session.using(), of_device(device):
                self._find(device)
        with self._session.suspended():
            reset_device(device, self._run)

    def close(self) -> None:
        """Close NVML."""
        with self._session.suspended():
            pass

    def _read_devices(self) -> list[tuple[Device, Handle | None]]:
        """Devices with their handles, by index; without one where they do not answer."""
        found: list[tuple[Device, Handle | None]] = []
        used = set[int]()
        for position, handle in self._list_handles():
            device, answers = self._read_device(position, handle, used)
            used.add(device.index)
            found.append((device, handle if answers else None))
        present = {device.uuid for device, _ in found}
        for uuid, device in self._seen.items():
            if uuid not in present and device.index not in used:
                found.append((_mark_lost(device, "the driver does not list it any more"), None))
        return sorted(found, key=lambda pair: pair[0].index)

    def _read_device(
        self, position: int, handle: Handle | None, used: set[int]
    ) -> tuple[Device, bool]:
        """A device, and whether it answers; if not, as it was before, or by its position alone."""
        reason = "it does not answer"
        if handle is not None:
            try:
                device = read_device(self._session, handle, position, self._catalog, self._sysfs)
            except GpuError as error:
                _raise_without_driver(error)
                reason = str(error)
                if error.device in self._seen:
                    return _mark_lost(self._seen[error.device], reason), False
            else:
                known = self._seen.get(device.uuid)
                index = position if known is None else known.index
                while index in used:
                    index += 1
                self._seen[device.uuid] = replace(device, index=index)
                return self._seen[device.uuid], True
        for known in self._seen.values():
            if known.index == position and position not in used:
                return _mark_lost(known, reason), False
        return _mark_lost(Device(position, f"GPU-unreadable-{position}"), reason), False

    def _list_handles(self) -> list[tuple[int, Handle | None]]:
        """The position and handle of each device; None for one that does not answer."""
        session, library = self._session, self._session.library
        found: list[tuple[int, Handle | None]] = []
        for position in range(session.call(library.nvmlDeviceGetCount)):
            try:
                handle = session.call(library.nvmlDeviceGetHandleByIndex, position)
            except GpuError as error:
                _raise_without_driver(error)
                handle = None
            found.append((position, handle))
        return found

    def _list_answering(self) -> dict[str, Handle]:
        session, library = self._session, self._session.library
        found: dict[str, Handle] = {}
        for _, handle in self._list_handles():
            if handle is None:
                continue
            try:
                found[session.call(library.nvmlDeviceGetUUID, handle)] = handle
            except GpuError as error:
                _raise_without_driver(error)
        return found

    def _find(self, device: str) -> Handle:
        return self._session.call(self._session.library.nvmlDeviceGetHandleByUUID, device)


def _raise_without_driver(error: GpuError) -> None:
    """Raise an error of the driver again: it is none of the device."""
    if error.kind is GpuErrorKind.DRIVER_NOT_FOUND:
        raise error


def _mark_lost(device: Device, reason: str) -> Device:
    return replace(device, health=DeviceHealth(HealthState.UNHEALTHY, (reason,)))
