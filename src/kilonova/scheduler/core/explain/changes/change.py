"""Changes that would make a gang schedulable: values, and their texts."""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.diagnosis import format_taint
from kilonova.scheduler.core.explain.placement_constraints import PlacementConstraint
from kilonova.scheduler.core.model.label_columns import NODE_NAME
from kilonova.scheduler.core.model.nodes import Taint


@dataclass(frozen=True, slots=True)
class RaisedLimit:
    """A limit of a queue; GPUs in milli, the unit of queues."""

    queue: str
    resource: str
    limit: int

    def __str__(self) -> str:
        limit = formatting.format_queue_amount(self.resource, self.limit)
        return f'{limit} {self.resource} in queue "{self.queue}"'


@dataclass(frozen=True, slots=True)
class RaiseLimits:
    """Limits of queues are raised."""

    limits: tuple[RaisedLimit, ...]
    kind: Literal["RaiseLimits"] = "RaiseLimits"

    def __str__(self) -> str:
        return f"raise the limit to {' and '.join(str(each) for each in self.limits)}"


@dataclass(frozen=True, slots=True)
class Uncordon:
    """Nodes are schedulable again."""

    nodes: tuple[str, ...]
    kind: Literal["Uncordon"] = "Uncordon"

    def __str__(self) -> str:
        return f"uncordon {formatting.format_names(self.nodes, 8)}"


@dataclass(frozen=True, slots=True)
class Tolerate:
    """Pods of these groups tolerate taints."""

    taints: tuple[Taint, ...]
    groups: tuple[str, ...]
    kind: Literal["Tolerate"] = "Tolerate"

    def __str__(self) -> str:
        taints = ", ".join(format_taint(taint) for taint in self.taints)
        return f"tolerate {taints} in {_format_groups(self.groups)}"


@dataclass(frozen=True, slots=True)
class RelaxConstraint:
    """A topology constraint requires a broader level, or none."""

    constraint: PlacementConstraint
    level: str
    kind: Literal["RelaxConstraint"] = "RelaxConstraint"

    def __str__(self) -> str:
        subject, current = self.constraint.subject, self.constraint.level
        if self.constraint.scope == "GangAntiAffinity":
            return f"relax the gang anti-affinity of {subject} at level {current}"
        if self.constraint.scope == "PodAffinity":
            return f"remove the pod affinity and topology spread constraints of {subject}"
        if self.level:
            return f"let {subject} span one {self.level} instead of one {current}"
        return f"do not require {subject} within one {current}"


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Pods of other gangs are evicted. `level` and `domain` are where, the level of node names for
    a single node. Without a `resource`, the pods are not in the way by what they use."""

    resource: str
    amount: float
    level: str
    domain: str
    gangs: tuple[str, ...]
    pods: tuple[str, ...]
    kind: Literal["FreeCapacity"] = "FreeCapacity"

    def __str__(self) -> str:
        if not self.resource:
            pods = formatting.format_pods(len(self.pods))
            return f"evict {pods} of {formatting.format_names(self.gangs)}"
        where = f" in {self.level} {self.domain}" if self.domain else ""
        if self.level == NODE_NAME:
            where = f" on node {self.domain}"
        # Devices of claims have no amount.
        amount = (
            formatting.format_amount(self.resource, self.amount) if self.amount else self.resource
        )
        return f"free {amount}{where}, now used by {formatting.format_names(self.gangs)}"


@dataclass(frozen=True, slots=True)
class LowerMinimum:
    """A group starts with fewer pods."""

    group: str
    minimum: int
    current_minimum: int
    kind: Literal["LowerMinimum"] = "LowerMinimum"

    def __str__(self) -> str:
        return (
            f"lower the minimum of group {self.group} from {self.current_minimum} to {self.minimum}"
        )


@dataclass(frozen=True, slots=True)
class AddNodes:
    """More nodes with the resources, taints and labels of an existing one."""

    count: int
    template_node: str
    level: str
    domain: str
    kind: Literal["AddNodes"] = "AddNodes"

    def __str__(self) -> str:
        nodes = "1 node" if self.count == 1 else f"{self.count} nodes"
        where = f" to {self.level} {self.domain}" if self.domain else ""
        return f"add {nodes} like {self.template_node}{where}"


@dataclass(frozen=True, slots=True)
class DeclareDuration:
    """The gang declares a maximum run time in seconds."""

    seconds: int
    reserved_gang: str
    kind: Literal["DeclareDuration"] = "DeclareDuration"

    def __str__(self) -> str:
        return f"declare a duration of at most {self.seconds}s, to end before {self.reserved_gang}"


@dataclass(frozen=True, slots=True)
class Wait:
    """Gangs end as expected, or reach their minimum run time and may be preempted; the latest comes
    last."""

    until: float
    gangs: tuple[str, ...]
    by_preemption: bool = False
    kind: Literal["Wait"] = "Wait"

    def __str__(self) -> str:
        time = formatting.format_time(self.until)
        latest = formatting.format_names(self.gangs[::-1], 2)
        if self.by_preemption:
            return f"wait until {time}, when {latest} may be preempted"
        return f"wait until {time}, the expected end of {latest}"


Change = (
    RaiseLimits
    | Uncordon
    | Tolerate
    | RelaxConstraint
    | FreeCapacity
    | LowerMinimum
    | AddNodes
    | DeclareDuration
    | Wait
)


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A change that was verified to make the gang schedulable. `cost` counts the effort: settings
    or nodes to edit, pods evicted or given up, pods that fit on new nodes; for waiting, the gangs
    waited for."""

    change: Change
    cost: int
    text: str
    taken_by: tuple[str, ...] = ()
    """Other pending gangs that are ahead in the queue and would take the capacity first."""


def _format_groups(names: tuple[str, ...]) -> str:
    return f"group {names[0]}" if len(names) == 1 else f"groups {', '.join(names)}"
