"""What can be set about a scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.api.schedulingnames import SCHEDULER
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.movelimits import MoveLimits


@dataclass(frozen=True, slots=True)
class Settings:
    """How it decides, and how it writes."""

    serves: frozenset[str] = frozenset({SCHEDULER})
    """Pods whose `schedulerName` is one of these are placed."""
    policy: Policy = field(default_factory=Policy)
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """How much parts of a node's score count, other than usual."""
    concurrency: int = 96
    """Bindings that are on their way at once."""
    node_batch: float = 1.0
    """Seconds for which pods beyond a gang's minimum wait after a node came or changed, while
    another gang waits for its minimum: nodes that come together are seen together."""
    retry: float = 10.0
    """Seconds after which gangs without a place are tried again though nothing happened: rights to
    push others out come with time."""
    patience: float = 120.0
    """Seconds that pods which have to make way are waited for."""
    half_after: float = 60.0
    """Seconds after which a gang that never had all of its pods gives back those that it has."""
    pace: float = 5.0
    """Seconds between two changes of what is told about one gang."""
    moves: MoveLimits | None = None
    """How much is moved so that nodes become free; without limits nothing is."""
    avoid_for: float = 3600.0
    """Seconds for which a workload keeps off nodes on which it failed, if there are others."""
