"""What every controller is constructed with."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.instances.caches import Caches
from kilonova.instances.metrics import InstanceMetrics
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import NO_RUNTIME_METRICS, Client, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Client, caches, clocks and settings. `now` is the wall clock, `monotonic` never goes
    backwards, `new_id` makes names unique."""

    client: Client
    caches: Caches
    recorder: EventRecorder
    settings: InstanceSettings = field(default_factory=InstanceSettings)
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS
    new_id: Callable[[], str] = random_id
    metrics: InstanceMetrics = field(default_factory=InstanceMetrics)
