"""The status of an instance and of its gang. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.inference_engine import (
    AgentPlacement,
    InferenceEngineInstance,
    InstancePhase,
    InstanceStatus,
    RepairCounts,
)
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGangStatus
from kilonova.api.times import format_rfc3339
from kilonova.instances.controllers.instance.health import was_complete
from kilonova.instances.controllers.instance.observed import (
    FindNode,
    ObservedAllocation,
    find_domain_path,
)
from kilonova.instances.controllers.instance.record import AllocationRecord
from kilonova.instances.repair import CONDUCTOR, MemberState
from kilonova.kube.status import find_condition, with_condition
from kilonova.scheduler.library.topology_levels import DomainPath, common_domain, format_domain

ALLOCATED, AGENTS_READY, CONDUCTOR_READY, READY, DEGRADED = (
    "Allocated",
    "AgentsReady",
    "ConductorReady",
    "Ready",
    "Degraded",
)
"""Types of conditions."""
_UNSCHEDULABLE = "Unschedulable"
"""The condition of a gang by which the scheduler says why it is pending."""


@dataclass(frozen=True, slots=True)
class Progress:
    """An allocation and its members."""

    allocation: ObservedAllocation
    members: Sequence[MemberState]
    """The agents, by index, and the conductor."""
    find_node: FindNode
    levels: tuple[str, ...]

    @property
    def agents(self) -> list[MemberState]:
        """The agents, by index."""
        return [each for each in self.members if each.index != CONDUCTOR]

    @property
    def conductor(self) -> MemberState:
        """The conductor."""
        return next(each for each in self.members if each.index == CONDUCTOR)

    @property
    def ready_agents(self) -> int:
        """The number of agents that are ready."""
        return sum(each.is_ready for each in self.agents)

    @property
    def placed_agents(self) -> int:
        """The number of agents with a node that they can run on."""
        return sum(is_placed(each) for each in self.agents)

    @property
    def is_placed(self) -> bool:
        """Whether all members have a node that they can run on."""
        return all(map(is_placed, self.members))

    @property
    def is_ready(self) -> bool:
        """Whether all members are ready."""
        return all(each.is_ready for each in self.members)

    @property
    def was_ready(self) -> bool:
        """Whether all members of this allocation were ready once."""
        return self.allocation.gang.status.last_ready is not None

    @property
    def unschedulable(self) -> Condition | None:
        """What the scheduler says of pending members; None if it has not said anything."""
        found = find_condition(self.allocation.gang.status.conditions, _UNSCHEDULABLE)
        return found if found is not None and found.status == "True" else None

    def list_placements(self) -> tuple[AgentPlacement, ...]:
        """Where the agents are that have a node."""
        return tuple(
            AgentPlacement(each.index, each.node, format_domain(self._find_path(each)))
            for each in self.agents
            if each.node
        )

    def find_domain(self) -> str:
        """The smallest domain that has all agents; empty if there is none."""
        return format_domain(common_domain(map(self._find_path, self.agents)))

    def _find_path(self, member: MemberState) -> DomainPath:
        return find_domain_path(self.find_node, member.node, self.levels)


def is_placed(member: MemberState) -> bool:
    """Whether a member has a node that it can run on."""
    return bool(member.node) and not member.is_broken


def build_status(
    instance: InferenceEngineInstance,
    progress: Progress,
    record: AllocationRecord,
    now: datetime,
    *,
    has_given_up: bool,
    is_relocating: bool,
) -> InstanceStatus:
    """The status of an instance with an allocation. `record` is that of the newest one, and may be
    about to be written."""
    old = instance.status
    phase = _get_phase(progress, has_given_up=has_given_up, is_relocating=is_relocating)
    conditions = old.conditions
    for each in _list_conditions(progress, record):
        conditions = with_condition(conditions, each, now)
    ready = progress.ready_agents
    allocation = progress.allocation
    is_complete = progress.placed_agents == len(progress.agents)
    return InstanceStatus(
        observed_generation=instance.metadata.generation,
        phase=phase,
        target_agents=len(progress.agents),
        ready_agents=ready,
        pending_agents=len(progress.agents) - ready,
        conductor_ready=progress.conductor.is_ready,
        domain=progress.find_domain() if is_complete else old.domain,
        allocation=progress.list_placements(),
        repairs=RepairCounts(
            recreated=record.recreated,
            relocated=max(
                allocation.number if allocation.was_allocated else 0, old.repairs.relocated
            ),
            last_time=record.started,
            last_reason=record.reason,
        ),
        conditions=conditions,
    )


def build_rejected(
    instance: InferenceEngineInstance, reason: str, message: str, now: datetime
) -> InstanceStatus:
    """The status of an instance that cannot be allocated as it is."""
    old = instance.status
    condition = Condition(ALLOCATED, "False", reason, message)
    return replace(
        old,
        observed_generation=instance.metadata.generation,
        target_agents=instance.spec.target_agents or old.target_agents,
        pending_agents=(instance.spec.target_agents or old.target_agents) - old.ready_agents,
        conditions=with_condition(old.conditions, condition, now),
    )


def build_new(instance: InferenceEngineInstance, agents: int, now: datetime) -> InstanceStatus:
    """The status of an instance whose gang is about to be created."""
    condition = Condition(
        ALLOCATED, "False", "WaitingForScheduler", f"0 of {agents} agents have a node"
    )
    return replace(
        instance.status,
        observed_generation=instance.metadata.generation,
        phase="Allocating",
        target_agents=agents,
        ready_agents=0,
        pending_agents=agents,
        conductor_ready=False,
        allocation=(),
        conditions=with_condition(instance.status.conditions, condition, now),
    )


def build_gang_status(progress: Progress, now: datetime, *, is_created: bool) -> PodGangStatus:
    """The part of the gang's status that is not the scheduler's."""
    allocation = progress.allocation
    old, generation = allocation.gang.status, allocation.gang.metadata.generation
    is_placed_now, is_ready = progress.is_placed, progress.is_ready
    facts = (
        # It stays so when pods are deleted: these are replaced by others, in another generation.
        ("Initialized", is_created or was_complete(allocation), "PodGangPodsCreat", "created"),
        ("Scheduled", is_placed_now, "ScheduledPods", "placed"),
        ("Ready", is_ready, "ReadyPods", "ready"),
    )
    conditions: tuple[Condition, ...] = ()
    for type_, is_true, reason, verb in facts:
        found = find_condition(old.conditions, type_)
        kept = (*conditions, found) if found is not None else conditions
        condition = Condition(
            type_,
            "True" if is_true else "False",
            _get_reason(reason, is_true=is_true),
            f"all pods are {verb}" if is_true else f"not all pods are {verb}",
            observed_generation=generation,
        )
        conditions = with_condition(kept, condition, now)
    stamp = format_rfc3339(now)
    return PodGangStatus(
        phase="Running" if is_ready else "Starting" if is_placed_now else "Pending",
        conditions=conditions,
        # They stay, so that the scheduler releases no member because another one is missing.
        last_scheduled=old.last_scheduled or (stamp if is_placed_now else None),
        last_ready=old.last_ready or (stamp if is_ready else None),
    )


def _get_reason(noun: str, *, is_true: bool) -> str:
    if noun.endswith("Creat"):
        return f"{noun}ed" if is_true else f"{noun}ionPending"
    return f"{'Sufficient' if is_true else 'Insufficient'}{noun}"


def _get_phase(progress: Progress, *, has_given_up: bool, is_relocating: bool) -> InstancePhase:
    if is_relocating:
        return "Relocating"
    if has_given_up and not progress.is_placed:
        return "Failed"
    if not progress.allocation.was_allocated and not progress.is_placed:
        return "Relocating" if progress.allocation.number else "Allocating"
    if progress.is_ready:
        return "Ready"
    base = progress.allocation.record.base
    repaired = progress.allocation.record.members
    if any(
        not is_placed(each) or (not each.is_ready and repaired.get(each.index, base) != base)
        for each in progress.members
    ):
        return "Repairing"
    return "Degraded" if progress.was_ready else "Starting"


def _list_conditions(progress: Progress, record: AllocationRecord) -> list[Condition]:
    agents, ready = len(progress.agents), progress.ready_agents
    is_serving = progress.is_ready
    conditions = [
        _build_allocated(progress),
        Condition(
            AGENTS_READY,
            "True" if ready == agents else "False",
            "AllAgentsReady" if ready == agents else "AgentsNotReady",
            f"{ready} of {agents} agents are ready",
        ),
        Condition(
            CONDUCTOR_READY,
            "True" if progress.conductor.is_ready else "False",
            "AllAgentsJoined" if progress.conductor.is_ready else "ConductorNotReady",
            f"the conductor is {'' if progress.conductor.is_ready else 'not '}ready",
        ),
        Condition(
            READY,
            "True" if is_serving else "False",
            "Serving" if is_serving else "NotServing",
            f"{ready} of {agents} agents are ready"
            + ("" if progress.conductor.is_ready else ", the conductor is not"),
        ),
    ]
    is_degraded = progress.was_ready and not is_serving
    problem = next((each.reason for each in progress.members if each.reason), "")
    conditions.append(
        Condition(
            DEGRADED,
            "True" if is_degraded else "False",
            "MembersNotReady" if is_degraded else "AsExpected",
            (problem or record.reason or "members are not ready") if is_degraded else "",
        )
    )
    return conditions


def _build_allocated(progress: Progress) -> Condition:
    agents, placed = len(progress.agents), progress.placed_agents
    if progress.is_placed:
        nodes = len({each.node for each in progress.agents})
        domain = progress.find_domain()
        where = f"{_count(agents, 'agent')} on {_count(nodes, 'node')}"
        return Condition(
            ALLOCATED, "True", "Allocated", where + (f" in {domain}" if domain else "")
        )
    message = f"{placed} of {agents} agents have a node"
    found = progress.unschedulable
    if found is None:
        return Condition(ALLOCATED, "False", "WaitingForScheduler", message)
    reason = found.reason or _UNSCHEDULABLE
    return Condition(ALLOCATED, "False", reason, f"{message}: {found.message}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
