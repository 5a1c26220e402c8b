"""What a repair policy is given, and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

GROUP = "kilonova.repair"
"""The entry-point group of policies."""
CONDUCTOR = -1
"""The index of the conductor among the members; agents have theirs."""

MemberHealth = Literal[
    "Pending",
    "Starting",
    "Ready",
    "NodeDraining",
    "Missing",
    "Failed",
    "Unready",
    "NodeLost",
    "AcceleratorUnhealthy",
]
"""Pending without a node, Starting until it is ready; NodeDraining on a node that is cordoned or
about to be taken away; Missing if its pod was deleted, Failed if it has ended, Unready if its
containers have restarted and it was not ready for as long as a step of the repair may take;
NodeLost on a node that is deleted or not ready, AcceleratorUnhealthy with a device that its node
reports as unhealthy."""
BROKEN: frozenset[MemberHealth] = frozenset(
    {"Missing", "Failed", "Unready", "NodeLost", "AcceleratorUnhealthy"}
)
"""The health of members that do not recover by themselves."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """An agent or the conductor."""

    index: int
    health: MemberHealth
    node: str = ""
    reason: str = ""
    """Why its health is what it is, where it is not plain."""
    is_ready: bool = False
    has_replacement: bool = False
    """Whether a replacement pod exists beside it, which has no node yet."""

    @property
    def is_broken(self) -> bool:
        """Whether it does not recover by itself."""
        return self.health in BROKEN


@dataclass(frozen=True, slots=True)
class RepairState:
    """What is observed of an instance."""

    members: tuple[MemberState, ...]
    """The agents, by index, and the conductor."""
    now: datetime
    deadline: float
    """Seconds that a step may take."""
    since: datetime
    """When the allocation was made, or the repair in progress has started."""
    allocation: int = 0
    """How often the instance was relocated before."""
    was_allocated: bool = True
    """Whether all members had a node once."""
    unschedulable: str = ""
    """Why the scheduler finds no node for pending members; empty if it has not said so."""
    reservation: Literal["", "Pending", "Reserved"] = ""
    """The state of the reservation of capacity to relocate to."""
    reservation_since: datetime | None = None

    @property
    def is_serving(self) -> bool:
        """Whether all members are ready."""
        return all(each.is_ready for each in self.members)

    @property
    def is_waiting(self) -> bool:
        """Whether a member, or the replacement of one, has no node."""
        return any(each.health == "Pending" or each.has_replacement for each in self.members)


Relocation = Literal["", "Reserve", "Relocate", "Release"]
"""Reserve capacity for all members and keep what there is; Relocate to what was reserved; Release
the allocation, and have the instance placed anywhere."""


@dataclass(frozen=True, slots=True)
class RepairDecision:
    """What is done next."""

    replace: tuple[int, ...] = ()
    """Members whose pods are deleted and created again."""
    migrate: tuple[int, ...] = ()
    """Agents that get a replacement, and are deleted once that has a node."""
    relocation: Relocation = ""
    has_given_up: bool = False
    """Whether the cluster has no place for the instance, as far as is known."""
    recheck_after: float | None = None
    """Ask again after these seconds, if nothing changes before."""


RepairPolicy = Callable[[RepairState], RepairDecision]
