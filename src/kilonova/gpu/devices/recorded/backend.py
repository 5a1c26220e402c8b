"""The backend of recorded readings."""

import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from msgspec.structs import replace

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import DeviceTelemetry, GpuEvent, MigInstance, NodeInventory
from kilonova.gpu.devices.recorded.recording import Recording


class RecordedBackend:
    """Serves a recording. What would change a device is `NOT_SUPPORTED`, or `NOT_FOUND` where there
    is none."""

    name = "recorded"

    def __init__(
        self, recording: Recording, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._recording = recording
        self._sleep = sleep

    def read_inventory(self) -> NodeInventory:
        """The recorded devices."""
        return replace(self._recording.inventory, backend=self.name)

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What was measured when it was recorded."""
        return self._recording.telemetry

    def wait_events(self, timeout: float) -> Sequence[GpuEvent]:
        """None: nothing happens."""
        self._sleep(max(0.0, timeout))
        return ()

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        """Not possible."""
        del enabled
        self._refuse("set_mig_mode", device)

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """Not possible."""
        del profile, start
        self._refuse("create_instance", device)

    def destroy_instance(self, device: str, instance: str) -> None:
        """Not possible."""
        del instance
        self._refuse("destroy_instance", device)

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """Not possible."""
        del enabled
        self._refuse("set_exclusive_process_mode", device)

    def reset(self, device: str) -> None:
        """Not possible."""
        self._refuse("reset", device)

    def close(self) -> None:
        """There is nothing to release."""

    def _refuse(self, operation: str, device: str) -> NoReturn:
        if self._recording.inventory.find(device) is None:
            raise GpuError(GpuErrorKind.NOT_FOUND, operation, device=device)
        why = "recorded readings cannot be changed"
        raise GpuError(GpuErrorKind.NOT_SUPPORTED, operation, device=device, detail=why)
