"""A backend whose calls fail on demand: around any other backend.

A **fault** names an operation, the kind of the failure, and when: the first so many calls, or each
with a probability; before the effect, or after it. A failure after the effect is what a timeout
looks like: the change was made, and the caller does not know.
"""

import threading
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import DeviceTelemetry, GpuEvent, MigInstance, NodeInventory

T = TypeVar("T")

Operation = Literal[
    "read_inventory",
    "read_telemetry",
    "wait_events",
    "set_mig_mode",
    "create_instance",
    "destroy_instance",
    "set_exclusive_process_mode",
    "reset",
    "close",
]
CHANGES: tuple[Operation, ...] = (
    "set_mig_mode",
    "create_instance",
    "destroy_instance",
    "set_exclusive_process_mode",
    "reset",
)
"""The operations that change a device."""
READINGS: tuple[Operation, ...] = ("read_inventory", "read_telemetry", "wait_events")


class Fault(msgspec.Struct, frozen=True):
    """How calls of an operation fail."""

    operation: Operation
    kind: GpuErrorKind
    device: str = ""
    """Only calls for this device; empty: all."""
    times: int | None = 1
    """How many calls fail; None: all of them."""
    probability: float = 1.0
    after_effect: bool = False


class FaultyBackend:
    """A backend with faults. `random` decides where a fault has a probability."""

    def __init__(self, backend: GpuBackend, random: Random | None = None) -> None:
        self.backend = backend
        self.calls: list[tuple[Operation, str]] = []
        """All calls so far: the operation, and the device where it is of one."""
        self._random = random or Random(0)  # noqa: S311
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def inject(self, *faults: Fault) -> None:
        """Let calls fail. Of several faults that apply to a call, the first one counts."""
        with self._lock:
            self._faults += faults

    def clear(self) -> None:
        """Forget all faults."""
        with self._lock:
            self._faults.clear()

    @property
    def pending(self) -> tuple[Fault, ...]:
        """The faults that may still let a call fail."""
        with self._lock:
            return tuple(self._faults)

    @property
    def name(self) -> str:
        """That of the backend within."""
        return self.backend.name

    def read_inventory(self) -> NodeInventory:
        """See `GpuBackend`."""
        return self._call("read_inventory", "", self.backend.read_inventory)

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """See `GpuBackend`."""
        return self._call("read_telemetry", "", self.backend.read_telemetry)

    def wait_events(self, timeout: float) -> Sequence[GpuEvent]:
        """See `GpuBackend`."""
        return self._call("wait_events", "", lambda: self.backend.wait_events(timeout))

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        """See `GpuBackend`."""
        self._call("set_mig_mode", device, lambda: self.backend.set_mig_mode(device, enabled))

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """See `GpuBackend`."""
        return self._call(
            "create_instance", device, lambda: self.backend.create_instance(device, profile, start)
        )

    def destroy_instance(self, device: str, instance: str) -> None:
        """See `GpuBackend`."""
        self._call(
            "destroy_instance", device, lambda: self.backend.destroy_instance(device, instance)
        )

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """See `GpuBackend`."""
        self._call(
            "set_exclusive_process_mode",
            device,
            lambda: self.backend.set_exclusive_process_mode(device, enabled),
        )

    def reset(self, device: str) -> None:
        """See `GpuBackend`."""
        self._call("reset", device, lambda: self.backend.reset(device))

    def close(self) -> None:
        """See `GpuBackend`."""
        self._call("close", "", self.backend.close)

    def _call(self, operation: Operation, device: str, run: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append((operation, device))
            fault = self._take_fault(operation, device)
        if fault is None:
            return run()
        if fault.after_effect:
            run()
        raise GpuError(fault.kind, operation, device=device, detail="injected")

    def _take_fault(self, operation: Operation, device: str) -> Fault | None:
        for position, fault in enumerate(self._faults):
            if fault.operation != operation or fault.device not in ("", device):
                continue
            if fault.probability < 1 and self._random.random() >= fault.probability:
                continue
            if fault.times is not None:
                left = fault.times - 1
                self._faults[position : position + 1] = [replace(fault, times=left)] if left else []
            return fault
        return None
