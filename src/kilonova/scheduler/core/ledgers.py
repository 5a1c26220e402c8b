"""What counts in which queue: charged along the path, held against the limits.

One ledger is about what gangs use, another about what they ask for; both are of one forest. Cost
of every call: the depth of the queue times the number of resources.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.scheduler.core.queues import Amounts, Forest


@dataclass(frozen=True, slots=True)
class Blocked:
    """The limit that a gang would break; `queue` is its own or one above."""

    queue: str
    resource: str
    limit: int
    used: int
    asked: int

    @property
    def over(self) -> int:
        """How much less would have to be used, or asked for."""
        return self.used + self.asked - self.limit

    def __str__(self) -> str:
        return (
            f'queue "{self.queue}" may use {self.limit} {self.resource}: '
            f"{self.used} are in use, {self.asked} more are asked for"
        )


class Ledger:
    """Amounts by queue; what is charged to a queue counts in those above it too."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._rows: dict[str, dict[str, int]] = {name: {} for name in forest.queues}

    def copy(self) -> "Ledger":
        """The same amounts, which change by themselves from now on."""
        other = Ledger(self.forest)
        other._rows = {name: dict(row) for name, row in self._rows.items()}
        return other

    def of(self, queue: str) -> Amounts:
        """What counts in a queue now, as a view that changes with it; nothing is listed as 0."""
        row = self._rows.get(queue)
        return self._rows.setdefault(queue, {}) if row is None else row

    def charge(self, queue: str, amounts: Amounts) -> None:
        """Count amounts in a queue and those above it; limits are the caller's to ask about."""
        for name in self.forest.path(queue):
            row = self._rows.setdefault(name, {})
            for resource, amount in amounts.items():
                if amount:
                    row[resource] = row.get(resource, 0) + amount

    def discharge(self, queue: str, amounts: Amounts) -> None:
        """Take back what was charged; `ValueError`, and nothing is done, where it was not."""
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

    def blocked(self, queue: str, amounts: Amounts) -> Blocked | None:
        """The first limit on the way up that amounts would break, by the names of resources."""
        return next(self.broken(queue, amounts), None)

    def broken(self, queue: str, amounts: Amounts) -> Iterator[Blocked]:
        """All limits that amounts would break, from the queue up."""
        queues = self.forest.queues
        for name in self.forest.path(queue):
            if name not in queues:
                continue
            for resource, limit in sorted(queues[name].limit.items()):
                asked = amounts.get(resource, 0)
                used = self._rows[name].get(resource, 0)
                if asked and used + asked > limit:
                    yield Blocked(name, resource, limit, used, asked)
