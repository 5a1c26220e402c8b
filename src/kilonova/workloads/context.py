"""What every controller of the operator is constructed with."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.kube import NO_RUNTIME_METRICS, Client, RuntimeMetrics
from kilonova.kube.events import EventRecorder
from kilonova.kube.status import WriteCongestion
from kilonova.workloads.caches import Caches
from kilonova.workloads.settings import OperatorSettings
from kilonova.workloads.status.replica_errors import ReplicaErrors


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """Clients, caches, clocks and settings of one operator.

    `now` is the wall clock, `monotonic` never goes backwards.
    """

    client: Client
    caches: Caches
    recorder: EventRecorder
    settings: OperatorSettings = field(default_factory=OperatorSettings)
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS
    replica_errors: ReplicaErrors = field(default_factory=ReplicaErrors)
    """API errors of replicas, reported in the status of their sets."""
    congestion: WriteCongestion = field(default_factory=WriteCongestion)
    """Whether so many writes are in flight that non-urgent statuses are deferred."""
