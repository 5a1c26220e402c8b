"""Parts of the score that others bring: entry points of installed packages.

A package offers a function by its metadata, under the group `kilonova.scheduler.scores`:

    [project.entry-points."kilonova.scheduler.scores"]
    green-power = "our_package:green_power"

    def green_power(snapshot, shape, rows): ...  # a number from 0 to 100 for each row

`weight` of the function says how much it counts, 10 if it says nothing; `weights` of the
scheduler's configuration count more. It runs in a thread of its own. One that takes too long is not
called again: placement does not wait for it a second time.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, entry_points

from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Score, Scores
from kilonova.scheduler.core.scores import Part
from kilonova.scheduler.core.snapshot import Snapshot

GROUP = "kilonova.scheduler.scores"

_WEIGHT = 10.0
_SECONDS = 0.5

_log = get_logger(__name__)


class TookTooLong(Exception):
    """A plug-in that did not answer in time."""


def plugged_in(
    weights: Mapping[str, float], offered: Iterable[EntryPoint] | None = None
) -> list[Part]:
    """All parts that installed packages offer, by name. One that cannot be loaded is left out."""
    parts: list[Part] = []
    points = entry_points(group=GROUP) if offered is None else offered
    for point in sorted(points, key=lambda each: each.name):
        try:
            score: Score = point.load()
            weight = float(weights.get(point.name, getattr(score, "weight", _WEIGHT)))
        except Exception as error:
            _log.warning("plug-in cannot be loaded", plugin=point.name, error=repr(error))
            continue
        if not callable(score):
            _log.warning("plug-in is no function", plugin=point.name, value=point.value)
            continue
        parts.append(Part(point.name, weight, Guarded(point.name, score)))
    return parts


class Guarded:
    """A `Score` that answers in time or not at all."""

    def __init__(self, name: str, score: Score, seconds: float = _SECONDS) -> None:
        self._name = name
        self._score = score
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=f"plug-in {name}")
        self._hangs = False

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        if self._hangs:
            raise TookTooLong(f"{self._name} is not asked any more")
        answer = self._threads.submit(self._score, snapshot, shape, rows)
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            self._hangs = True
            self._threads.shutdown(wait=False)
            _log.warning("plug-in takes too long", plugin=self._name, seconds=self._seconds)
            raise TookTooLong(f"{self._name} took more than {self._seconds} s") from None
