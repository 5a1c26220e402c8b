"""What queues used lately: heavy users of the recent past stand further back."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.shares import Shares, dominant_share

_FORGOTTEN = 1e-3
"""Of a unit: less is not worth remembering."""


@dataclass(frozen=True, slots=True)
class History:
    """The mean use of each queue, in which the past counts half after every half-life.

    A queue that always used 8 GPUs has a mean of 8; one that stopped a half-life ago, of 4.
    """

    half_life: float
    at: float | None = None
    """Until when it goes; None before it has begun."""
    mean: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]],
    )

    def __post_init__(self) -> None:
        if self.half_life <= 0:
            raise ValueError(f"the half-life of history is {self.half_life} s: it must be above 0")

    def advanced(self, used: Ledger, now: float) -> "History":
        """The history until now; since it was last advanced, what is used was used.

        Advance it before what is used changes. A clock that went back makes no history.
        """
        if self.at is None or now <= self.at:
            return History(self.half_life, now if self.at is None else self.at, self.mean)
        kept = 0.5 ** ((now - self.at) / self.half_life)
        mean: dict[str, Mapping[str, float]] = {}
        for queue in sorted({*used.forest.queues, *self.mean}):
            before, present = self.mean.get(queue, {}), used.of(queue)
            row = {
                name: before.get(name, 0.0) * kept + present.get(name, 0) * (1 - kept)
                for name in sorted({*before, *present})
            }
            if row := {name: amount for name, amount in row.items() if amount > _FORGOTTEN}:
                mean[queue] = row
        return History(self.half_life, now, mean)

    def past(self, shares: Shares) -> dict[str, float]:
        """Of each queue, which part of its fair share it used in the mean."""
        return {
            queue: dominant_share(row, shares.of[queue])[1]
            for queue, row in self.mean.items()
            if queue in shares.of
        }
