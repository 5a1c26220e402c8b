"""How long the operations on devices take, and how they fail."""

import math
from collections import Counter, deque

import msgspec

_REMEMBERED = 256


class OperationStatistics(msgspec.Struct, frozen=True):
    """Figures of one operation; seconds, of the last 256 that succeeded."""

    operation: str
    succeeded: int
    failed: dict[str, int]
    """By kind of failure."""
    mean: float
    p50: float
    p95: float
    longest: float


class _Figures:
    def __init__(self) -> None:
        self.succeeded = 0
        self.failed: Counter[str] = Counter()
        self.seconds: deque[float] = deque(maxlen=_REMEMBERED)


class StatisticsRecorder:
    """Collects the figures of all operations."""

    def __init__(self) -> None:
        self._figures: dict[str, _Figures] = {}

    def record(self, operation: str, seconds: float, failure: str = "") -> None:
        """One operation; `failure` is the kind of its failure, empty if it succeeded."""
        figures = self._figures.setdefault(operation, _Figures())
        if failure:
            figures.failed[failure] += 1
        else:
            figures.succeeded += 1
            figures.seconds.append(seconds)

    def summarise(self) -> tuple[OperationStatistics, ...]:
        """The figures so far, by operation."""
        return tuple(_summarise(name, figures) for name, figures in sorted(self._figures.items()))


def _summarise(name: str, figures: _Figures) -> OperationStatistics:
    ordered = sorted(figures.seconds)
    return OperationStatistics(
        name,
        figures.succeeded,
        dict(figures.failed),
        sum(ordered) / len(ordered) if ordered else 0.0,
        _quantile(ordered, 0.5),
        _quantile(ordered, 0.95),
        ordered[-1] if ordered else 0.0,
    )


def _quantile(ordered: list[float], part: float) -> float:
    """The smallest value that so large a part of all does not exceed."""
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else 0.0
