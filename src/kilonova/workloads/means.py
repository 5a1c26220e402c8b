"""What every controller of the operator works with."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.kube import UNMEASURED, Client, Instruments
from kilonova.kube.events import Recorder
from kilonova.workloads.caches import Caches
from kilonova.workloads.complaints import Complaints
from kilonova.workloads.pace import Rush
from kilonova.workloads.settings import Settings


def _time_of_day() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Means:
    """One operator's: `now` is the time of day, `monotonic` only goes forward."""

    client: Client
    caches: Caches
    recorder: Recorder
    settings: Settings = field(default_factory=Settings)
    now: Callable[[], datetime] = _time_of_day
    monotonic: Callable[[], float] = time.monotonic
    instruments: Instruments = UNMEASURED
    complaints: Complaints = field(default_factory=Complaints)
    """What the server refuses replicas, for their sets to tell."""
    rush: Rush = field(default_factory=Rush)
    """Whether so much is under way that statuses wait."""
