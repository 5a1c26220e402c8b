"""Usage of queues in the recent past, with exponential decay: heavy users come later."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.queueing.fair_shares import FairShares, dominant_share
from kilonova.scheduler.core.queueing.ledger import Ledger

_NEGLIGIBLE = 1e-3
"""Smaller means are dropped."""


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """The mean usage of each queue, in which the past counts half after every half-life.

    A queue that always used 8 GPUs has a mean of 8; one that stopped a half-life ago, of 4.
    """

    half_life: float
    at: float | None = None
    """Time of the last `advance`; None before the first."""
    mean: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, Mapping[str, float]],
    )

    def __post_init__(self) -> None:
        if self.half_life <= 0:
            raise ValueError(
                f"the half-life of the usage history is {self.half_life} s: it must be above 0"
            )

    def advance(self, used: Ledger, now: float) -> "UsageHistory":
        """The history until now, assuming constant usage since the last call.

        To be called before usage changes. A clock that went back changes nothing.
        """
        if self.at is None or now <= self.at:
            return UsageHistory(self.half_life, now if self.at is None else self.at, self.mean)
        kept = 0.5 ** ((now - self.at) / self.half_life)
        mean: dict[str, Mapping[str, float]] = {}
        for queue in sorted({*used.forest.queues, *self.mean}):
            before, present = self.mean.get(queue, {}), used.amounts_of(queue)
            row = {
                name: before.get(name, 0.0) * kept + present.get(name, 0) * (1 - kept)
                for name in sorted({*before, *present})
            }
            if row := {name: amount for name, amount in row.items() if amount > _NEGLIGIBLE}:
                mean[queue] = row
        return UsageHistory(self.half_life, now, mean)

    def mean_share_ratios(self, shares: FairShares) -> dict[str, float]:
        """The fraction of its fair share that each queue used on average."""
        return {
            queue: dominant_share(row, shares.by_queue[queue])[1]
            for queue, row in self.mean.items()
            if queue in shares.by_queue
        }
