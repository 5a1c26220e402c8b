"""Eviction rates of zones: the more of a zone's nodes are not ready, the slower. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kilonova.local.controllers.nodelifecycle.conditions import ready_status
from kilonova.local.objects.core import Node

EVICTION_RATE = 0.1
_SECONDARY_EVICTION_RATE = 0.01
_LARGE_ZONE_SIZE = 50
_UNHEALTHY_ZONE_THRESHOLD = 0.55
_MIN_DELAY = 0.001
_EXCLUDE_DISRUPTION_LABEL = "node.kubernetes.io/exclude-disruption"


class ZoneState(Enum):
    """The health of a zone."""

    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone's size and state."""

    size: int
    state: ZoneState

    @property
    def eviction_rate(self) -> float:
        """How many of its nodes may be evicted per second."""
        if self.state is not ZoneState.PARTIAL_DISRUPTION:
            return EVICTION_RATE
        return _SECONDARY_EVICTION_RATE if self.size > _LARGE_ZONE_SIZE else 0.0


def zone_of(node: Node) -> str:
    """The zone of a node, with its region; empty if it has neither."""
    labels = node.metadata.labels
    region = labels.get("topology.kubernetes.io/region", "")
    zone = labels.get("topology.kubernetes.io/zone", "")
    return f"{region}:{zone}" if region or zone else ""


def compute_zones(nodes: Iterable[Node]) -> dict[str, Zone]:
    """The state of every zone."""
    counts: dict[str, list[int]] = {}
    for node in nodes:
        if _EXCLUDE_DISRUPTION_LABEL in node.metadata.labels:
            continue
        counted = counts.setdefault(zone_of(node), [0, 0])
        counted[ready_status(node) == "True"] += 1
    return {
        name: Zone(bad + good, _compute_state(good, bad)) for name, (bad, good) in counts.items()
    }


def is_fully_disrupted(zones: Mapping[str, Zone]) -> bool:
    """Whether no zone has a ready node left."""
    return bool(zones) and all(zone.state is ZoneState.FULL_DISRUPTION for zone in zones.values())


def _compute_state(good: int, bad: int) -> ZoneState:
    if bad and not good:
        return ZoneState.FULL_DISRUPTION
    if bad > 2 and bad / (bad + good) >= _UNHEALTHY_ZONE_THRESHOLD:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


class EvictionRateLimiter:
    """Grants evictions at a variable rate; no burst after a pause."""

    def __init__(self) -> None:
        self._next = 0.0

    def try_accept(self, rate: float, now: float) -> float | None:
        """0 if it is granted now, else how long to wait; None while the rate is 0."""
        if rate <= 0:
            return None
        if now < self._next:
            return max(_MIN_DELAY, min(self._next - now, 1 / rate))
        self._next = now + 1 / rate
        return 0.0
