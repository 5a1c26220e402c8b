"""What a plan for an instance is made from, and what it consists of. Values only."""

from dataclasses import dataclass, field
from typing import Literal

from kilonova.api.inference_engine import InstanceStatus
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang, PodGangStatus
from kilonova.api.scheduling import Reservation
from kilonova.artifacts.builds import Build
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.builders.engine import Engine
from kilonova.instances.controllers.instance.observed import ObservedInstance
from kilonova.instances.controllers.instance.progress import Progress
from kilonova.instances.repair import RepairDecision
from kilonova.instances.resources import ChildObject, Pod

Rung = Literal["recreate", "replace-node", "relocate", "give-up"]


@dataclass(frozen=True, slots=True)
class InstanceEvent:
    """An event to record."""

    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """A pod to delete; at once, if the node on which it ran does not exist."""

    pod: Pod
    is_forced: bool


@dataclass(frozen=True, slots=True)
class FreshAllocation:
    """What a new allocation is made from."""

    constraints: AllocationConstraints
    build: Build | None


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """What to write, in this order."""

    services: tuple[JsonObject, ...] = ()
    reservation: JsonObject | None = None
    gang: JsonObject | None = None
    delete_pods: tuple[Deletion, ...] = ()
    delete_gangs: tuple[PodGang, ...] = ()
    delete_services: tuple[ChildObject, ...] = ()
    delete_reservations: tuple[Reservation, ...] = ()
    create: tuple[JsonObject, ...] = ()
    ungate: tuple[Pod, ...] = ()
    gang_status: tuple[PodGang, PodGangStatus] | None = None
    status: InstanceStatus = field(default_factory=InstanceStatus)
    events: tuple[InstanceEvent, ...] = ()
    """After the writes that they are about."""
    repairs: tuple[tuple[Rung, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """An instance with an allocation, and what a repair policy decided about it."""

    observed: ObservedInstance
    engine: Engine
    progress: Progress
    """Of the newest allocation."""
    decision: RepairDecision
    serving: Progress | None = None
    """Of the former allocation, if that serves requests until the newest one does."""
    fresh: FreshAllocation | None = None
    """For a decision that makes a new allocation."""
