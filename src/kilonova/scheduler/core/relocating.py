"""Who may be moved, what that costs, and how those who move ask for another place.

A **move** takes pods of one gang from their nodes and gives them others at once: all of the gang,
or some that it has beyond its minimum. Nobody is moved who would not get a place again.

These stay: who may not be preempted or is protected for a while after its start; a gang that has
not all that it must have, or of which pods are being deleted; pods that nobody would make again;
pods with claims, for those hold their devices; a gang that is kept apart from others or to which
others belong, for what the others were promised goes by where it stands.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.rights import Claimant, Holder, kept_from_preemption
from kilonova.scheduler.core.snapshot import GPU, Booking

_RESTART = 300.0
"""Seconds of work that starting again costs, beside what was done already."""
_LIGHT = 0.1
"""GPUs that a pod without any counts as."""


@dataclass(frozen=True, slots=True)
class Move:
    """Pods of a gang, where they stand and where they will; `work` is lost, in GPU-seconds."""

    gang: Gang
    leaves: tuple[Booking, ...]
    bookings: tuple[Booking, ...]
    work: float

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(booking.pod for booking in self.leaves)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much may be moved within a period that ends at any moment."""

    moves: int
    work: float = float("inf")
    """GPU-seconds that may be lost."""
    period: float = 3600.0
    spent: tuple[tuple[float, float], ...] = ()
    """When each move was made that still counts, and the work that it cost."""

    def allows(self, moves: Sequence[Move], now: float) -> bool:
        """Whether all of some moves may be made now."""
        counted = self._counted(now)
        work = sum(work for _, work in counted) + sum(move.work for move in moves)
        return len(counted) + len(moves) <= self.moves and work <= self.work

    def after(self, moves: Sequence[Move], now: float) -> "Budget":
        """What is left when moves were made."""
        return replace(self, spent=(*self._counted(now), *((now, move.work) for move in moves)))

    def _counted(self, now: float) -> tuple[tuple[float, float], ...]:
        return tuple(each for each in self.spent if each[0] > now - self.period)


class Movers:
    """The gangs of a cluster that may be moved. Good for one plan, in which each moves once."""

    def __init__(
        self,
        cluster: Cluster,
        now: float,
        keep: Iterable[str] = (),
        waiting: Gang | None = None,
    ) -> None:
        self._cluster = cluster
        self._now = now
        self._may: dict[str, bool] = dict.fromkeys(keep, False)
        gangs = [standing.gang for standing in cluster.standing.values()]
        if waiting is not None:
            gangs.append(waiting)
        self._bases = {frozenset(gang.within) for gang in gangs if gang.within}

    def keep(self, gang: str) -> None:
        """Has a gang stay from now on."""
        self._may[gang] = False

    def leaving(self, gang: str, pods: Collection[str]) -> tuple[str, ...]:
        """Who of a gang goes when some pods of it have to: these alone if it can do without them,
        else all. Nobody, if they stay."""
        standing = self._cluster.standing.get(gang)
        if standing is None or not self._may_move(standing):
            return ()
        if self._extras(standing).issuperset(pods):
            return tuple(pod for pod in standing.pods if pod in pods)
        return tuple(standing.pods)

    def are_extras(self, gang: str, pods: Collection[str]) -> bool:
        """Whether a gang can do without each of some pods."""
        return self._extras(self._cluster.standing[gang]).issuperset(pods)

    def may_go(self, bookings: Iterable[Booking]) -> bool:
        """Whether disruption budgets let all of these go."""
        guarded = Counter(budget for each in bookings for budget in each.member.budgets)
        budgets = self._cluster.budgets
        return all(budgets.get(name, 0) >= count for name, count in guarded.items())

    def size(self, gang: str, pods: Collection[str]) -> float:
        """GPUs that pods have; those without any count a little."""
        amounts = self._cluster.standing[gang].pods
        gpus = sum(amounts[pod].get(GPU, 0) for pod in pods) / WHOLE
        return max(gpus, _LIGHT * len(pods))

    def work(self, gang: str, pods: Collection[str]) -> float:
        """GPU-seconds that are lost when pods start again."""
        age = max(0.0, self._now - self._cluster.standing[gang].since)
        return (age + _RESTART) * self.size(gang, pods)

    def asking(self, gang: str, pods: Collection[str]) -> Gang:
        """A gang some pods of which have no place any more, and must get one all of them."""
        standing = self._cluster.standing[gang]
        snapshot = self._cluster.snapshot
        groups = list(standing.gang.groups)
        for index, group in enumerate(groups):
            known = [m for m in (*group.standing, *group.members) if m.pod in standing.pods]
            stay = tuple(member for member in known if member.pod not in pods)
            groups[index] = replace(
                group,
                members=tuple(member for member in known if member.pod in pods),
                minimum=len(known),
                standing=stay,
                placed=tuple(snapshot.names[snapshot.bookings[m.pod].row] for m in stay),
            )
        return replace(standing.gang, groups=tuple(groups))

    def moved(self, leaves: Sequence[Booking], bookings: Sequence[Booking]) -> Move:
        """The move of some pods of one gang."""
        gang = leaves[0].gang
        work = self.work(gang, [booking.pod for booking in leaves])
        return Move(self._cluster.standing[gang].gang, tuple(leaves), tuple(bookings), work)

    def _extras(self, standing: Standing) -> set[str]:
        """Pods beyond the minimum; none of a group that stands in segments, which would break."""
        extras: set[str] = set()
        for group in standing.gang.groups:
            if group.segments is None:
                members = (*group.standing, *group.members)
                stands = [member.pod for member in members if member.pod in standing.pods]
                extras.update(stands[group.minimum :])
        return extras

    def _may_move(self, standing: Standing) -> bool:
        name = standing.gang.name
        if name not in self._may:
            self._may[name] = not self._is_protected(standing) and self._is_whole(standing)
        return self._may[name]

    def _is_protected(self, standing: Standing) -> bool:
        gang = standing.gang
        if gang.apart is not None:
            return True
        anybody = Claimant(gang.queue, {}, gang.priority + 1)
        holder = Holder(gang.queue, {}, standing.since, gang.priority, gang.preemptible)
        used = self._cluster.used
        return kept_from_preemption(used, anybody, holder, self._now) is not None

    def _is_whole(self, standing: Standing) -> bool:
        """Whether it has all that it must have, and is known well enough to get it again."""
        snapshot, known = self._cluster.snapshot, 0
        for group in standing.gang.groups:
            members = [m for m in (*group.standing, *group.members) if m.pod in standing.pods]
            known += len(members)
            if len(members) < group.minimum:
                return False
            if any(m.leaving or not m.returns or m.shape.claims for m in members):
                return False
        rows = {snapshot.bookings[pod].row for pod in standing.pods}
        nodes = frozenset(snapshot.names[row] for row in rows)
        return known == len(standing.pods) and nodes not in self._bases
