"""All that is decided from: nodes and bookings, queues and what they use, gangs that stand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from kilonova.scheduler.core.asks import Shape, is_for_queues
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.history import History
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.queues import Amounts, Forest
from kilonova.scheduler.core.snapshot import GPU, PODS, Booking, Snapshot

_HALF_LIFE = 24 * 3600.0


@dataclass(slots=True)
class Standing:
    """A gang of which pods have a place. `amounts` is what they count in its queue."""

    gang: Gang
    since: float
    pods: dict[str, Amounts] = field(default_factory=dict[str, Amounts])


@dataclass(frozen=True, slots=True)
class Saved:
    """What `Cluster.save` keeps."""

    standing: dict[str, Standing]
    used: Ledger
    budgets: dict[str, int]


class Charges(Protocol):
    """Where what queues use is counted."""

    def charge(self, queue: str, amounts: Amounts) -> None: ...
    def discharge(self, queue: str, amounts: Amounts) -> None: ...


class Cluster:
    """Nodes, queues and gangs. Whoever changes bookings of gangs does it here, so that what queues
    use stays true; bookings of pods that belong to nobody's queue may go to the snapshot alone."""

    def __init__(self, forest: Forest | None = None, half_life: float = _HALF_LIFE) -> None:
        self.snapshot = Snapshot()
        self.used = Ledger(forest or forest_of(()))
        self.history = History(half_life)
        self.standing: dict[str, Standing] = {}
        self.budgets: dict[str, int] = {}
        """How many pods each disruption budget lets go now."""
        self._capacity: Amounts = {}
        self._capacity_at = -1

    @property
    def forest(self) -> Forest:
        return self.used.forest

    def replace_queues(self, forest: Forest) -> None:
        """Takes other queues; what gangs use is counted anew."""
        self.used = Ledger(forest)
        for standing in self.standing.values():
            for amounts in standing.pods.values():
                self.used.charge(standing.gang.queue, amounts)

    def save(self) -> "Saved":
        """Gangs and queues as they are, for `restore`; bookings are the snapshot's to undo."""
        standing = {
            name: Standing(one.gang, one.since, dict(one.pods))
            for name, one in self.standing.items()
        }
        return Saved(standing, self.used.copy(), dict(self.budgets))

    def restore(self, saved: "Saved") -> None:
        self.standing, self.used = saved.standing, saved.used
        self.budgets = saved.budgets

    def capacity(self) -> Amounts:
        """What all nodes have together, as queues count it; what none has is not listed, whether
        anybody ever asked for it or not."""
        snapshot = self.snapshot
        if self._capacity_at != snapshot.fact_changes.position:
            total = snapshot.allocatable[:, : snapshot.size].sum(axis=1, dtype=np.float64)
            self._capacity = {
                name: int(total[column]) * (WHOLE if name == GPU else 1)
                for name, column in snapshot.resources.items()
                if name != PODS and is_for_queues(name) and total[column] > 0
            }
            self._capacity_at = snapshot.fact_changes.position
        return self._capacity

    def stand(
        self,
        gang: Gang,
        bookings: Iterable[Booking],
        now: float,
        charges: "Charges | None" = None,
    ) -> None:
        """Counts bookings, made already, as those of a gang."""
        standing = self.standing.get(gang.name)
        if standing is None:
            standing = self.standing[gang.name] = Standing(gang, now)
        standing.gang = gang
        for booking in bookings:
            amounts = charged(booking.shape)
            standing.pods[booking.pod] = amounts
            (charges or self.used).charge(gang.queue, amounts)

    def leave(self, gang: str, pods: Iterable[str], charges: "Charges | None" = None) -> None:
        """Some pods of a gang have no place any more; their bookings are released by the caller."""
        standing = self.standing[gang]
        for pod in pods:
            (charges or self.used).discharge(standing.gang.queue, standing.pods.pop(pod))
        if not standing.pods:
            del self.standing[gang]


@lru_cache(maxsize=4096)
def charged(shape: Shape) -> Mapping[str, int]:
    """What a pod of a shape counts in its queue. GPUs count in milli there, so that shares and
    instances count as what they are."""
    amounts = {
        name: amount
        for name, amount in shape.requests
        if name not in (PODS, GPU) and is_for_queues(name) and amount > 0
    }
    ask = shape.gpu
    if ask is not None:
        amounts[GPU] = max(0, ask.count * (ask.milli or WHOLE))
    return amounts


def asked(gang: Gang, *, wholly: bool = False) -> Mapping[str, int]:
    """What all that must be placed of a gang counts in its queue; or wholly, what may be."""
    if len(gang.groups) == 1 and len(gang.groups[0].members) == gang.groups[0].needed == 1:
        return charged(gang.groups[0].members[0].shape)
    shapes: Counter[Shape] = Counter()
    for group in gang.groups:
        members = group.members if wholly else group.members[: group.needed]
        shapes.update(member.shape for member in members)
    total: dict[str, int] = {}
    for shape, count in shapes.items():
        for name, amount in charged(shape).items():
            total[name] = total.get(name, 0) + amount * count
    return total
