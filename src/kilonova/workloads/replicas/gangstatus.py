"""How far a gang is: its status. Pure.

What it says does not change with every pod, so that a big gang costs few writes: how many pods
are how far is told by its cliques.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.meta import Condition
from kilonova.api.podgang import Phase, PodGang, PodGangStatus, PodGroup
from kilonova.api.times import rfc3339
from kilonova.workloads.cliques.completion import COMPLETE, FAILED
from kilonova.workloads.cliques.roster import is_up
from kilonova.workloads.conditions import find_condition, holds, with_condition
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.pods import is_scheduled, problem_of
from kilonova.workloads.replicas.observed import Observed
from kilonova.workloads.replicas.units import is_breached
from kilonova.workloads.resources import Pod

INITIALIZED = "Initialized"
SCHEDULED = "Scheduled"
READY = "Ready"
UNHEALTHY = "Unhealthy"

_ON_THE_WAY: tuple[Phase, ...] = ("Pending", "Starting")
_LOSS = "a group has lost pods that it needs"
_WITHOUT_GANGS = "default-scheduler"


@dataclass(frozen=True, slots=True)
class _Group:
    """A group of a gang, and who is in it."""

    wanted: PodGroup
    clique: PodClique | None
    members: Sequence[Pod]

    @property
    def is_there(self) -> bool:
        present = {pod.metadata.name for pod in self.members}
        return all(each.name in present for each in self.wanted.pod_references)

    @property
    def is_scheduled(self) -> bool:
        return sum(map(is_scheduled, self.members)) >= self.wanted.min_replicas

    @property
    def is_ready(self) -> bool:
        return sum(map(is_up, self.members)) >= self.wanted.min_replicas

    @property
    def is_unhealthy(self) -> bool:
        """Whether it lacks pods that it once had; one that never came up is only waiting."""
        clique = self.clique
        return (
            clique is not None
            and is_breached(clique)
            and clique.status.healthy_incarnation == incarnation_of(clique.metadata)
        )

    def holds(self, condition: str) -> bool:
        return self.clique is not None and holds(self.clique.status.conditions, condition)


def gang_status(seen: Observed, gang: PodGang, now: datetime) -> PodGangStatus:
    """The status of a gang; what others tell in it stays."""
    groups = [
        _Group(each, seen.cliques.get(each.name), seen.roster(each.name).members)
        for each in gang.spec.pod_groups
    ]
    old = gang.status
    conditions = old.conditions
    is_there = all(each.is_there for each in groups)
    scheduled = all(each.is_scheduled for each in groups)
    ready = scheduled and all(each.is_ready for each in groups)
    unhealthy = any(each.is_unhealthy for each in groups)

    def tell(type_: str, value: bool, reasons: tuple[str, str], message: str) -> None:
        nonlocal conditions
        status, reason = ("True", reasons[0]) if value else ("False", reasons[1])
        conditions = with_condition(conditions, type_, status, reason, message, now)

    created = ("PodGangPodsCreated", "PodGangPodsCreationPending")
    tell(INITIALIZED, is_there, created, _says(is_there, "all pods have been created"))
    enough = ("SufficientScheduledPods", "InsufficientScheduledPods")
    tell(SCHEDULED, scheduled, enough, _says(scheduled, "every group has enough pods with nodes"))
    enough = ("SufficientReadyPods", "InsufficientReadyPods")
    tell(READY, ready, enough, _says(ready, "every group has enough pods that are ready"))
    breached = ("MinAvailableBreached", "MinAvailableMet")
    message = _loss(gang, groups) if unhealthy else "no group has lost pods"
    tell(UNHEALTHY, unhealthy, breached, message)
    return replace(
        old,
        phase=_phase(groups, scheduled, ready),
        conditions=conditions,
        last_scheduled=_since(old.conditions, SCHEDULED, scheduled, old.last_scheduled, now),
        last_ready=_since(old.conditions, READY, ready, old.last_ready, now),
    )


def is_pressing(gang: PodGang, new: PodGangStatus) -> bool:
    """Whether a status is to be told at once, and not only that the gang is on its way.

    A scheduler that knows gangs may wait for all pods to be there.
    """

    def turned(type_: str) -> bool:
        return holds(new.conditions, type_) != holds(gang.status.conditions, type_)

    scheduler = gang.metadata.labels.get(names.SCHEDULER_NAME)
    is_further = gang.status.phase in _ON_THE_WAY and new.phase in _ON_THE_WAY
    return (
        (new.phase != gang.status.phase and not is_further)
        or turned(UNHEALTHY)
        or (scheduler != _WITHOUT_GANGS and turned(INITIALIZED))
    )


def gives_way(gang: PodGang) -> bool:
    """Whether its first status may wait for pods of others: no scheduler waits for it."""
    is_awaited = gang.metadata.labels.get(names.SCHEDULER_NAME) != _WITHOUT_GANGS
    return not gang.status.conditions and not is_awaited


def _loss(gang: PodGang, groups: Sequence[_Group]) -> str:
    """What an unhealthy gang has lost, and why; the cause is still told when its pod is gone."""
    problem = next(filter(None, (problem_of(each.members) for each in groups)), "")
    if problem:
        return f"{_LOSS}: {problem}"
    old = find_condition(gang.status.conditions, UNHEALTHY)
    told = old is not None and old.status == "True" and old.message.startswith(_LOSS)
    return old.message if old is not None and told else _LOSS


def _says(value: bool, fact: str) -> str:
    return fact if value else f"not {fact}"


def _phase(groups: Sequence[_Group], scheduled: bool, ready: bool) -> Phase:
    if any(each.holds(FAILED) for each in groups):
        return "Failed"
    if groups and all(each.holds(COMPLETE) for each in groups):
        return "Succeeded"
    if ready:
        return "Running"
    return "Starting" if scheduled else "Pending"


def _since(
    conditions: Sequence[Condition], type_: str, value: bool, last: str | None, now: datetime
) -> str | None:
    """When it last began to hold."""
    return rfc3339(now) if value and not holds(conditions, type_) else last
