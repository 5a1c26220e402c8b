"""Adjustments of pending gangs that depend on the past: nodes to avoid, no preemption."""

from collections.abc import Callable

from kilonova.scheduler.core.model.gangs import Gang


class GangAdjusters:
    """Functions that adjust every pending gang before it is scheduled, in the order in which they
    were added. A component that learns something about a gang marks it dirty to have it adjusted
    again."""

    def __init__(self) -> None:
        self._adjusters: list[Callable[[Gang], Gang]] = []

    def add(self, adjuster: Callable[[Gang], Gang]) -> None:
        self._adjusters.append(adjuster)

    def adjust(self, gang: Gang) -> Gang:
        for adjuster in self._adjusters:
            gang = adjuster(gang)
        return gang
