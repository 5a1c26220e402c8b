"""What the manager is constructed with."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kilonova.fleet.manager.hub import Hub
from kilonova.fleet.manager.hub_writer import HubWriter
from kilonova.fleet.manager.metrics import FleetMetrics
from kilonova.fleet.manager.settings import ManagerSettings
from kilonova.kube.events import EventRecorder


@dataclass(frozen=True, slots=True)
class ManagerContext:
    """What the manager is constructed with."""

    hub: Hub
    writer: HubWriter
    recorder: EventRecorder
    settings: ManagerSettings
    metrics: FleetMetrics | None
    now: Callable[[], datetime]
    monotonic: Callable[[], float]
    """Seconds, including those in which the machine was suspended."""
