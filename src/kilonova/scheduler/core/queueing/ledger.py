"""Usage of queues: charged along the path to the root, checked against limits.

One ledger holds what running gangs use, another what gangs request; both are of one forest. Cost of
every call: the depth of the queue times the number of resources.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.scheduler.core.queueing.queues import QueueForest, ResourceAmounts


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    """The limit that a gang would exceed; `queue` is the gang's queue or an ancestor."""

    queue: str
    resource: str
    limit: int
    used: int
    requested: int

    @property
    def excess(self) -> int:
        """By how much usage, or the request, would have to be lower."""
        return self.used + self.requested - self.limit

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}" may use {self.limit} {self.resource}: '
            f"{self.used} are in use, {self.requested} more are requested"
        )


class Ledger:
    """Amounts by queue; a charge counts in the queue and all its ancestors."""

    def __init__(self, forest: QueueForest) -> None:
        self.forest = forest
        self._rows: dict[str, dict[str, int]] = {name: {} for name in forest.queues}

    def copy(self) -> "Ledger":
        """An independent copy."""
        other = Ledger(self.forest)
        other._rows = {name: dict(row) for name, row in self._rows.items()}
        return other

    def amounts_of(self, queue: str) -> ResourceAmounts:
        """The amounts of a queue, as a view that changes with it; zero amounts are not listed."""
        row = self._rows.get(queue)
        return self._rows.setdefault(queue, {}) if row is None else row

    def charge(self, queue: str, amounts: ResourceAmounts) -> None:
        """Counts amounts in a queue and its ancestors; limits are not checked."""
        for name in self.forest.path(queue):
            row = self._rows.setdefault(name, {})
            for resource, amount in amounts.items():
                if amount:
                    row[resource] = row.get(resource, 0) + amount

    def discharge(self, queue: str, amounts: ResourceAmounts) -> None:
        """Undoes a charge; raises `ValueError`, and changes nothing, if it was not charged."""
        row = self._rows.get(queue, {})
        for resource, amount in amounts.items():
            if amount > row.get(resource, 0):
                raise ValueError(f'{amount} {resource} were never charged to queue "{queue}"')
        for name in self.forest.path(queue):
            row = self._rows[name]
            for resource, amount in amounts.items():
                left = row.get(resource, 0) - amount
                if left:
                    row[resource] = left
                else:
                    row.pop(resource, None)

    def first_exceeded_limit(self, queue: str, amounts: ResourceAmounts) -> LimitExceeded | None:
        """The first limit on the path that amounts would exceed, by resource name."""
        return next(self.exceeded_limits(queue, amounts), None)

    def exceeded_limits(self, queue: str, amounts: ResourceAmounts) -> Iterator[LimitExceeded]:
        """All limits that amounts would exceed, from the queue up."""
        queues = self.forest.queues
        for name in self.forest.path(queue):
            if name not in queues:
                continue
            for resource, limit in sorted(queues[name].limit.items()):
                division = amounts.get(resource, 0)
                used = self._rows[name].get(resource, 0)
                if division and used + division > limit:
                    yield LimitExceeded(name, resource, limit, used, division)
