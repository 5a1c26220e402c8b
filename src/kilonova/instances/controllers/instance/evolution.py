"""The next record of an allocation, by a decision about its repair. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.times import format_rfc3339, parse_time
from kilonova.instances.controllers.instance.observed import (
    FindNode,
    ObservedAllocation,
    find_domain_path,
)
from kilonova.instances.controllers.instance.record import AllocationRecord
from kilonova.instances.repair import CONDUCTOR, MemberState, RepairDecision
from kilonova.scheduler.library.topology_levels import common_domain


@dataclass(frozen=True, slots=True)
class Evolution:
    """A record, and what has been decided with it."""

    record: AllocationRecord
    recreated: int = 0
    """The number of agents whose pods are replaced."""
    moved: int = 0
    """How many of them leave their nodes."""
    reason: str = ""
    """Why."""


def get_repair_start(allocation: ObservedAllocation) -> datetime:
    """When the repair in progress started; without one, when the allocation was made."""
    started = allocation.record.started if allocation.was_allocated else None
    return parse_time(started or allocation.gang.metadata.creation_timestamp)


def evolve(
    allocation: ObservedAllocation,
    members: Sequence[MemberState],
    decision: RepairDecision,
    instance: str,
    find_node: FindNode,
    levels: tuple[str, ...],
    constrained: Collection[str],
    now: datetime,
) -> Evolution:
    """The record with the decision carried over. Agents stay in the smallest domain that has all of
    them, of the levels that are `constrained` by strategy or spec."""
    by_index = {each.index: each for each in members}
    known = range(len(members) - 1)
    record = _resize(allocation.record, len(known), now)
    replaced = {index for index in decision.replace if index in by_index}
    record, migrated = _settle_replacements(allocation, record, by_index, replaced, instance)
    replaced -= migrated
    added = {index for index in decision.migrate if index in known} - record.replacements.keys()
    added -= replaced | migrated
    if replaced or added:
        record = _add_pods(record, replaced, added)
    agents = (replaced | migrated) - {CONDUCTOR}
    causes = [by_index[each] for each in sorted(replaced | migrated | added)]
    reason = _summarise(causes)
    if replaced or added:
        record = _start_repair(allocation, record, members, causes, reason, now)
    record = replace(record, recreated=record.recreated + len(agents))
    moved = sum(by_index[each].health in _LEAVING for each in agents)
    if record.level and all(each.is_broken or not each.node for each in members):
        # Nothing is left that its replacements must be near to.
        record = replace(record, level="")
    elif not record.level and _is_settled(members):
        paths = [find_domain_path(find_node, by_index[each].node, levels) for each in known]
        record = replace(record, level=_find_level(paths, levels, constrained))
    return Evolution(record, len(agents), moved, reason)


def _find_level(
    paths: Sequence[tuple[str, ...]], levels: tuple[str, ...], constrained: Collection[str]
) -> str:
    """The level of the smallest domain that has all agents, of those that are constrained."""
    common = common_domain(paths)
    named = [
        level
        for level, domain in zip(levels, common, strict=False)
        if domain and level in constrained
    ]
    return named[-1] if named else ""


_LEAVING = frozenset({"NodeLost", "AcceleratorUnhealthy", "NodeDraining", "Unready"})
"""The health of members that do not come back to their node."""


def _resize(record: AllocationRecord, agents: int, now: datetime) -> AllocationRecord:
    """A record with another number of agents, if the instance has one: the others stay."""
    if record.agents == agents:
        return record
    return replace(
        record,
        agents=agents,
        members={each: number for each, number in record.members.items() if each < agents},
        replacements={
            each: number for each, number in record.replacements.items() if each < agents
        },
        started=format_rfc3339(now),
        reason=f"the number of agents was changed from {record.agents} to {agents}",
    )


def _settle_replacements(
    allocation: ObservedAllocation,
    record: AllocationRecord,
    members: dict[int, MemberState],
    replaced: set[int],
    instance: str,
) -> tuple[AllocationRecord, set[int]]:
    """A replacement takes over when it has a node, or when its member is lost; it is dropped when
    it is gone, or not needed any more. Returns the members whose replacement took over."""
    current, second = dict(record.members), dict(record.replacements)
    migrated: set[int] = set()
    for member, generation in record.replacements.items():
        successor = replace(record, members={member: generation})
        pod = allocation.pods.get(successor.get_pod_name(instance, member))
        is_gone = pod is not None and (
            pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed"
        )
        has_node = pod is not None and bool(pod.spec.node_name)
        if is_gone:
            del second[member]
        elif has_node or member in replaced:
            current[member] = generation
            del second[member]
            migrated.add(member)
        elif members[member].health != "NodeDraining":
            del second[member]
    if second == record.replacements:
        return record, migrated
    return replace(record, members=current, replacements=second), migrated


def _add_pods(record: AllocationRecord, replaced: set[int], added: set[int]) -> AllocationRecord:
    generation = record.generation + 1
    return replace(
        record,
        generation=generation,
        members={**record.members, **dict.fromkeys(sorted(replaced), generation)},
        replacements={**record.replacements, **dict.fromkeys(sorted(added), generation)},
    )


def _start_repair(
    allocation: ObservedAllocation,
    record: AllocationRecord,
    members: Sequence[MemberState],
    causes: Sequence[MemberState],
    reason: str,
    now: datetime,
) -> AllocationRecord:
    """A record with the beginning of a repair; one in progress goes on."""
    left = {each.node for each in causes if each.node and each.health in _LEAVING}
    caused = {each.index for each in causes}
    others = [each for each in members if each.index not in caused]
    is_in_progress = allocation.was_allocated and any(
        each.health == "Pending" or each.has_replacement for each in others
    )
    if is_in_progress:
        left.update(record.avoided_nodes)
    started = record.started if is_in_progress else None
    return replace(
        record,
        started=started or format_rfc3339(now),
        reason=reason,
        avoided_nodes=tuple(sorted(left)),
    )


def _is_settled(members: Iterable[MemberState]) -> bool:
    """Whether all members have a node that they can stay on."""
    return all(
        each.node and (each.health in ("Starting", "Ready", "NodeDraining")) for each in members
    )


def _summarise(causes: Sequence[MemberState]) -> str:
    """The reasons of a repair, each once."""
    reasons = list(dict.fromkeys(each.reason for each in causes if each.reason))
    if len(reasons) <= 1:
        return "".join(reasons)
    more = len(reasons) - 1
    return f"{reasons[0]}, and {more} more {'cause' if more == 1 else 'causes'}"
