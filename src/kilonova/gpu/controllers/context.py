"""What every controller is constructed with."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.gpu.controllers.caches import Caches
from kilonova.gpu.controllers.node_devices import NodeDevices
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube import NO_RUNTIME_METRICS, Client, RuntimeMetrics
from kilonova.kube.events import EventRecorder


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Client, caches, clocks and settings. `now` is the wall clock, `monotonic` never goes
    backwards."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS
    devices: NodeDevices = field(default_factory=NodeDevices)
