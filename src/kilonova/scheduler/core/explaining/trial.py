"""A copy of the cluster on which changes are tried: what is claimed about them was seen there."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.cluster import Cluster, asked
from kilonova.scheduler.core.evicting import Evictor
from kilonova.scheduler.core.explaining.constraints import Constraint, loosened
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.placing import Placer, budget_for, one_more
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.core.rooms import Rooms, Score

_MOST_PODS = 2048
_MOST_TRIALS = 96
"""After so many pods, or so many attempts, nothing more is tried for one gang."""


class Trial:
    """A cluster of its own, as another was when this was made."""

    def __init__(self, cluster: Cluster, score: Score, policy: Policy) -> None:
        self.cluster = cluster.copy()
        self.snapshot = self.cluster.snapshot
        self.policy = policy
        self.score = score
        self.rooms = Rooms(self.snapshot, score)
        self.placer = Placer(self.snapshot, self.rooms, policy.levels)
        self.trials = self.pods = 0
        self.evicts = policy.evicts
        """Whether others may be pushed out: not for what a gang can do without."""
        self._loosened: dict[tuple[Constraint, str], bool] = {}

    def begin(self, gang: Gang) -> None:
        """Counts from here: another gang is looked at."""
        self.trials = self.pods = 0
        self.placer.budget = budget_for(gang)
        self.snapshot.claims.renew_budget()
        self.evicts = self.policy.evicts and gang.preempts and gang.needed > 0
        self._loosened.clear()

    def forget_places_of(self, gang: Gang) -> None:
        """Its pods have no places, whatever they had when the copy was made."""
        pods = [pod for pod in _pods(gang) if pod in self.snapshot.bookings]
        by_gang: dict[str, list[str]] = {}
        for booking in self.snapshot.release_all(pods):
            if booking.gang in self.cluster.standing:
                by_gang.setdefault(booking.gang, []).append(booking.pod)
        for name, left in by_gang.items():
            self.cluster.leave(name, left)

    @property
    def spent(self) -> bool:
        """Whether enough was tried for one gang."""
        return self.trials >= _MOST_TRIALS or self.pods >= _MOST_PODS

    def rows(self) -> Rows:
        """All nodes."""
        return np.flatnonzero(self.snapshot.alive[: self.snapshot.size])

    def fits(self, gang: Gang) -> bool:
        """Whether the nodes have a place for a gang as they are now."""
        self.trials += 1
        if not self.placer.could_fit(tree(gang)):
            return False
        self.pods += gang.needed
        return self.placer.fits(gang)

    def fits_loosened(self, gang: Gang, constraint: Constraint, level: str = "") -> bool:
        """Whether a gang fits as the cluster is with a broader level, or none; remembered."""
        found = self._loosened.get((constraint, level))
        if found is None:
            found = self.fits(loosened(gang, constraint, level))
            self._loosened[constraint, level] = found
        return found

    def admits(self, gang: Gang) -> bool:
        """Whether its queue lets it in, too."""
        return self.cluster.used.blocked(gang.queue, asked(gang)) is None and self.fits(gang)

    def pushes_out(self, gang: Gang, now: float, *, limited: bool = True) -> bool:
        """Whether the nodes, and its queue if it is limited, have a place for a gang at a time that
        others have to make for it."""
        if not self.evicts:
            return False
        self.trials += 1
        mark = self.snapshot.mark()
        evictor = Evictor(self.cluster, self.rooms, self.placer, now, ())
        room = evictor.make_room(gang, limited=limited)
        self.snapshot.undo(mark)
        return room is not None

    @contextmanager
    def without(self, pods: list[str]) -> Generator[None]:
        """As if pods had ended."""
        mark = self.snapshot.mark()
        self.snapshot.release_all(pods)
        try:
            yield
        finally:
            self.snapshot.undo(mark)

    @contextmanager
    def with_nodes(self, nodes: list[Node]) -> Generator[None]:
        """As if there were further nodes, or some were as these are."""
        before = [
            self.snapshot.node(self.snapshot.row(node.name))
            for node in nodes
            if node.name in self.snapshot
        ]
        for node in nodes:
            self.snapshot.put_node(node)
        try:
            yield
        finally:
            for node in before:
                self.snapshot.put_node(node)
            for name in {node.name for node in nodes} - {node.name for node in before}:
                self.snapshot.remove_node(name)


def _pods(gang: Gang) -> list[str]:
    return [member.pod for group in gang.groups for member in group.members]


def in_need(gang: Gang) -> Gang:
    """What of a gang is looked for a place: its minimum, or one more where it has that."""
    if not gang.needed:
        gang = next(one_more(gang), gang)
    groups = (replace(each, members=each.members[: each.needed]) for each in gang.groups)
    return replace(gang, groups=tuple(groups))
