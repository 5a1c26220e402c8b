"""The constraint that keeps a gang from its place, as a value."""

from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.explaining.protected import Protected

Kind = Literal[
    "QueueFault",
    "GangFault",
    "QueueLimit",
    "Reserved",
    "RoomNow",
    "NoNode",
    "Protected",
    "TooLittleRoom",
    "Together",
    "Topology",
    "Segments",
    "Apart",
    "Neighbours",
    "SearchBudgetExceeded",
]


@dataclass(frozen=True, slots=True)
class Binding:
    """What binds, as a sentence and as facts; facts that say nothing about a kind are empty.

    `wanted` and `room` count pods (segments, where segments bind), `lacking` is an amount of
    `resource`, a fraction where pods share GPUs; of a queue's limit, `wanted` is what is asked for
    and `room` what is left.
    """

    kind: Kind
    text: str
    group: str = ""
    resource: str = ""
    level: str = ""
    domain: str = ""
    queue: str = ""
    wanted: int = 0
    room: int = 0
    lacking: float = 0
    gangs: tuple[str, ...] = ()
    at: float | None = None
    protected: tuple[Protected, ...] = ()
