"""Brings the MIG instances of a node to what is wanted, beside everything else that the agent does.

A change takes seconds. It runs in a task of its own; while it runs, what is wanted may change, and
the next change starts when it has ended. What has failed is tried again with a growing delay.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from msgspec.structs import replace

from kilonova.catalog.mig import Slot
from kilonova.gpu.agent.desire.conditions import MigProblem
from kilonova.gpu.agent.desire.mig import DesiredMig
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.metrics import AgentMetrics
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.step_runner import DeviceResult
from kilonova.gpu.mig.plan.planner import Refusal, Target
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest
from kilonova.kube import Backoff
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)


class MigControl:
    """The engine of one node, and the change that it is making. `on_change` is called when one has
    ended; `now` is monotonic, in seconds."""

    def __init__(
        self,
        node: str,
        engine: MigEngine,
        on_change: Callable[[], None],
        now: Callable[[], float],
        metrics: AgentMetrics,
    ) -> None:
        self._node = node
        self._engine = engine
        self._on_change = on_change
        self._now = now
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._failures: dict[str, str] = {}
        """Messages of what failed, by the UUID of the device."""
        self._attempts = 0
        self._retry_at = 0.0
        self._backoff = Backoff(5.0, 300.0)

    @property
    def is_changing(self) -> bool:
        """Whether a change is being made."""
        return self._task is not None

    @property
    def retry_delay(self) -> float | None:
        """Seconds until what failed is tried again; None if nothing did."""
        return max(0.0, self._retry_at - self._now()) if self._failures else None

    def problems(self, inventory: NodeInventory) -> list[MigProblem]:
        """What has failed."""
        found = ((inventory.find(uuid), text) for uuid, text in self._failures.items())
        return [
            MigProblem("MIGChangeFailed", f"GPU {device.index}: {text}")
            for device, text in found
            if device is not None
        ]

    async def reserve(
        self,
        inventory: NodeInventory,
        holders: Sequence[Holder],
        others: Mapping[str, ReservedDevices],
    ) -> list[MigProblem]:
        """Pass the holders to the engine, before anything is changed. `others` are holders that are
        no pods, such as claims, by their UID."""
        by_index = {device.index: device.uuid for device in inventory.devices}
        names = {holder.uid: holder.key for holder in holders}
        wanted = {holder.uid: _holding(holder, by_index) for holder in holders}
        refusals = await self._engine.reconcile({**others, **wanted})
        missing = [
            MigProblem(
                "NoSuchDevice", f"{holder.key} is assigned GPU {each.index}, of {len(by_index)}"
            )
            for holder in holders
            for each in holder.devices
            if each.index not in by_index
        ]
        return [*missing, *(_describe(each, names) for each in refusals)]

    def start(self, desired: DesiredMig) -> None:
        """Start the change that is needed, unless one runs or a failure is to be waited for."""
        if self._task is not None or (self._failures and self._now() < self._retry_at):
            return
        targets = {
            uuid: replace(target, pinned=())  # the engine knows them as reservations
            for uuid, target in desired.targets.items()
        }
        needed = {uuid: each for uuid, each in targets.items() if self._is_needed(uuid, each)}
        if needed:
            self._task = asyncio.create_task(self._change(needed), name=f"MIG of {self._node}")
        else:
            self._failures, self._attempts = {}, 0

    async def wait(self) -> None:
        """Wait for the change that is being made, if there is one."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Abandon the change that is being made: the journal knows of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _is_needed(self, uuid: str, target: Target) -> bool:
        plan = self._engine.plan(uuid, target)
        return bool(plan.steps or plan.refusals)

    async def _change(self, targets: Mapping[str, Target]) -> None:
        started = perf_counter()
        results: Sequence[DeviceResult] = ()
        try:
            results = await self._engine.apply(targets)
            self._record(results)
        except Exception as error:
            # A defect must be visible, and must not end what the agent does otherwise.
            _log.exception("MIG change failed", node=self._node)
            self._record([DeviceResult(uuid, failure=str(error)) for uuid in targets])
        finally:
            self._metrics.mig_seconds.observe(perf_counter() - started)
            self._task = None
            self._on_change()

    def _record(self, results: Sequence[DeviceResult]) -> None:
        self._failures = {
            each.device: "; ".join(filter(None, (each.failure, *each.refusals)))
            for each in results
            if each.failure or each.refusals
        }
        self._attempts = self._attempts + 1 if self._failures else 0
        self._retry_at = self._now() + self._backoff.delay(max(1, self._attempts))
        for device, text in self._failures.items():
            _log.warning(
                "MIG change failed, will retry",
                node=self._node,
                device=device,
                error=text,
                attempts=self._attempts,
            )


def _holding(holder: Holder, by_index: Mapping[int, str]) -> ReservedDevices:
    known = [each for each in holder.devices if each.index in by_index]
    return ReservedDevices(
        tuple(
            SlotRequest(by_index[each.index], Slot(each.profile, each.start))
            for each in known
            if each.profile
        ),
        tuple(by_index[each.index] for each in known if not each.profile),
    )


def _describe(refusal: Refusal, names: Mapping[str, str]) -> MigProblem:
    who = names.get(refusal.holder, refusal.holder)
    return MigProblem(refusal.reason.value, f"{who}: {refusal.message}" if who else refusal.message)
