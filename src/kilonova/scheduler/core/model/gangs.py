"""What is scheduled: gangs of groups of members."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kilonova.scheduler.core.model.requests import Shape


@dataclass(frozen=True, slots=True)
class Member:
    """A pod, pending or placed. `pod` is NAMESPACE/NAME."""

    pod: str
    shape: Shape
    labels: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Labels that affinity, anti-affinity and spread constraints of pods select by."""
    budgets: tuple[str, ...] = ()
    """Disruption budgets that select the pod."""
    claims: tuple[str, ...] = ()
    """Names of its claims, in the order of those of the shape."""
    terminating: bool = field(default=False, compare=False)
    """The pod is being deleted: spread constraints do not count it any more."""
    has_controller: bool = field(default=True, compare=False)
    """A controller creates a replacement when the pod is deleted."""


@dataclass(frozen=True, slots=True)
class PackConstraint:
    """Levels (topology keys) of which the pods must, or should, share one domain; empty for
    none."""

    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


@dataclass(frozen=True, slots=True)
class SegmentConstraint:
    """Members in order of rank, `size` at a time, share one domain of `level`."""

    size: int
    level: str


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one role, in order of rank.

    `minimum` of them must be placed together with the rest of the gang. `members` are pending;
    `placed_members` are placed, on `placed_nodes`, and count towards the minimum.
    """

    name: str
    members: tuple[Member, ...]
    minimum: int
    pack: PackConstraint = PackConstraint()
    segments: SegmentConstraint | None = None
    placed_nodes: tuple[str, ...] = ()
    placed_members: tuple[Member, ...] = ()
    expected_pods: int = 0
    """Number of pods that the gang announces and that do not exist yet."""

    @property
    def needed(self) -> int:
        """Number of members that must be placed now."""
        return max(0, self.minimum - len(self.placed_nodes))


@dataclass(frozen=True, slots=True)
class GroupBundle:
    """Groups with a common pack constraint, beside the constraint of each group."""

    groups: tuple[str, ...]
    pack: PackConstraint


@dataclass(frozen=True, slots=True)
class GangAntiAffinity:
    """Gangs in different domains of `level`: preferred, or `required`.

    `group_key` is common to gangs that repel each other; `avoided_nodes` are the nodes on which
    such gangs run, set by `Cluster.with_gangs_to_avoid` when the gang is scheduled.
    """

    level: str
    required: bool = False
    avoided_nodes: tuple[str, ...] = ()
    group_key: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed together or not at all."""

    name: str
    groups: tuple[Group, ...]
    pack: PackConstraint = PackConstraint()
    bundles: tuple[GroupBundle, ...] = ()
    anti_affinity: GangAntiAffinity | None = None
    queue: str = "default"
    priority: int = 0
    created: float = 0.0
    duration: float | None = None
    """Expected run time in seconds; None if unknown."""
    preemptible: bool = True
    preempts: bool = True
    """Whether other gangs may be preempted for it."""
    base_nodes: tuple[str, ...] = ()
    """Nodes of the base gang of this one: a required `pack` includes them."""
    reservation: str = ""
    """Name of the reservation whose capacity this gang may use."""
    previous_nodes: tuple[str, ...] = ()
    """Nodes of the gang that this one replaces; preferred if it fits there."""

    @property
    def needed(self) -> int:
        """Number of pods that must be placed now."""
        return sum(group.needed for group in self.groups)

    def only_required_members(self) -> "Gang":
        """The gang without surplus pods."""
        if all(len(group.members) == group.needed for group in self.groups):
            return self
        groups = (replace(each, members=each.members[: each.needed]) for each in self.groups)
        return replace(self, groups=tuple(groups))

    def with_only_members(self, pods: Collection[str]) -> "Gang":
        """The gang with only these pods as members to place."""
        groups = (
            replace(each, members=tuple(one for one in each.members if one.pod in pods))
            for each in self.groups
        )
        return replace(self, groups=tuple(groups))


def single_pod_gang(member: Member, *, queue: str = "default", priority: int = 0) -> Gang:
    """A gang of one pod, for a pod that belongs to no gang."""
    return Gang(member.pod, (Group(member.pod, (member,), 1),), queue=queue, priority=priority)
