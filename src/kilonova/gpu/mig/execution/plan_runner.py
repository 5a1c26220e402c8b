"""Executes plans: checks first that nothing in use is disturbed, and reads the device after a
failure."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.mig.device_view import DeviceView
from kilonova.gpu.mig.execution.device_calls import DeviceCalls
from kilonova.gpu.mig.execution.step_runner import TIME_LIMITS, StepFailed, StepRunner
from kilonova.gpu.mig.plan.planner import DevicePlan, Refusal, RefusalReason
from kilonova.gpu.mig.plan.steps import DestroyInstance, DisableMode, EnableMode, ResetDevice, Step


class RequestRefused(Exception):
    """Instances that cannot be made now, and why."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__("; ".join(f"{each.reason}: {each.message}" for each in refusals))
        self.refusals = tuple(refusals)


class PlanRunner:
    """Executes plans. The caller runs at most one per device at a time."""

    def __init__(
        self,
        runner: StepRunner,
        view: DeviceView,
        backend: GpuBackend,
        calls: DeviceCalls,
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        """`refresh` reads the inventory into the view."""
        self._runner = runner
        self._view = view
        self._backend = backend
        self._calls = calls
        self._refresh = refresh
        self._telemetry_lock = asyncio.Lock()
        self._stale: set[str] = set()
        """Devices on which a call may still have an effect: it has outlived its limit."""

    async def run(self, plan: DevicePlan, done: list[Step]) -> None:
        """Do all steps, and add each to `done`; ends with the first one that fails.

        `RequestRefused` before any step if processes run on what would be destroyed.
        """
        if any(disturbs(step) for step in plan.steps):
            await self.look_for_processes()
            refusals = [each for step in plan.steps for each in self._processes_against(step)]
            if refusals:
                raise RequestRefused(refusals)
        for step in plan.steps:
            try:
                await self._runner.run(step)
            except StepFailed as failure:
                if failure.error.kind is GpuErrorKind.TIMEOUT:
                    self._stale.add(plan.device)
                await self._refresh_after_failure()
                raise
            except OSError:
                await self._refresh_after_failure()
                raise
            done.append(step)
        self._stale.discard(plan.device)

    async def refresh_stale(self, device: str) -> None:
        """Read what may have changed since it was last read: what a call that has outlived its
        limit has done, and processes that may have ended."""
        if device in self._stale:
            await self._refresh_after_failure()
        if self._view.is_busy(device):
            await self.look_for_processes()

    async def look_for_processes(self) -> None:
        """Take over which instances have processes now."""
        try:
            async with self._telemetry_lock:
                telemetry = await self._calls.run(
                    "telemetry", "read", self._backend.read_telemetry, TIME_LIMITS["read"]
                )
        except GpuError:
            return  # the backend refuses to destroy an instance with processes itself
        self._view.observe(telemetry)

    def _processes_against(self, step: Step) -> Sequence[Refusal]:
        """What keeps a step from being done, as far as processes are known."""
        if isinstance(step, DestroyInstance) and self._view.has_processes(step.uuid):
            return (Refusal(RefusalReason.SLICES_IN_USE, f"processes run on {step.slot}"),)
        if isinstance(step, EnableMode | DisableMode | ResetDevice) and (
            self._view.has_whole_processes(step.device)
        ):
            return (Refusal(RefusalReason.DEVICE_IN_USE, f"processes run on {step.device}"),)
        return ()

    async def _refresh_after_failure(self) -> None:
        try:
            await self._refresh()
        except GpuError:
            return  # the failure of the step has more; the next inventory shows the rest


def disturbs(step: Step) -> bool:
    """Whether a step could take something away from a process."""
    return isinstance(step, DestroyInstance | EnableMode | DisableMode | ResetDevice)
