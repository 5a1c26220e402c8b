"""Changes that would let a gang in: values, and how they are said."""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.constraints import Constraint
from kilonova.scheduler.core.explaining.tallies import spelled
from kilonova.scheduler.core.labels import NAME
from kilonova.scheduler.core.nodes import Taint


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a queue; GPUs in milli, as queues count them."""

    queue: str
    resource: str
    limit: int

    def __str__(self) -> str:
        limit = wording.queue_figure(self.resource, self.limit)
        return f'{limit} {self.resource} in queue "{self.queue}"'


@dataclass(frozen=True, slots=True)
class RaiseLimits:
    """Queues may use so much."""

    limits: tuple[Limit, ...]
    kind: Literal["RaiseLimits"] = "RaiseLimits"

    def __str__(self) -> str:
        return f"raise the limit to {' and '.join(str(each) for each in self.limits)}"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Nodes take pods again."""

    nodes: tuple[str, ...]
    kind: Literal["Uncordon"] = "Uncordon"

    def __str__(self) -> str:
        return f"uncordon {wording.some(self.nodes, 8)}"


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Pods of these groups put up with taints."""

    taints: tuple[Taint, ...]
    groups: tuple[str, ...]
    kind: Literal["Tolerate"] = "Tolerate"

    def __str__(self) -> str:
        taints = ", ".join(spelled(taint) for taint in self.taints)
        return f"tolerate {taints} in {_groups(self.groups)}"


@dataclass(frozen=True, slots=True)
class Loosen:
    """A constraint about domains asks for a broader level, or for none."""

    constraint: Constraint
    level: str
    kind: Literal["Loosen"] = "Loosen"

    def __str__(self) -> str:
        who, before = self.constraint.who, self.constraint.level
        if self.constraint.whose == "Apart":
            return f"let {who} stand in one {before} with those that it keeps apart from"
        if self.constraint.whose == "Neighbours":
            return f"drop the rules of {who} about the pods around them"
        if self.level:
            return f"let {who} stand within one {self.level} instead of one {before}"
        return f"do not keep {who} within one {before}"


@dataclass(frozen=True, slots=True)
class Free:
    """Pods of others go. `level` and `domain` are where, the level of names for a single node.
    Where it is not what they use that is in the way, there is no resource."""

    resource: str
    amount: float
    level: str
    domain: str
    gangs: tuple[str, ...]
    pods: tuple[str, ...]
    kind: Literal["Free"] = "Free"

    def __str__(self) -> str:
        if not self.resource:
            return f"let {wording.pods(len(self.pods))} of {wording.some(self.gangs)} go"
        where = f" in {self.level} {self.domain}" if self.domain else ""
        if self.level == NAME:
            where = f" on node {self.domain}"
        # Of what claims ask for there is no figure.
        amount = wording.amount(self.resource, self.amount) if self.amount else self.resource
        return f"free {amount}{where}, now used by {wording.some(self.gangs)}"


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """A group begins with fewer pods."""

    group: str
    minimum: int
    before: int
    kind: Literal["LowerMinimum"] = "LowerMinimum"

    def __str__(self) -> str:
        return f"lower the minimum of group {self.group} from {self.before} to {self.minimum}"


@dataclass(frozen=True, slots=True)
class AddNodes:
    """More nodes with the resources, taints and labels of one that is there."""

    count: int
    like: str
    level: str
    domain: str
    kind: Literal["AddNodes"] = "AddNodes"

    def __str__(self) -> str:
        nodes = "1 node" if self.count == 1 else f"{self.count} nodes"
        where = f" to {self.level} {self.domain}" if self.domain else ""
        return f"add {nodes} like {self.like}{where}"


@dataclass(frozen=True, slots=True)
class DeclareDuration:
    """The gang says that it ends after so many seconds at most."""

    seconds: int
    before: str
    kind: Literal["DeclareDuration"] = "DeclareDuration"

    def __str__(self) -> str:
        return f"declare a duration of at most {self.seconds}s, to end before {self.before}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Gangs end as expected, or are old enough to be pushed out; the latest comes last."""

    until: float
    gangs: tuple[str, ...]
    pushed_out: bool = False
    kind: Literal["Wait"] = "Wait"

    def __str__(self) -> str:
        what = "may be pushed out" if self.pushed_out else "should have ended"
        latest = wording.some(self.gangs[::-1], 2)
        return f"wait until {wording.moment(self.until)}, when {latest} {what}"


Change = (
    RaiseLimits
    | Uncordon
    | Tolerate
    | Loosen
    | Free
    | LowerMinimum
    | AddNodes
    | DeclareDuration
    | Wait
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that was seen to let the gang in. `size` counts what has to be done: settings or
    nodes to edit, pods that go or are given up, pods that would have room on new nodes; of waiting,
    the gangs that are waited for."""

    change: Change
    size: int
    text: str
    taken_by: tuple[str, ...] = ()
    """Other pending gangs that are ahead in the queue and would take the capacity first."""


def _groups(names: tuple[str, ...]) -> str:
    return f"group {names[0]}" if len(names) == 1 else f"groups {', '.join(names)}"
