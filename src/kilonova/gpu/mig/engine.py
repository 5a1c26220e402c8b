"""The MIG engine of a node: it makes the instances that pods have been assigned.

**Reservation first**: a slot belongs to its holder, on disk, before its instance is made; whatever
else is planned keeps it. `ensure` may be called as often as one likes: it makes what is missing,
and returns what is there.

**Nothing in use is touched**: an instance with a holder or with processes is protected in every
plan. The engine knows the holders for certain only after `reconcile`; until then every instance
that it has found counts as in use, and no MIG mode is changed.

**A crash at any point** leaves reservations in the journal, and instances on the devices. The next
engine adopts the instances, whatever made them, and goes on. Two engines on a node exclude each
other (`EngineIsRunning`).

Methods run in one event loop. Devices change at the same time, the steps of one device one after
the other; calls of the backend are made by `DeviceCalls`, as a rule in threads.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from kilonova.catalog.mig import Slot
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import DeviceTelemetry, MigInstance, NodeInventory
from kilonova.gpu.mig.device_view import DeviceView
from kilonova.gpu.mig.execution.device_calls import DeviceCalls, ThreadCalls
from kilonova.gpu.mig.execution.plan_runner import PlanRunner, RequestRefused, disturbs
from kilonova.gpu.mig.execution.statistics import OperationStatistics, StatisticsRecorder
from kilonova.gpu.mig.execution.step_runner import TIME_LIMITS, DeviceResult, StepFailed, StepRunner
from kilonova.gpu.mig.journal import Journal, Reserved
from kilonova.gpu.mig.node_lock import NodeLock
from kilonova.gpu.mig.plan.planner import DevicePlan, PinnedInstance, Refusal, RefusalReason, Target
from kilonova.gpu.mig.plan.protected_plan import plan_beside_reserved
from kilonova.gpu.mig.plan.steps import Step
from kilonova.gpu.mig.reservations import (
    ReservationTable,
    ReservedDevices,
    SlotRequest,
    check_requests,
    normalise_request,
)
from kilonova.gpu.mig.states import InstanceStatus, MigState, StateChange
from kilonova.scheduler.core.gpu.mig import ProfileDemand

_JOURNAL = "mig.journal"
_LOCK = "mig.lock"


class RestoredState(msgspec.Struct, frozen=True):
    """What an engine found when it was opened."""

    adopted: tuple[InstanceStatus, ...] = ()
    """All instances that exist."""
    missing: tuple[SlotRequest, ...] = ()
    """Reserved slots without an instance, such as after a reboot: `restore` makes them."""
    unfinished: tuple[Step, ...] = ()
    """Steps during which the last engine ended."""
    damaged_entries: int = 0


class MigEngine:
    """One node's MIG instances. `open` it first, and `close` it at the end."""

    def __init__(
        self,
        backend: GpuBackend,
        directory: Path,
        *,
        calls: DeviceCalls | None = None,
        report: Callable[[StateChange], None] = lambda change: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        demand: ProfileDemand = (),
        may_reset: bool = True,
    ) -> None:
        """`directory` keeps the journal, across reboots; `report` is called with every change of
        state, in the event loop. `may_reset`: devices that change their MIG mode only when they are
        reset are reset, if nothing uses them."""
        self._backend = backend
        self._directory = directory
        self._calls = calls or ThreadCalls()
        self._table = ReservationTable()
        self._view = DeviceView(report, self._holder_of)
        self._statistics = StatisticsRecorder()
        self._sleep = sleep
        self._may_reset = may_reset
        self.demand = demand
        """Expected profiles: decides between plans that are equal otherwise."""
        self._device_locks: dict[str, asyncio.Lock] = {}
        self._read_lock = asyncio.Lock()
        self._knows_holders = False
        self._lock: NodeLock | None = None
        self._journal: Journal | None = None

    async def open(self) -> RestoredState:
        """Take the node's lock, read the journal, and adopt what exists.

        `EngineIsRunning` if another engine manages the node; nothing was changed then.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = NodeLock(self._directory / _LOCK)
        try:
            self._journal = Journal(self._directory / _JOURNAL)
            contents = self._journal.contents
            self._table = ReservationTable(contents.reservations)
            runner = StepRunner(
                self._backend,
                self._journal,
                self._calls,
                self._view,
                self._statistics,
                self.refresh,
                self._sleep,
                self._may_reset,
            )
            self._plans = PlanRunner(runner, self._view, self._backend, self._calls, self.refresh)
            await self.refresh()
        except BaseException:
            self.close()
            raise
        for each in contents.unfinished:
            # Whatever became of it is in the inventory now.
            self._journal.end(each.number, error="the engine ended meanwhile")
        return RestoredState(
            self._view.states.instances(),
            self._missing(),
            tuple(each.step for each in contents.unfinished),
            contents.damaged,
        )

    def close(self) -> None:
        """Give the node back. Instances and reservations stay."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def inventory(self) -> NodeInventory:
        """The node, with the instances as they are now."""
        return self._view.inventory

    @property
    def instances(self) -> tuple[InstanceStatus, ...]:
        """All instances, their states and holders."""
        return self._view.states.instances()

    @property
    def holdings(self) -> Mapping[str, ReservedDevices]:
        """The slots of all holders, such as they were in the journal."""
        return {
            holder: ReservedDevices(self._table.slots_of(holder))
            for holder in self._table.holders()
        }

    def statistics(self) -> tuple[OperationStatistics, ...]:
        """How long operations take, and how they fail."""
        return self._statistics.summarise()

    async def refresh(self) -> None:
        """Read the inventory."""
        async with self._read_lock:
            versions = self._view.versions()
            inventory = await self._calls.run(
                "", "read", self._backend.read_inventory, TIME_LIMITS["read"]
            )
            self._view.merge(inventory, versions)

    def observe(self, telemetry: Sequence[DeviceTelemetry]) -> None:
        """Take over which instances have processes."""
        self._view.observe(telemetry)

    async def ensure(self, holder: str, requests: Sequence[SlotRequest]) -> tuple[MigInstance, ...]:
        """The instances of a holder, in the order of the requests; made where they are missing.

        `RequestRefused` if a slot is not to be had: nothing is reserved then, unless it was before.
        `StepFailed` if a device fails: the reservation stays, and `ensure` may be called again.
        """
        geometries = self._view.geometries()
        wanted = tuple(normalise_request(each, geometries) for each in requests)
        existing = {(each.device, each.slot) for each in self._view.states.instances()}
        if any((each.device, each.slot) in existing for each in wanted):
            # Another program may have destroyed one since it was last seen.
            with contextlib.suppress(GpuError):
                await self.refresh()
        devices = sorted({each.device for each in wanted})
        has_looked = any(self._view.is_busy(device) for device in devices)
        if has_looked:  # their processes may have ended
            await self._plans.look_for_processes()
        steps = self._check(holder, wanted)
        if not has_looked and any(disturbs(step) for step in steps):
            await self._plans.look_for_processes()
            self._check(holder, wanted)
        await self._reserve(holder, wanted)
        await _run_all(self._realise(device, holder) for device in devices)
        return tuple(self._find(holder, each) for each in wanted)

    async def use_devices(self, holder: str, devices: Sequence[str]) -> None:
        """Note that a holder uses devices without MIG, as a whole or shared.

        `RequestRefused` if one of them is sliced, or being sliced.
        """
        refusals = [
            Refusal(
                RefusalReason.DEVICE_IN_USE, f"{uuid} is in MIG mode: it has no whole GPU", holder
            )
            for uuid in devices
            if self._is_sliced(uuid)
        ]
        if refusals:
            raise RequestRefused(refusals)
        self._table.set_users(holder, devices)

    async def release(self, holder: str) -> None:
        """Take everything from a holder that has ended. Its instances stay, as stock."""
        slots = self._table.slots_of(holder)
        if slots:
            await self._record(lambda journal: journal.release(holder))
        used = self._table.devices_of(holder)
        self._table.remove(holder)
        # Whatever of it still runs is looked for before anything is destroyed.
        self._view.forget_processes(used, slots)
        self._view.update_states()

    async def reconcile(self, holders: Mapping[str, ReservedDevices]) -> tuple[Refusal, ...]:
        """Bring reservations in line with the holders that exist now, such as the node's pods.

        Others are released. What contradicts is returned: two holders of one slot, for instance.
        """
        for holder in sorted(self._table.holders() - holders.keys()):
            await self.release(holder)
        refusals: list[Refusal] = []
        geometries = self._view.geometries()
        for holder, holding in sorted(holders.items()):
            slots = tuple(normalise_request(each, geometries) for each in holding.slots)
            if set(self._table.slots_of(holder)) - set(slots):
                await self.release(holder)
            for slot in slots:
                problems = check_requests(holder, [slot], geometries, self._table)
                refusals += problems
                if not problems:
                    await self._reserve(holder, [slot])
            self._table.set_users(holder, holding.devices)
        self._knows_holders = True
        self._view.update_states()
        return tuple(refusals)

    async def restore(self) -> tuple[DeviceResult, ...]:
        """Make all reserved instances that are missing, such as after a reboot."""
        devices = {each.device for each in self._missing()}
        return await self.apply({device: Target() for device in devices})

    async def apply(
        self,
        targets: Mapping[str, Target],
        *,
        is_dry_run: bool = False,
        is_whole: bool = False,
    ) -> tuple[DeviceResult, ...]:
        """Bring devices to their targets, and make what is reserved on them.

        `is_whole`: a device whose target cannot be met completely is left as it is. Results are in
        the order of the targets; a device that fails does not keep the others from going on.
        """
        return tuple(
            await asyncio.gather(
                *(
                    self._apply_target(device, target, is_dry_run, is_whole)
                    for device, target in targets.items()
                )
            )
        )

    def plan(self, device: str, target: Target) -> DevicePlan:
        """The steps to a target, beside everything that is reserved and in use."""
        return plan_beside_reserved(
            self._view,
            self._table,
            device,
            target,
            knows_holders=self._knows_holders,
            demand=self.demand,
        )

    def _holder_of(self, device: str, slot: Slot) -> str:
        return self._table.holder_of(device, slot)  # of the table that there is then

    def _is_sliced(self, device: str) -> bool:
        known = self._view.device(device)
        return bool(self._table.pinned(device)) or (
            known is not None and (known.mig_enabled or bool(known.mig_pending))
        )

    def _check(self, holder: str, wanted: Sequence[SlotRequest]) -> list[Step]:
        """The steps to instances that are not reserved yet; `RequestRefused` if there are none."""
        refusals = list(check_requests(holder, wanted, self._view.geometries(), self._table))
        steps: list[Step] = []
        for device in sorted({each.device for each in wanted}) if not refusals else ():
            slots = [each.slot for each in wanted if each.device == device]
            plan = self.plan(device, Target(tuple(PinnedInstance(each, holder) for each in slots)))
            refusals += _refusals_of(plan, holder)
            steps += plan.steps
        if refusals:
            raise RequestRefused(refusals)
        return steps

    def _missing(self) -> tuple[SlotRequest, ...]:
        existing = {
            (each.device, each.slot)
            for each in self._view.states.instances()
            if each.state is not MigState.PARTITION_CREATED
        }
        return tuple(
            SlotRequest(device, each.slot)
            for device in self._view.versions()
            for each in self._table.pinned(device)
            if (device, each.slot) not in existing
        )

    def _find(self, holder: str, request: SlotRequest) -> MigInstance:
        instance = self._view.find_instance(request)
        if instance is not None:
            return instance
        refusal = Refusal(
            RefusalReason.DEVICE_UNHEALTHY, f"{request} is gone: the device was lost", holder
        )
        raise RequestRefused([refusal])

    async def _reserve(self, holder: str, requests: Sequence[SlotRequest]) -> None:
        known = set(self._table.slots_of(holder))
        new = [each for each in requests if each not in known]
        if not new:
            return
        # In memory first: no other holder may get the slots while they are being written.
        self._table.add(holder, new)
        entries = [Reserved(holder, each.device, each.slot) for each in new]
        try:
            await self._record(lambda journal: journal.reserve(entries))
        except OSError:
            self._table.remove_slots(new)
            raise
        self._view.update_states()

    async def _record(self, write: Callable[[Journal], None]) -> None:
        if self._journal is None:
            raise RuntimeError("the MIG engine is not open")
        write(self._journal)

    async def _realise(self, device: str, holder: str) -> None:
        async with self._lock_of(device):
            await self._plans.refresh_stale(device)
            plan = self.plan(device, Target())
            refused = _refusals_of(plan, holder)
            if refused:
                raise RequestRefused(refused)
            await self._plans.run(plan, [])

    async def _apply_target(
        self, device: str, target: Target, is_dry_run: bool, is_whole: bool
    ) -> DeviceResult:
        async with self._lock_of(device):
            await self._plans.refresh_stale(device)
            plan = self.plan(device, target)
            refusals = tuple(f"{each.reason}: {each.message}" for each in plan.refusals)
            if is_dry_run or (is_whole and refusals):
                return DeviceResult(device, (), plan.steps, refusals)
            done: list[Step] = []
            try:
                await self._plans.run(plan, done)
            except (StepFailed, RequestRefused, OSError) as error:
                rest = plan.steps[len(done) :]
                return DeviceResult(device, tuple(done), rest, refusals, str(error))
            return DeviceResult(device, plan.steps, (), refusals)

    def _lock_of(self, device: str) -> asyncio.Lock:
        return self._device_locks.setdefault(device, asyncio.Lock())


def _refusals_of(plan: DevicePlan, holder: str) -> list[Refusal]:
    """The refusals of a plan that concern a holder, or the device."""
    return [each for each in plan.refusals if each.holder in ("", holder)]


async def _run_all(steps: Iterable[Awaitable[None]]) -> None:
    """Wait for all, also when one fails; then raise the first failure."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for each in results:
        if isinstance(each, BaseException):
            raise each
