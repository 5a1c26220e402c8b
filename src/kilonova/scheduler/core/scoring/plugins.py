"""Score plugins: each scores nodes from 0 to 100; the node score is their weighted mean.

A plugin that raises, or returns something other than finite numbers, is recorded as failed and not
called again, so that all nodes are scored by the same plugins; a third-party plugin cannot stop
scheduling. The score by plugin is available for explanations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.filters.feasibility import ScoreFunction, Scores
from kilonova.scheduler.core.gpu.layout import idle_devices
from kilonova.scheduler.core.gpu.selection import best_scores
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit
from kilonova.scheduler.core.scoring.preferences import preference_score

PREFERENCES = "preferences"
"""Name of the plugin for soft constraints."""


@dataclass(frozen=True, slots=True)
class ScorePlugin:
    """A named score function with its weight."""

    name: str
    weight: float
    score: ScoreFunction
    is_trusted: bool = False
    """The function is known to return a number from 0 to 100 for every row."""


class Scoring:
    """The weighted mean of its plugins: a score function."""

    def __init__(self, plugins: Sequence[ScorePlugin]) -> None:
        self.plugins = tuple(plugin for plugin in plugins if plugin.weight > 0)
        self.failed_plugins: dict[str, str] = {}
        """The error of each plugin that is disabled."""

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        total = np.zeros(len(rows))
        weight = 0.0
        for plugin in self.plugins:
            scores = self._run_plugin(plugin, snapshot, shape, rows)
            if scores is not None:
                total += plugin.weight * scores
                weight += plugin.weight
        return total / weight if weight else total

    def with_weights(self, weights: Mapping[str, float]) -> "Scoring":
        """The same plugins with other weights."""
        return Scoring(
            [
                replace(plugin, weight=weights.get(plugin.name, plugin.weight))
                for plugin in self.plugins
            ]
        )

    @property
    def version(self) -> int:
        """Changes when a plugin has learned, and when one is disabled."""
        versions: int = sum(getattr(plugin.score, "version", 0) for plugin in self.plugins)
        return versions + len(self.failed_plugins)

    @property
    def by_state(self) -> bool:
        """Whether rows in equal states get equal scores: third-party plugins may read anything."""
        return all(plugin.is_trusted for plugin in self.plugins)

    def scores_by_plugin(self, snapshot: Snapshot, shape: Shape, row: int) -> Mapping[str, float]:
        """The score of a node by plugin. Preferences towards other pods are relative to all
        nodes."""
        rows = np.array([row], np.intp)
        if shape.pod_rules is not None and shape.pod_rules.has_preferences:
            rows = np.concatenate((rows, np.flatnonzero(snapshot.alive[: snapshot.size])))
        found = (
            (plugin, self._run_plugin(plugin, snapshot, shape, rows)) for plugin in self.plugins
        )
        return {plugin.name: float(scores[0]) for plugin, scores in found if scores is not None}

    def _run_plugin(
        self, plugin: ScorePlugin, snapshot: Snapshot, shape: Shape, rows: Rows
    ) -> Scores | None:
        if plugin.name in self.failed_plugins:
            return None
        try:
            if plugin.is_trusted:
                return plugin.score(snapshot, shape, rows)
            scores = np.asarray(plugin.score(snapshot, shape, rows), np.float64)
        except Exception as error:
            self.failed_plugins[plugin.name] = f"{type(error).__name__}: {error}"
            return None
        if scores.shape != (len(rows),) or not np.isfinite(scores).all():
            self.failed_plugins[plugin.name] = "did not return a finite score for every node"
            return None
        return np.minimum(np.maximum(scores, 0.0), 100.0)


def topology_score(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How well the best idle GPUs of a node are connected."""
    if shape.gpu is None:
        return np.full(len(rows), 50.0)
    idle = idle_devices(snapshot.gpu_free[rows], snapshot.gpu_mask[rows])
    return np.maximum(best_scores(snapshot.layout_of, snapshot.layouts[rows], idle, shape.gpu), 0.0)


def balance_score(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How evenly the resources of a node would be used, within the upper fifth of the range: a
    better fit outweighs balance."""
    requested = dict(shape.requests)
    cpu = _used_fraction(snapshot, rows, "cpu", requested.get("cpu", 0))
    memory = _used_fraction(snapshot, rows, "memory", requested.get("memory", 0))
    column = snapshot.resources[GPU]
    whole = snapshot.allocatable[column, rows]
    busy = (whole - snapshot.free[column, rows] + requested.get(GPU, 0)) / np.maximum(whole, 1)
    gpu: Scores = np.where(whole > 0, busy, cpu)
    most = np.maximum(np.maximum(cpu, memory), gpu)
    least = np.minimum(np.minimum(cpu, memory), gpu)
    return 100.0 - 20.0 * np.minimum(most - least, 1.0)


def _used_fraction(snapshot: Snapshot, rows: Rows, resource: str, more: int) -> Scores:
    """The fraction of a resource that would be used with `more` added."""
    column = snapshot.resources[resource]
    whole = np.maximum(snapshot.allocatable[column, rows], 1)
    return (snapshot.used[column, rows] + more) / whole


def default_scoring(fit: ScoreFunction | None = None, extra: Sequence[ScorePlugin] = ()) -> Scoring:
    """The default plugins: topology, fit and balance with KGWE's weights, preferences as heavy as
    these three together, and third-party plugins."""
    plugins = (
        ScorePlugin(PREFERENCES, 100, preference_score, is_trusted=True),
        ScorePlugin("topology", 40, topology_score, is_trusted=True),
        ScorePlugin(
            "fit",
            35,
            fit or LearnedPackingFit(),
            is_trusted=fit is None or isinstance(fit, LearnedPackingFit),
        ),
        ScorePlugin("balance", 25, balance_score, is_trusted=True),
    )
    return Scoring((*plugins, *extra))
