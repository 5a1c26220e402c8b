"""How far the members of an allocation are. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.api.inference_engine import AgentPlacement
from kilonova.api.meta import Condition
from kilonova.instances.controllers.instance.observed import (
    FindNode,
    ObservedAllocation,
    find_domain_path,
)
from kilonova.instances.repair import CONDUCTOR, MemberState
from kilonova.kube.status import find_condition
from kilonova.scheduler.library.topology_levels import DomainPath, common_domain, format_domain

UNSCHEDULABLE = "Unschedulable"
"""The condition of a gang by which the scheduler reports why it is pending."""


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
        """What the scheduler reports of pending members; None if it has not reported anything."""
        found = find_condition(self.allocation.gang.status.conditions, UNSCHEDULABLE)
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
