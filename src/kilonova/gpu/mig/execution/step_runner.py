"""The steps of a plan, done one after the other on one device.

Each step is recorded, done and recorded again, in one call of a thread. A failure that passes by
itself is tried again after a while; a step whose outcome is unknown is looked up on the device
first. The first step that fails for good ends the plan: the rest is planned again from what the
device has then.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import assert_never

import msgspec

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device, MigInstance
from kilonova.gpu.mig.device_view import DeviceView
from kilonova.gpu.mig.execution.device_calls import DeviceCalls
from kilonova.gpu.mig.execution.retries import retry_delay
from kilonova.gpu.mig.execution.statistics import StatisticsRecorder
from kilonova.gpu.mig.journal import Journal
from kilonova.gpu.mig.plan.occupancy import slot_of
from kilonova.gpu.mig.plan.steps import (
    CreateInstance,
    DestroyInstance,
    DisableMode,
    EnableMode,
    ResetDevice,
    Step,
    describe_step,
    operation_name,
)

TIME_LIMITS: Mapping[str, float] = {
    "enable": 60.0,
    "disable": 60.0,
    "reset": 120.0,
    "create": 30.0,
    "destroy": 30.0,
    "read": 30.0,
}
"""Seconds for each operation."""


class StepFailed(Exception):
    """A step was not done."""

    def __init__(self, step: Step, error: GpuError) -> None:
        super().__init__(f"{describe_step(step)}: {error}")
        self.step = step
        self.error = error


class StepRunner:
    """Does the steps of plans; the caller sees to it that there is one at a time per device."""

    def __init__(
        self,
        backend: GpuBackend,
        journal: Journal,
        calls: DeviceCalls,
        view: DeviceView,
        statistics: StatisticsRecorder,
        refresh: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]],
        may_reset: bool,
    ) -> None:
        """`refresh` reads the inventory into the view; `sleep` waits for seconds."""
        self._backend = backend
        self._journal = journal
        self._calls = calls
        self._view = view
        self._statistics = statistics
        self._refresh = refresh
        self._sleep = sleep
        self._may_reset = may_reset

    async def run(self, step: Step) -> None:
        """Do one step; `StepFailed` if it cannot be done."""
        attempt = 0
        while True:
            attempt += 1
            try:
                await self._try(step)
            except GpuError as error:
                if await self._is_done(step, error):
                    return
                delay = retry_delay(error, attempt)
                if delay is None:
                    raise StepFailed(step, error) from error
                await self._sleep(delay)
            else:
                return

    async def _try(self, step: Step) -> None:
        operation = operation_name(step)
        self._view.touch(step.device)
        created: MigInstance | None = None
        try:
            created = await self._calls.run(
                step.device, operation, lambda: self._perform(step), TIME_LIMITS[operation]
            )
        except GpuError as error:
            if error.kind is GpuErrorKind.RESET_REQUIRED and isinstance(
                step, EnableMode | DisableMode
            ):
                self._view.set_pending(step.device, isinstance(step, EnableMode))
                if not self._may_reset:
                    raise
                await self.run(ResetDevice(step.device))
                return
            if error.kind is not GpuErrorKind.NOT_FOUND or not isinstance(step, DestroyInstance):
                raise
        self._view.apply_step(step, created)

    def _perform(self, step: Step) -> MigInstance | None:
        """In a thread: record, do, record."""
        number = self._journal.begin(step)
        started = time.perf_counter()
        try:
            created = call_backend(self._backend, step)
        except GpuError as error:
            self._count(step, started, error.kind.value)
            self._journal.end(number, error=str(error))
            raise
        self._count(step, started)
        self._journal.end(number, instance="" if created is None else created.uuid)
        return created

    def _count(self, step: Step, started: float, failure: str = "") -> None:
        self._statistics.record(operation_name(step), time.perf_counter() - started, failure)

    async def _is_done(self, step: Step, error: GpuError) -> bool:
        """After a failure that leaves it open: whether the device has what the step was for."""
        if error.kind is not GpuErrorKind.TIMEOUT:
            return False
        try:
            await self._refresh()
        except GpuError:
            return False
        device = self._view.device(step.device)
        return device is not None and has_effect(device, step)


def call_backend(backend: GpuBackend, step: Step) -> MigInstance | None:
    """The one call of the backend for a step; the instance where one is created."""
    match step:
        case EnableMode():
            backend.set_mig_mode(step.device, True)
        case DisableMode():
            backend.set_mig_mode(step.device, False)
        case ResetDevice():
            backend.reset(step.device)
        case DestroyInstance():
            backend.destroy_instance(step.device, step.uuid)
        case CreateInstance():
            return backend.create_instance(step.device, step.slot.profile, step.slot.start)
        case _:
            assert_never(step)
    return None


def has_effect(device: Device, step: Step) -> bool:
    """Whether a device is as it is after a step."""
    match step:
        case EnableMode():
            return device.mig_enabled
        case DisableMode():
            return not device.mig_enabled
        case ResetDevice():
            return device.mig_pending is None
        case DestroyInstance():
            return all(each.uuid != step.uuid for each in device.instances)
        case CreateInstance():
            geometry = device.geometry
            return geometry is not None and any(
                slot_of(geometry, each) == step.slot and not each.is_partial
                for each in device.instances
            )
        case _:
            assert_never(step)


class DeviceResult(msgspec.Struct, frozen=True):
    """What became of the plan for one device."""

    device: str
    done: tuple[Step, ...] = ()
    planned: tuple[Step, ...] = ()
    """Steps that were not done: of a dry run, or after a failure."""
    refusals: tuple[str, ...] = ()
    failure: str = ""
