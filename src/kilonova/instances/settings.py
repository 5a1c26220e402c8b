"""Settings of the controllers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kilonova.api.nodes.topology_labels import TOPOLOGY_LEVELS
from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.artifacts.builds import Build

LoadBuild = Callable[[str], Awaitable[Build]]
"""Loads the build of an id; raises `BuildError`."""


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """Settings of the controllers of inference engines."""

    scheduler_name: str = SCHEDULER_NAME
    """The scheduler of pods whose template names none."""
    topology_levels: tuple[str, ...] = TOPOLOGY_LEVELS
    """The levels of a cluster without a ClusterTopologyBinding, broadest first."""
    load_build: LoadBuild | None = None
    """Where builds come from; without it, specs must say all that a build would."""
    status_write_interval: float = 1.0
    """Minimum seconds between two status writes of one object, unless its phase changes."""
