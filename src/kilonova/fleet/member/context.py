"""What the agent's tasks are constructed with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from kilonova.fleet.member.caches import Caches
from kilonova.fleet.member.settings import MemberSettings
from kilonova.fleet.store import EndpointSource, EpochGuard, FleetStore
from kilonova.kube import Client, Key
from kilonova.kube.events import EventRecorder


@dataclass(frozen=True, slots=True)
class MemberContext:
    """What the agent is constructed with."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    settings: MemberSettings
    source: EndpointSource
    open_store: Callable[[str], FleetStore]
    guard: EpochGuard
    now: Callable[[], datetime]


@dataclass(slots=True)
class Progress:
    """What both tasks know of the desired document."""

    epoch: int = 0
    sequence: int = 0
    problem: str = ""
    deployment_problems: dict[Key, str] = field(default_factory=dict[Key, str])
