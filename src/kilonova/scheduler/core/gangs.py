"""What is placed: gangs, of groups, of members."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kilonova.scheduler.core.asks import Shape


@dataclass(frozen=True, slots=True)
class Member:
    """A pod that wants a place, or has one. `pod` is NAMESPACE/NAME."""

    pod: str
    shape: Shape
    labels: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Others may want to stand near pods with such labels, or away from them."""
    budgets: tuple[str, ...] = ()
    """Disruption budgets that guard it."""
    claims: tuple[str, ...] = ()
    """Names of its claims, in the order of those of the shape."""
    leaving: bool = field(default=False, compare=False)
    """It is being deleted: spreads do not count it any more."""
    returns: bool = field(default=True, compare=False)
    """Somebody makes another in its place when it has gone, and loses nothing but time."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Levels (label keys) within one domain of which pods stand; empty is no wish."""

    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)


@dataclass(frozen=True, slots=True)
class Segments:
    """Members in order of rank, `size` at a time, stand within one domain of `level`."""

    size: int
    level: str


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one role, in order of their rank.

    `minimum` of them must have a place together with the rest of the gang. `members` have none yet;
    `standing` have, on the nodes that `placed` names, and count towards the minimum.
    """

    name: str
    members: tuple[Member, ...]
    minimum: int
    pack: Pack = Pack()
    segments: Segments | None = None
    placed: tuple[str, ...] = ()
    standing: tuple[Member, ...] = ()
    coming: int = 0
    """How many more are announced and not there yet."""

    @property
    def needed(self) -> int:
        """How many of the members must be placed now."""
        return max(0, self.minimum - len(self.placed))


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups that stand together, beside what each wishes for itself."""

    groups: tuple[str, ...]
    pack: Pack


@dataclass(frozen=True, slots=True)
class Apart:
    """Gangs stand in different domains of `level`, if they can; must, if required.

    `among` is what those have in common that keep apart from each other, `others` the nodes on
    which some of them stand: `Cluster.apart` works them out when the gang's turn comes.
    """

    level: str
    required: bool = False
    others: tuple[str, ...] = ()
    among: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are placed together or not at all."""

    name: str
    groups: tuple[Group, ...]
    pack: Pack = Pack()
    bundles: tuple[Bundle, ...] = ()
    apart: Apart | None = None
    queue: str = "default"
    priority: int = 0
    created: float = 0.0
    duration: float | None = None
    """Seconds that it will probably run; None is unknown."""
    preemptible: bool = True
    preempts: bool = True
    """Whether others may be evicted for it."""
    within: tuple[str, ...] = ()
    """Nodes of the gang that this one belongs to: what `pack` requires holds with them."""
    room: str = ""
    """Name of the gang that keeps room which this one may take."""
    before: tuple[str, ...] = ()
    """Nodes of a gang whose place this one takes over, if it can."""

    @property
    def needed(self) -> int:
        """How many pods must be placed now."""
        return sum(group.needed for group in self.groups)

    def at_least(self) -> "Gang":
        """The gang without those that it can do without."""
        if all(len(group.members) == group.needed for group in self.groups):
            return self
        groups = (replace(each, members=each.members[: each.needed]) for each in self.groups)
        return replace(self, groups=tuple(groups))

    def only(self, pods: Collection[str]) -> "Gang":
        """The gang with no other members to place than some of its pods."""
        groups = (
            replace(each, members=tuple(one for one in each.members if one.pod in pods))
            for each in self.groups
        )
        return replace(self, groups=tuple(groups))


def single(member: Member, *, queue: str = "default", priority: int = 0) -> Gang:
    """A pod without a gang is a gang of one."""
    return Gang(member.pod, (Group(member.pod, (member,), 1),), queue=queue, priority=priority)
