"""The backend of simulated GPUs.

Beyond the methods of every backend, it has those of a laboratory: `set_load` runs processes on a
device or instance, `inject_xid` and `lose` break one, `reboot` restarts the machine.

It is synchronised: state changes under a lock, which is not held while an operation takes its time;
whether the operation is possible is therefore checked before and after.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from kilonova.catalog.xids import FALLEN_OFF_BUS, XidAction, find_xid
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import (
    DeviceTelemetry,
    EventKind,
    GpuEvent,
    MigInstance,
    NodeInventory,
    partial_instance_uuid,
)
from kilonova.gpu.devices.paths import connect_devices
from kilonova.gpu.devices.simulated.gpu import ProcessLoad, SimulatedGpu
from kilonova.gpu.devices.simulated.machines import build_instance


class MigDurations(msgspec.Struct, frozen=True):
    """How many seconds operations take."""

    set_mode: float = 1.5
    create: float = 0.35
    destroy: float = 0.2
    reset: float = 4.0


REALISTIC = MigDurations()
INSTANT = MigDurations(0, 0, 0, 0)
"""For tests that do not look at time."""


class SimulatedBackend:
    """The GPUs of a simulated machine.

    `now` is in seconds; `sleep` passes the time that an operation takes.
    """

    name = "simulated"

    def __init__(
        self,
        machine: NodeInventory,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        durations: MigDurations = REALISTIC,
    ) -> None:
        self._machine = machine
        self._now = now
        self._sleep = sleep
        self._durations = durations
        self._gpus = {each.uuid: SimulatedGpu(each, now()) for each in machine.devices}
        self._events: deque[GpuEvent] = deque()
        self._changed = threading.Condition()

    def read_inventory(self) -> NodeInventory:
        """All devices; lost ones are unhealthy."""
        with self._changed:
            devices = tuple(gpu.describe() for gpu in self._gpus.values())
        paths = connect_devices(devices)
        return replace(self._machine, devices=devices, paths=paths, backend=self.name)

    def read_telemetry(self) -> Sequence[DeviceTelemetry]:
        """What is measured now, of each device that is not lost."""
        with self._changed:
            now = self._now()
            return [gpu.measure(now) for gpu in self._gpus.values() if not gpu.lost_until]

    def wait_events(self, timeout: float) -> Sequence[GpuEvent]:
        """Events since the last call; waits in real time."""
        with self._changed:
            self._changed.wait_for(lambda: self._events, timeout)
            found = list(self._events)
            self._events.clear()
        return found

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        """Switch MIG mode; on Ampere it counts from the next reset on."""
        operation = "set_mig_mode"

        def check(gpu: SimulatedGpu) -> None:
            gpu.require_usable(operation)
            if gpu.device.geometry is None:
                raise gpu.error(GpuErrorKind.NOT_SUPPORTED, operation, "no MIG")
            gpu.require_idle(operation)
            if gpu.instances and not enabled:
                why = f"{len(gpu.instances)} instances exist"
                raise gpu.error(GpuErrorKind.IN_USE, operation, why)

        gpu = self._checked(device, operation, check)
        if gpu.mig_enabled == enabled == gpu.mig_pending:
            return
        self._sleep(self._durations.set_mode)
        with self._changed:
            check(gpu)
            gpu.mig_pending = enabled
            if gpu.device.architecture == "Ampere" and gpu.mig_enabled != enabled:
                raise gpu.error(GpuErrorKind.RESET_REQUIRED, operation, "pending until a reset")
            gpu.mig_enabled = enabled

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """Create an instance; `INSUFFICIENT_RESOURCES` where another one occupies its slices."""
        operation = "create_instance"

        def check(gpu: SimulatedGpu) -> None:
            gpu.require_usable(operation)
            gpu.check_placement(operation, profile, start)

        gpu = self._checked(device, operation, check)
        self._sleep(self._durations.create)
        with self._changed:
            gpu.require_usable(operation)
            known = gpu.check_placement(operation, profile, start)
            created = build_instance(gpu.device, known, start)
            gpu.instances[created.uuid] = created
            return created

    def destroy_instance(self, device: str, instance: str) -> None:
        """Destroy an instance that no process uses."""
        operation = "destroy_instance"

        def check(gpu: SimulatedGpu) -> None:
            gpu.require_usable(operation)
            gpu.find_instance(operation, instance)
            pids = [str(each.pid) for each in gpu.processes.get(instance, ())]
            if pids:
                why = f"processes {', '.join(pids)} on {instance}"
                raise gpu.error(GpuErrorKind.IN_USE, operation, why)

        gpu = self._checked(device, operation, check)
        self._sleep(self._durations.destroy)
        with self._changed:
            check(gpu)
            del gpu.instances[instance]

    def set_exclusive_process_mode(self, device: str, enabled: bool) -> None:
        """Whether one process alone may use the device; not in MIG mode."""
        operation = "set_exclusive_process_mode"

        def check(gpu: SimulatedGpu) -> None:
            gpu.require_usable(operation)
            if gpu.mig_enabled and enabled:
                raise gpu.error(GpuErrorKind.NOT_SUPPORTED, operation, "MIG mode is enabled")

        gpu = self._checked(device, operation, check)
        with self._changed:
            gpu.is_exclusive = enabled

    def reset(self, device: str) -> None:
        """Reset a device: its instances are gone, and so is what an XID left behind."""
        operation = "reset"

        def check(gpu: SimulatedGpu) -> None:
            if gpu.lost_until == "reboot":
                why = "only a reboot brings it back"
                raise gpu.error(GpuErrorKind.DEVICE_LOST, operation, why)
            gpu.require_idle(operation)

        gpu = self._checked(device, operation, check)
        self._sleep(self._durations.reset)
        with self._changed:
            check(gpu)
            was_lost = bool(gpu.lost_until)
            gpu.restart(self._now(), keeps_mig_mode=True)
            if was_lost:
                self._post(GpuEvent(EventKind.DEVICE_RECOVERED, device))

    def close(self) -> None:
        """There is nothing to release."""

    # What happens to the hardware.

    def set_load(self, target: str, *loads: ProcessLoad) -> None:
        """The processes of a device or MIG instance from now on; none: it is idle.

        `GpuError` where the hardware would not let them start.
        """
        with self._changed:
            self._owner(target).set_processes(target, loads, self._now())

    def inject_xid(self, device: str, code: int, pids: tuple[int, ...] = ()) -> tuple[int, ...]:
        """An XID with its effect: processes end (`pids`, or all), the device needs a reset, or it
        is lost. The processes that ended."""
        with self._changed:
            gpu = self._find(device, "inject_xid")
            action = find_xid(code).action
            ended = gpu.apply_xid(action, pids, self._now())
            gpu.last_xid = code
            self._post(GpuEvent(EventKind.XID, device, code, pids or ended))
            if action is XidAction.RESTART_NODE:
                self._post(GpuEvent(EventKind.DEVICE_LOST, device))
            return ended

    def lose(self, device: str, until: Literal["reset", "reboot"] = "reset") -> None:
        """The device does not answer any more until then; its processes end."""
        with self._changed:
            gpu = self._find(device, "lose")
            gpu.end_processes((), self._now())
            gpu.lost_until, gpu.last_xid = until, FALLEN_OFF_BUS
            self._post(GpuEvent(EventKind.XID, device, FALLEN_OFF_BUS))
            self._post(GpuEvent(EventKind.DEVICE_LOST, device))

    def add_ecc_errors(self, device: str, *, corrected: int = 0, uncorrected: int = 0) -> None:
        """Memory errors; an uncorrected one leaves a row to be remapped by the next reset."""
        with self._changed:
            gpu = self._find(device, "add_ecc_errors")
            gpu.ecc[0] += corrected
            gpu.ecc[1] += uncorrected
            if corrected:
                self._post(GpuEvent(EventKind.ECC_CORRECTED, device))
            if uncorrected:
                gpu.row_remap_pending = True
                self._post(GpuEvent(EventKind.ECC_UNCORRECTED, device))

    def fail_row_remapping(self, device: str) -> None:
        """No spare row is left."""
        with self._changed:
            self._find(device, "fail_row_remapping").row_remap_failed = True

    def set_throttle_reasons(self, device: str, *reasons: str) -> None:
        """Why clocks are lowered from now on, such as `HwThermalSlowdown`."""
        with self._changed:
            self._find(device, "set_throttle_reasons").throttle_reasons = reasons

    def leave_partial_instance(self, device: str, profile: str, start: int) -> MigInstance:
        """A GPU instance without compute instance, as a program leaves it that ends in between."""
        operation = "leave_partial_instance"
        with self._changed:
            gpu = self._find(device, operation)
            known = gpu.check_placement(operation, profile, start)
            whole = build_instance(gpu.device, known, start)
            uuid = partial_instance_uuid(device, whole.gpu_instance)
            gpu.instances[uuid] = replace(whole, uuid=uuid, compute_instance=-1)
            return gpu.instances[uuid]

    def reboot(self) -> None:
        """Restart the machine: lost devices are back, instances are gone. MIG mode survives on
        Ampere alone."""
        with self._changed:
            for gpu in self._gpus.values():
                keeps_mode = gpu.device.architecture == "Ampere"
                gpu.restart(self._now(), keeps_mig_mode=keeps_mode)
                gpu.last_xid = 0
            self._events.clear()

    def _checked(
        self, device: str, operation: str, check: Callable[[SimulatedGpu], None]
    ) -> SimulatedGpu:
        with self._changed:
            gpu = self._find(device, operation)
            check(gpu)
            return gpu

    def _find(self, device: str, operation: str) -> SimulatedGpu:
        gpu = self._gpus.get(device)
        if gpu is None:
            raise GpuError(GpuErrorKind.NOT_FOUND, operation, device=device)
        return gpu

    def _owner(self, target: str) -> SimulatedGpu:
        """The device of that UUID, or the one with the instance of that UUID."""
        for gpu in self._gpus.values():
            if target == gpu.device.uuid or target in gpu.instances:
                return gpu
        raise GpuError(GpuErrorKind.NOT_FOUND, "set_load", device=target)

    def _post(self, event: GpuEvent) -> None:
        self._events.append(event)
        self._changed.notify_all()
