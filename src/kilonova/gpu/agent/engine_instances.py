"""The MIG engine as the device plugin and the DRA driver see it (`InstanceProvider`)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.catalog.mig import Slot
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import MigInstance
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from kilonova.gpu.mig.engine import MigEngine, RequestRefused
from kilonova.gpu.mig.execution.step_runner import StepFailed
from kilonova.gpu.mig.plan.planner import Target
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest


async def _is_ready() -> None:
    pass


class EngineInstances:
    """Makes instances for owners, which are pods and claims, by their UID.

    `on_change` is called when an owner came or went; `wait_ready` waits until the engine knows what
    pods have, before which it changes nothing.
    """

    def __init__(
        self,
        engine: MigEngine,
        on_change: Callable[[], None],
        wait_ready: Callable[[], Awaitable[object]] = _is_ready,
    ) -> None:
        self._engine = engine
        self._wait_ready = wait_ready
        self._on_change = on_change
        self._owners: dict[str, ReservedDevices] = {}
        self._lock = asyncio.Lock()

    def owners(self) -> Mapping[str, ReservedDevices]:
        """What owners have been given here and have not given back."""
        return dict(self._owners)

    def adopt(self, holders: Mapping[str, ReservedDevices]) -> None:
        """Take up what owners had when the last agent ended."""
        self._owners.update(holders)

    async def ensure_instances(
        self, owner: str, assignments: Sequence[DeviceAssignment]
    ) -> Mapping[DeviceAssignment, MigInstance]:
        """Make the instances of an owner exist, and let its whole devices leave MIG mode."""
        await self._wait_ready()
        devices = {each.index: each.uuid for each in self._engine.inventory.devices}
        missing = [each for each in assignments if each.index not in devices]
        if missing:
            raise AllocationRefused(f"GPU {missing[0].index} is gone: the node has {len(devices)}")
        parts = [each for each in assignments if each.profile]
        whole = tuple(dict.fromkeys(devices[x.index] for x in assignments if not x.profile))
        requests = [
            SlotRequest(devices[each.index], Slot(each.profile, each.start)) for each in parts
        ]
        async with self._lock:
            before = self._owners.get(owner)
            # Now: the agent, which may not have seen the pod yet, would take the slots for free.
            self._owners[owner] = ReservedDevices(tuple(requests), whole)
            try:
                await self._leave_mig_mode(whole)
                if whole:
                    await self._engine.use_devices(owner, whole)
                found = await self._engine.ensure(owner, requests) if requests else ()
            except RequestRefused as error:
                self._put_back(owner, before)
                raise AllocationRefused(str(error)) from error
            except StepFailed as error:
                raise error.error from error
            except OSError as error:
                raise GpuError(
                    GpuErrorKind.UNKNOWN, "ensure_instances", detail=str(error)
                ) from error
        self._on_change()
        return dict(zip(parts, found, strict=True))

    async def release_instances(self, owner: str) -> None:
        """The owner needs nothing any more. Its instances stay for the next one."""
        self._owners.pop(owner, None)
        await self._engine.release(owner)
        self._on_change()

    def _put_back(self, owner: str, before: ReservedDevices | None) -> None:
        if before is None:
            self._owners.pop(owner, None)
        else:
            self._owners[owner] = before

    async def _leave_mig_mode(self, devices: Sequence[str]) -> None:
        sliced = {
            device: Target(mig_enabled=False)
            for device in devices
            if (found := self._engine.inventory.find(device)) is not None and found.mig_enabled
        }
        for result in await self._engine.apply(sliced) if sliced else ():
            if result.refusals:
                raise AllocationRefused("; ".join(result.refusals))
            if result.failure:
                raise GpuError(
                    GpuErrorKind.UNKNOWN,
                    "set_mig_mode",
                    device=result.device,
                    detail=result.failure,
                )
