"""The way to the GPUs of one node.

All methods block and may take seconds: call them in a thread. All raise `GpuError` alone. Methods
that change something do so wholly or not at all, and say `GpuErrorKind.TIMEOUT` if they do not know
which. Calls for different devices may run at the same time, those for one device may not: the
callers see to that.
"""

from collections.abc import Sequence
from typing import Protocol

from kilonova.gpu.devices.model import DeviceTelemetry, GpuEvent, MigInstance, NodeInventory


class TelemetrySource(Protocol):
    """What measures devices; some do nothing else, such as a DCGM exporter."""

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What is measured now, of each device that can be read."""
        ...


class GpuBackend(TelemetrySource, Protocol):
    """The GPUs of one node. Devices and MIG instances are named by their UUID."""

    @property
    def name(self) -> str:
        """The kind of backend: `nvml`, `simulated`, `recorded`."""
        ...

    def read_inventory(self) -> NodeInventory:
        """All devices, as they are now. A device that is lost is in it, unhealthy, if it was seen
        before."""
        ...

    def wait_events(self, timeout: float) -> Sequence[GpuEvent]:
        """Events since the last call; waits for the first one, at most `timeout` seconds."""
        ...

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        """Switch MIG mode. It is in use if processes run on the device, or instances exist.

        `RESET_REQUIRED` where it only counts from the next reset on.
        """
        ...

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """Create a MIG instance, with a compute instance of the same size, at a memory slice."""
        ...

    def destroy_instance(self, device: str, instance: str) -> None:
        """Destroy a MIG instance. `IN_USE` if processes run on it; `NOT_FOUND` if it is gone."""
        ...

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """Whether one process alone may use the device, as an MPS server needs it."""
        ...

    def reset(self, device: str) -> None:
        """Reset the device. `IN_USE` if processes run on it."""
        ...

    def close(self) -> None:
        """Release the driver. Further calls open it again."""
        ...
