"""How fast nodes of a zone may be given up: the more of it is in trouble, the slower. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kilonova.local.controllers.nodes.conditions import ready_status
from kilonova.local.controllers.objects import Node

PER_SECOND = 0.1
_PER_SECOND_IN_TROUBLE = 0.01
_LARGE = 50
_TROUBLED_SHARE = 0.55
_SHORTEST = 0.001
_EXCLUDED = "node.kubernetes.io/exclude-disruption"


class ZoneState(Enum):
    """How a zone is doing."""

    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone's size and state."""

    size: int
    state: ZoneState

    @property
    def rate(self) -> float:
        """How many of its nodes may be given up per second."""
        if self.state is not ZoneState.PARTIAL_DISRUPTION:
            return PER_SECOND
        return _PER_SECOND_IN_TROUBLE if self.size > _LARGE else 0.0


def zone_of(node: Node) -> str:
    """The zone of a node, with its region; empty if it has neither."""
    labels = node.metadata.labels
    region = labels.get("topology.kubernetes.io/region", "")
    zone = labels.get("topology.kubernetes.io/zone", "")
    return f"{region}:{zone}" if region or zone else ""


def survey(nodes: Iterable[Node]) -> dict[str, Zone]:
    """The state of every zone."""
    counts: dict[str, list[int]] = {}
    for node in nodes:
        if _EXCLUDED in node.metadata.labels:
            continue
        counted = counts.setdefault(zone_of(node), [0, 0])
        counted[ready_status(node) == "True"] += 1
    return {name: Zone(bad + good, _state(good, bad)) for name, (bad, good) in counts.items()}


def all_disrupted(zones: Mapping[str, Zone]) -> bool:
    """Whether no zone has a ready node left."""
    return bool(zones) and all(zone.state is ZoneState.FULL_DISRUPTION for zone in zones.values())


def _state(good: int, bad: int) -> ZoneState:
    if bad and not good:
        return ZoneState.FULL_DISRUPTION
    if bad > 2 and bad / (bad + good) >= _TROUBLED_SHARE:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


class Allowance:
    """Hands out permissions at a rate that may change; never two at once after a pause."""

    def __init__(self) -> None:
        self._next = 0.0

    def take(self, rate: float, now: float) -> float | None:
        """0 if it is granted now, else how long to wait; None while nothing is granted."""
        if rate <= 0:
            return None
        if now < self._next:
            return max(_SHORTEST, min(self._next - now, 1 / rate))
        self._next = now + 1 / rate
        return 0.0
