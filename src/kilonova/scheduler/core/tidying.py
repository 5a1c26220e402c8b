"""Moves when nobody waits: nodes and domains become empty and stay so, holes become small.

What is won is counted in two numbers: how many nodes and domains with GPUs nobody uses, and, where
that stays as it is, the worth of what is left (see `fragments`). A move must win a certain amount,
and nobody is ever moved onto a node that is empty. So each makes the pair larger: no two of them
undo each other, and there comes an end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.fit import ask_of, left_on
from kilonova.scheduler.core.fragments import Worth
from kilonova.scheduler.core.labels import Flags, Rows
from kilonova.scheduler.core.moving import Standing, best_move
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.relocating import Budget, Move, Movers
from kilonova.scheduler.core.rooms import Counts, Rooms
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot

_TRIALS = 24
"""So many nodes are looked at for each that is emptied, those that are used least first."""


@dataclass(frozen=True, slots=True)
class Aims:
    """What is worth a move."""

    levels: tuple[str, ...] = ()
    """Levels whose domains are better empty."""
    nodes: float = 0.5
    """Empty nodes and domains that each move must win in the mean."""
    worth: Worth | None = None
    """By what holes are judged; without it shares are not moved for their sake."""
    milli: float = 100.0
    """Worth that the move of a share must win."""


class Tidier:
    """Finds moves one after the other, and books them as it goes."""

    def __init__(
        self, cluster: Cluster, rooms: Rooms, placer: Placer, movers: Movers, aims: Aims
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._rooms = rooms
        self._placer = placer
        self._movers = movers
        self._aims = aims

    def moves(self, budget: Budget, now: float) -> tuple[Move, ...]:
        """All that are worth it and within the budget."""
        moves: list[Move] = []
        while more := self._emptied(moves, budget, now) or self._joined(moves, budget, now):
            for move in more:
                self._snapshot.release_all(move.pods)
            for move in more:
                self._snapshot.book_all(move.bookings)
                self._movers.keep(move.gang.name)
            moves.extend(more)
        return tuple(moves)

    # Nodes that become empty.

    def _emptied(self, before: Sequence[Move], budget: Budget, now: float) -> list[Move]:
        """Of the moves that empty a node, those that win most for the work that is lost."""
        used = used_rows(self._cluster)
        empty = empty_places(self._cluster, self._aims.levels, used)
        best: list[Move] = []
        best_key: tuple[float, float] | None = None
        for row in self._little_used(used):
            mark = self._snapshot.mark()
            moves = self._without(row, used)
            after = used_rows(self._cluster, used, moves)
            self._snapshot.undo(mark)
            if not moves or not self._allowed([*before, *moves], budget, now):
                continue
            won = empty_places(self._cluster, self._aims.levels, after) - empty
            work = sum(move.work for move in moves)
            key = -won / work, work
            worth_it = won > 0 and won >= self._aims.nodes * len(moves)
            if worth_it and (best_key is None or key < best_key):
                best, best_key = moves, key
        return best

    def _little_used(self, used: Flags) -> list[int]:
        """Rows that somebody might leave: those with few GPUs in use first, then those around which
        few others are used."""
        snapshot = self._snapshot
        column = snapshot.column(GPU)
        rows = np.flatnonzero(used & (snapshot.allocatable[column, : snapshot.size] > 0))
        busy = snapshot.allocatable[column, rows] - snapshot.free[column, rows]
        around = [_used_around(snapshot, level, rows) for level in self._aims.levels]
        order = np.lexsort((snapshot.ranks[rows], *around, busy))
        able = (row for row in rows[order].tolist() if self._leaving(row) is not None)
        return list(islice(able, _TRIALS))

    def _leaving(self, row: int) -> dict[str, tuple[str, ...]] | None:
        """Who has to go for a row to be empty, by gang; None if somebody stays."""
        here: dict[str, set[str]] = {}
        for pod, booking in self._snapshot.pods_on[row].items():
            if booking.gang in self._cluster.standing:
                here.setdefault(booking.gang, set()).add(pod)
            elif booking.shape.gpu is not None:
                return None
        leaving = {gang: self._movers.leaving(gang, pods) for gang, pods in sorted(here.items())}
        return leaving if leaving and all(leaving.values()) else None

    def _without(self, row: int, used: Flags) -> list[Move]:
        """Books those elsewhere who stand on a row, on nodes in use; none if one finds no place."""
        movers, leaving = self._movers, self._leaving(row)
        assert leaving is not None
        left = {gang: self._snapshot.release_all(pods) for gang, pods in leaving.items()}
        targets = np.flatnonzero(used)
        targets = targets[targets != row]
        moves: list[Move] = []
        for gang in sorted(left, key=lambda one: (-movers.size(one, leaving[one]), one)):
            bookings = self._placer.place(movers.asking(gang, leaving[gang]), targets)
            if bookings is None:
                return []
            moves.append(movers.moved(left[gang], bookings))
        return moves

    def _allowed(self, moves: Sequence[Move], budget: Budget, now: float) -> bool:
        leaves = [booking for move in moves for booking in move.leaves]
        return budget.allows(moves, now) and self._movers.may_go(leaves)

    # Holes that become small.

    def _joined(self, before: Sequence[Move], budget: Budget, now: float) -> list[Move]:
        """The move of a share that wins most."""
        worth = self._aims.worth
        if worth is None:
            return []
        # Between equals the first is taken: that is to be the first by name.
        ranks, by_name = self._snapshot.ranks, np.argsort(self._snapshot.ranks, kind="stable")
        left = left_on(self._snapshot, by_name)
        used = used_rows(self._cluster)
        best: tuple[float, Booking, int] | None = None
        for shape, bookings in self._shares():
            group = Standing(
                ask_of(shape),
                np.array([ranks[booking.row] for booking in bookings], np.intp),
                np.array([[one.index for one in booking.devices] for booking in bookings]),
            )
            targets = (used & (self._rooms.room(shape) > 0))[by_name]
            found = best_move(worth, left, [group], lambda _, t=targets: t, self._aims.milli)
            if found is not None and (best is None or found.gain > best[0]):
                best = found.gain, bookings[found.index], int(by_name[found.row])
        if best is None:
            return []
        move = self._moved(worth, best[1], np.array([best[2]], np.intp))
        return [move] if move and self._allowed([*before, move], budget, now) else []

    def _shares(self) -> Iterator[tuple[Shape, list[Booking]]]:
        """Pods alone that have shares and may move, by shape."""
        found: dict[Shape, list[Booking]] = {}
        for name, standing in sorted(self._cluster.standing.items()):
            pods = tuple(standing.pods)
            booking = self._snapshot.bookings[pods[0]]
            ask = booking.shape.gpu
            if len(pods) > 1 or ask is None or ask.whole or ask.profile or not ask.milli:
                continue
            if len(booking.devices) == ask.count and self._movers.leaving(name, pods):
                found.setdefault(booking.shape, []).append(booking)
        yield from found.items()

    def _moved(self, worth: Worth, leaves: Booking, target: Rows) -> Move | None:
        """The move as it would really be: others may object, and devices are chosen by more than
        what is left of them."""
        rows = np.append(target, leaves.row)
        before = worth.of(left_on(self._snapshot, rows)).sum()
        mark = self._snapshot.mark()
        self._snapshot.release(leaves.pod)
        asking = self._movers.asking(leaves.gang, [leaves.pod])
        bookings = self._placer.place(asking, target)
        after = worth.of(left_on(self._snapshot, rows)).sum()
        self._snapshot.undo(mark)
        if bookings is None or after - before < self._aims.milli:
            return None
        return self._movers.moved([leaves], bookings)


def used_rows(cluster: Cluster, before: Flags | None = None, moves: Sequence[Move] = ()) -> Flags:
    """Rows on which gangs stand, or others use GPUs; by what was `before` some moves, only where
    these change it."""
    snapshot = cluster.snapshot
    changed = {booking.row for move in moves for booking in (*move.leaves, *move.bookings)}
    used = np.zeros(snapshot.size, np.bool_) if before is None else before.copy()
    for row in range(snapshot.size) if before is None else changed:
        used[row] = any(
            booking.gang in cluster.standing or booking.shape.gpu is not None
            for booking in snapshot.pods_on[row].values()
        )
    return used


def empty_places(cluster: Cluster, levels: Sequence[str], used: Flags) -> int:
    """How many nodes with GPUs, and domains of such nodes, are not used."""
    snapshot = cluster.snapshot
    rows = np.flatnonzero(snapshot.alive[: snapshot.size])
    rows = rows[snapshot.allocatable[snapshot.column(GPU), rows] > 0]
    total = int((~used[rows]).sum())
    for level in levels:
        domains = snapshot.labels.domains(level, rows)
        inside = domains >= 0
        there, busy = np.unique(domains[inside]), np.unique(domains[inside & used[rows]])
        total += len(there) - len(busy)
    return total


def _used_around(snapshot: Snapshot, level: str, used: Rows) -> Counts:
    """Of rows in use, how many are in the same domain."""
    domains = snapshot.labels.domains(level, used) + 1
    return np.bincount(domains)[domains] if len(used) else np.zeros(0, np.int64)
