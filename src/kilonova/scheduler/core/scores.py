"""How good a node is for a pod: named parts, each from 0 to 100, weighed against each other.

A part that raises, or gives what is no number, is remembered as broken and not asked again, so that
all nodes are judged by the same parts; nothing that is plugged in stops placement. The
part of a node's score that each gave can be asked for afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.choosing import quality
from kilonova.scheduler.core.devices import idle_devices
from kilonova.scheduler.core.fit import LearntFit
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Score, Scores
from kilonova.scheduler.core.snapshot import GPU, Snapshot
from kilonova.scheduler.core.wishes import wishes

WISHES = "wishes"
"""The part that stands for all that is preferred and not required."""


@dataclass(frozen=True, slots=True)
class Part:
    """One reason to prefer a node."""

    name: str
    weight: float
    score: Score
    sound: bool = False
    """It is known to give a number from 0 to 100 for every row."""


class Scoring:
    """The weighed mean of its parts: a `Score`."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(part for part in parts if part.weight > 0)
        self.broken: dict[str, str] = {}
        """What went wrong with a part that is left out since."""

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
        total = np.zeros(len(rows))
        weight = 0.0
        for part in self.parts:
            scores = self._of(part, snapshot, shape, rows)
            if scores is not None:
                total += part.weight * scores
                weight += part.weight
        return total / weight if weight else total

    def weighed(self, weights: Mapping[str, float]) -> "Scoring":
        """The same parts, some with another weight than theirs."""
        return Scoring(
            [replace(part, weight=weights.get(part.name, part.weight)) for part in self.parts]
        )

    @property
    def version(self) -> int:
        """Changes when a part that learns has learnt, and when one is left out."""
        learnt: int = sum(getattr(part.score, "version", 0) for part in self.parts)
        return learnt + len(self.broken)

    @property
    def by_state(self) -> bool:
        """Whether it says the same of rows that have and use the same, to a shape that minds
        nothing else: what is plugged in may look at anything."""
        return all(part.sound for part in self.parts)

    def by_part(self, snapshot: Snapshot, shape: Shape, row: int) -> Mapping[str, float]:
        """What each part gives a node; where others stand is judged by comparison with all."""
        rows = np.array([row], np.intp)
        if shape.peers is not None and shape.peers.wishes:
            rows = np.concatenate((rows, np.flatnonzero(snapshot.alive[: snapshot.size])))
        found = ((part, self._of(part, snapshot, shape, rows)) for part in self.parts)
        return {part.name: float(scores[0]) for part, scores in found if scores is not None}

    def _of(self, part: Part, snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores | None:
        if part.name in self.broken:
            return None
        try:
            if part.sound:
                return part.score(snapshot, shape, rows)
            scores = np.asarray(part.score(snapshot, shape, rows), np.float64)
        except Exception as error:
            self.broken[part.name] = f"{type(error).__name__}: {error}"
            return None
        if scores.shape != (len(rows),) or not np.isfinite(scores).all():
            self.broken[part.name] = "does not give a number for every node"
            return None
        return np.minimum(np.maximum(scores, 0.0), 100.0)


def topology(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How well the best free GPUs of a node stand to each other."""
    if shape.gpu is None:
        return np.full(len(rows), 50.0)
    idle = idle_devices(snapshot.gpu_free[rows], snapshot.gpu_mask[rows])
    return np.maximum(quality(snapshot.layout_of, snapshot.layouts[rows], idle, shape.gpu), 0.0)


def balance(snapshot: Snapshot, shape: Shape, rows: Rows) -> Scores:
    """How evenly a node's resources would be used. It speaks in a fifth of the range: a node that
    fits better is better though it is less even."""
    asked = dict(shape.requests)
    cpu = _used_share(snapshot, rows, "cpu", asked.get("cpu", 0))
    memory = _used_share(snapshot, rows, "memory", asked.get("memory", 0))
    column = snapshot.resources[GPU]
    whole = snapshot.allocatable[column, rows]
    busy = (whole - snapshot.free[column, rows] + asked.get(GPU, 0)) / np.maximum(whole, 1)
    gpu: Scores = np.where(whole > 0, busy, cpu)
    most = np.maximum(np.maximum(cpu, memory), gpu)
    least = np.minimum(np.minimum(cpu, memory), gpu)
    return 100.0 - 20.0 * np.minimum(most - least, 1.0)


def _used_share(snapshot: Snapshot, rows: Rows, resource: str, more: int) -> Scores:
    """Which part of a resource would be used with so much more."""
    column = snapshot.resources[resource]
    whole = np.maximum(snapshot.allocatable[column, rows], 1)
    return (snapshot.used[column, rows] + more) / whole


def default_scoring(fit: Score | None = None, extra: Sequence[Part] = ()) -> Scoring:
    """Topology, fit and balance, as KGWE weighs them, wishes as much as all of these together, and
    what is plugged in."""
    parts = (
        Part(WISHES, 100, wishes, sound=True),
        Part("topology", 40, topology, sound=True),
        Part("fit", 35, fit or LearntFit(), sound=fit is None or isinstance(fit, LearntFit)),
        Part("balance", 25, balance, sound=True),
    )
    return Scoring((*parts, *extra))
