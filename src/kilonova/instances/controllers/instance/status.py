"""The status of an instance and of its gang. Pure."""

from datetime import datetime

from msgspec.structs import replace

from kilonova.api.inference_engine import (
    InferenceEngineInstance,
    InstancePhase,
    InstanceStatus,
    RepairCounts,
)
from kilonova.api.meta import Condition
from kilonova.instances.controllers.instance.progress import UNSCHEDULABLE, Progress, is_placed
from kilonova.instances.controllers.instance.record import AllocationRecord
from kilonova.kube.status import with_condition

ALLOCATED, AGENTS_READY, CONDUCTOR_READY, READY, DEGRADED = (
    "Allocated",
    "AgentsReady",
    "ConductorReady",
    "Ready",
    "Degraded",
)
"""Types of conditions."""


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
    reason = found.reason or UNSCHEDULABLE
    return Condition(ALLOCATED, "False", reason, f"{message}: {found.message}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
