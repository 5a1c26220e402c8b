"""What plug-ins and builds report of an instance.

One that fails concerns only the instance that names it: it is raised as `Rejected`, or recorded as
an event where there is a substitute.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.inference_engine import InferenceEngineInstance, names
from kilonova.api.times import parse_time
from kilonova.artifacts.builds import Build, BuildError
from kilonova.instances.allocation import GROUP as ALLOCATION_GROUP
from kilonova.instances.allocation import AllocationConstraints, AllocationRequest
from kilonova.instances.allocation.strategies import STRATEGIES
from kilonova.instances.builders.engine import Engine
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.instance.evolution import get_repair_start
from kilonova.instances.controllers.instance.observed import ObservedInstance
from kilonova.instances.controllers.instance.plan import FreshAllocation, InstanceEvent
from kilonova.instances.controllers.instance.progress import Progress
from kilonova.instances.plugins import PluginFailed, PluginSet
from kilonova.instances.repair import GROUP as REPAIR_GROUP
from kilonova.instances.repair import RepairDecision, RepairState
from kilonova.instances.repair.ladder import POLICIES, ladder
from kilonova.kube.observability.structured_logging import get_logger

STRATEGY_FAILED, POLICY_FAILED = "AllocationStrategyFailed", "RepairPolicyFailed"

RecordEvents = Callable[[InferenceEngineInstance, Sequence[InstanceEvent]], None]

_log = get_logger(__name__)


class Rejected(Exception):
    """An instance that cannot be allocated as it is."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class InstanceAdvisors:
    """Allocation strategies, repair policies, and the source of builds."""

    def __init__(self, context: ControllerContext, record_events: RecordEvents) -> None:
        self._nodes = context.caches.nodes
        self._record_events = record_events
        self._load = context.settings.load_build
        self._strategies = PluginSet(ALLOCATION_GROUP, STRATEGIES, AllocationConstraints)
        self._policies = PluginSet(REPAIR_GROUP, POLICIES, RepairDecision)

    async def decide(
        self, observed: ObservedInstance, progress: Progress, now: datetime
    ) -> RepairDecision:
        """The decision of the instance's policy; of the ladder, if that fails."""
        instance, state = observed.instance, build_repair_state(observed, progress, now)
        policy = instance.spec.repair.policy
        try:
            return await self._policies.call(policy, state)
        except PluginFailed as error:
            _log.warning(
                "repair policy failed, using the ladder",
                instance=f"{instance.metadata.namespace}/{instance.metadata.name}",
                policy=policy,
                error=str(error),
            )
            message = f"spec.repair.policy: {error}: using ladder"
            event = InstanceEvent(POLICY_FAILED, message, is_warning=True)
            self._record_events(instance, (event,))
            return ladder(state)

    async def load_build(
        self, instance: InferenceEngineInstance, known: Build | None = None
    ) -> Build | None:
        """The build that an instance names, without what is not used; None if it names none."""
        name, load = instance.spec.build, self._load
        if not name or (known is not None and known.id == name):
            return known if name else None
        if load is None:
            if instance.spec.target_agents is not None:
                return None
            fix = "set spec.targetAgents, or start the operator with a source of builds"
            raise Rejected("BuildUnavailable", f"spec.build: there is no source of builds: {fix}")
        try:
            build = await load(name)
        except BuildError as error:
            raise Rejected(error.reason, f"spec.build: {error}") from error
        return replace(build, partitions=(), annotations={})

    async def ask_strategy(
        self, observed: ObservedInstance, engine: Engine, build: Build | None, number: int
    ) -> FreshAllocation:
        """The constraints of a new allocation, from the instance's strategy."""
        known, strategy = observed.instance.metadata, engine.spec.allocation.strategy
        request = AllocationRequest(
            known.namespace,
            known.name,
            known.labels,
            engine.spec,
            engine.agents,
            engine.resource,
            engine.count,
            observed.levels,
            number,
            self._nodes.store.objects,
        )
        try:
            constraints = await self._strategies.call(strategy, request)
        except PluginFailed as error:
            raise Rejected(STRATEGY_FAILED, f"spec.allocation.strategy: {error}") from error
        return FreshAllocation(constraints, build)


def build_repair_state(
    observed: ObservedInstance, progress: Progress, now: datetime
) -> RepairState:
    """What a repair policy is given."""
    instance, allocation = observed.instance, progress.allocation
    name = names.reservation(instance.metadata.name, allocation.number + 1)
    reservation = next(
        (
            each
            for each in observed.own_reservations
            if each.metadata.name == name and each.status.phase != "Expired"
        ),
        None,
    )
    is_reserved = reservation is not None and reservation.status.phase in ("Reserved", "Used")
    unschedulable = progress.unschedulable
    return RepairState(
        tuple(progress.members),
        now,
        get_deadline(instance),
        get_repair_start(allocation),
        allocation.number,
        was_allocated=allocation.was_allocated,
        unschedulable="" if unschedulable is None else unschedulable.message or "unknown",
        reservation="" if reservation is None else "Reserved" if is_reserved else "Pending",
        reservation_since=(
            None if reservation is None else parse_time(reservation.metadata.creation_timestamp)
        ),
    )


def get_deadline(instance: InferenceEngineInstance) -> float:
    """How long a step of a repair may take, in seconds."""
    try:
        return parse_duration(instance.spec.repair.deadline)
    except ValueError:
        return parse_duration(type(instance.spec.repair)().deadline)
