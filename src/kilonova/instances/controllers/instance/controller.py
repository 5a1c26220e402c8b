"""The InferenceEngineInstance controller. A key is an instance."""

from datetime import datetime

from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineInstance, InstanceStatus, names
from kilonova.api.podgang import PodGangStatus
from kilonova.api.times import parse_time
from kilonova.instances.builders.engine import Engine, InvalidSpec, resolve_engine
from kilonova.instances.caches import BY_INSTANCE, list_levels
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.instance.advisors import (
    InstanceAdvisors,
    Rejected,
    get_deadline,
)
from kilonova.instances.controllers.instance.desire import allocate, desire
from kilonova.instances.controllers.instance.event_handlers import InstanceEventHandlers
from kilonova.instances.controllers.instance.health import assess_members
from kilonova.instances.controllers.instance.observed import (
    ObservedAllocation,
    ObservedInstance,
)
from kilonova.instances.controllers.instance.plan import InstanceEvent, InstancePlan, Situation
from kilonova.instances.controllers.instance.progress import Progress
from kilonova.instances.controllers.instance.status import build_rejected
from kilonova.instances.controllers.instance.writer import InstanceWriter
from kilonova.instances.resources import INSTANCES
from kilonova.kube import ApiStatusError, Backoff, Conflict, Controller, Key, Result
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken
from kilonova.kube.status import StatusThrottle, StatusWriter, find_condition

_WORKERS = 16
_BACKOFF = Backoff(0.005, 30.0)
"""What rejects pods, such as a quota, is not watched: that it is gone is found by retrying."""
_BUILD_RETRY_SECONDS = 30.0
"""Builds, and plug-ins, are not watched."""
CREATION_FAILED = "CreationFailed"


def build_instance_controller(context: ControllerContext) -> Controller:
    """Build the controller; the caches must be running."""
    return Controller(
        "inferenceengineinstance",
        _InstanceReconciler(context).reconcile,
        InstanceEventHandlers(context.caches).list_watches(),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )


class _InstanceReconciler:
    def __init__(self, context: ControllerContext) -> None:
        self._caches = context.caches
        self._settings = context.settings
        self._now = context.now
        self._metrics = context.metrics
        self._writer = InstanceWriter(context)
        self._status = StatusWriter(
            context.client, INSTANCES, Expectations(context.caches.instances)
        )
        self._throttle = StatusThrottle(context.settings.status_write_interval, context.monotonic)
        self._advisors = InstanceAdvisors(context, self._writer.record_events)

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one instance."""
        instance = self._caches.instances.store.get(key)
        if instance is None:
            self._metrics.forget(key)
            self._throttle.forget(key)
            return None
        if instance.metadata.deletion_timestamp is not None:
            return await self._write_status(instance, replace(instance.status, phase="Terminating"))
        observed = self._observe(key, instance)
        try:
            plan, recheck = await self._plan(observed)
        except (InvalidSpec, Rejected) as error:
            return await self._reject(instance, error.reason, str(error))
        try:
            await self._writer.apply(observed, plan)
        except (ApiStatusError, NameTaken) as error:
            await self._report_failure(instance, plan, error)
            raise
        self._writer.record_events(instance, plan.events)
        self._count(plan)
        # Events that follow from the status would be recorded again until it is written.
        throttled = await self._write_status(instance, plan.status, is_urgent=bool(plan.events))
        waits = [each for each in (recheck, throttled and throttled.requeue_after) if each]
        return Result(min(waits)) if waits else None

    def _observe(self, key: Key, instance: InferenceEngineInstance) -> ObservedInstance:
        caches = self._caches
        return ObservedInstance(
            instance,
            caches.pods.store.by_index(BY_INSTANCE, key),
            caches.gangs.store.by_index(BY_INSTANCE, key),
            caches.reservations.store.by_index(BY_INSTANCE, key),
            caches.services.store.by_index(BY_INSTANCE, key),
            lambda node: caches.nodes.store.get(("", node)),
            list_levels(caches, self._settings.topology_levels),
        )

    async def _plan(self, observed: ObservedInstance) -> tuple[InstancePlan, float | None]:
        """What to write, and after how many seconds to look again."""
        now, instance = self._now(), observed.instance
        if not observed.allocations:
            build = await self._advisors.load_build(instance)
            engine = resolve_engine(instance.spec, build)
            fresh = await self._advisors.ask_strategy(observed, engine, build, observed.next_number)
            return allocate(observed, engine, fresh, now), None
        allocation = observed.allocations[0]
        engine = resolve_engine(instance.spec, allocation.record.build)
        progress, recheck = self._assess(observed, allocation, engine, now)
        serving = self._find_serving(observed, progress, engine, now)
        decision = await self._advisors.decide(observed, progress, now)
        fresh = None
        if decision.relocation in ("Relocate", "Release"):
            build = await self._advisors.load_build(instance, allocation.record.build)
            engine = resolve_engine(instance.spec, build)
            fresh = await self._advisors.ask_strategy(
                observed, engine, build, allocation.number + 1
            )
        situation = Situation(observed, engine, progress, decision, serving, fresh)
        waits = [each for each in (recheck, decision.recheck_after) if each is not None]
        return desire(situation, self._settings, now), min(waits, default=None)

    def _assess(
        self,
        observed: ObservedInstance,
        allocation: ObservedAllocation,
        engine: Engine,
        now: datetime,
    ) -> tuple[Progress, float | None]:
        found = assess_members(
            allocation,
            observed.instance.metadata.name,
            engine.agents,
            observed.find_node,
            now,
            get_deadline(observed.instance),
        )
        progress = Progress(allocation, found.members, observed.find_node, observed.levels)
        return progress, found.recheck_after

    def _find_serving(
        self, observed: ObservedInstance, progress: Progress, engine: Engine, now: datetime
    ) -> Progress | None:
        """The former allocation, if it serves requests and the newest one does not yet."""
        if len(observed.allocations) < 2 or progress.is_ready:
            return None
        former, _ = self._assess(observed, observed.allocations[1], engine, now)
        return former if former.is_ready else None

    async def _reject(
        self, instance: InferenceEngineInstance, reason: str, message: str
    ) -> Result | None:
        status = build_rejected(instance, reason, message, self._now())
        old = find_condition(instance.status.conditions, "Allocated")
        if old is None or (old.reason, old.message) != (reason, message):
            self._writer.record_events(instance, (InstanceEvent(reason, message, is_warning=True),))
        await self._status.write(instance, status)
        return Result(_BUILD_RETRY_SECONDS)

    async def _report_failure(
        self, instance: InferenceEngineInstance, plan: InstancePlan, error: Exception
    ) -> None:
        """Report in the status why objects cannot be written. Conflicts pass by themselves."""
        if isinstance(error, Conflict):
            return
        message = error.message if isinstance(error, ApiStatusError) else str(error)
        old = find_condition(instance.status.conditions, "Allocated")
        if old is not None and (old.reason, old.message) == (CREATION_FAILED, message):
            return
        status = build_rejected(instance, CREATION_FAILED, message, self._now())
        await self._status.write(instance, status)
        event = InstanceEvent(CREATION_FAILED, f"Cannot create its objects: {message}", True)
        self._writer.record_events(instance, (event,))

    def _count(self, plan: InstancePlan) -> None:
        for rung, number in plan.repairs:
            self._metrics.count_repair(rung, number)
        if any(each.reason == names.INSTANCE_RELOCATED for each in plan.events):
            self._metrics.count_relocation()
        if any(each.reason == names.ALLOCATION_FAILED for each in plan.events):
            self._metrics.count_failed_allocation()
        if plan.gang_status is not None:
            gang, status = plan.gang_status
            if _is_first_scheduled(gang.status, status):
                created = parse_time(gang.metadata.creation_timestamp)
                self._metrics.count_allocation((self._now() - created).total_seconds())

    async def _write_status(
        self, instance: InferenceEngineInstance, status: InstanceStatus, *, is_urgent: bool = False
    ) -> Result | None:
        """Write the status; numbers that change often only so often, unless it is urgent."""
        known = instance.metadata
        key = known.namespace, known.name
        self._metrics.set_agents(key, status.ready_agents, status.pending_agents)
        if status == instance.status:
            return None
        if status.phase == instance.status.phase and not is_urgent:
            delay = self._throttle.get_delay(key)
            if delay > 0:
                return Result(delay)
        self._throttle.record_write(key)
        await self._status.write(instance, status)
        return None


def _is_first_scheduled(old: PodGangStatus, new: PodGangStatus) -> bool:
    return old.last_scheduled is None and new.last_scheduled is not None
