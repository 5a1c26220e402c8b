"""Score plugins: the default ones, and those of other packages, found by entry point.

A package offers a function under the entry-point group `kilonova.scheduler.scores`:

    [project.entry-points."kilonova.scheduler.scores"]
    green-power = "our_package:green_power"

    def green_power(snapshot, shape, rows): ...  # a score from 0 to 100 for each row

The function's attribute `weight` is its default weight (10 without one); `weights` of the
scheduler's configuration take precedence. A plugin runs in a thread of its own. One that exceeds
its timeout is disabled, so that scheduling never waits for it twice.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint

from kilonova.component.entry_points import find_entry_points
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.core.filters.feasibility import ScoreFunction, Scores
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit
from kilonova.scheduler.core.scoring.plugins import ScorePlugin, Scoring, default_scoring

GROUP = "kilonova.scheduler.scores"

_DEFAULT_WEIGHT = 10.0
_TIMEOUT_SECONDS = 0.5

_log = get_logger(__name__)


def build_scoring(weights: Mapping[str, float], fit: LearnedPackingFit | None = None) -> Scoring:
    """The default score plugins and those of installed packages, with the configured weights."""
    return default_scoring(fit, load_score_plugins(weights)).with_weights(weights)


class PluginTimeout(Exception):
    """A plugin did not return in time."""


def load_score_plugins(
    weights: Mapping[str, float], entry_points_offered: Iterable[EntryPoint] | None = None
) -> list[ScorePlugin]:
    """Load all plugins of installed packages, sorted by name; one that cannot be loaded is
    skipped."""
    plugins: list[ScorePlugin] = []
    points = find_entry_points(GROUP) if entry_points_offered is None else entry_points_offered
    for point in sorted(points, key=lambda each: each.name):
        try:
            score: ScoreFunction = point.load()
            weight = float(weights.get(point.name, getattr(score, "weight", _DEFAULT_WEIGHT)))
        except Exception as error:
            _log.warning("score plugin not loaded", plugin=point.name, error=repr(error))
            continue
        if not callable(score):
            _log.warning("score plugin is not callable", plugin=point.name, value=point.value)
            continue
        plugins.append(ScorePlugin(point.name, weight, GuardedScore(point.name, score)))
    return plugins


class GuardedScore:
    """A score function with a timeout."""

    def __init__(self, name: str, score: ScoreFunction, seconds: float = _TIMEOUT_SECONDS) -> None:
        self._name = name
        self._score = score
        self._seconds = seconds
        self._threads = ThreadPoolExecutor(1, thread_name_prefix=f"score-plugin-{name}")
        self._timed_out = False

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        if self._timed_out:
            raise PluginTimeout(f"{self._name} is disabled")
        answer = self._threads.submit(self._score, snapshot, shape, rows)
        try:
            return answer.result(self._seconds)
        except TimeoutError:
            self._timed_out = True
            self._threads.shutdown(wait=False)
            _log.warning(
                "score plugin timed out and is disabled", plugin=self._name, seconds=self._seconds
            )
            raise PluginTimeout(f"{self._name} took more than {self._seconds} s") from None
