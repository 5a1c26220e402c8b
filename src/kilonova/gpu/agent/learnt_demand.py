"""What pods request from the node, learnt from earlier pods, and kept in a file of the agent.

The file is replaced with every arrival. It has the time of that: what was learnt ages while no
agent runs, too.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.cdi.files import replace_file
from kilonova.gpu.mig.plan.demand import DemandEstimator, expected_stock
from kilonova.kube.observability.structured_logging import get_logger

DEMAND_FILE = "demand.json"

_log = get_logger(__name__)


class _LearntRates(msgspec.Struct, frozen=True):
    """The file: arrivals per second by profile, as they were `at` seconds since 1970."""

    at: float
    rates: dict[str, Annotated[float, Meta(ge=0)]]


class LearntDemand:
    """Counts the MIG instances that pods and claims of the node were assigned.

    Those that are there when the agent starts are no arrivals. `now` is monotonic, in seconds;
    `wall` is the clock by which the file ages.
    """

    def __init__(self, seconds: float, path: Path, wall: Callable[[], datetime]) -> None:
        self._seconds = seconds
        self._path = path
        self._wall = wall
        self._estimator = DemandEstimator()
        self._seen: frozenset[str] | None = None

    def load(self, now: float) -> None:
        """Read what an agent has learnt before; nothing where that is not possible."""
        try:
            known = msgspec.json.decode(self._path.read_bytes(), type=_LearntRates)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, UnicodeError) as error:
            _log.warning("learnt demand not read", path=str(self._path), error=str(error))
            return
        age = max(0.0, self._wall().timestamp() - known.at)
        self._estimator = DemandEstimator(rates=known.rates, updated=now - age)

    def observe(self, holders: Sequence[Holder], now: float) -> None:
        """The holders of devices now."""
        seen = self._seen
        self._seen = frozenset(each.uid for each in holders)
        if seen is None:
            return
        profiles = [
            device.profile
            for holder in holders
            if holder.uid not in seen
            for device in holder.devices
            if device.profile
        ]
        for profile in profiles:
            self._estimator.record(profile, now)
        if profiles and self._seconds:
            self._save(now)

    def expected(self, now: float) -> Mapping[str, int]:
        """How many instances of each profile are enough for the next `seconds`."""
        return expected_stock(self._estimator.rates(now), self._seconds)

    def _save(self, now: float) -> None:
        rates = dict(self._estimator.rates(now))
        content = msgspec.json.encode(_LearntRates(self._wall().timestamp(), rates))
        try:
            replace_file(self._path, content)
        except OSError as error:
            _log.warning("learnt demand not saved", path=str(self._path), error=str(error))
